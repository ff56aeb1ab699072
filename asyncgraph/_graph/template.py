"""The arguments of a user op's call: any nesting of containers, with nodes in it.

Containers are copied when the node is built, so that what happens to them later is not seen, and again
for every call, so that what an op does to them stays in that call. A list of ten thousand numbers costs
one pass in C: only lists that hold nodes or containers are walked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from ..errors import SpecTypeError
from .graph import frozen_copy
from .node import Node

_WALKED: Final = (Node, list, tuple, dict, set, bytearray, np.ndarray)


@final
class Slot:
    """Stands for the value of an operand."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"${self.index}"


@final
class Rebuilt:
    """A container that is made anew for each call.

    Fields:
        kind: the container's type.
        parts: what is in it, in order, slots and containers among it; of a dict, the values.
        keys: of a dict, the keys.
    """

    __slots__ = ("keys", "kind", "parts")

    def __init__(self, kind: type[Any], parts: list[Any], keys: tuple[Any, ...] = ()) -> None:
        self.kind: Final = kind
        self.parts: Final = parts
        self.keys: Final = keys

    def make(self, parts: list[Any]) -> Any:
        """The container of `parts`."""
        if self.kind is dict:
            return dict(zip(self.keys, parts, strict=True))
        # A named tuple takes its parts one by one.
        made = getattr(self.kind, "_make", self.kind)
        return made(parts)

    def __repr__(self) -> str:
        if self.kind is dict:
            return repr(dict(zip(self.keys, self.parts, strict=True)))
        return f"{self.kind.__name__}({', '.join(map(repr, self.parts))})"


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
        SpecTypeError: there is a node in a set, or as the key of a dict.
    """
    nodes: dict[Node, int] = {}
    made = tuple([_snapshot(one, nodes) for one in args])
    return Template(made, {key: _snapshot(one, nodes) for key, one in kwargs.items()}), tuple(nodes)


def holds_node(value: object) -> bool:
    """Whether there is a node in `value`, at any depth of its lists, tuples and dicts."""
    if isinstance(value, Node):
        return True
    if isinstance(value, (list, tuple)):
        return _has_walked(value) and any(map(holds_node, value))
    if isinstance(value, dict):
        return _has_walked(value.values()) and any(map(holds_node, value.values()))
    return False


def _has_walked(values: Any) -> bool:
    return any(issubclass(kind, _WALKED) for kind in set(map(type, values)))


def _snapshot(value: Any, nodes: dict[Node, int]) -> Any:
    if isinstance(value, Node):
        return Slot(nodes.setdefault(value, len(nodes)))
    for kind, snapshot in _SNAPSHOTS:
        if isinstance(value, kind):
            return snapshot(value, nodes)
    return value


def _snapshot_list(value: list[Any], nodes: dict[Node, int]) -> Rebuilt:
    return Rebuilt(list, [_snapshot(one, nodes) for one in value] if _has_walked(value) else list(value))


def _snapshot_tuple(value: tuple[Any, ...], nodes: dict[Node, int]) -> Any:
    if not _has_walked(value):
        return value
    return Rebuilt(type(value), [_snapshot(one, nodes) for one in value])


def _snapshot_dict(value: dict[Any, Any], nodes: dict[Node, int]) -> Rebuilt:
    for key in value:
        if isinstance(key, Node):
            raise SpecTypeError(f"a node is the key of a dict argument: {key!r}\n  only values are replaced")
    return Rebuilt(dict, [_snapshot(one, nodes) for one in value.values()], tuple(value))


def _snapshot_set(value: set[Any], nodes: dict[Node, int]) -> Rebuilt:
    for one in value:
        if isinstance(one, Node):
            raise SpecTypeError(f"a node is in a set argument: {one!r}\n  put it in a list: its value may have no hash")
    return Rebuilt(set, list(value))


_SNAPSHOTS: Final[tuple[tuple[type, Callable[[Any, dict[Node, int]], Any]], ...]] = (
    (list, _snapshot_list),
    (tuple, _snapshot_tuple),
    (dict, _snapshot_dict),
    (set, _snapshot_set),
    (bytearray, lambda value, nodes: Rebuilt(bytearray, list(value))),
    (np.ndarray, lambda value, nodes: value if value.dtype.hasobject else frozen_copy(value)),
)


def _filled(part: Any, values: Sequence[Any]) -> Any:
    if part.__class__ is Slot:
        return values[part.index]
    if part.__class__ is Rebuilt:
        parts = part.parts
        for one in parts:
            if one.__class__ is Slot or one.__class__ is Rebuilt:
                parts = [_filled(each, values) for each in parts]
                break
        return part.make(parts)
    return part
