"""The value of a node, by calling the kernels of its ancestors one after the other: no plan, no session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asyncgraph._graph.node import Node
from asyncgraph._graph.op import CONSTANT, ITEM, OUTPUT
from asyncgraph_numpy import NumpyBackend

_BACKEND = NumpyBackend()
_DEVICE = _BACKEND.devices()[0]


def evaluate(fetch: Node, feeds: Mapping[Node, Any] | None = None) -> Any:
    """The value of `fetch`; `feeds` has one for each placeholder it needs, and may have one for any node."""
    values: dict[Node, Any] = dict(feeds or {})
    for node in needed(fetch, values):
        values[node] = compute(node, [values[one] if isinstance(one, Node) else one for one in node.operands])
    return values[fetch]


def needed(fetch: Node, fed: Mapping[Node, Any]) -> list[Node]:
    """The nodes to compute, in the order they were built, which is an order that works."""
    seen, todo = set(fed), [fetch]
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            todo.extend(node.inputs)
    return sorted(seen.difference(fed), key=lambda node: node.index)


def compute(node: Node, operands: list[Any]) -> Any:
    if node.op is CONSTANT:
        return node.params["value"]
    if node.op is OUTPUT:
        return operands[0][node.params["index"]]
    if node.op is ITEM:
        return operands[0][node.params["key"]]
    known = [one.spec if isinstance(one, Node) else one for one in node.operands]
    return _BACKEND.kernel(node.op.name, node.params, known, _DEVICE)(*operands)
