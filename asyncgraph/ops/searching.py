"""Where the extremes are, and choosing by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._graph.op import NO_PARAMS
from ._build import build
from ._params import as_int, reduction_params

if TYPE_CHECKING:
    from .._graph.node import Node
    from ._build import Operand


def argmax(x: Operand, /, *, axis: int | None = None, keepdims: bool = False, name: str | None = None) -> Node:
    """The index of the first of the largest elements along `axis`, or in the flattened array; int64.

    NaN is larger than all. Without elements to compare it raises `ValueError` when it runs.

    Raises:
        SpecError: the axis is out of bounds.
        SpecTypeError: it is no int.
    """
    return _arg("argmax", x, axis, keepdims, name)


def argmin(x: Operand, /, *, axis: int | None = None, keepdims: bool = False, name: str | None = None) -> Node:
    """The index of the first of the smallest elements along `axis`, or in the flattened array; int64.

    NaN is smaller than all. Without elements to compare it raises `ValueError` when it runs.

    Raises:
        SpecError: the axis is out of bounds.
        SpecTypeError: it is no int.
    """
    return _arg("argmin", x, axis, keepdims, name)


def _arg(op: str, x: Operand, axis: int | None, keepdims: bool, name: str | None) -> Node:
    one = None if axis is None else as_int(op, "axis", axis)
    return build(op, (x,), reduction_params(op, one, keepdims) or NO_PARAMS, name)


def where(condition: Operand, x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """Elements of `x1` where `condition` holds, and of `x2` elsewhere; all three broadcast.

    Both are computed, whatever the condition. A Python number takes part in promotion by its kind, and an
    integer that is out of range for the dtype it meets wraps, as NumPy's `where` has it.

    Raises:
        SpecError: the shapes can never be broadcast.
        SpecTypeError: the dtypes of `x1` and `x2` have none in common.
    """
    return build("where", (condition, x1, x2), name=name)
