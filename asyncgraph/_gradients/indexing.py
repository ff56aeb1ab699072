"""Gradients of picking elements, and of updating them: what is picked twice is added up."""

from __future__ import annotations

from typing import Any, cast

from .. import ops
from .._graph.node import Node
from .fitting import summed_to
from .tables import GRADIENTS, by_operand, identity


def _key(node: Node) -> Any:
    return node.params["key"]


def _axis(node: Node) -> int:
    return cast(int, node.params.get("axis", 0))


def _index(gradient: Node, node: Node, position: int) -> Node:
    return ops.at(ops.zeros_like(node.inputs[0]))[_key(node)].set(gradient)


def _take(gradient: Node, node: Node, position: int) -> Node:
    x, indices = node.operands
    return ops.at(ops.zeros_like(x)).take_add(indices, gradient, axis=_axis(node))


def _replaced(gradient: Node, node: Node, position: int) -> Node:
    return ops.at(gradient)[_key(node)].set(0)


def _put_in(gradient: Node, node: Node, position: int) -> Node:
    picked, y = gradient[_key(node)], node.operands[1]
    assert isinstance(y, Node)
    return summed_to(picked, y, picked.shape)


def _added(gradient: Node, node: Node, position: int) -> Node:
    _, indices, updates = node.operands
    assert isinstance(updates, Node)
    picked = ops.take(gradient, indices, axis=_axis(node))
    return summed_to(picked, updates, picked.shape)


GRADIENTS["index"] = by_operand(_index)
GRADIENTS["index_add"] = by_operand(identity, _put_in)
GRADIENTS["index_set"] = by_operand(_replaced, _put_in)
GRADIENTS["take"] = by_operand(_take, None)
GRADIENTS["take_add"] = by_operand(identity, None, _added)
