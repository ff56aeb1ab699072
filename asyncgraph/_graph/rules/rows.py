"""What row rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .shapes import Axes, normalize_axes, shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..spec import Shape
    from .tables import RowQuestion


def never_rowwise(question: RowQuestion) -> bool:
    """The result has no rows, or they depend on each other."""
    return False


def broadcast_rowwise(question: RowQuestion) -> bool:
    """Operands are broadcast: rows meet rows, or what is the same for all rows."""
    return rows_align([shape_of(one) for one in question.operands], question.carries)


def rows_align(shapes: Sequence[Shape], carries: Sequence[bool]) -> bool:
    """Whether broadcasting lines up all shapes whose first dimension is rows, as the first dimension of the result.

    So they have the highest rank, and the others have a lower one, or 1 where rows are.
    """
    known = [shape for shape in shapes if shape is not None]
    rank = max(map(len, known), default=0)
    if len(known) < len(shapes) or not rank:
        return False
    return all(
        len(shape) == rank if carried else len(shape) < rank or shape[0] == 1
        for shape, carried in zip(known, carries, strict=True)
    )


def leaves_rows(question: RowQuestion, axes: Axes) -> bool:
    """Whether the one operand's first axis is none of `axes`, which is only known with its rank."""
    shape = shape_of(question.operands[0])
    return shape is not None and 0 not in normalize_axes(axes, len(shape))
