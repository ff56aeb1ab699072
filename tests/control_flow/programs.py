"""Small programs with branches, loops and variables: run by Python itself, and built as graphs.

A block is a list of statements, each of which defines one value that later ones may use; a block gives the sum of its
values. Everything is a float64 of rank 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

import asyncgraph as ag

VARIABLES = 2
Block = list["Statement"]
Pick = int
"""Which of the values that there are, counted backwards from the last, and around."""


@dataclass(frozen=True)
class Constant:
    value: float


@dataclass(frozen=True)
class Same:
    """No node of its own."""

    a: Pick


@dataclass(frozen=True)
class Sum:
    a: Pick
    b: Pick


@dataclass(frozen=True)
class Scaled:
    a: Pick
    factor: float


@dataclass(frozen=True)
class Called:
    """A user op, which is not pure."""

    a: Pick


@dataclass(frozen=True)
class Current:
    variable: int


@dataclass(frozen=True)
class Assigned:
    variable: int
    a: Pick
    adds: bool


@dataclass(frozen=True)
class Chosen:
    """`cond`, by whether one value is below another."""

    a: Pick
    b: Pick
    true: Block
    false: Block


@dataclass(frozen=True)
class Repeated:
    """`while_loop`, of one value, which the block is added to in each iteration."""

    start: Pick
    count: int
    body: Block


Statement = Constant | Same | Sum | Scaled | Called | Current | Assigned | Chosen | Repeated


def _simple(assigns: bool) -> st.SearchStrategy[Statement]:
    pick, number = st.integers(0, 7), st.sampled_from([-1.0, 0.5, 2.0, 3.0])
    variable = st.integers(0, VARIABLES - 1)
    kinds: list[st.SearchStrategy[Statement]] = [
        st.builds(Constant, number),
        st.builds(Same, pick),
        st.builds(Sum, pick, pick),
        st.builds(Scaled, pick, number),
        st.builds(Called, pick),
        st.builds(Current, variable),
    ]
    if assigns:
        kinds.append(st.builds(Assigned, variable, pick, st.booleans()))
    return st.one_of(kinds)


def blocks(depth: int, assigns: bool = True) -> st.SearchStrategy[Block]:
    """Blocks whose branches and loops are nested up to `depth` deep. Nothing is assigned in loops."""
    simple = _simple(assigns)
    if not depth:
        return st.lists(simple, min_size=1, max_size=3)
    pick, inner = st.integers(0, 7), blocks(depth - 1, assigns)
    statement = st.one_of(
        simple,
        st.builds(Chosen, pick, pick, inner, inner),
        st.builds(Repeated, pick, st.integers(0, 3), blocks(depth - 1, assigns=False)),
    )
    return st.lists(statement, min_size=1, max_size=4)


class Interpreted:
    """Runs blocks as Python would.

    Fields:
        state: of the variables.
        calls: what user ops were called with.
    """

    def __init__(self, state: Sequence[float]) -> None:
        self.state = list(state)
        self.calls: list[float] = []
        self._rules: dict[type[Any], Callable[[Any, list[float]], float]] = {
            Constant: lambda one, known: one.value,
            Same: lambda one, known: known[~(one.a % len(known))],
            Sum: lambda one, known: known[~(one.a % len(known))] + known[~(one.b % len(known))],
            Scaled: lambda one, known: known[~(one.a % len(known))] * one.factor,
            Called: self._called,
            Current: lambda one, known: self.state[one.variable],
            Assigned: self._assigned,
            Chosen: self._chosen,
            Repeated: self._repeated,
        }

    def block(self, block: Block, outside: list[float]) -> list[float]:
        """The values of its statements."""
        known = list(outside)
        for one in block:
            known.append(self._rules[type(one)](one, known))
        return known[len(outside) :]

    def _called(self, one: Called, known: list[float]) -> float:
        self.calls.append(known[~(one.a % len(known))])
        return called(self.calls[-1])

    def _assigned(self, one: Assigned, known: list[float]) -> float:
        value = known[~(one.a % len(known))]
        self.state[one.variable] = value + self.state[one.variable] if one.adds else value
        return self.state[one.variable]

    def _chosen(self, one: Chosen, known: list[float]) -> float:
        holds = known[~(one.a % len(known))] < known[~(one.b % len(known))]
        return sum(self.block(one.true if holds else one.false, known))

    def _repeated(self, one: Repeated, known: list[float]) -> float:
        value = known[~(one.start % len(known))]
        for _ in range(one.count):
            value += sum(self.block(one.body, [*known, value]))
        return value


def called(value: Any) -> Any:
    """What the user op computes."""
    return value * 0.25 + 1.0


class Built:
    """Builds blocks as nodes.

    Args:
        call: how to build a call of `called`.
    """

    def __init__(self, variables: Sequence[ag.Variable], call: Callable[[ag.Node], ag.Node]) -> None:
        self._variables = variables
        self._rules: dict[type[Any], Callable[[Any, list[Any]], Any]] = {
            Constant: lambda one, known: ag.constant(one.value),
            Same: lambda one, known: known[~(one.a % len(known))],
            Sum: lambda one, known: known[~(one.a % len(known))] + known[~(one.b % len(known))],
            Scaled: lambda one, known: known[~(one.a % len(known))] * one.factor,
            Called: lambda one, known: call(known[~(one.a % len(known))]),
            Current: lambda one, known: self._variables[one.variable].current(),
            Assigned: self._assigned,
            Chosen: self._chosen,
            Repeated: self._repeated,
        }

    def block(self, block: Block, outside: list[Any]) -> list[Any]:
        """The nodes of its statements."""
        known = list(outside)
        for one in block:
            known.append(self.statement(one, known))
        return known[len(outside) :]

    def statement(self, one: Statement, known: list[Any]) -> Any:
        """The node of a statement."""
        return self._rules[type(one)](one, known)

    def _assigned(self, one: Assigned, known: list[Any]) -> Any:
        variable, value = self._variables[one.variable], known[~(one.a % len(known))]
        return variable.assign_add(value) if one.adds else variable.assign(value)

    def _chosen(self, one: Chosen, known: list[Any]) -> Any:
        a, b = known[~(one.a % len(known))], known[~(one.b % len(known))]
        return ag.cond(a < b, lambda: self._total(one.true, known), lambda: self._total(one.false, known))

    def _repeated(self, one: Repeated, known: list[Any]) -> Any:
        def body(i: ag.Node, value: ag.Node) -> tuple[ag.Node, ag.Node]:
            return i + 1, value + self._total(one.body, [*known, value])

        start = known[~(one.start % len(known))]
        _, last = ag.while_loop(lambda i, value: i < one.count, body, (ag.constant(0), start))
        return last

    def _total(self, block: Block, outside: list[Any]) -> Any:
        first, *rest = self.block(block, outside)
        for one in rest:
            first = first + one
        return first
