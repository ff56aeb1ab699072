"""What nodes of control flow run, as programs of their own.

A level is what runs together: a program, or what one branch of a "cond" or one iteration of a "while_loop" runs. A
node belongs to the outermost level that needs it whatever is taken. What one branch alone needs belongs to that. What
more than one may need is delayed: it is a level of its own, which runs when something that is taken needs it first. So
a node runs at most once each time its level does, and only for what is taken; and it is planned once, however often
`cond`s are nested in each other, or follow one another.

Two kinds of nodes belong elsewhere: variables, which have one value in a run, to the program; and an assignment to
where it was built.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

from .._graph.control import CONTROL_OPS, DELAYED, FORCED, branches_of, lazy_inputs, loop_of, scopes_of
from .._graph.node import Node
from .._graph.op import ASSIGN, COND, CONSTANT, NO_PARAMS, OUTPUT, PLACEHOLDER, VARIABLE, WHILE_LOOP, Op
from .._graph.spec import ANY, ArraySpec
from .._graph.variable import Variable, branch_of
from ..errors import GraphError
from .program import CHECK_EVERY, Bodies, Checkpoint, Program
from .state import State, last_assigned, settle, sources_before

Needs = Callable[[Node], Iterable[Node]]
_INSIDE: Final = -1
"""In the path of a level that is no branch."""


def prune_levels(
    wanted: tuple[Node, ...], given: tuple[Node, ...], uninitialized: Collection[Variable], checkpoint: Checkpoint
) -> Program:
    """As `prune`, for fetches that need nodes of control flow; the caller looks for what was not fed."""
    fed = frozenset(given)

    def anything(node: Node) -> Iterable[Node]:
        if node.op is VARIABLE and node not in uninitialized:
            return ()
        return (*node.after, *node.inputs, *lazy_inputs(node), *_looped(node))

    nodes = _ordered(wanted, anything, fed.__contains__, checkpoint)
    before = sources_before(nodes)
    # What is read is settled for all levels at once: what is built in one counts in those inside.
    nodes = _ordered(wanted, lambda node: (*_before(before, node), *anything(node)), fed.__contains__, checkpoint)
    state = settle(nodes, fed, before, uninitialized)
    stored = [node for node in nodes if node in state.stored or node.op is VARIABLE]
    try:
        top = _Levels(state.sources, fed, checkpoint).level((*wanted, *stored), nodes, (), {})
    except RecursionError as error:
        raise nested_too_deeply() from error
    kept = State(state.stored, state.sources, last_assigned(top.nodes, uninitialized), state.initialized)
    program = top.program(wanted, given, state.sources)
    computed = tuple([node for node in program.nodes if node not in state.stored])
    pruned = len(wanted[0].graph) - len(nodes) - len(given)
    return Program(wanted, given, computed, pruned, kept, program.bodies, same=program.same)


def nested_too_deeply() -> GraphError:
    """The error of a run in which branches and loops run others, and these others, as deep as Python's stack goes."""
    return GraphError(
        "cond and while_loop are nested too deeply in each other\n"
        "  what a cond alone uses is nested in it, too: write control_dependencies to have it computed before"
    )


def _before(before: Mapping[Node, Node], node: Node) -> tuple[Node, ...]:
    return (before[node],) if node in before else ()


def _looped(node: Node) -> tuple[Node, ...]:
    if node.op is not WHILE_LOOP:
        return ()
    loop = loop_of(node)
    return (*loop.values, loop.condition, *loop.body)


def _ordered(wanted: Iterable[Node], needs: Needs, cut: Callable[[Node], bool], checkpoint: Checkpoint) -> list[Node]:
    """What `wanted` need, and these themselves, inputs first, but for what is `cut`."""
    done: dict[Node, bool] = {}
    order: list[Node] = []
    for root in wanted:
        stack = [root]
        while stack:
            node = stack[-1]
            if node not in done:
                done[node] = is_cut = cut(node)
                if is_cut:
                    stack.pop()
                else:
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
class _Place(NamedTuple):
    """Where in a level nodes belong: to it itself, to a branch of one of its nodes, or to what is delayed in it."""

    of: Node | None
    side: int


_HERE: Final = _Place(None, 0)


@final
class _Delayed(NamedTuple):
    """A node that is delayed.

    Fields:
        maker: what stands for the delayed value, in the level that the node is delayed in and in those inside.
        forced: what its level always needs that is delayed as well.
    """

    maker: Node
    forced: tuple[Node, ...]


_Visible = Mapping[Node, _Delayed]
"""What is delayed outside of a level, and has not been forced there."""


