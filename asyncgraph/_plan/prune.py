"""What the fetches need, and no more: the graph is cut at fed nodes."""

from __future__ import annotations

from collections.abc import Iterable

from .._graph.node import Node
from .._graph.op import PLACEHOLDER
from ..errors import MissingFeedError
from .program import CHECK_EVERY, Checkpoint, Program


def prune(fetches: Iterable[Node], feeds: Iterable[Node], checkpoint: Checkpoint) -> Program:
    """The program of the ancestors of `fetches`, by data and control edges, that are not behind a fed node.

    Raises:
        MissingFeedError: a placeholder without a default is among them; all such are named.
    """
    wanted, given = tuple(dict.fromkeys(fetches)), tuple(dict.fromkeys(feeds))
    nodes = _ancestors(wanted, given, checkpoint)
    missing = [node for node in nodes if node.op is PLACEHOLDER and "default" not in node.params]
    if missing:
        raise MissingFeedError(_missing(missing))
    size = len(wanted[0].graph) if wanted else 0
    return Program(wanted, given, tuple(nodes), pruned=size - len(nodes) - len(given))


def _ancestors(fetches: tuple[Node, ...], feeds: tuple[Node, ...], checkpoint: Checkpoint) -> list[Node]:
    """Depth-first, inputs first, without recursion."""
    done: dict[Node, bool] = dict.fromkeys(feeds, True)
    order: list[Node] = []
    for fetch in fetches:
        stack = [fetch]
        while stack:
            node = stack[-1]
            state = done.get(node)
            if state is None:
                done[node] = False
                for one in reversed(node.inputs):
                    if one not in done:
                        stack.append(one)
                for one in reversed(node.after):
                    if one not in done:
                        stack.append(one)
            else:
                stack.pop()
                if not state:
                    done[node] = True
                    order.append(node)
                    if not len(order) % CHECK_EVERY:
                        checkpoint()
    return order


def _missing(nodes: list[Node]) -> str:
    lines = [f"  {node.name}: {node.spec!r}, built at {node.site}" for node in nodes[:10]]
    if len(nodes) > 10:
        lines.append(f"  and {len(nodes) - 10} more")
    names = ", ".join(repr(node.name) for node in nodes[:10])
    return "\n".join([f"no value was fed for {names}, which the fetches need", *lines])
