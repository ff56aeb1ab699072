"""Elements replaced or added to, in a new array: values are never written.

The dtype stays that of what is updated, as NumPy's does in `x[key] = y`; but what is put in must have it, or convert to
it without loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from ...errors import SpecTypeError
from ..spec import ArraySpec, DType, intern_spec
from .dtypes import asked, dtype_of
from .indexing import index_rowwise, index_spec, taken_shape
from .register import register
from .rows import rows_align
from .shapes import check_broadcast, normalize_axis, shape_of
from .tables import Cost, RowQuestion

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params

_Array = np.ndarray[Any, Any]


def _set(into: _Array, y: object) -> _Array:
    np.copyto(into, cast("_Array", y), casting="safe")
    return into


def _add(into: _Array, y: object) -> _Array:
    return np.add(into, cast("_Array", y), out=into, casting="safe")


_UPDATES: Final[dict[str, Callable[[_Array, object], _Array]]] = {
    "index_add": _add,
    "index_set": _set,
    "take_add": _add,
}


def _updated_dtype(op: str, x: ArraySpec | Scalar, y: ArraySpec | Scalar) -> DType | None:
    """The dtype of `x`, in which NumPy has been asked whether `y` can be put."""
    dtype = dtype_of(x)
    if dtype is None or dtype_of(y) is None:
        return dtype
    try:
        return asked(_UPDATES[op], np.zeros((), dtype), np.zeros((), y.dtype) if isinstance(y, ArraySpec) else y)
    except SpecTypeError as error:
        shown = y.dtype if isinstance(y, ArraySpec) else y
        raise SpecTypeError(
            f"{shown} does not become {dtype} without loss, and the result has the dtype of what is updated\n"
            f"  convert it, if you mean that: ops.astype(y, {str(dtype)!r})"
        ) from error


# -- by a key ----------------------------------------------------------------------------------------


def index_update_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The spec of `x`. `y` is broadcast to the shape of `x[key]`."""
    x, y = operands
    check_broadcast(shape_of(y), index_spec(op, (x,), params).shape)
    return intern_spec(_updated_dtype(op, x, y), shape_of(x))


def index_update_rowwise(question: RowQuestion) -> bool:
    """Rows are taken whole and stay in front, and those of `y` meet them, or it is the same for all."""
    x, y = question.operands
    if not question.carries[0] or not index_rowwise(question):
        return False
    return rows_align([index_spec("index", (x,), question.params).shape, shape_of(y)], question.carries)


# -- along an axis -----------------------------------------------------------------------------------


def take_add_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The spec of `x`. The updates are broadcast to the shape of `take(x, indices, axis)`."""
    x, indices, updates = operands
    check_broadcast(shape_of(updates), taken_shape(x, indices, _axis(params)))
    return intern_spec(_updated_dtype(op, x, updates), shape_of(x))


def take_add_rowwise(question: RowQuestion) -> bool:
    """In all rows the same elements are added to."""
    x, indices, updates = question.operands
    shape, carries = shape_of(x), question.carries
    if shape is None or not carries[0] or carries[1] or not normalize_axis(_axis(question.params), len(shape)):
        return False
    taken = taken_shape(x, indices, _axis(question.params))
    return rows_align([taken, shape_of(updates)], (True, carries[2]))


def _axis(params: Params) -> int:
    return cast(int, params.get("axis", 0))


register("index_add", index_update_spec, index_update_rowwise, Cost.MOVE)
register("index_set", index_update_spec, index_update_rowwise, Cost.MOVE)
register("take_add", take_add_spec, take_add_rowwise, Cost.MOVE)