@final
@dataclass(slots=True)
class _Level:
    """One level.

    Fields:
        nodes: what belongs to it, in order.
        values, makers: what it is given by levels outside: values, and what is delayed; in the order of the graph.
        forced: for what it forces of that: the node that does.
        bodies: what its nodes of control flow run; what is delayed stands before what is given it.
    """

    nodes: list[Node]
    values: list[Node]
    makers: list[Node]
    forced: dict[Node, Node]
    bodies: dict[Node, Bodies]

    def program(self, wanted: Sequence[Node], given: Sequence[Node], sources: Mapping[Node, Node]) -> Program:
        """The program of the level, which gives `wanted` and is given `given`."""
        same: dict[Node, Node] = dict(self.forced)
        own: dict[Node, Node] = {}
        for node in self.nodes:
            source = sources.get(node)
            if source is not None:
                own[node] = source
                if isinstance(node, Variable) or not node.after:
                    same[node] = same.get(source, source)
        nodes = tuple([node for node in self.nodes if node not in same])
        state = State({}, own, {}, ())
        return Program(tuple(dict.fromkeys(wanted)), tuple(given), nodes, 0, state, self.bodies, same=same)


@final
@dataclass(slots=True)
class _Sweep:
    """Finds out where in a level nodes belong: from what needs others to what they need, which was built before.

    Fields:
        asked: for each node that is needed: in which places, and whether it is whatever is taken there.
        members: the nodes of each place.
    """

    asked: dict[Node, dict[_Place, bool]] = field(default_factory=dict[Node, dict[_Place, bool]])
    members: dict[_Place, list[Node]] = field(default_factory=dict[_Place, list[Node]])

    def ask(self, nodes: Iterable[Node], place: _Place, always: bool) -> None:
        """`nodes` are needed in a place."""
        for one in nodes:
            asked = self.asked.setdefault(one, {})
            asked[place] = asked.get(place, False) or always

    def put(self, node: Node, path: tuple[int, ...]) -> list[tuple[_Place, bool]]:
        """Where a node belongs, once all that needs it has asked, and whether it is always needed there."""
        asked = self.asked.get(node)
        if asked is None:
            return []
        places = self._places(node, asked, path)
        for place, _ in places:
            self.members.setdefault(place, []).append(node)
        return places

    def _places(self, node: Node, asked: dict[_Place, bool], path: tuple[int, ...]) -> list[tuple[_Place, bool]]:
        if _HERE in asked or (node.op is ASSIGN and branch_of(node) == path):
            return [(_HERE, True)]
        if len(asked) == 1 or (node.op in _KNOWN and not node.after):
            return list(asked.items())
        if any(always and asked.get(_Place(place.of, 1 - place.side)) for place, always in asked.items()):
            return [(_HERE, True)]  # Both branches of one node need it, whatever is taken in them.
        return [(_Place(node, _INSIDE), True)]


_KNOWN: Final = frozenset({CONSTANT, PLACEHOLDER})
"""Ops of nodes that take nothing to compute."""


