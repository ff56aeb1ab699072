"""Gradients of reductions.

Of `max` and `min` all elements that are equal to the result share the gradient equally. That of `std` is NaN where all
elements are equal, as the square root has none at 0. Of a product it is right where factors are 0, too, and so is its
own gradient; derivatives after that are not where two factors or more are 0.
"""

from __future__ import annotations

from typing import cast

from .. import ops
from .._graph.node import Node
from .._graph.rules.shapes import Axes
from ..ops._build import build
from .fitting import conjugate, expanded, known_count, reduced_axes, reduced_count
from .tables import GRADIENTS, NOWHERE, Extent, by_operand


def _axis(node: Node) -> Axes:
    return cast(Axes, node.params.get("axis"))


def _divided(gradient: Node, count: float | Node) -> Node:
    """`gradient / count`, in the dtype of the gradient."""
    return ops.asarray(gradient / count, dtype=gradient.dtype)


def _sum(gradient: Node, node: Node, position: int) -> Node:
    return expanded(gradient, node)


def _mean(gradient: Node, node: Node, position: int) -> Node:
    count = known_count(node)
    if count is None:
        return expanded(build("divide_by_size", (gradient, *node.inputs), reduced_axes(node)), node)
    return expanded(_divided(gradient, count), node)


def _divide_by_size(gradient: Node, node: Node, position: int) -> Node:
    return build("divide_by_size", (gradient, node.operands[1]), node.params)


def _extreme(gradient: Node, node: Node, position: int) -> Node:
    (x,) = node.inputs
    is_extreme = x == expanded(node, node)
    count = ops.sum(is_extreme, axis=_axis(node), keepdims=bool(node.params.get("keepdims")))
    return ops.where(is_extreme, expanded(_divided(gradient, count), node), 0)


def _var(gradient: Node, node: Node, position: int) -> Node:
    return _from_mean(_divided(2 * gradient, _degrees_of_freedom(node)), node)


def _std(gradient: Node, node: Node, position: int) -> Node:
    return _from_mean(_divided(gradient / node, _degrees_of_freedom(node)), node)


def _degrees_of_freedom(node: Node) -> float | Node:
    return reduced_count(node) - cast(float, node.params.get("correction", 0))


def _from_mean(factor: Node, node: Node) -> Node:
    """`factor`, of the shape of the reduction, times the distance of each element from the mean."""
    (x,) = node.inputs
    return expanded(factor, node) * (x - ops.mean(x, axis=_axis(node), keepdims=True))


def _prod(gradient: Node, node: Node, position: int) -> Node:
    """The gradient times the product of the other factors: of those that are not 0, and of those that are.

    The latter are kept as what they depend on, so that they can be differentiated in turn.
    """
    axis, x = _axis(node), ops.asarray(node.inputs[0], dtype=node.dtype)
    is_zero = x == 0
    zeros, count = ops.where(is_zero, x, 0), ops.sum(is_zero, axis=axis, keepdims=True)
    total = ops.sum(zeros, axis=axis, keepdims=True)
    beside_a_zero = ops.where(count == 1, 1, ops.where(count == 2, total - zeros, 0))
    beside_others = ops.where(count == 0, 1, ops.where(count == 1, total, 0))
    others = ops.where(is_zero, 1, x)
    product = ops.prod(others, axis=axis, keepdims=True) / others * ops.where(is_zero, beside_a_zero, beside_others)
    return expanded(gradient, node) * conjugate(product)


GRADIENTS["sum"] = by_operand(_sum, extent=Extent.SPREAD)
GRADIENTS["mean"] = by_operand(_mean, extent=Extent.SPREAD)
GRADIENTS["divide_by_size"] = by_operand(_divide_by_size, None)
GRADIENTS["max"] = GRADIENTS["min"] = by_operand(_extreme)
GRADIENTS["var"] = by_operand(_var)
GRADIENTS["std"] = by_operand(_std)
GRADIENTS["prod"] = by_operand(_prod)
for _name in ("all", "any", "argmax", "argmin"):
    GRADIENTS[_name] = NOWHERE
