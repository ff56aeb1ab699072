"""What shapes become: broadcasting with names and unknown dimensions, and axes.

The rules of named dimensions: a name is one size per run, and may be 0 or 1. A name with 1 is the
name; a name with a literal k > 1 is k, and NumPy checks it when it runs; a name with another name, or
with unknown, is unknown. Unknown relates to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import SpecError
from ..spec import ArraySpec, Dim, Shape

if TYPE_CHECKING:
    from ..node import Scalar

Axes = int | tuple[int, ...] | None
"""One axis or several; `None` for all."""


def shape_of(operand: ArraySpec | Scalar) -> Shape:
    """The shape of an operand; a Python number has rank 0."""
    return operand.shape if isinstance(operand, ArraySpec) else ()


def broadcast_dims(a: Dim, b: Dim) -> Dim:
    """One dimension of two shapes that are broadcast.

    Raises:
        SpecError: both are literal, differ, and neither is 1.
    """
    if a == b:
        return a
    if a == 1:
        return b
    if b == 1:
        return a
    if isinstance(a, int) and isinstance(b, int):
        raise SpecError(f"{a} and {b} cannot be broadcast")
    if isinstance(a, int):
        # With 0 the name is 0 or 1, and the result 0 either way.
        return a
    if isinstance(b, int):
        return b
    return None


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """The shape of operands of those shapes, broadcast; an unknown rank makes the result's unknown.

    Raises:
        SpecError: literal dimensions can never fit.
    """
    if not shapes:
        return ()
    if any(shape is None for shape in shapes):
        return None
    known = [shape for shape in shapes if shape is not None]
    first = known[0]
    if all(shape == first for shape in known):
        return first
    rank = max(map(len, known))
    result: list[Dim] = [1] * rank
    for shape in known:
        for axis, dim in enumerate(shape, start=rank - len(shape)):
            result[axis] = broadcast_dims(result[axis], dim)
    return tuple(result)


def check_broadcast(old: Shape, new: Shape) -> None:
    """Nothing, if a value of shape `old` may have the shape `new` once it is broadcast.

    Raises:
        SpecError: it never has.
    """
    if old is None or new is None:
        return
    behind = new[len(new) - len(old) :] if len(old) <= len(new) else None
    if behind is None or any(
        isinstance(a, int) and a != 1 and isinstance(b, int) and a != b for a, b in zip(old, behind, strict=True)
    ):
        raise SpecError(f"{_shown(old)} cannot be broadcast to {_shown(new)}")


def summed_axes(old: Shape, new: Shape) -> tuple[int, ...] | None:
    """The axes of a value of shape `old` that go, or become 1, where it is summed to the shape `new`.

    `None` if nobody knows, or runs differ in them; or if no value of shape `new` is ever broadcast to `old`.
    """
    if old is None or new is None or len(new) > len(old):
        return None
    lead = len(old) - len(new)
    axes = list(range(lead))
    for axis, (a, b) in enumerate(zip(old[lead:], new, strict=True), lead):
        if a is None or a != b:
            if b != 1:
                return None
            axes.append(axis)
    return tuple(axes)


def _shown(shape: tuple[Dim, ...]) -> str:
    return f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"


def equal_dims(a: Dim, b: Dim) -> Dim:
    """One dimension of two shapes that must be equal there; a literal says more than a name.

    Raises:
        SpecError: both are literal and differ.
    """
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise SpecError(f"the dimensions {a} and {b} differ")
    if a == b or isinstance(a, int):
        return a
    return b if isinstance(b, int) else None


def equal_shapes(shapes: Sequence[Shape], free: int | None = None) -> tuple[Dim, ...] | None:
    """The shape of operands that must have one rank, and equal dimensions but for the axis `free`, which is `None`.

    Operands of unknown rank have no say in it, and if all are, it is unknown.

    Raises:
        SpecError: two ranks, or two literal dimensions, differ; or the axis is out of bounds.
    """
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    ranks = set(map(len, known))
    if len(ranks) > 1:
        raise SpecError(f"the ranks {' and '.join(map(str, sorted(ranks)))} differ")
    left_out = None if free is None else normalize_axis(free, len(known[0]))
    result: list[Dim] = list(known[0])
    for shape in known[1:]:
        for axis, dim in enumerate(shape):
            if axis != left_out:
                result[axis] = equal_dims(result[axis], dim)
    for axis in range(len(result)):
        if axis == left_out or (len(known) < len(shapes) and not isinstance(result[axis], int)):
            result[axis] = None
    return tuple(result)


def normalize_axis(axis: int, ndim: int) -> int:
    """`axis`, counted from the front.

    Raises:
        SpecError: it is out of bounds for the rank.
    """
    if not -ndim <= axis < ndim:
        raise SpecError(f"axis {axis} is out of bounds for a value of rank {ndim}")
    return axis % ndim


def normalize_axes(axes: Axes, ndim: int) -> tuple[int, ...]:
    """`axes`, counted from the front, in their order; all of them for `None`.

    Raises:
        SpecError: one is out of bounds for the rank, or there twice.
    """
    if axes is None:
        return tuple(range(ndim))
    given = (axes,) if isinstance(axes, int) else axes
    counted = tuple([normalize_axis(axis, ndim) for axis in given])
    if len(set(counted)) < len(counted):
        raise SpecError(f"the axes {axes} name one axis twice, for a value of rank {ndim}")
    return counted
