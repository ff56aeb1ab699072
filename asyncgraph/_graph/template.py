"""The arguments of a user op's call: any nesting of lists, tuples and dicts, with nodes in it.

Subclasses count as what they derive from, named tuples among them. Nothing else is searched: a dataclass
may be any object at all, to be handed on as the one that it is.

Containers are copied when the node is built, so that what happens to them later is not seen, and again
for every call, so that what an op does to them stays in that call. Arrays are copied once, and are
read-only. A list of ten thousand numbers costs one pass in C: only lists that hold nodes or containers
are walked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast, final

import numpy as np

from ..errors import SpecTypeError
from .containers import refilled
from .node import Node

_WALKED: Final = (Node, list, tuple, dict, set, frozenset, bytearray, np.ndarray)


@final
class Slot:
    """Stands for the value of an operand; prints as the name of its node."""

    __slots__ = ("index", "name")

    def __init__(self, index: int, name: str) -> None:
        self.index: Final = index
        self.name: Final = name

    def __repr__(self) -> str:
        return self.name


@final
class Rebuilt:
    """A container that is made anew for each call.

    Fields:
        prototype: a container of its type, with its keys and attributes.
        parts: what is in it, in order, slots and containers among it; of a dict, the values; of a
            bytearray, its bytes.
    """

    __slots__ = ("parts", "prototype")

    def __init__(self, prototype: Any, parts: list[Any]) -> None:
        self.prototype: Final = prototype
        self.parts: Final = parts

    def fill(self, values: Sequence[Any]) -> Any:
        """The container of one call."""
        parts = self.parts
        for one in parts:
            if one.__class__ is Slot or one.__class__ is Rebuilt:
                return self._made([_filled(each, values) for each in parts])
        return self._made(parts.copy())

    def _made(self, parts: list[Any]) -> Any:
        if self.prototype.__class__ is bytearray:
            return bytearray(parts[0])
        return refilled(self.prototype, parts)

    def __repr__(self) -> str:
        return repr(self._made(self.parts.copy()))


@final
class Template:
    """Arguments with holes. Frozen; shared by all calls of a node.

    Fields:
        args, kwargs: the arguments; where an operand goes, a slot.
    """

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args: Final = args
        self.kwargs: Final = kwargs

    def fill(self, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of one call."""
        args = [_filled(one, values) for one in self.args]
        kwargs = {key: _filled(one, values) for key, one in self.kwargs.items()} if self.kwargs else self.kwargs
        return args, kwargs

    def __repr__(self) -> str:
        parts = [*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.kwargs.items())]
        return f"({', '.join(parts)})"


def template_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Template, tuple[Node, ...]]:
    """The template of a call's arguments, and the nodes that fill it, each once.

    Raises:
        SpecTypeError: there is a node in a set, or as the key of a dict; or a container holds itself.
    """
    nodes: dict[Node, int] = {}
    try:
        made = tuple([_snapshot(one, nodes) for one in args])
        return Template(made, {key: _snapshot(one, nodes) for key, one in kwargs.items()}), tuple(nodes)
    except RecursionError as error:
        raise _too_deep() from error


def holds_node(value: object) -> bool:
    """Whether there is a node in `value`, at any depth of its containers; also where `template_of` refuses it.

    Raises:
        SpecTypeError: a container holds itself.
    """
    try:
        return _holds_node(value)
    except RecursionError as error:
        raise _too_deep() from error


def _holds_node(value: Any) -> bool:
    if isinstance(value, Node):
        return True
    if isinstance(value, (list, tuple)):
        parts = cast("Sequence[Any]", value)
        return _has_walked(parts) and any(map(_holds_node, parts))
    if isinstance(value, dict):
        mapping = cast("dict[Any, Any]", value)
        values = mapping.values()
        return (_has_walked(values) and any(map(_holds_node, values))) or Node in map(type, mapping)
    return isinstance(value, (set, frozenset)) and Node in map(type, cast("set[Any]", value))


def _too_deep() -> SpecTypeError:
    return SpecTypeError("an argument of an op is nested too deeply: a list or dict that holds itself cannot be copied")


def _has_walked(values: Iterable[Any]) -> bool:
    kinds: set[type[Any]] = set(map(type, values))
    return any(issubclass(kind, _WALKED) for kind in kinds)


def _snapshot(value: Any, nodes: dict[Node, int]) -> Any:
    if isinstance(value, Node):
        return Slot(nodes.setdefault(value, len(nodes)), value.name)
    for kind, snapshot in _SNAPSHOTS:
        if isinstance(value, kind):
            return snapshot(value, nodes)
    return value


def _snapshot_list(value: list[Any], nodes: dict[Node, int]) -> Rebuilt:
    parts = [_snapshot(one, nodes) for one in value] if _has_walked(value) else list(value)
    return Rebuilt(refilled(value, []), parts)


def _snapshot_tuple(value: tuple[Any, ...], nodes: dict[Node, int]) -> Any:
    if not _has_walked(value):
        return value
    return Rebuilt(refilled(value, [None] * len(value)), [_snapshot(one, nodes) for one in value])


def _snapshot_dict(value: dict[Any, Any], nodes: dict[Node, int]) -> Rebuilt:
    for key in value:
        if isinstance(key, Node):
            raise SpecTypeError(f"a node is the key of a dict argument: {key!r}\n  only values are replaced")
    return Rebuilt(refilled(value, [None] * len(value)), [_snapshot(one, nodes) for one in value.values()])


def _snapshot_set(value: set[Any], nodes: dict[Node, int]) -> Rebuilt:
    _refuse_nodes(value)
    return Rebuilt(refilled(value, []), list(value))


def _snapshot_frozenset(value: frozenset[Any], nodes: dict[Node, int]) -> frozenset[Any]:
    _refuse_nodes(value)
    return value


def _refuse_nodes(values: Iterable[Any]) -> None:
    for one in values:
        if isinstance(one, Node):
            raise SpecTypeError(f"a node is in a set argument: {one!r}\n  put it in a list: its value may have no hash")


def _snapshot_bytearray(value: bytearray, nodes: dict[Node, int]) -> Rebuilt:
    return Rebuilt(bytearray(), [bytes(value)])


def _snapshot_array(value: np.ndarray[Any, Any], nodes: dict[Node, int]) -> np.ndarray[Any, Any]:
    copied = value.copy(order="K")
    copied.flags.writeable = False
    return copied


_SNAPSHOTS: Final[tuple[tuple[type, Callable[[Any, dict[Node, int]], Any]], ...]] = (
    (list, _snapshot_list),
    (tuple, _snapshot_tuple),
    (dict, _snapshot_dict),
    (set, _snapshot_set),
    (frozenset, _snapshot_frozenset),
    (bytearray, _snapshot_bytearray),
    (np.ndarray, _snapshot_array),
)


def _filled(part: Any, values: Sequence[Any]) -> Any:
    if part.__class__ is Slot:
        return values[part.index]
    if part.__class__ is Rebuilt:
        return part.fill(values)
    return part
