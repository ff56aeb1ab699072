"""Reductions: axes go, or become 1; dtypes as NumPy accumulates."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np

from ..spec import ArraySpec, Dim, DType, Shape, intern_spec
from .dtypes import asked, dtype_of
from .register import register
from .rows import leaves_rows
from .shapes import Axes, check_broadcast, normalize_axes, shape_of
from .tables import Cost, RowQuestion

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params


def reduction_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The result of `np.<op>(x, axis=..., dtype=..., keepdims=...)`.

    An axis without elements is no error here, although `max` will raise: it has them in other runs.
    """
    (x,) = operands
    dtype, wanted = dtype_of(x), cast("DType | None", params.get("dtype"))
    result = wanted if dtype is None else _reduced(op, dtype, wanted)
    return intern_spec(result, reduced_shape(shape_of(x), cast(Axes, params.get("axis")), bool(params.get("keepdims"))))


def reduced_shape(shape: Shape, axes: Axes, keepdims: bool) -> Shape:
    """`shape` without `axes`, or with 1 in their place.

    Raises:
        SpecError: an axis is out of bounds, or there twice.
    """
    if shape is None:
        return () if axes is None and not keepdims else None
    gone = normalize_axes(axes, len(shape))
    kept: list[Dim] = [1 if axis in gone else dim for axis, dim in enumerate(shape) if keepdims or axis not in gone]
    return tuple(kept)


@lru_cache(maxsize=1024)
def _reduced(op: str, dtype: DType, wanted: DType | None) -> DType:
    if wanted is None:
        return asked(getattr(np, op), np.zeros(1, dtype))
    # Of complex elements NumPy would warn, if `wanted` is real. The answer is `wanted` either way.
    return asked(getattr(np, op), np.zeros(1, np.bool_ if dtype.kind == "c" else dtype), dtype=wanted)


def reduction_rowwise(question: RowQuestion) -> bool:
    """Nothing is reduced along rows."""
    return leaves_rows(question, cast(Axes, question.params.get("axis")))


def sum_to_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The shape of the second operand, whose values and dtype do not matter, and the dtype of the first."""
    x, like = operands
    dtype, new = dtype_of(x), shape_of(like)
    check_broadcast(new, shape_of(x))
    return intern_spec(None if dtype is None else _reduced("sum", dtype, dtype), new)


def sum_to_rowwise(question: RowQuestion) -> bool:
    """Both have rows, which are not summed, as they are the first axis of both."""
    x, like = [shape_of(one) for one in question.operands]
    return all(question.carries) and x is not None and like is not None and len(x) == len(like)


register("sum_to", sum_to_spec, sum_to_rowwise, Cost.REDUCE, views=(0,))
for _name in ("sum", "prod", "max", "min", "mean", "std", "var"):
    register(_name, reduction_spec, reduction_rowwise, Cost.REDUCE)
