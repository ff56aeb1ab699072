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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast, final

from .._graph.control import CONTROL_OPS, DELAYED, FORCED, branches_of, lazy_inputs, loop_of
from .._graph.node import Node
from .._graph.op import COND, CONSTANT, NO_PARAMS, OUTPUT, PLACEHOLDER, VARIABLE, WHILE_LOOP, Op
from .._graph.spec import ANY
from .._graph.variable import Variable
from ..errors import GraphError
from .places import ALWAYS, Group, Place, Sweep
from .program import CHECK_EVERY, Bodies, Checkpoint, Program
from .state import State, last_assigned, settle, sources_before

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

    nodes = _ordered(wanted, anything, fed.__contains__, checkpoint)
    before = sources_before(nodes)
    # What is read is settled for all levels at once: what is built in one counts in those inside.
    nodes = _ordered(wanted, lambda node: (*_before(before, node), *anything(node)), fed.__contains__, checkpoint)
    state = settle(nodes, fed, before, uninitialized)
    stored = [node for node in nodes if node in state.stored or node.op is VARIABLE]
    try:
        top = _Levels(state.sources, fed, checkpoint).root((*wanted, *stored), nodes, {})
    except RecursionError as error:
        raise nested_too_deeply() from error
    kept = State(state.stored, state.sources, last_assigned(top.nodes, uninitialized), state.initialized)
    program = top.program(wanted, given, state.sources)
    computed = tuple([node for node in program.nodes if node not in state.stored])
    pruned = len(wanted[0].graph) - len(nodes) - len(given)
    return Program(wanted, given, computed, pruned, kept, program.bodies, same=program.same)


MOST_NESTED: Final = 200
"""Levels inside of each other: computing one takes three of Python's frames, of which a stack has 1000."""


def nested_too_deeply() -> GraphError:
    """The error of a run in which branches and loops run others, and these others, deeper than the stack allows."""
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
@dataclass(slots=True)
class _Shared:
    """What nodes of a level share that may not be needed: it is delayed.

    Fields:
        maker: what stands for it, in that level and in those inside.
        values: the nodes whose values it gives, and the position of each.
        forces: what is delayed as well and its own level always needs.
    """

    maker: Node
    values: dict[Node, int]
    forces: list[Node] = field(default_factory=list[Node])


_Visible = Mapping[Node, _Shared]
"""For nodes that are delayed outside of a level, and not forced there: with what."""


@final
@dataclass(slots=True)
class _Level:
    """One level.

    Fields:
        inside: the nodes of the graph that belong to it.
        nodes: what it computes, in order.
        values, makers: what it is given by levels outside: values, and what is delayed; in an order of their own.
        forced: for what it forces of that: the node that stands for it.
        bodies: what its nodes of control flow run; what is delayed stands before what is given it.
    """

    inside: frozenset[Node]
    nodes: list[Node] = field(default_factory=list[Node])
    values: list[Node] = field(default_factory=list[Node])
    makers: list[Node] = field(default_factory=list[Node])
    forced: dict[Node, Node] = field(default_factory=dict[Node, Node])
    bodies: dict[Node, Bodies] = field(default_factory=dict[Node, Bodies])

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


_KNOWN: Final = frozenset({CONSTANT, PLACEHOLDER})
"""Ops of nodes that take nothing to compute: they belong wherever they are needed."""


