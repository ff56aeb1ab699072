"""Picking elements by arrays of ints. For ints, slices, `...` and `None` write `x[key]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._graph.op import NO_PARAMS
from ._build import build
from ._params import as_int

if TYPE_CHECKING:
    from .._graph.node import Node
    from ._build import Operand


def take(x: Operand, indices: Operand, /, *, axis: int | None = None, name: str | None = None) -> Node:
    """The elements at `indices` along `axis`: the shape of the indices stands in place of the axis.

    An index counts from the end if it is negative. One that is out of bounds is an `IndexError` when it runs.

    Raises:
        SpecError: the axis is out of bounds; or it is left out, and `x` is not a vector.
        SpecTypeError: the indices are no integers.
    """
    params = NO_PARAMS if axis is None else {"axis": as_int("take", "axis", axis)}
    return build("take", (x, indices), params, name)
