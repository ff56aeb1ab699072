"""Feeds: values are checked and converted before anything runs."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, Final, cast, final

import numpy as np

from .._graph.convert import ConversionError, OutOfRangeError, WrongTypeError, as_exact_array
from .._graph.node import Node
from .._graph.spec import ANY, DType, intern_spec
from ..errors import FeedError, FeedOverflowError, FeedTypeError


@final
class _Binding:
    """How values for one node are checked.

    Fields:
        node: the fed node.
        anything: whether its value may be any Python object.
        dtype, rank: what an array must have; `None` for whatever it has.
        literals: axes whose size is given, with it.
        names: axes that have a name, with it.
    """

    __slots__ = ("anything", "dtype", "literals", "names", "node", "rank")

    def __init__(self, node: Node) -> None:
        shape = node.spec.shape
        self.node: Final = node
        self.anything: Final = node.spec is ANY
        self.dtype: Final[DType | None] = node.spec.dtype
        self.rank: Final = None if shape is None else len(shape)
        dims = list(enumerate(shape or ()))
        self.literals: Final = tuple([(axis, dim) for axis, dim in dims if isinstance(dim, int)])
        self.names: Final = tuple([(axis, dim) for axis, dim in dims if isinstance(dim, str)])


@final
class FeedBinder:
    """Checks and converts the values of some fed nodes, in their order. Made once for a plan."""

    __slots__ = ("_bindings",)

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._bindings: Final = tuple([_Binding(node) for node in nodes])

    def bind(self, values: Sequence[Any], copy: bool) -> tuple[list[Any], int]:
        """The values as they are run with, and the size of the largest array among them.

        Arrays that fit are taken as they are, without a copy unless `copy`.

        Raises:
            FeedError: a value does not fit its node, or two do not fit each other. Nothing has run.
        """
        bound: list[Any] = []
        sizes: dict[str, int] = {}
        largest = 0
        for binding, value in zip(self._bindings, values, strict=True):
            if binding.anything:
                if isinstance(value, Node):
                    raise FeedTypeError(_message(binding.node, value, "it is a node: feed its value"))
                if isinstance(value, np.ndarray):
                    array = cast("np.ndarray[Any, Any]", value)
                    largest = max(largest, array.size)
                    value = array.copy(order="K") if copy else array
                bound.append(value)
                continue
            # The dtypes NumPy makes are one object for each kind; others are compared in `_converted`.
            if value.__class__ is not np.ndarray or value.dtype is not binding.dtype:
                array = _converted(binding, value)
            else:
                array = value
            shape = array.shape
            if binding.rank is not None:
                if len(shape) != binding.rank:
                    raise FeedError(_message(binding.node, array, "its rank differs"))
                for axis, size in binding.literals:
                    if shape[axis] != size:
                        raise FeedError(_message(binding.node, array, f"its axis {axis} differs"))
                for axis, name in binding.names:
                    size = shape[axis]
                    if sizes.setdefault(name, size) != size:
                        raise FeedError(_clash(self._bindings, values, name))
            # What was converted owns its memory, unless it was a buffer, or another library's array.
            bound.append(array.copy(order="K") if copy and (array is value or array.base is not None) else array)
            if array.size > largest:
                largest = array.size
        return bound, largest


def _converted(binding: _Binding, value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, Node):
        raise FeedTypeError(_message(binding.node, value, "it is a node: feed its value, or fetch what is built on it"))
    try:
        return as_exact_array(value, binding.dtype)
    except ConversionError as error:
        raise _error_of(error)(_message(binding.node, value, str(error))) from error.__cause__


def _error_of(error: ConversionError) -> type[FeedError]:
    if isinstance(error, WrongTypeError):
        return FeedTypeError
    return FeedOverflowError if isinstance(error, OutOfRangeError) else FeedError


def _message(node: Node, value: Any, reason: str) -> str:
    lines = [f"the value fed for {node.name!r} does not fit it: {reason}", f"  expected: {node.spec!r}"]
    if node.shape is not None:
        lines[-1] += f", shape {node.shape}"
    if isinstance(value, (np.ndarray, np.generic)):
        array = cast("np.ndarray[Any, Any]", value)
        lines.append(f"  fed:      {intern_spec(array.dtype, array.shape)!r}, shape {array.shape}")
    else:
        lines.append(f"  fed:      {reprlib.repr(value)} ({type(value).__name__})")
    lines.append(f"  built at: {node.site or 'unknown'}")
    return "\n".join(lines)


def _clash(bindings: Sequence[_Binding], values: Sequence[Any], name: str) -> str:
    lines = [f"the dimension {name!r} has one size in a run, but was fed several:"]
    for binding, value in zip(bindings, values, strict=True):
        for axis, one in binding.names:
            if one == name and np.ndim(value) > axis:
                lines.append(f"  {binding.node.name}: {binding.node.spec!r}, fed {np.shape(value)}")
    return "\n".join(lines)