@final
class _Levels:
    """Finds the levels of a run, whose variables are settled. Recurses as deep as control flow is nested."""

    def __init__(self, sources: Mapping[Node, Node], fed: Collection[Node], checkpoint: Checkpoint) -> None:
        self._sources: Final = sources
        self._fed: Final = fed
        self._checkpoint: Final = checkpoint
        self._used: Final[dict[Node, set[int]]] = {}
        self._loops: Final[dict[Node, tuple[list[Node], list[Node], tuple[Node, ...]]]] = {}

    def level(
        self, wanted: Sequence[Node], candidates: Sequence[Node], path: tuple[int, ...], visible: _Visible
    ) -> _Level:
        """The level that computes `wanted`, to which of `candidates` those belong that are needed nowhere else.

        `path` says which branch it is, and `visible` what is delayed outside of it.
        """
        members = self._swept(wanted, candidates, path)
        here = members.pop(_HERE, [])
        level = _Level([], [], [], self._forced(wanted, here, visible), {})
        inside, bodies = frozenset(here), level.bodies
        for one, forcing in level.forced.items():
            bodies[forcing] = Bodies((), (), (visible[one].maker,))
        seen = {one: known for one, known in visible.items() if one not in level.forced}
        for place in reversed(list(members)):
            if place.side == _INSIDE and place.of is not None:
                made = self.level((place.of,), members[place], (*path, _INSIDE), seen)
                maker = _node_of_plan(place.of, DELAYED, (), ANY)
                bodies[maker] = self._bodies_of([((place.of,), made)], (), ())
                seen[place.of] = _Delayed(maker, tuple(made.forced))
        for node in here:
            if node.op in CONTROL_OPS:
                bodies[node] = self._bodies(node, members, path, seen)
        self._complete(level, wanted, inside)
        return level

    def _swept(
        self, wanted: Sequence[Node], candidates: Sequence[Node], path: tuple[int, ...]
    ) -> dict[_Place, list[Node]]:
        """Which of `candidates` belong where in a level."""
        sweep = _Sweep()
        sweep.ask(wanted, _HERE, True)
        for count, node in enumerate(sorted(candidates, key=lambda one: -one.index), 1):
            if not count % CHECK_EVERY:
                self._checkpoint()
            for place, always in sweep.put(node, path):
                sweep.ask(self._needs(node), place, always)
                if node.op is OUTPUT and node.inputs[0].op is COND:
                    self._used.setdefault(node.inputs[0], set()).add(int(str(node.params["index"])))
                elif node.op is COND:
                    for side, results in enumerate(self._results(node)):
                        sweep.ask(results, _Place(node, side) if place is _HERE else place, place is _HERE)
        return sweep.members

    def _needs(self, node: Node) -> tuple[Node, ...]:
        """What is computed before a node, whatever is taken."""
        source = self._sources.get(node)
        if source is not None:
            return (*node.after, source)
        if node.op is VARIABLE:
            return ()
        if node.op is COND:
            return (*node.after, *node.inputs[:1])
        return (*node.after, *node.inputs, *(self._loop(node)[2] if node.op is WHILE_LOOP else ()))

    def _results(self, node: Node) -> tuple[tuple[Node, ...], ...]:
        """What the branches of a node of "cond" give. In place of what nobody uses stands something else."""
        results = branches_of(node)
        used = self._used.get(node)
        if not used:
            return results
        first = min(used)
        return tuple([tuple([one if i in used else each[first] for i, one in enumerate(each)]) for each in results])

    def _loop(self, node: Node) -> tuple[list[Node], list[Node], tuple[Node, ...]]:
        """Of a loop, what its condition and its body need that was built for it; and what they need besides."""
        found = self._loops.get(node)
        if found is None:
            loop = loop_of(node)
            outside: dict[Node, None] = {}
            own = frozenset(loop.values)

            def is_outside(one: Node) -> bool:
                if one.index >= loop.start and one not in self._fed:
                    return one in own
                outside[one] = None
                return True

            def needs(one: Node) -> Iterable[Node]:
                return (*self._needs(one), *lazy_inputs(one))

            condition = _ordered((loop.condition,), needs, is_outside, self._checkpoint)
            body = _ordered(loop.body, needs, is_outside, self._checkpoint)
            found = self._loops[node] = condition, body, tuple(outside)
        return found

    def _forced(self, wanted: Sequence[Node], here: Sequence[Node], visible: _Visible) -> dict[Node, Node]:
        """Of what is delayed outside, what a level always needs, inputs first; with what forces it."""
        if not visible:
            return {}
        needed = dict.fromkeys(wanted)
        for node in here:
            needed.update(dict.fromkeys(self._needs(node)))
        # Forced in this order, none forces another in turn, however long a chain of them is.
        order = _ordered(
            [one for one in needed if one in visible],
            lambda one: visible[one].forced,
            lambda one: one not in visible,
            self._checkpoint,
        )
        return {one: _node_of_plan(one, FORCED, (visible[one].maker,), one.spec) for one in order}

    def _bodies(
        self, node: Node, members: Mapping[_Place, Sequence[Node]], path: tuple[int, ...], seen: _Visible
    ) -> Bodies:
        """What a node runs that belongs to a level."""
        if node.op is COND:
            levels = [
                (results, self.level(results, members.get(_Place(node, side), ()), (*path, scope), seen))
                for side, (results, scope) in enumerate(zip(self._results(node), scopes_of(node), strict=True))
            ]
            return self._bodies_of(levels, node.inputs[:1], ())
        loop = loop_of(node)
        condition, body, _ = self._loop(node)
        levels = [
            (results, self.level(results, candidates, (*path, _INSIDE), seen))
            for results, candidates in (((loop.condition,), condition), (loop.body, body))
        ]
        return self._bodies_of(levels, node.inputs[: len(loop.values)], loop.values)

    def _bodies_of(
        self, levels: Sequence[tuple[tuple[Node, ...], _Level]], first: tuple[Node, ...], own: tuple[Node, ...]
    ) -> Bodies:
        """The programs of levels that are given the values of `first` as `own`, and then what they capture."""
        captured = dict.fromkeys([one for _, level in levels for one in (*level.values, *level.makers)])
        for one in own:
            captured.pop(one, None)
        given = (*own, *captured)
        programs = [level.program(results, given, self._sources) for results, level in levels]
        return Bodies(tuple(programs), tuple([results for results, _ in levels]), (*first, *captured))

    def _complete(self, level: _Level, wanted: Sequence[Node], inside: frozenset[Node]) -> None:
        """Puts the nodes of a level into their order, and finds what it is given."""
        forced, bodies = level.forced, level.bodies
        values: dict[Node, None] = {}
        makers: dict[Node, None] = {}

        def is_given(node: Node) -> bool:
            if node in inside or node in bodies:
                return False
            (makers if node.op is DELAYED else values)[node] = None
            return True

        def needs(node: Node) -> Iterable[Node]:
            first = () if node.op is DELAYED or node.op is FORCED else self._needs(node)
            taken = bodies[node].takes if node in bodies else ()
            return [forced.get(one, one) for one in (*first, *taken)]

        roots = [*forced.values(), *[forced.get(one, one) for one in wanted]]
        level.nodes = _ordered(roots, needs, is_given, self._checkpoint)
        level.values = sorted(values, key=lambda one: one.index)
        level.makers = sorted(makers, key=lambda one: one.index)


def _node_of_plan(node: Node, op: Op, operands: tuple[Node, ...], spec: ArraySpec) -> Node:
    """A node that is in no graph, about one that is."""
    name = f"{node.name}:{op.name}"
    return Node(node.graph, node.index, op, operands, operands, NO_PARAMS, (), spec, None, name, node.raw_site)
