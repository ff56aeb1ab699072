"""Creation ops: arrays made of numbers alone, or of the shape of another."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, copysign, isfinite
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ..spec import ArraySpec, Dim, DType, intern_spec
from .probe import ask, refusal, result_dtype
from .rows import broadcast_rowwise, never_rowwise
from .tables import COSTS, ROWS, SPECS, Cost, RowQuestion

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params

_Operands = tuple["ArraySpec | Scalar", ...]


def filled_spec(op: str, operands: _Operands, params: Params) -> ArraySpec:
    """`zeros` and `ones`: everything is in the params."""
    return intern_spec(cast(DType, params["dtype"]), cast("tuple[int, ...]", params["shape"]))


def full_spec(op: str, operands: _Operands, params: Params) -> ArraySpec:
    """Everything is in the params, but the value must go into the dtype."""
    _check_fill(op, operands, params["fill_value"], cast(DType, params["dtype"]))
    return filled_spec(op, operands, params)


def _check_fill(op: str, operands: _Operands, value: object, dtype: DType) -> None:
    # Of complex into real NumPy warns, which is for the run to do.
    if not isinstance(value, complex):
        ask(op, operands, np.full, (), value, dtype)


def arange_spec(op: str, operands: _Operands, params: Params) -> ArraySpec:
    """A vector, as long as NumPy makes it: the difference is divided as Python divides, and rounded up."""
    start, stop, step = cast("tuple[float, float, float]", operands)
    dtype = cast(DType, params["dtype"])
    count = ask(op, operands, _count, start, stop, step)
    ask(op, operands, np.arange, start, stop if count <= 3 else start + 3 * step, step, dtype=dtype)
    return intern_spec(dtype, (count,))


def _count(start: float, stop: float, step: float) -> int:
    if not step:
        raise ValueError("the step is zero")
    steps = (stop - start) / step
    if not isfinite(steps):
        raise ValueError("it has no end")
    # So small a part of a step that it is 0 counts as one; from -1 to -0.0 there are none.
    return max(0, ceil(steps)) or int(steps == 0 and start != stop and copysign(1, steps) > 0)


def linspace_spec(op: str, operands: _Operands, params: Params) -> ArraySpec:
    """A vector of `num` elements."""
    return intern_spec(cast(DType, params["dtype"]), (cast(int, params["num"]),))


def eye_spec(op: str, operands: _Operands, params: Params) -> ArraySpec:
    """A matrix, whose dimensions are the operands."""
    rows, columns = cast("tuple[int, int]", operands)
    return intern_spec(cast(DType, params["dtype"]), (rows, columns))


def like_spec(op: str, operands: _Operands, params: Params) -> ArraySpec:
    """The operand's own, but for a dtype that is given."""
    (x,) = operands
    dtype = cast("DType | None", params.get("dtype")) or result_dtype("asarray", operands)
    if "fill_value" in params and dtype is not None:
        _check_fill(op, operands, params["fill_value"], dtype)
    return intern_spec(dtype, x.shape if isinstance(x, ArraySpec) else ())


def triangle_spec(op: str, operands: _Operands, params: Params) -> ArraySpec:
    """The operand's own, which must be a matrix or a stack of them."""
    (x,) = operands
    if not isinstance(x, ArraySpec) or x.ndim in (0, 1):
        raise refusal(op, operands, ValueError("it takes a matrix, or a stack of matrices"))
    return x


def meshgrid_spec(op: str, operands: _Operands, params: Params) -> tuple[ArraySpec, ...]:
    """One result an operand; each has a dimension an operand, the first two swapped for "xy"."""
    dims: list[Dim] = []
    for one in operands:
        shape = one.shape if isinstance(one, ArraySpec) else ()
        if shape is not None and len(shape) > 1:
            raise refusal(op, operands, ValueError("it takes vectors"))
        dims.append(None if shape is None else shape[0] if shape else 1)
    if params["indexing"] == "xy":
        dims[:2] = dims[1::-1] if len(dims) > 1 else dims[:1]
    return tuple([intern_spec(result_dtype("asarray", (one,)), tuple(dims)) for one in operands])


def triangle_rowwise(question: RowQuestion) -> bool:
    """What stays of row i depends on i, but a stack of matrices has its rows before theirs."""
    rank = question.result.ndim
    return rank is not None and rank > 2


_ROWS: Final[dict[str, tuple[Callable[..., ArraySpec | tuple[ArraySpec, ...]], Callable[[RowQuestion], bool]]]] = {
    "arange": (arange_spec, never_rowwise),
    "eye": (eye_spec, never_rowwise),
    "full": (full_spec, never_rowwise),
    "full_like": (like_spec, broadcast_rowwise),
    "linspace": (linspace_spec, never_rowwise),
    "meshgrid": (meshgrid_spec, never_rowwise),
    "ones": (filled_spec, never_rowwise),
    "ones_like": (like_spec, broadcast_rowwise),
    "tril": (triangle_spec, triangle_rowwise),
    "triu": (triangle_spec, triangle_rowwise),
    "zeros": (filled_spec, never_rowwise),
    "zeros_like": (like_spec, broadcast_rowwise),
}
for _name, (_spec_rule, _row_rule) in _ROWS.items():
    SPECS[_name] = _spec_rule
    ROWS[_name] = _row_rule
    COSTS[_name] = Cost.MOVE
