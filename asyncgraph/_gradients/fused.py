"""Gradients of ops that are several in one.

Of a loss it is the residual, which the op gives besides it. None goes through a step of an optimizer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from .. import ops
from .._graph.node import Node
from .._graph.op import OUTPUT
from .._graph.rules.infer import infer_specs
from ..errors import GradientError
from ..ops._build import build
from .fitting import summed
from .tables import GRADIENTS, Extent, Row, by_operand


def _relu(gradient: Node, node: Node, position: int) -> Node:
    # The value is positive where the operand is, and the operand need not be kept for it.
    return build("where_positive", (gradient, node))


def _where_positive(gradient: Node, node: Node, position: int) -> Node:
    return summed(build("where_positive", (gradient, node.operands[1])), node, position)


def _softmax_cross_entropy(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> list[Node | None]:
    logits = node.inputs[0]
    made: list[Node] = []
    if 0 in gradients:
        gradient, specs = gradients[0], infer_specs(node.op.name, node.operands, node.params)
        residual = node.graph.add(OUTPUT, (node,), {"index": 1}, specs[1])
        made.append((gradient if gradient.ndim == 0 else ops.expand_dims(gradient, -1)) * residual)
    if 1 in gradients:
        exponentials = ops.exp(logits - build("stop_gradient", (ops.max(logits, axis=-1, keepdims=True),)))
        chances = exponentials / ops.sum(exponentials, axis=-1, keepdims=True)
        gradient = gradients[1]
        made.append(chances * (gradient - ops.sum(chances * gradient, axis=-1, keepdims=True)))
    return [sum(made[1:], made[0])]


def _step(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> NoReturn:
    raise GradientError(
        f"no gradient goes through a step of an optimizer: {node!r}\n"
        f"  built at: {node.site or 'unknown'}\n"
        "  make what it gives a constant: ag.stop_gradient(x); or write the step out, in an optimizer of your own"
    )


GRADIENTS["relu"] = by_operand(_relu, extent=Extent.SAME)
GRADIENTS["where_positive"] = by_operand(_where_positive, None, extent=Extent.SAME)
GRADIENTS["softmax_cross_entropy"] = Row(_softmax_cross_entropy, reaches=(0,), extent=Extent.FILLED)
GRADIENTS["adam"] = GRADIENTS["adam_rates"] = Row(_step)
