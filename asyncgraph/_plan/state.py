"""What a run reads and writes of variables, settled when its plan is made.

Assignments to one variable apply in the order in which they were built, which is an order of the program, since
nodes are only ever added. So there is nothing to do in a run but to compute values: the last assignment's is what
is committed, a node of the op "current" is the value of the assignment before it, and one of the op "read" that
of the last assignment among what it depends on. A variable itself is its value when the run starts.

Variables get their first values in programs of their own, where each that has none is replaced by what computes its
initial value; and that is committed like an assignment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from .._graph.node import Node
from .._graph.op import ASSIGN, CURRENT, READ
from .._graph.variable import STATE_OPS, Variable, assigned_by, branch_of

_Reached = Mapping[Variable, Node]
"""For each variable, the last assignment among what a node depends on."""
_NOTHING: Final[_Reached] = {}


@final
@dataclass(frozen=True, slots=True)
class State:
    """Of a program, what it has to do with variables.

    Fields:
        stored: for each node that stands for what a variable holds when the run starts: the variable. That is the
            variable itself, unless it is fed.
        sources: for nodes that have no computation of their own, the node whose value is theirs.
        assigned: for each variable that the run assigns or initializes, the node whose value it has at the end.
        initialized: those that have no value before, and get their initial one.
    """

    stored: Mapping[Node, Variable]
    sources: Mapping[Node, Node]
    assigned: Mapping[Variable, Node]
    initialized: tuple[Variable, ...]


NO_STATE: Final = State({}, {}, {}, ())


def sources_before(nodes: Collection[Node]) -> dict[Node, Node]:
    """For nodes of the op "current", the assignment to its variable that was built last before it, if there is one."""
    assignments: dict[Node, list[Node]] = {}
    for node in sorted([one for one in nodes if one.op is ASSIGN], key=lambda one: one.index):
        assignments.setdefault(assigned_by(node), []).append(node)
    before: dict[Node, Node] = {}
    for node in nodes:
        if node.op is CURRENT:
            found = assignments.get(_variable(node), ())
            position = bisect_left(found, node.index, key=lambda one: one.index) - 1
            branch = branch_of(node)
            while position >= 0 and branch[: len(branch_of(found[position]))] != branch_of(found[position]):
                position -= 1  # It was built in a branch that this node is not in.
            if position >= 0:
                before[node] = found[position]
    return before


def settle(
    nodes: Sequence[Node],
    feeds: Collection[Node],
    before: Mapping[Node, Node],
    uninitialized: Collection[Variable],
) -> State:
    """What nodes of a program have to do with variables.

    Args:
        nodes: of the program, in its order, its variables among them.
        feeds: what is fed.
        before: what `sources_before` gives.
        uninitialized: which variables have no value, of those that get their first.
    """
    stored: dict[Node, Variable] = {}
    sources: dict[Node, Node] = {}
    fresh: list[Variable] = []
    reached = _reached(nodes)
    for node in nodes:
        if isinstance(node, Variable):
            if node in uninitialized:
                fresh.append(node)
                sources[node] = node.initial
            else:
                stored[node] = node
        elif node.op is READ:
            variable = _variable(node)
            sources[node] = variable if variable in feeds else reached[node].get(variable, variable)
        elif node.op is CURRENT:
            variable = _variable(node)
            if node in before:
                sources[node] = before[node]
            elif variable in feeds:
                stored[node] = variable
            else:
                sources[node] = variable
    return State(stored, sources, last_assigned(nodes, uninitialized), tuple(fresh))


def last_assigned(nodes: Iterable[Node], uninitialized: Collection[Variable]) -> dict[Variable, Node]:
    """What variables have at the end: of those that `nodes` assign, and those among them that have no value."""
    assigned: dict[Variable, Node] = {}
    for node in nodes:
        if node.op is ASSIGN:
            variable = assigned_by(node)
            last = assigned.get(variable)
            if last is None or last.index < node.index:
                assigned[variable] = node
        elif isinstance(node, Variable) and node in uninitialized:
            assigned.setdefault(node, node)
    return assigned


def _variable(node: Node) -> Variable:
    variable = node.inputs[0]
    assert isinstance(variable, Variable)
    return variable


def has_state(nodes: Collection[Node]) -> bool:
    """Whether there are variables among them, or what assigns to these."""
    return any(node.op in STATE_OPS or isinstance(node, Variable) for node in nodes)


def _reached(nodes: Sequence[Node]) -> Mapping[Node, _Reached]:
    """For each node what its value may depend on, of the variables that are read in some order with assignments.

    Most nodes have what one of their inputs has, and share it.
    """
    found: dict[Node, _Reached] = {}
    read = {_variable(node) for node in nodes if node.op is READ}
    if not read:
        return found
    for node in nodes:
        known = _NOTHING
        for one in (*node.inputs, *node.after):
            other = found.get(one, _NOTHING)
            if other is not known and other:
                known = other if not known else _later(known, other)
        if node.op is ASSIGN and assigned_by(node) in read:
            known = {**known, assigned_by(node): node}
        found[node] = known
    return found


def _later(one: _Reached, other: _Reached) -> _Reached:
    merged = dict(one)
    for variable, node in other.items():
        if variable not in merged or merged[variable].index < node.index:
            merged[variable] = node
    return merged
