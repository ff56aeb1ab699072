"""The same elements in another shape, order or array."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ...errors import SpecError
from ..spec import ArraySpec, Dim, DType, Shape, intern_spec
from .dtypes import asked, dtype_of
from .register import register
from .rows import broadcast_rowwise, leaves_rows, never_rowwise, rows_align
from .shapes import Axes, broadcast_shapes, check_broadcast, equal_shapes, normalize_axes, normalize_axis, shape_of
from .tables import Cost, RowQuestion

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params

Operands = tuple["ArraySpec | Scalar", ...]

# Of `broadcast_arrays`, each operand's memory may be shared, and the table of views lists positions.
_MOST: Final = 64


# -- reshape -----------------------------------------------------------------------------------------


def reshape_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The shape asked for. Its -1 becomes what it must be: a number, or the one dimension that is not literal."""
    (x,) = operands
    return intern_spec(dtype_of(x), _reshaped(shape_of(x), cast("tuple[int, ...]", params["shape"])))


def _reshaped(old: Shape, new: tuple[int, ...]) -> Shape:
    wanted = _literal_size(new)
    open_axes = new.count(-1)
    if min(new, default=0) < -1 or open_axes > 1:
        raise SpecError(f"{new} is not a shape: its dimensions are ints from 0, and at most one -1")
    if open_axes and not wanted:
        raise SpecError(f"the -1 in {new} could be anything: the other dimensions make no elements")
    rest: Dim = None
    if old is not None:
        size, names = _literal_size(old), [dim for dim in old if not isinstance(dim, int)]
        # The size is a multiple of what is literal, and is 0 in some run if anything is not.
        if names and size:
            fits = bool(open_axes) or wanted % size == 0
            rest = names[0] if len(names) == 1 and size == wanted else None
        else:
            fits = size % wanted == 0 if open_axes else size == wanted
            rest = size // wanted if open_axes else None
        if not fits:
            raise SpecError(f"its elements, of which there are {_times(size, names)}, cannot have the shape {new}")
    return tuple([rest if dim == -1 else dim for dim in new])


def _literal_size(shape: tuple[Dim, ...]) -> int:
    return prod(dim for dim in shape if isinstance(dim, int) and dim != -1)


def _times(size: int, names: Sequence[Dim]) -> str:
    return "·".join([str(size), *["?" if name is None else str(name) for name in names]]) if size else "0"


def reshape_rowwise(question: RowQuestion) -> bool:
    """The first dimension is left to follow from the size, and the others have as many elements as before."""
    old, new = shape_of(question.operands[0]), cast("tuple[int, ...]", question.params["shape"])
    if not old or not new or new[0] != -1 or not all(isinstance(dim, int) for dim in old[1:]):
        return False
    return _literal_size(old[1:]) == _literal_size(new[1:])


# -- axes in another order, or reversed --------------------------------------------------------------


def permute_dims_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """Axis i of the result is axis `axes[i]` of the operand."""
    (x,) = operands
    axes, shape = cast("tuple[int, ...]", params["axes"]), shape_of(x)
    if shape is not None and len(shape) != len(axes):
        raise SpecError(f"axes={axes} name {len(axes)} axes of a value of rank {len(shape)}")
    order = normalize_axes(axes, len(axes))
    return intern_spec(dtype_of(x), (None,) * len(axes) if shape is None else tuple([shape[axis] for axis in order]))


def permute_dims_rowwise(question: RowQuestion) -> bool:
    """The first axis stays the first."""
    axes = cast("tuple[int, ...]", question.params["axes"])
    return normalize_axes(axes, len(axes))[0] == 0


def moveaxis_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The axes `source` are at `destination`, and the others in the order they had."""
    (x,) = operands
    shape = shape_of(x)
    if shape is None:
        return intern_spec(dtype_of(x), None)
    return intern_spec(dtype_of(x), tuple([shape[axis] for axis in _moved(params, len(shape))]))


def _moved(params: Params, rank: int) -> list[int]:
    source = normalize_axes(cast(Axes, params["source"]), rank)
    destination = normalize_axes(cast(Axes, params["destination"]), rank)
    if len(source) != len(destination):
        raise SpecError(f"{len(source)} axes cannot be moved to {len(destination)} places")
    order = [axis for axis in range(rank) if axis not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    return order


def moveaxis_rowwise(question: RowQuestion) -> bool:
    """The first axis stays the first."""
    shape = shape_of(question.operands[0])
    return bool(shape) and _moved(question.params, len(shape))[0] == 0


def flip_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The operand's own spec."""
    (x,) = operands
    shape = shape_of(x)
    if shape is not None:
        normalize_axes(cast(Axes, params.get("axis")), len(shape))
    return intern_spec(dtype_of(x), shape)


