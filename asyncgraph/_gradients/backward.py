"""The pass that builds gradients.

Nodes are numbered so that inputs come before what uses them. One sweep up the numbers finds the nodes between what is
differentiated by and what is differentiated; one down carries gradients along them, each node's complete when it is its
turn. Nothing recurses, and each edge is seen twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, cast, final

import numpy as np

from .. import ops
from .._graph.node import Node
from .._graph.op import OUTPUT
from .._graph.scopes import current_scope, device
from ..errors import GradientError, GraphError, SpecTypeError
from .fitting import has_shape_of_value
from .tables import Extent, Row, no_row, row_of

Path = dict[Node, tuple[int, ...]]
"""The nodes that gradients come to, in their order: for each, the positions of the operands that they go on to."""


def backward(
    ys: Sequence[Node], seeds: Sequence[object], xs: Sequence[Node], stop: Collection[Node]
) -> list[Node | None]:
    """The gradient of each of `xs`: the sum of what flows back to it from each of `ys`, which begins with its seed.

    A seed of `None` is ones. There is no gradient, but `None`, where nothing flows back. What comes to a node in `stop`
    goes no further. All nodes are of the current graph, and of known dtypes.

    Raises:
        GradientError: a gradient comes to a node whose op has no row, or does not build one.
        SpecTypeError, SpecError: a seed does not fit.
    """
    path = _path(ys, xs, stop)
    sums = _Sums()
    for y, seed in zip(ys, seeds, strict=True):
        if y in path:
            sums.add(y, 0, _seed(y, seed), seed is not None)
    for node in reversed(path):
        _carry(node, path[node], sums)
    return [sums.full(x).get(0) for x in xs]


@final
class _Sums:
    """What has flowed back to each value so far.

    Fields:
        _gradients: for each node, the gradients of its values, by their index; of most the one of index 0.
        _to_broadcast: nodes whose gradient may have a smaller shape than they, to be broadcast to theirs.
    """

    def __init__(self) -> None:
        self._gradients: Final[dict[Node, dict[int, Node]]] = {}
        self._to_broadcast: Final[set[Node]] = set()

    def add(self, node: Node, index: int, gradient: Node, is_full: bool = True) -> None:
        """One more part of the gradient of a value; `is_full` says that it has the value's shape."""
        gradients = self._gradients.setdefault(node, {})
        known = gradients.get(index)
        gradients[index] = gradient if known is None else known + gradient
        if is_full or (gradient.shape is not None and gradient.shape == node.shape and None not in gradient.shape):
            self._to_broadcast.discard(node)
        elif known is None:
            self._to_broadcast.add(node)

    def as_they_are(self, node: Node) -> dict[int, Node]:
        """The gradients of the values of a node that have any."""
        return self._gradients.get(node, {})

    def is_full(self, node: Node) -> bool:
        """Whether they have the shapes of these values."""
        return node not in self._to_broadcast

    def full(self, node: Node) -> dict[int, Node]:
        """The gradients of the values of a node that have any, in the shapes of these."""
        gradients = self.as_they_are(node)
        if node in self._to_broadcast:
            self._to_broadcast.remove(node)
            with _where(node):
                gradients[0] = ops.broadcast_like(gradients[0], node)
        return gradients


def _path(ys: Sequence[Node], xs: Sequence[Node], stop: Collection[Node]) -> Path:
    path: Path = {}
    ends = set(xs)
    for node in _behind(ys, min([x.index for x in xs], default=0), stop):
        positions = () if node in stop else _positions(node, path)
        if (positions or node in ends) and _has_gradient(node):
            path[node] = positions
    return path


def _behind(ys: Sequence[Node], first: int, stop: Collection[Node]) -> list[Node]:
    """The nodes from index `first` on that `ys` depend on, and these themselves, in order."""
    seen: set[Node] = set()
    todo = list(ys)
    while todo:
        node = todo.pop()
        if node.index >= first and node not in seen:
            seen.add(node)
            if node not in stop:
                todo.extend(node.inputs)
    return sorted(seen, key=lambda node: node.index)


