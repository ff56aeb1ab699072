"""What gradients are built of besides the vocabulary.

That is the identity that stops them, shapes as they are in a run, and what goes to one side of a comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ...errors import SpecError, SpecTypeError
from ..spec import ArraySpec, DType, intern_spec
from .dtypes import dtype_of
from .register import register
from .rows import broadcast_rowwise, never_rowwise
from .shapes import Axes, broadcast_shapes, normalize_axes, normalize_axis, shape_of
from .tables import Cost

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params

Operands = tuple["ArraySpec | Scalar", ...]

_FLOAT: Final[DType] = np.dtype("float64")


def stop_gradient_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The operand's own spec: the value is the operand's."""
    (x,) = operands
    return intern_spec(dtype_of(x), shape_of(x))


def where_larger_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The first operand where the second is larger than the third, half of it where they are equal, and 0 elsewhere."""
    dtype = dtype_of(operands[0])
    if dtype is not None and dtype.kind not in "fc":
        raise SpecTypeError(f"there is no half of {dtype}")
    return intern_spec(dtype, broadcast_shapes([shape_of(one) for one in operands]))


def size_of_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """How many elements the operand has along `axis`, as a float64: it is there to be divided by."""
    shape = shape_of(operands[0])
    if shape is not None:
        normalize_axes(cast(Axes, params.get("axis")), len(shape))
    return intern_spec(_FLOAT, ())


def divide_by_size_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The first operand divided by how many elements the second has along `axis`, in the dtype of the first."""
    x, like = operands
    dtype, shape = dtype_of(x), shape_of(like)
    if dtype is not None and dtype.kind not in "fc":
        raise SpecTypeError(f"there are no fractions of {dtype}")
    if shape is not None:
        normalize_axes(cast(Axes, params.get("axis")), len(shape))
    return intern_spec(dtype, shape_of(x))


def reshape_like_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The elements of the first operand in the shape of the second, whose values and dtype do not matter."""
    x, like = operands
    old, new = _size(x), _size(like)
    if old is not None and new is not None and old != new:
        raise SpecError(f"{old} elements do not have the shape of {new}")
    return intern_spec(dtype_of(x), shape_of(like))


def split_like_spec(op: str, operands: Operands, params: Params) -> tuple[ArraySpec, ...]:
    """The parts of the first operand that the others were when they were joined along `axis`; `None` flattens."""
    x, *parts = operands
    axis, whole = cast("int | None", params["axis"]), shape_of(x)
    shapes = [shape_of(one) for one in parts]
    if axis is not None and whole is not None:
        at = normalize_axis(axis, len(whole))
        shapes = [None if one is None else (*whole[:at], one[at], *whole[at + 1 :]) for one in shapes]
    return tuple([intern_spec(dtype_of(x), one) for one in shapes])


def _size(operand: ArraySpec | Scalar) -> int | None:
    return operand.size if isinstance(operand, ArraySpec) else 1


register("stop_gradient", stop_gradient_spec, broadcast_rowwise, Cost.FREE, views=(0,))
register("where_larger", where_larger_spec, broadcast_rowwise, Cost.CHEAP)
register("size_of", size_of_spec, never_rowwise, Cost.FREE)
register("divide_by_size", divide_by_size_spec, never_rowwise, Cost.CHEAP)
register("reshape_like", reshape_like_spec, never_rowwise, Cost.MOVE, views=(0,))
register("split_like", split_like_spec, never_rowwise, Cost.FREE, views=(0,))
