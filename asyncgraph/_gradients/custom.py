"""Gradients of user ops, which a function of the user's builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from .. import ops
from .._graph.node import Node
from .._graph.op import OUTPUT
from .._graph.variable import may_be
from ..errors import GraphError, SpecError, SpecTypeError
from .tables import Row

UserGradient = Callable[..., Any]
"""Given a node of a user op and the gradient of each of its outputs, gives those of its inputs."""


def row_of_function(function: UserGradient) -> Row:
    """The row of a user op whose gradients `function` builds."""
    return Row(partial(_build, function))


def _build(
    function: UserGradient, node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]
) -> list[Node | None]:
    made: object = function(node, *_of_outputs(node, gradients))
    listed = list(cast("Sequence[object]", made)) if isinstance(made, (list, tuple)) else [made]
    if len(listed) != len(node.inputs):
        raise SpecError(
            f"the gradient of the user op {node.op.name!r} gave {len(listed)} values for {len(node.inputs)} inputs of "
            f"{node!r}\n  give one for each of node.inputs, in a list, and None where nothing depends on one"
        )
    return [_checked(listed[at], node, node.inputs[at]) for at in wanted]


def _of_outputs(node: Node, gradients: Mapping[int, Node]) -> list[Node | None]:
    """The gradient of each output: zeros, if it does not matter to what is differentiated; `None`, if it never can."""
    assert node.op.call is not None
    spec = node.op.call.spec
    if not isinstance(spec, tuple):
        return [gradients[0]]
    made: list[Node | None] = []
    for index, one in enumerate(spec):
        gradient = gradients.get(index)
        if gradient is None and one.dtype is not None and one.dtype.kind in "fc":
            gradient = ops.zeros_like(node.graph.add(OUTPUT, (node,), {"index": index}, one))
        made.append(gradient)
    return made


def _checked(gradient: object, node: Node, x: Node) -> Node | None:
    if gradient is None:
        return None
    if not isinstance(gradient, Node):
        raise SpecTypeError(
            f"the gradient of the user op {node.op.name!r} gave {gradient!r} for {x!r}\n  give a node, or None"
        )
    if gradient.graph is not node.graph:
        raise GraphError(
            f"the gradient of the user op {node.op.name!r} gave {gradient!r}, which belongs to another graph"
        )
    if not may_be(gradient.shape, x.shape):
        raise SpecError(f"the gradient of the user op {node.op.name!r} gave {gradient!r} for {x!r}: the shapes differ")
    return gradient