def _positions(node: Node, path: Path) -> tuple[int, ...]:
    row = row_of(node)
    # Where there is no row, it matters only if a gradient comes.
    reached = range(len(node.operands)) if row is None or row.reaches is None else sorted(row.reaches)
    operands = node.operands
    return tuple([at for at in reached if isinstance(operands[at], Node) and operands[at] in path])


def _has_gradient(node: Node) -> bool:
    """Whether its value may be of real or complex numbers. Of other values nothing is a derivative."""
    return node.dtype is None or node.dtype.kind in "fc"


def _seed(y: Node, given: object) -> Node:
    if given is None:
        return ops.ones((), dtype=y.dtype)
    operand = y.graph.operand(given, "gradients")
    seed = operand if isinstance(operand, Node) else y.graph.constant(operand)
    if seed.dtype is not None and y.dtype is not None and not np.can_cast(seed.dtype, y.dtype, "same_kind"):
        raise SpecTypeError(f"gradients: {seed!r} in grad_ys does not fit {y!r}: it has another kind of dtype")
    return ops.broadcast_like(_fitted(seed, y), y)


def _carry(node: Node, positions: tuple[int, ...], sums: _Sums) -> None:
    """Carries the gradient of a node, if there is one, on to its operands."""
    if not sums.as_they_are(node) or not positions:
        return
    row = row_of(node)
    if row is None:
        raise no_row(node)
    try:
        with _where(node):
            gradients = sums.as_they_are(node) if _takes(row, node, positions, sums) else sums.full(node)
            gives_full = row.extent is Extent.FILLED or (row.extent is not Extent.SPREAD and sums.is_full(node))
            made = row.build(node, gradients, positions)
    except GradientError:
        raise
    except GraphError as error:
        error.add_note(f"asyncgraph: while the gradient of {node!r} was built\n  built at: {node.site or 'unknown'}")
        raise
    for position, gradient in zip(positions, made, strict=True):
        if gradient is not None:
            operand = cast(Node, node.operands[position])
            with _where(operand):
                if node.op is OUTPUT:
                    sums.add(operand, cast(int, node.params["index"]), gradient)
                else:
                    sums.add(operand, 0, _fitted(gradient, operand), gives_full)


def _takes(row: Row, node: Node, positions: tuple[int, ...], sums: _Sums) -> bool:
    """Whether the gradient of a node can be given to its row as it is."""
    if sums.is_full(node):
        return True
    if row.extent is Extent.SAME:
        return all(has_shape_of_value(node, at) for at in positions)
    # The gradient of an output goes to the row of its call.
    taker = row_of(node.inputs[0]) if node.op is OUTPUT else row
    is_wide = taker is not None and taker.extent in (Extent.SPREAD, Extent.FILLED)
    return is_wide and sums.as_they_are(node)[0].ndim in (0, node.ndim)


def _where(node: Node) -> AbstractContextManager[object]:
    """The scope of the device that the node was asked to run on, unless another one is in force."""
    wanted = node.requested_device
    return nullcontext() if wanted is None or current_scope().device is not None else device(wanted)


def _fitted(gradient: Node, x: Node) -> Node:
    """`gradient` in the dtype of `x`."""
    if x.dtype is None:
        raise GradientError(
            f"the gradient of {x!r} cannot be built: its dtype is not known\n"
            f"  built at: {x.site or 'unknown'}\n"
            "  give the placeholder a dtype, the user op a spec, or write ops.astype(x, 'float64')"
        )
    if gradient.dtype is not None and gradient.dtype == x.dtype:  # NumPy takes None for float64.
        return gradient
    if x.dtype.kind == "f" and (gradient.dtype is None or gradient.dtype.kind == "c"):
        gradient = ops.real(gradient)
    return ops.astype(gradient, x.dtype, copy=False)
