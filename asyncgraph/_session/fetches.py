"""Structures of fetches, and what their leaves are."""

from __future__ import annotations

import dataclasses
import reprlib
from typing import Final, cast

from .._graph.graph import Graph
from .._graph.node import Node
from ..errors import FetchError, NodeNotFoundError

Leaf = Node | str


def leaves_of(fetches: object) -> list[Leaf]:
    """The nodes and names of a structure, in its own order.

    Raises:
        FetchError: there is anything else in it; the message gives the path to it. Or it holds itself.
    """
    leaves: list[Leaf] = []
    try:
        _flatten(fetches, leaves, "fetches")
    except RecursionError as error:
        raise FetchError("the fetches are nested too deeply, or a container in them holds itself") from error
    return leaves


def resolve(leaf: Leaf, graph: Graph, role: str = "fetch") -> Node:
    """The node of `graph` that a leaf is or names.

    Raises:
        FetchError: there is none of that name, or it belongs to another graph.
    """
    if isinstance(leaf, str):
        try:
            return graph[leaf]
        except NodeNotFoundError as error:
            raise FetchError(f"{role}: {error}") from None
    if not isinstance(leaf, Node):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise FetchError(f"{role}: {_described(leaf)}\n  expected a node, or the name of one")
    if leaf.graph is not graph:
        raise FetchError(
            f"{role}: {leaf!r} belongs to another graph than this session's {graph!r}\n"
            "  make a Session for its graph, or build the node in this one"
        )
    return leaf


def _flatten(fetches: object, leaves: list[Leaf], path: str) -> None:
    if isinstance(fetches, (Node, str)):
        leaves.append(fetches)
    elif isinstance(fetches, (list, tuple)):
        for index, one in enumerate(cast("list[object]", fetches)):
            if isinstance(one, Node):
                leaves.append(one)
            else:
                _flatten(one, leaves, f"{path}[{index}]")
    elif isinstance(fetches, dict):
        for key, one in cast("dict[object, object]", fetches).items():
            _flatten(one, leaves, f"{path}[{key!r}]")
    elif dataclasses.is_dataclass(fetches) and not isinstance(fetches, type):
        for field in dataclasses.fields(fetches):
            _flatten(getattr(fetches, field.name), leaves, f"{path}.{field.name}")
    else:
        raise FetchError(f"{path} is {_described(fetches)}\n  {_EXPECTED}")


_EXPECTED: Final = "expected a node, the name of one, or a list, tuple, dict or dataclass of them"


def _described(value: object) -> str:
    return "None" if value is None else f"{reprlib.repr(value)} ({type(value).__name__})"
