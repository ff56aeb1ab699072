"""Reductions.

What holds for all of them:

* `axis` is an int or a tuple of ints, counted from the front, or from the end if negative; all axes if left out.
  The reduced axes go, or stay as dimensions of 1 with `keepdims=True`.
* Dtypes are NumPy's: sums and products of integers smaller than 64 bits are accumulated in 64 bits, of the same
  signedness; means and deviations of integers are float64; of float16 they are float16, accumulated in float32.
* Along an axis without elements a sum is 0, a product 1 and a mean NaN, with NumPy's warning. `max` and `min` raise
  `ValueError` when they run, not before: the same graph may have elements in another run.

Raises:
    SpecError: an axis is out of bounds, or there twice.
    SpecTypeError: NumPy has no such reduction of the dtype; or `axis` is no int.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._graph.op import NO_PARAMS
from .._graph.rules.shapes import summed_axes
from .._graph.spec import as_dtype
from ..errors import SpecTypeError
from ._build import as_nodes, build
from ._params import reduction_params
from .manipulation import squeeze

if TYPE_CHECKING:
    from .._graph.node import Node
    from ._build import Operand

Axis = int | tuple[int, ...] | None


def max(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Node:
    """The largest elements. NaN is larger than all; complex numbers are ordered by their real part first."""
    return build("max", (x,), reduction_params("max", axis, keepdims) or NO_PARAMS, name)


def mean(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Node:
    """The arithmetic means."""
    return build("mean", (x,), reduction_params("mean", axis, keepdims) or NO_PARAMS, name)


def min(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Node:
    """The smallest elements. NaN is smaller than all; complex numbers are ordered by their real part first."""
    return build("min", (x,), reduction_params("min", axis, keepdims) or NO_PARAMS, name)


def prod(
    x: Operand, /, *, axis: Axis = None, dtype: object = None, keepdims: bool = False, name: str | None = None
) -> Node:
    """The products, accumulated in `dtype` if it is given."""
    return _accumulate("prod", x, axis, dtype, keepdims, name)


def std(
    x: Operand, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, name: str | None = None
) -> Node:
    """The standard deviations: the squares are divided by the number of elements less `correction`."""
    return _deviate("std", x, axis, correction, keepdims, name)


def sum(
    x: Operand, /, *, axis: Axis = None, dtype: object = None, keepdims: bool = False, name: str | None = None
) -> Node:
    """The sums, accumulated in `dtype` if it is given."""
    return _accumulate("sum", x, axis, dtype, keepdims, name)


def sum_to(x: Operand, like: Operand, /, *, name: str | None = None) -> Node:
    """`x` summed along the axes by which `like` was broadcast to its shape: the result has the shape of `like`.

    So it undoes what broadcasting did. Of `like` only the shape is used, as it is when it runs; where the specs say
    along which axes, its value is not needed. If both are known to have one shape, this is `x` itself, unless it is to
    have another name. The dtype is that of `x`, also of small integers, and of booleans, which are summed as by `any`.

    Raises:
        SpecError: no value of the shape of `like` is ever broadcast to that of `x`.
        SpecTypeError: NumPy has no such sums.
    """
    x, like = as_nodes("sum_to", (x, like))
    axes = summed_axes(x.shape, like.shape)
    if axes == () and name is None:
        return x
    if not axes or x.shape is None or like.shape is None or x.dtype is None:
        return build("sum_to", (x, like), name=name)
    lead = len(x.shape) - len(like.shape)
    keeps, dtype = axes[-1] >= lead, None if x.dtype.kind in "fc" else x.dtype
    if not (keeps and lead):
        return sum(x, axis=axes, dtype=dtype, keepdims=keeps, name=name)
    return squeeze(sum(x, axis=axes, dtype=dtype, keepdims=True), tuple(range(lead)), name=name)


def var(
    x: Operand, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False, name: str | None = None
) -> Node:
    """The variances: the squares are divided by the number of elements less `correction`."""
    return _deviate("var", x, axis, correction, keepdims, name)


def _accumulate(op: str, x: Operand, axis: Axis, dtype: object, keepdims: bool, name: str | None) -> Node:
    params = reduction_params(op, axis, keepdims)
    if dtype is not None:
        params["dtype"] = as_dtype(dtype)
    return build(op, (x,), params or NO_PARAMS, name)


def _deviate(op: str, x: Operand, axis: Axis, correction: object, keepdims: bool, name: str | None) -> Node:
    params = reduction_params(op, axis, keepdims)
    if isinstance(correction, bool) or not isinstance(correction, (int, float)):
        raise SpecTypeError(f"{op}: correction takes an int or a float, not {correction!r}")
    if correction:
        # A float of NumPy's would take part in promotion with its own dtype.
        params["correction"] = correction if isinstance(correction, int) else float(correction)
    return build(op, (x,), params or NO_PARAMS, name)
