"""What rules share: the shapes that gradients have to have, as they are in a run, and conjugates."""

from __future__ import annotations

from math import prod
from typing import cast, overload

from .. import ops
from .._graph.node import Node, Scalar
from .._graph.op import NO_PARAMS, Params
from .._graph.rules.shapes import Axes, normalize_axes
from .._graph.spec import Dim, Shape
from ..ops._build import build

Operand = Node | Scalar


def summed(gradient: Node, node: Node, position: int) -> Node:
    """`gradient`, of the shape of all operands of `node` once they are broadcast, summed to that of one of them."""
    x = node.operands[position]
    assert isinstance(x, Node)
    return gradient if has_shape_of_value(node, position) else ops.sum_to(gradient, x)


def summed_to(gradient: Node, x: Node, other: Shape) -> Node:
    """`gradient`, of the shape of `x` once that is broadcast with another, summed to that of `x`."""
    return gradient if _fits_into(other, x.shape) else ops.sum_to(gradient, x)


def has_shape_of_value(node: Node, position: int) -> bool:
    """Whether an operand of a node that broadcasts its operands has the shape of its value, in every run."""
    x = node.operands[position]
    shape = shape_of(x)
    return all(_fits_into(shape_of(one), shape) for one in node.operands if one is not x)


def shape_of(operand: Operand) -> Shape:
    """The shape of an operand; a Python number has rank 0."""
    return operand.shape if isinstance(operand, Node) else ()


@overload
def conjugate(x: Node) -> Node: ...
@overload
def conjugate(x: Operand) -> Operand: ...
def conjugate(x: Operand) -> Operand:
    """The complex conjugate; `x` itself if it is known to be real."""
    if not isinstance(x, Node):
        return x.conjugate()
    return ops.conj(x) if x.dtype is None or x.dtype.kind == "c" else x


def _fits_into(other: Shape, shape: Shape) -> bool:
    """Whether a value of `shape` keeps it in every run, when it is broadcast with one of shape `other`."""
    if not other:
        return other is not None
    if shape is None or len(other) > len(shape):
        return False
    behind = shape[len(shape) - len(other) :]
    return all(_stays(dim, by) for dim, by in zip(behind, other, strict=True))


def _stays(dim: Dim, by: Dim) -> bool:
    # What meets a literal other than 1 is that, or 1, or an error when it runs.
    return by == 1 or (dim is not None and dim == by) or (isinstance(dim, int) and dim != 1)


def expanded(gradient: Node, node: Node) -> Node:
    """`gradient`, of the shape of a reduction or one number, with the reduced axes as dimensions of 1."""
    axis = cast(Axes, node.params.get("axis"))
    # Without an axis it has rank 0, and can be broadcast as it is.
    if node.params.get("keepdims") or axis is None or axis == () or gradient.ndim == 0:
        return gradient
    return ops.expand_dims(gradient, axis)


def reduced_count(node: Node) -> int | Node:
    """How many elements each of a reduction's results was made of: an int if it is known, or else a float64 node."""
    known = known_count(node)
    return build("size_of", node.inputs, reduced_axes(node)) if known is None else known


def known_count(node: Node) -> int | None:
    """How many elements each of a reduction's results was made of; `None` if only a run knows."""
    shape = node.inputs[0].shape
    if shape is None:
        return None
    sizes = [shape[one] for one in normalize_axes(cast(Axes, node.params.get("axis")), len(shape))]
    known = [size for size in sizes if isinstance(size, int)]
    return prod(known) if len(known) == len(sizes) else None


def reduced_axes(node: Node) -> Params:
    """The axes of a reduction, as params."""
    axis = node.params.get("axis")
    return NO_PARAMS if axis is None else {"axis": axis}


def reshaped(gradient: Node, x: Node) -> Node:
    """The elements of `gradient` in the shape of `x`."""
    if x.shape is not None:
        sizes = [dim if isinstance(dim, int) else -1 for dim in x.shape]
        # Beside a 0, a -1 could be anything.
        if sizes.count(-1) == 0 or (sizes.count(-1) == 1 and 0 not in sizes):
            return ops.reshape(gradient, tuple(sizes))
    return build("reshape_like", (gradient, x))