def flip_rowwise(question: RowQuestion) -> bool:
    """The rows keep their order."""
    return leaves_rows(question, cast(Axes, question.params.get("axis")))


def roll_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The operand's own spec. An axis may be rolled twice."""
    (x,) = operands
    shape = shape_of(x)
    if shape is not None:
        for axis in _several(cast(Axes, params.get("axis"))):
            normalize_axis(axis, len(shape))
    return intern_spec(dtype_of(x), shape)


def roll_rowwise(question: RowQuestion) -> bool:
    """Rows keep their order, and elements their row."""
    shape, axes = shape_of(question.operands[0]), _several(cast(Axes, question.params.get("axis")))
    return shape is not None and bool(axes) and all(normalize_axis(axis, len(shape)) for axis in axes)


def _several(axes: Axes) -> tuple[int, ...]:
    return (axes,) if isinstance(axes, int) else axes or ()


# -- axes of 1 ---------------------------------------------------------------------------------------


def expand_dims_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """1 at each of the axes, which are counted in the result."""
    (x,) = operands
    shape = shape_of(x)
    if shape is None:
        return intern_spec(dtype_of(x), None)
    added = _added(params, len(shape))
    dims = iter(shape)
    result = [1 if axis in added else next(dims) for axis in range(len(shape) + len(added))]
    return intern_spec(dtype_of(x), tuple(result))


def _added(params: Params, rank: int) -> tuple[int, ...]:
    axes = _several(cast(Axes, params["axis"]))
    return normalize_axes(axes, rank + len(axes))


def expand_dims_rowwise(question: RowQuestion) -> bool:
    """Nothing comes before the rows."""
    shape = shape_of(question.operands[0])
    return shape is not None and 0 not in _added(question.params, len(shape))


def squeeze_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The operand's shape without the axes, each of which is 1, or found to be when it runs."""
    (x,) = operands
    shape = shape_of(x)
    if shape is None:
        return intern_spec(dtype_of(x), None)
    gone = normalize_axes(cast(Axes, params["axis"]), len(shape))
    for axis in gone:
        if isinstance(shape[axis], int) and shape[axis] != 1:
            raise SpecError(f"axis {axis} has the size {shape[axis]}, and only axes of size 1 can go")
    return intern_spec(dtype_of(x), tuple([dim for axis, dim in enumerate(shape) if axis not in gone]))


def squeeze_rowwise(question: RowQuestion) -> bool:
    """The rows do not go."""
    return leaves_rows(question, cast(Axes, question.params["axis"]))


# -- broadcasting ------------------------------------------------------------------------------------


def broadcast_to_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The shape asked for."""
    (x,) = operands
    old, new = shape_of(x), cast("tuple[int, ...]", params["shape"])
    if min(new, default=0) < 0:
        raise SpecError(f"{new} is not a shape: a dimension is negative")
    check_broadcast(old, new)
    return intern_spec(dtype_of(x), new)


def broadcast_like_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The shape of the second operand, whose values and dtype do not matter."""
    x, like = operands
    check_broadcast(shape_of(x), shape_of(like))
    return intern_spec(dtype_of(x), shape_of(like))


def broadcast_like_rowwise(question: RowQuestion) -> bool:
    """The result has the rows of the second operand, which the first one's meet, or it is the same for all."""
    x, like = [shape_of(one) for one in question.operands]
    return question.carries[1] and rows_align([x, like], question.carries)


def broadcast_arrays_spec(op: str, operands: Operands, params: Params) -> tuple[ArraySpec, ...]:
    """As many results as operands, all of one shape."""
    if len(operands) > _MOST:
        raise SpecError(f"at most {_MOST} arrays are broadcast at once, not {len(operands)}")
    shape = broadcast_shapes([shape_of(one) for one in operands])
    return tuple([intern_spec(dtype_of(one), shape) for one in operands])


# -- joining and taking apart ------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _joined(*dtypes: DType) -> DType:
    return asked(np.stack, [np.zeros((), dtype) for dtype in dtypes])


def _joined_dtype(op: str, operands: Operands) -> DType | None:
    if not operands:
        raise SpecError("there is nothing to join: the list of arrays is empty")
    dtypes = [dtype_of(one) for one in operands]
    known = [dtype for dtype in dtypes if dtype is not None]
    # Of a hundred arrays most have one dtype, and asking once for each of them is enough.
    return _joined(*dict.fromkeys(known)) if len(known) == len(dtypes) else None