@final
class _Levels:
    """Finds the levels of a run, whose variables are settled. Recurses as deep as control flow is nested.

    Fields:
        _sources: for nodes that have no computation of their own, the node whose value is theirs.
        _fed: what is given to the run.
        _depth: how many levels are being found, each inside of the one before.
        _used: which of the values of a "cond" something needs.
        _loops: of loops that have been looked at, what `_loop` gives.
    """

    def __init__(self, sources: Mapping[Node, Node], fed: Collection[Node], checkpoint: Checkpoint) -> None:
        self._sources: Final = sources
        self._fed: Final = fed
        self._checkpoint: Final = checkpoint
        self._depth = 0
        self._used: Final[dict[Node, set[int]]] = {}
        self._loops: Final[dict[Node, tuple[list[Node], list[Node], tuple[Node, ...]]]] = {}

    def root(self, wanted: Sequence[Node], candidates: Iterable[Node], visible: _Visible) -> _Level:
        """The level that computes `wanted`, whatever is taken, of `candidates` and of what it is given."""
        sweep = Sweep(self._asks, self._results)
        sweep.sort(wanted, self._from_last(candidates))
        return self._level(sweep, sweep.members.get(ALWAYS, []), sweep.groups.get(ALWAYS, []), wanted, visible)

    def _from_last(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Nodes, last built first, without those that are known."""
        for count, node in enumerate(sorted(nodes, key=lambda one: -one.index), 1):
            if not count % CHECK_EVERY:
                self._checkpoint()
            if not self._is_known(node):
                yield node

    def _asks(self, node: Node) -> tuple[Node, ...]:
        """What is computed before a node that is needed."""
        if node.op is OUTPUT and node.inputs[0].op is COND:
            self._used.setdefault(node.inputs[0], set()).add(cast(int, node.params["index"]))
        return self._needs(node)

    def _level(
        self, sweep: Sweep, here: Sequence[Node], groups: Sequence[Group], wanted: Sequence[Node], visible: _Visible
    ) -> _Level:
        """One level of a sweep, that gives `wanted`. `groups` is what is delayed in it."""
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise RecursionError
        level = _Level(frozenset(here))
        self._force(level, self._delayed(wanted, here, visible), visible)
        seen = {one: shared for one, shared in visible.items() if one not in level.forced}
        if groups:
            seen |= self._shared(level, sweep, groups, seen)
        for node in here:
            if node.op in CONTROL_OPS:
                level.bodies[node] = self._bodies(node, sweep, seen)
        self._complete(level, wanted)
        self._depth -= 1
        return level

    def _is_known(self, node: Node) -> bool:
        return node.op in _KNOWN and not node.after and node not in self._fed

    def _delayed(self, wanted: Sequence[Node], here: Sequence[Node], visible: _Visible) -> list[Node]:
        """Of what is delayed outside, what a level always needs, inputs first."""
        if not visible:
            return []
        needed = dict.fromkeys(wanted)
        for node in here:
            needed.update(dict.fromkeys(self._needs(node)))
        # Forced in this order, none has to force another in turn, however long a chain of them is.
        found = [one for one in needed if one in visible]
        return _ordered(found, lambda one: visible[one].forces, lambda one: one not in visible, self._checkpoint)

    def _force(self, level: _Level, delayed: Sequence[Node], visible: _Visible) -> None:
        forcing: dict[Node, Node] = {}
        for node in delayed:
            shared = visible[node]
            call = forcing.get(shared.maker)
            if call is None:
                call = forcing[shared.maker] = _node_of_plan(shared.maker, FORCED, (shared.maker,))
                level.bodies[call] = Bodies((), (), (shared.maker,))
            level.forced[node] = _picked(node, call, shared.values[node])

    def _shared(self, level: _Level, sweep: Sweep, groups: Sequence[Group], visible: _Visible) -> dict[Node, _Shared]:
        """What is delayed in a level: for each node that others need, with what."""
        made = [
            _Shared(_node_of_plan(one.lent[-1], DELAYED, ()), {node: index for index, node in enumerate(one.lent)})
            for one in groups
        ]
        own = {node: shared for shared in made for node in shared.values}
        bodies: dict[Node, Bodies] = {}
        for group, shared in zip(groups, made, strict=True):
            others = {one: other for one, other in {**visible, **own}.items() if other is not shared}
            inner = self._level(sweep, group.members, (), group.lent, others)
            shared.forces += inner.forced
            bodies[shared.maker] = self._bodies_of([(tuple(group.lent), inner)], (), ())
        for maker in _ordered(bodies, lambda one: bodies[one].takes, lambda one: one not in bodies, self._checkpoint):
            level.bodies[maker] = bodies[maker]
        return own

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

    def _bodies(self, node: Node, sweep: Sweep, seen: _Visible) -> Bodies:
        """What a node runs that belongs to a level."""
        if node.op is COND:
            levels = [
                (results, self._level(sweep, sweep.members.get(at, []), sweep.groups.get(at, []), results, seen))
                for results, at in zip(self._results(node), (Place(node, 0), Place(node, 1)), strict=True)
            ]
            return self._bodies_of(levels, node.inputs[:1], ())
        loop = loop_of(node)
        condition, body, _ = self._loop(node)
        levels = [
            (results, self.root(results, candidates, seen))
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

    def _complete(self, level: _Level, wanted: Sequence[Node]) -> None:
        """Puts the nodes of a level into their order, and finds what it is given."""
        forced, bodies = level.forced, level.bodies
        own = {*level.inside, *bodies, *forced.values()}
        values: dict[Node, None] = {}
        makers: dict[Node, None] = {}

        def is_given(node: Node) -> bool:
            if node in own or self._is_known(node):
                return False
            (makers if node.op is DELAYED else values)[node] = None
            return True

        def needs(node: Node) -> Iterable[Node]:
            taken = bodies[node].takes if node in bodies else ()
            first = node.inputs if node.index < 0 else self._needs(node)
            return [forced.get(one, one) for one in (*first, *taken)]

        roots = [*forced.values(), *[forced.get(one, one) for one in wanted]]
        level.nodes += _ordered(roots, needs, is_given, self._checkpoint)
        level.values += sorted(values, key=_index)
        level.makers += sorted(makers, key=_index)


def _index(node: Node) -> int:
    return node.index


def _node_of_plan(about: Node, op: Op, operands: tuple[Node, ...]) -> Node:
    """A node that is in no graph, named for one that is."""
    name, index = f"{about.name.partition(':')[0]}:{op.name}", about.index if about.index < 0 else -1 - about.index
    return Node(about.graph, index, op, operands, operands, NO_PARAMS, (), ANY, None, name, about.raw_site)


def _picked(node: Node, call: Node, index: int) -> Node:
    """What stands for `node`, which is one of the values of `call`."""
    params, name = {"index": index}, node.name
    return Node(node.graph, node.index, OUTPUT, (call,), (call,), params, (), node.spec, None, name, node.raw_site)
