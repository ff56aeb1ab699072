"""Picking elements: by ints, slices, `...` and `None`, and by arrays of ints."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from ...errors import SpecError, SpecTypeError
from ..spec import ArraySpec, Dim, Shape, intern_spec
from .dtypes import dtype_of
from .register import register
from .shapes import normalize_axis, shape_of
from .tables import Cost, RowQuestion

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params
    from ..protocols import BasicIndex

_ALL: Final = slice(None)
_WHOLE: Final = [(start, None, step) for start in (None, 0) for step in (None, 1)]


# -- index -------------------------------------------------------------------------------------------


def index_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The result of `x[key]`, which has a name or a literal only where every run has it."""
    (x,) = operands
    shape, key = shape_of(x), cast("tuple[BasicIndex, ...]", params["key"])
    if any(isinstance(part, slice) and part.step == 0 for part in key):
        raise SpecError("the step of a slice cannot be zero")
    if key.count(Ellipsis) > 1:
        raise SpecError("an index can have one '...' only")
    return intern_spec(dtype_of(x), None if shape is None else _picked(shape, key))


def _picked(shape: tuple[Dim, ...], key: tuple[BasicIndex, ...]) -> Shape:
    result: list[Dim] = []
    axis = 0
    for part in _expanded(key, len(shape)):
        if part is None:
            result.append(1)
            continue
        dim = shape[axis]
        if isinstance(part, slice):
            result.append(_sliced(part, dim))
        elif isinstance(dim, int) and not -dim <= part < dim:
            raise SpecError(f"index {part} is out of bounds for axis {axis} with size {dim}")
        axis += 1
    return tuple(result)


def _expanded(key: tuple[BasicIndex, ...], rank: int) -> list[int | slice[Any, Any, Any] | None]:
    """`key` with a part for each of `rank` axes: what it leaves out, there or behind, is taken whole."""
    parts = [part for part in key if not isinstance(part, EllipsisType)]
    missing = rank - sum(part is not None for part in parts)
    if missing < 0:
        raise SpecError(f"too many indices: {rank - missing} for a value of rank {rank}")
    at = key.index(Ellipsis) if Ellipsis in key else len(parts)
    return [*parts[:at], *[_ALL] * missing, *parts[at:]]


def _sliced(part: slice[Any, Any, Any], dim: Dim) -> Dim:
    if isinstance(dim, int):
        return len(range(*part.indices(dim)))
    start, stop, step = _bounds(part)
    if _is_whole(part) or (start is None and stop is None and step == -1):
        return dim
    # Elements lie from `low` up to, not including, `high`: backwards the two change places, each one further.
    if step is None or step > 0:
        low, high, nothing = start or 0, stop, stop == 0
    else:
        low, high, nothing = stop, -1 if start is None else start, stop == -1
    if low is not None and high is not None and (low < 0) == (high < 0):
        nothing = nothing or low >= high
    return 0 if nothing else None


def _bounds(part: slice[Any, Any, Any]) -> tuple[int | None, int | None, int | None]:
    return part.start, part.stop, part.step


def _is_whole(part: int | slice[Any, Any, Any] | None) -> bool:
    return isinstance(part, slice) and _bounds(part) in _WHOLE


def index_rowwise(question: RowQuestion) -> bool:
    """Rows are taken whole, and stay in front."""
    shape = shape_of(question.operands[0])
    if not shape:
        return False
    return _is_whole(_expanded(cast("tuple[BasicIndex, ...]", question.params["key"]), len(shape))[0])


register("index", index_spec, index_rowwise, Cost.FREE, views=(0,))


# -- take --------------------------------------------------------------------------------------------


def take_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The shape of the indices, in place of the axis they pick from."""
    x, indices = operands
    axis, shape = cast("int | None", params.get("axis")), shape_of(x)
    if axis is None and shape is not None and len(shape) != 1:
        raise SpecError(f"axis= can be left out only for a vector, not for a value of rank {len(shape)}")
    return intern_spec(dtype_of(x), taken_shape(x, indices, axis))


def taken_shape(x: ArraySpec | Scalar, indices: ArraySpec | Scalar, axis: int | None) -> Shape:
    """The shape of the indices, in place of the axis they pick from; of a vector, it is left out.

    Raises:
        SpecTypeError: the indices are no integers.
        SpecError: the axis is out of bounds.
    """
    picks = dtype_of(indices)
    if picks is not None and not np.issubdtype(picks, np.integer):
        raise SpecTypeError(f"the indices are ints, not {picks}")
    shape, inner = shape_of(x), shape_of(indices)
    if axis is None:
        return inner
    at = 0 if shape is None else normalize_axis(axis, len(shape))
    return None if shape is None or inner is None else shape[:at] + inner + shape[at + 1 :]


def take_rowwise(question: RowQuestion) -> bool:
    """From all rows the same is picked."""
    shape, axis = shape_of(question.operands[0]), cast("int | None", question.params.get("axis"))
    if shape is None or axis is None or question.carries != (True, False):
        return False
    return normalize_axis(axis, len(shape)) > 0


register("take", take_spec, take_rowwise, Cost.MOVE)