def concat_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """Along the axis the sum, if all are literal; elsewhere the operands' dimensions, which must be equal."""
    dtype = _joined_dtype(op, operands)
    axis, shapes = cast("int | None", params.get("axis", 0)), [shape_of(one) for one in operands]
    if axis is None:
        if dtype is not None and not all(isinstance(one, ArraySpec) for one in operands):
            # Where it flattens, NumPy takes numbers for what they are: they promote by their kind alone.
            known = [np.zeros(1, one.dtype) if isinstance(one, ArraySpec) else one for one in operands]
            dtype = asked(np.concatenate, known, axis=None)
        sizes = [None if shape is None else _size(shape) for shape in shapes]
        return intern_spec(dtype, (_sum(sizes),))
    if () in shapes:
        raise SpecError("a value of rank 0 has no axis to be joined along\n  use ops.stack, or reshape it to (1,)")
    equal = equal_shapes(shapes, free=axis)
    if equal is None:
        return intern_spec(dtype, None)
    at = normalize_axis(axis, len(equal))
    along = _sum([None if shape is None else shape[at] for shape in shapes])
    return intern_spec(dtype, (*equal[:at], along, *equal[at + 1 :]))


def _size(shape: tuple[Dim, ...]) -> int | None:
    return _literal_size(shape) if all(isinstance(dim, int) for dim in shape) else None


def _sum(dims: Sequence[Dim]) -> Dim:
    known = [dim for dim in dims if isinstance(dim, int)]
    if len(known) == len(dims):
        return sum(known)
    return dims[0] if len(dims) == 1 else None


def concat_rowwise(question: RowQuestion) -> bool:
    """All operands have rows, and are joined along another axis."""
    return all(question.carries) and leaves_rows(question, cast("int | None", question.params.get("axis", 0)))


def stack_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The operands' one shape, with a new axis as long as there are operands."""
    dtype = _joined_dtype(op, operands)
    equal = equal_shapes([shape_of(one) for one in operands])
    if equal is None:
        return intern_spec(dtype, None)
    at = normalize_axis(cast(int, params.get("axis", 0)), len(equal) + 1)
    return intern_spec(dtype, (*equal[:at], len(operands), *equal[at:]))


def stack_rowwise(question: RowQuestion) -> bool:
    """All operands have rows, and the new axis does not come before them."""
    rank = question.result.ndim
    return rank is not None and all(question.carries) and normalize_axis(_axis(question.params), rank) > 0


def unstack_spec(op: str, operands: Operands, params: Params) -> tuple[ArraySpec, ...]:
    """One result for each element of the axis, whose length must be known now."""
    (x,) = operands
    shape = shape_of(x)
    dim = None if shape is None else shape[normalize_axis(_axis(params), len(shape))]
    if shape is None or not isinstance(dim, int):
        raise SpecError(
            "how many values there will be is not known before it runs\n"
            "  give the placeholder a literal dimension there, or pick with x[i] or ops.take"
        )
    at = normalize_axis(_axis(params), len(shape))
    return (intern_spec(dtype_of(x), shape[:at] + shape[at + 1 :]),) * dim


def unstack_rowwise(question: RowQuestion) -> bool:
    """Each result has all rows."""
    return leaves_rows(question, _axis(question.params))


def _axis(params: Params) -> int:
    return cast(int, params.get("axis", 0))


register("broadcast_arrays", broadcast_arrays_spec, broadcast_rowwise, Cost.FREE, views=tuple(range(_MOST)))
register("broadcast_like", broadcast_like_spec, broadcast_like_rowwise, Cost.FREE, views=(0,))
register("broadcast_to", broadcast_to_spec, never_rowwise, Cost.FREE, views=(0,))
register("concat", concat_spec, concat_rowwise, Cost.MOVE)
register("expand_dims", expand_dims_spec, expand_dims_rowwise, Cost.FREE, views=(0,))
register("flip", flip_spec, flip_rowwise, Cost.FREE, views=(0,))
register("moveaxis", moveaxis_spec, moveaxis_rowwise, Cost.FREE, views=(0,))
register("permute_dims", permute_dims_spec, permute_dims_rowwise, Cost.FREE, views=(0,))
register("reshape", reshape_spec, reshape_rowwise, Cost.MOVE, views=(0,))
register("roll", roll_spec, roll_rowwise, Cost.MOVE)
register("squeeze", squeeze_spec, squeeze_rowwise, Cost.FREE, views=(0,))
register("stack", stack_spec, stack_rowwise, Cost.MOVE)
register("unstack", unstack_spec, unstack_rowwise, Cost.FREE, views=(0,))
