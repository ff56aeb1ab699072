"""Elementwise ops: dtypes as NumPy's ufuncs give them, shapes broadcast, rows apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import SpecError
from ..spec import ArraySpec, Shape, intern_spec
from .probe import refusal, result_dtype
from .rows import broadcast_rowwise
from .shapes import broadcast_shapes
from .tables import COSTS, ROWS, SPECS, VIEWS, Cost

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params


def elementwise_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The result of a NumPy ufunc, or of a function that broadcasts its operands like one."""
    return intern_spec(result_dtype(op, operands, params), broadcast_operands(op, operands))


def broadcast_operands(op: str, operands: tuple[ArraySpec | Scalar, ...]) -> Shape:
    """The shape of the operands of `op`, broadcast.

    Raises:
        SpecError: they never fit.
    """
    shapes = [one.shape for one in operands if type(one) is ArraySpec]
    if len(shapes) == 1:
        return shapes[0]
    try:
        return broadcast_shapes(shapes)
    except SpecError as error:
        raise refusal(op, operands, error) from None


def pow_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """As other ufuncs', but integers have no negative integer powers, unless there are no integers."""
    spec = elementwise_spec(op, operands, params)
    exponent = operands[1]
    if isinstance(exponent, int) and exponent < 0 and spec.size and spec.dtype is not None and spec.dtype.kind in "iu":
        text = "Integers to negative integer powers are not allowed.\n  write a float exponent, such as -1.0"
        raise refusal(op, operands, ValueError(text))
    return spec


_OPS: Final = {
    Cost.FREE: "imag real",
    Cost.CHEAP: """
        abs add bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil clip conj
        copysign divide equal floor greater greater_equal isfinite isinf isnan less less_equal logical_and logical_not
        logical_or logical_xor maximum minimum multiply negative not_equal positive reciprocal round sign signbit sqrt
        square subtract trunc""",
    # From 4 to 30 ns an element of float64, where those above take 0.3 to 3.
    Cost.MATH: """
        acos acosh asin asinh atan atan2 atanh cos cosh exp expm1 floor_divide hypot log log10 log1p log2 logaddexp
        nextafter pow remainder sin sinh tan tanh""",
}
ELEMENTWISE: Final = frozenset(" ".join(_OPS.values()).split())
"""The names of all elementwise ops of the Array API standard. Each is a function of NumPy."""

for _cost, _names in _OPS.items():
    for _name in _names.split():
        SPECS[_name] = elementwise_spec
        ROWS[_name] = broadcast_rowwise
        COSTS[_name] = _cost
SPECS["pow"] = pow_spec
# NumPy 2.1 rounds an integer array by giving it back as it is; later ones copy it.
VIEWS["real"] = VIEWS["imag"] = VIEWS["round"] = (0,)
