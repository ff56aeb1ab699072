"""What nodes of control flow run: read from their parameters, which hold indexes, so that graphs can be pickled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

from .node import Node
from .op import COND, WHILE_LOOP, Op

DELAYED: Final = Op("delayed", pure=False)
FORCED: Final = Op("forced", pure=False)
"""Ops of plans alone: of a value that is computed when it is first needed, and of where it is needed."""

CONTROL_OPS: Final = frozenset({COND, WHILE_LOOP, DELAYED, FORCED})
"""Ops whose nodes run other nodes."""


@final
@dataclass(frozen=True, slots=True)
class Loop:
    """What a node of the op "while_loop" runs.

    Fields:
        values: the nodes that stand for the values of an iteration. There is at least one.
        condition: whether there is another iteration.
        body: the values of the next one.
        most: how many iterations there are at most; `None` for any number.
    """

    values: tuple[Node, ...]
    condition: Node
    body: tuple[Node, ...]
    most: int | None

    @property
    def start(self) -> int:
        """The index of the first node that was built for it: what was built before runs before the loop."""
        return self.values[0].index


def loop_of(node: Node) -> Loop:
    """What a node of the op "while_loop" runs."""
    params = cast("dict[str, Any]", node.params)
    (condition,) = _nodes(node, (params["condition"],))
    return Loop(_nodes(node, params["values"]), condition, _nodes(node, params["body"]), params["most"])


def branches_of(node: Node) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """What a node of the op "cond" gives, if its condition is true, and if it is not."""
    true, false = cast("tuple[tuple[int, ...], tuple[int, ...]]", node.params["branches"])
    return _nodes(node, true), _nodes(node, false)


def captures_of(node: Node) -> tuple[Node, ...]:
    """What a node of "cond" uses that does not belong to branches: not even to those of which it is a gradient."""
    inside = frozenset(cast("tuple[int, ...]", node.params.get("inside", ())))
    return tuple([one for one in node.inputs[1:] if one.index not in inside])


def lazy_inputs(node: Node) -> tuple[Node, ...]:
    """The nodes that a node of "cond" runs if it needs them."""
    if node.op is not COND:
        return ()
    true, false = branches_of(node)
    return true + false


def _nodes(node: Node, indexes: Sequence[int]) -> tuple[Node, ...]:
    nodes = node.graph.nodes
    return tuple([nodes[index] for index in indexes])
