"""What nodes of control flow run, as programs of their own.

A level is what runs together: a program, or what one branch of a "cond" or one iteration of a "while_loop" runs. Nodes
belong to the outermost level that needs them whatever is taken: that a branch uses as well, it is given. All else
that a branch needs belongs to it. Three kinds of nodes are moved outwards: variables, which have one value in a run; an
assignment, to where it was built; and a user op that is not pure and that two branches of the level need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from .._graph.control import CONTROL_OPS, branches_of, eager_inputs, lazy_inputs, loop_of, scopes_of
from .._graph.node import Node
from .._graph.op import ASSIGN, COND, VARIABLE
from .._graph.variable import Variable, branch_of
from .program import CHECK_EVERY, Bodies, Checkpoint, Program
from .state import State, settle, sources_before

Needs = Callable[[Node], Iterable[Node]]


def prune_levels(
    wanted: tuple[Node, ...], given: tuple[Node, ...], uninitialized: Collection[Variable], checkpoint: Checkpoint
) -> Program:
    """As `prune`, for fetches that need nodes of control flow; the caller looks for what was not fed."""
    fed = frozenset(given)

    def anything(node: Node) -> Iterable[Node]:
        if node.op is VARIABLE and node not in uninitialized:
            return ()
        return (*node.after, *node.inputs, *lazy_inputs(node), *_looped(node))

    nodes = ordered(wanted, anything, [fed], checkpoint)
    before = sources_before(nodes)
    # What is read is settled for all levels at once: what is built in one counts in those inside.
    nodes = ordered(wanted, lambda node: (*_before(before, node), *anything(node)), [fed], checkpoint)
    state = settle(nodes, fed, before, uninitialized)
    levels = _Levels(state, checkpoint)
    stored = [node for node in nodes if node in state.stored or node.op is VARIABLE]
    top = levels.level((*wanted, *stored), [fed], ())
    assigned = {variable: node for variable, node in state.assigned.items() if node in top.inside}
    program = levels.program(wanted, given, top)
    kept = State(state.stored, state.sources, assigned, state.initialized)
    return _with_state(program, kept, len(wanted[0].graph) - len(top.nodes) - len(given))


def _with_state(program: Program, state: State, pruned: int) -> Program:
    nodes = tuple([node for node in program.nodes if node not in state.stored])
    return Program(program.fetches, program.feeds, nodes, pruned, state, program.bodies, same=program.same)


def _before(before: dict[Node, Node], node: Node) -> tuple[Node, ...]:
    return (before[node],) if node in before else ()


def _looped(node: Node) -> tuple[Node, ...]:
    if node.op not in CONTROL_OPS or node.op is COND:
        return ()
    loop = loop_of(node)
    return (*loop.values, loop.condition, *loop.body)


def ordered(
    wanted: Iterable[Node], needs: Needs, cut: Sequence[Collection[Node]], checkpoint: Checkpoint
) -> list[Node]:
    """What `wanted` need, and these themselves, inputs first, but for what is in one of `cut`."""
    done: dict[Node, bool] = {}
    order: list[Node] = []
    for root in wanted:
        stack = [root]
        while stack:
            node = stack[-1]
            if node not in done and any(node in each for each in cut):
                done[node] = True
                stack.pop()
            elif node not in done:
                done[node] = False
                stack += [one for one in needs(node) if one not in done]
            else:
                stack.pop()
                if not done[node]:
                    done[node] = True
                    order.append(node)
                    if not len(order) % CHECK_EVERY:
                        checkpoint()
    return order


@final
@dataclass(slots=True)
class _Level:
    """One level.

    Fields:
        nodes: what belongs to it, in order; `inside` is the same.
        captures: what it is given by levels outside, in the order of the graph.
        bodies: what its nodes of control flow run.
    """

    nodes: list[Node]
    inside: frozenset[Node]
    captures: list[Node]
    bodies: dict[Node, Bodies] = field(default_factory=dict[Node, Bodies])


@final
class _Levels:
    """Finds the levels of a run, whose variables are settled. Recurses as deep as control flow is nested."""

    def __init__(self, state: State, checkpoint: Checkpoint) -> None:
        self._sources: Final = state.sources
        self._checkpoint: Final = checkpoint

    def level(self, wanted: Sequence[Node], outside: Sequence[Collection[Node]], path: tuple[int, ...]) -> _Level:
        """The level that computes `wanted`, where all that is `outside` is there already."""
        roots = list(dict.fromkeys(wanted))
        while True:
            nodes = ordered(roots, self._needs, outside, self._checkpoint)
            inside = frozenset(nodes)
            moved = self._moved(nodes, [*outside, inside], path)
            if not moved:
                break
            roots += moved
        bodies: dict[Node, Bodies] = {}
        captures: dict[Node, None] = {}
        for node in nodes:
            if node.op in CONTROL_OPS:
                bodies[node] = self._bodies(node, [*outside, inside], path)
                captures.update(dict.fromkeys([one for one in bodies[node].takes if one not in inside]))
        for node in (*nodes, *wanted):
            used = (node,) if node not in inside else self._needs(node)
            captures.update(dict.fromkeys([one for one in used if one not in inside]))
        if bodies:
            nodes = ordered(
                roots,
                lambda node: (*self._needs(node), *(bodies[node].takes if node in bodies else ())),
                outside,
                self._checkpoint,
            )
        return _Level(nodes, inside, sorted(captures, key=lambda one: one.index), bodies)

    def program(self, wanted: Sequence[Node], given: Sequence[Node], level: _Level) -> Program:
        """The program of a level that gives `wanted`."""
        same: dict[Node, Node] = {}
        sources: dict[Node, Node] = {}
        for node in level.nodes:
            source = self._sources.get(node)
            if source is not None:
                sources[node] = source
                if isinstance(node, Variable) or not node.after:
                    same[node] = same.get(source, source)
        nodes = tuple([node for node in level.nodes if node not in same])
        state = State({}, sources, {}, ())
        return Program(tuple(dict.fromkeys(wanted)), tuple(given), nodes, 0, state, level.bodies, same=same)

    def _needs(self, node: Node) -> tuple[Node, ...]:
        source = self._sources.get(node)
        if source is not None:
            return (*node.after, source)
        return node.after if node.op is VARIABLE else (*node.after, *eager_inputs(node))

    def _bodies(self, node: Node, outside: Sequence[Collection[Node]], path: tuple[int, ...]) -> Bodies:
        if node.op is COND:
            results = branches_of(node)
            levels = [
                self.level(each, outside, (*path, scope)) for each, scope in zip(results, scopes_of(node), strict=True)
            ]
            own: tuple[Node, ...] = ()
            first = node.inputs[:1]
        else:
            loop = loop_of(node)
            own = loop.values
            results = ((loop.condition,), loop.body)
            levels = [self.level(each, [*outside, frozenset(own)], (*path, -1)) for each in results]
            first = node.inputs[: len(own)]
        captured = [
            one for one in dict.fromkeys([one for each in levels for one in each.captures]) if one not in set(own)
        ]
        programs = [self.program(each, (*own, *captured), level) for each, level in zip(results, levels, strict=True)]
        return Bodies(tuple(programs), results, (*first, *captured))

    def _moved(self, nodes: Sequence[Node], outside: Sequence[Collection[Node]], path: tuple[int, ...]) -> list[Node]:
        """Of what the branches of a level need, what belongs to the level itself."""
        seen: dict[Node, int] = {}
        moved: list[Node] = []
        for count, node in enumerate([one for one in nodes if one.op is COND]):

            def needs(one: Node) -> Iterable[Node]:
                return (*self._needs(one), *lazy_inputs(one))

            for one in ordered(lazy_inputs(node), needs, outside, self._checkpoint):
                impure = one.op.call is not None and not one.op.pure
                if (impure and seen.setdefault(one, count) != count) or (one.op is ASSIGN and branch_of(one) == path):
                    moved.append(one)
        return moved
