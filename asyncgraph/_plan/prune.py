"""What the fetches need, and no more: the graph is cut at fed nodes, and at variables that have a value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from .._graph.control import CONTROL_OPS
from .._graph.node import Node
from .._graph.op import LOOP_VALUE, OUTPUT, PLACEHOLDER, VARIABLE
from .._graph.variable import Variable
from ..errors import FeedError, FetchError, MissingFeedError
from .bodies import prune_levels
from .program import CHECK_EVERY, Checkpoint, Program
from .state import State, has_state, settle, sources_before


def prune(
    fetches: Iterable[Node],
    feeds: Iterable[Node],
    checkpoint: Checkpoint,
    uninitialized: Collection[Variable] = (),
    stores: bool = False,
) -> Program:
    """The program of the ancestors of `fetches`, by data and control edges, that are not behind a fed node.

    Variables that are `uninitialized` are computed from their initial values, all others are cut off from them.
    If it `stores`, the feeds are variables, and are assigned what is fed.

    Raises:
        MissingFeedError: a placeholder without a default is among them; all such are named.
        FetchError, FeedError: a node of control flow is fetched itself, or a value of one iteration is fed.
    """
    wanted, given = tuple(dict.fromkeys(fetches)), tuple(dict.fromkeys(feeds))
    if stores:
        return Program((), given, (), state=State({}, {}, {one: one for one in given if isinstance(one, Variable)}, ()))
    nodes = _ancestors(wanted, given, uninitialized, _NO_ORDER, checkpoint)
    if any(node.op in CONTROL_OPS for node in nodes):
        _check_fetched(wanted, given)
        program = prune_levels(wanted, given, uninitialized, checkpoint)
        _check_fed([node for level in program.levels() for node in level.nodes])
        return program
    stateful = has_state(nodes)
    before = sources_before(nodes) if stateful else _NO_ORDER
    if before:
        nodes = _ancestors(wanted, given, uninitialized, before, checkpoint)
    _check_fed(nodes)
    size = len(wanted[0].graph) if wanted else 0
    pruned = size - len(nodes) - len(given)
    if not stateful:
        return Program(wanted, given, tuple(nodes), pruned)
    state = settle(nodes, frozenset(given), before, uninitialized)
    # What takes its value from another node and waits for nothing is that node.
    same: dict[Node, Node] = {}
    for node, source in state.sources.items():
        if isinstance(node, Variable) or not node.after:
            same[node] = same.get(source, source)
    computed = tuple([node for node in nodes if node not in state.stored and node not in same])
    return Program(wanted, given, computed, pruned, state, same=same)


_NO_ORDER: Final[Mapping[Node, Node]] = {}


def _ancestors(
    fetches: tuple[Node, ...],
    feeds: tuple[Node, ...],
    uninitialized: Collection[Variable],
    before: Mapping[Node, Node],
    checkpoint: Checkpoint,
) -> list[Node]:
    """Depth-first, inputs first, without recursion. `before` says what some nodes wait for besides their inputs."""
    done: dict[Node, bool] = dict.fromkeys(feeds, True)
    order: list[Node] = []
    for fetch in fetches:
        stack = [fetch]
        while stack:
            node = stack[-1]
            state = done.get(node)
            if state is None:
                done[node] = False
                if node.op is VARIABLE and node not in uninitialized:
                    continue  # It stays on the stack, and is done next.
                if node in before and before[node] not in done:
                    stack.append(before[node])
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


def _check_fetched(wanted: Collection[Node], given: Collection[Node]) -> None:
    for node in wanted:
        if node.op in CONTROL_OPS and node not in set(given):
            outputs = [repr(one.name) for one in node.graph.nodes if one.op is OUTPUT and one.inputs[0] is node]
            raise FetchError(
                f"{node!r} has no value of its own\n  built at {node.site}\n  fetch what it gives: {', '.join(outputs)}"
            )
    for node in given:
        if node.op is LOOP_VALUE:
            raise FeedError(
                f"{node!r} is a value of one iteration of a loop, and has another in each\n"
                f"  built at {node.site}\n  feed what the loop begins with"
            )


def _check_fed(nodes: list[Node]) -> None:
    missing = [node for node in nodes if node.op is PLACEHOLDER and "default" not in node.params]
    if missing:
        raise MissingFeedError(_missing(missing))
    for node in nodes:
        if node.op is LOOP_VALUE:
            raise MissingFeedError(
                f"{node!r} is a value of one iteration of a loop, and is needed outside of it\n"
                f"  built at {node.site}\n  use what while_loop gives"
            )


def _missing(nodes: list[Node]) -> str:
    lines = [f"  {node.name}: {node.spec!r}, built at {node.site}" for node in nodes[:10]]
    if len(nodes) > 10:
        lines.append(f"  and {len(nodes) - 10} more")
    names = ", ".join(repr(node.name) for node in nodes[:10])
    return "\n".join([f"no value was fed for {names}, which the fetches need", *lines])
