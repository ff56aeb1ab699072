"""What shapes become: broadcasting with names and unknown dimensions, and axes.

The rules of named dimensions: a name is one size per run, and may be 0 or 1. A name with 1 is the
name; a name with a literal k > 1 is k, and NumPy checks it when it runs; a name with another name, or
with unknown, is unknown. Unknown relates to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import SpecError
from ..spec import Dim, Shape


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


def normalize_axis(axis: int, ndim: int) -> int:
    """`axis`, counted from the front.

    Raises:
        SpecError: it is out of bounds for the rank.
    """
    if not -ndim <= axis < ndim:
        raise SpecError(f"axis {axis} is out of bounds for a value of rank {ndim}")
    return axis % ndim
