"""Gradients of products of matrices and vectors. They are products again, of which the ranks must be known."""

from __future__ import annotations

from typing import cast

from .. import ops
from .._graph.node import Node, Scalar
from .._graph.rules.linalg import Contracted, contracted_axes
from .._graph.spec import Shape
from ..errors import GradientError
from .fitting import conjugate, shape_of, summed_to
from .tables import GRADIENTS, by_operand


def _rank(x: Node | Scalar, node: Node) -> int:
    shape = shape_of(x)
    if shape is None:
        raise GradientError(
            f"no gradient goes through {node!r}: the rank of {x!r} is not known\n"
            f"  built at: {node.site or 'unknown'}\n"
            "  give the placeholder a shape: a tuple with a name, or None, for each dimension that may differ"
        )
    return len(shape)


# -- matmul ------------------------------------------------------------------------------------------


def _matmul_left(gradient: Node, node: Node, position: int) -> Node:
    a, b = cast("tuple[Node, Node]", node.operands)
    _, right, g = _matrices(gradient, node)
    made = ops.matmul(g, ops.matrix_transpose(conjugate(right)))
    return summed_to(ops.squeeze(made, -2) if _rank(a, node) == 1 else made, a, _stack(b))


def _matmul_right(gradient: Node, node: Node, position: int) -> Node:
    a, b = cast("tuple[Node, Node]", node.operands)
    left, _, g = _matrices(gradient, node)
    lead = tuple(range(_rank(a, node) - 1))
    if len(lead) > 1 and _rank(b, node) <= 2:
        # One product of large matrices, where a stack of products would have to be added up.
        return ops.tensordot(conjugate(a), gradient, axes=(lead, lead))
    made = ops.matmul(ops.matrix_transpose(conjugate(left)), g)
    return summed_to(ops.squeeze(made, -1) if _rank(b, node) == 1 else made, b, _stack(a))


def _matrices(gradient: Node, node: Node) -> tuple[Node, Node, Node]:
    """The operands and the gradient, as if all had been matrices or stacks of them."""
    a, b = cast("tuple[Node, Node]", node.operands)
    if _rank(b, node) == 1:
        b, gradient = ops.expand_dims(b, -1), ops.expand_dims(gradient, -1)
    if _rank(a, node) == 1:
        a, gradient = ops.expand_dims(a, 0), ops.expand_dims(gradient, -2)
    return a, b, gradient


def _stack(x: Node) -> Shape:
    """What an operand has besides matrices, for the other one to be broadcast with."""
    return (*x.shape[:-2], 1, 1) if x.shape is not None and len(x.shape) > 2 else ()


# -- tensordot ---------------------------------------------------------------------------------------


def _tensordot(gradient: Node, node: Node, position: int) -> Node:
    sides = cast("tuple[Node, Node]", node.operands)
    ranks = _rank(sides[0], node), _rank(sides[1], node)
    contracted = contracted_axes(cast(Contracted, node.params.get("axes", 2)), *ranks)
    free = [[axis for axis in range(rank) if axis not in met] for rank, met in zip(ranks, contracted, strict=True)]
    mine, other = free[position], 1 - position
    # The gradient has the free axes of the first operand, and then those of the second.
    start = 0 if position else len(mine)
    across = tuple(range(start, start + len(free[other])))
    made = ops.tensordot(gradient, conjugate(sides[other]), axes=(across, tuple(free[other])))
    # It has this operand's free axes, and then what they met, in the order of the other's axes.
    met_in_order = [axis for _, axis in sorted(zip(contracted[other], contracted[position], strict=True))]
    order = [*mine, *met_in_order]
    return ops.permute_dims(made, tuple(sorted(range(len(order)), key=order.__getitem__)))


# -- vecdot ------------------------------------------------------------------------------------------


def _vecdot_left(gradient: Node, node: Node, position: int) -> Node:
    a, b = cast("tuple[Node, Node]", node.operands)
    return summed_to(_along(conjugate(gradient), node) * b, a, shape_of(b))


def _vecdot_right(gradient: Node, node: Node, position: int) -> Node:
    a, b = cast("tuple[Node, Node]", node.operands)
    return summed_to(_along(gradient, node) * a, b, shape_of(a))


def _along(gradient: Node, node: Node) -> Node:
    return ops.expand_dims(gradient, cast(int, node.params.get("axis", -1)))


def _matrix_transpose(gradient: Node, node: Node, position: int) -> Node:
    return ops.matrix_transpose(gradient)


GRADIENTS["matmul"] = by_operand(_matmul_left, _matmul_right)
GRADIENTS["matrix_transpose"] = by_operand(_matrix_transpose)
GRADIENTS["tensordot"] = by_operand(_tensordot, _tensordot)
GRADIENTS["vecdot"] = by_operand(_vecdot_left, _vecdot_right)
