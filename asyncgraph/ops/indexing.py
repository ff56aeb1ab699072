"""Picking elements by arrays of ints, and new values with some elements replaced or added to.

To pick by ints, slices, `...` and `None` write `x[key]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from .._graph.op import NO_PARAMS
from .._graph.protocols import index_key
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


def at(x: Operand, /) -> At:
    """Where `x` is to be updated. Values are never written: an update is a new value, and `x` stays as it is.

        ops.at(x)[:, 0].set(y)                      # what x is after x[:, 0] = y, in NumPy
        ops.at(x)[1:3].add(y)                       # after x[1:3] += y
        ops.at(x).take_add(indices, rows)           # after np.add.at(x, indices, rows)

    The result has the shape and the dtype of `x`. What is put in is broadcast, and has this dtype, or becomes it
    without loss: int16 in float32 does, float64 does not, and is to be converted with `astype`. A Python number is
    converted if its kind allows it, as 1.5 in float32.

    Raises, all of them:
        SpecTypeError, SpecOverflowError: what is put in does not become the dtype of `x` without loss.
        SpecError: it can never be broadcast to the shape of what it replaces, or is added to.
    """
    return At(x)


@final
class At:
    """A value that is to be updated; made by `at`."""

    __slots__ = ("_x",)

    def __init__(self, x: Operand) -> None:
        self._x: Final = x

    def __getitem__(self, key: object) -> Place:
        """Elements of it: ints, slices, `...` and `None`, alone or in a tuple.

        Raises:
            SpecTypeError: the key has arrays or nodes in it.
        """
        return Place(self._x, key)

    def take_add(self, indices: Operand, updates: Operand, *, axis: int = 0, name: str | None = None) -> Node:
        """The value with `updates` added where `take(x, indices, axis=axis)` takes its elements from.

        What is taken more than once is added to as often, in the order of the indices; which CuPy may change. An index
        counts from the end if it is negative. One that is out of bounds is an `IndexError` when it runs.

        Raises:
            SpecError: the axis is out of bounds.
            SpecTypeError: the indices are no integers.
        """
        one = as_int("take_add", "axis", axis)
        return build("take_add", (self._x, indices, updates), {"axis": one} if one else NO_PARAMS, name)


@final
class Place:
    """Elements of a value that are to be updated; made by `at(x)[key]`."""

    __slots__ = ("_params", "_x")

    def __init__(self, x: Operand, key: object) -> None:
        self._x: Final = x
        self._params: Final = {"key": index_key(key)}

    def set(self, y: Operand, *, name: str | None = None) -> Node:
        """The value with `y` in place of these elements."""
        return build("index_set", (self._x, y), self._params, name)

    def add(self, y: Operand, *, name: str | None = None) -> Node:
        """The value with `y` added to these elements."""
        return build("index_add", (self._x, y), self._params, name)
