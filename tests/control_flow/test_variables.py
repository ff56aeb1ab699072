"""Assignments in branches: made if the branch is taken, and part of the run's one transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import SpecTypeError, StateConflictError


@pytest.fixture
def v(graph: ag.Graph) -> ag.Variable:
    return ag.variable(1.0, "v")


BOTH = (True, False)


def after(fetches: Any, feeds: Any, *variables: ag.Variable) -> list[Any]:
    """What was fetched, and then the values of the variables."""
    with ag.BlockingSession(variables[0].graph) as session:
        results = session.run(fetches, feeds).results
        return [results, *session.run(list(variables)).results]


# -- in a branch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("taken", "expected"), [(True, 6.0), (False, 1.0)])
def test_an_assignment_in_one_branch_is_made_if_that_is_taken(
    p: ag.Node, v: ag.Variable, taken: bool, expected: float
) -> None:
    chosen = ag.cond(p, lambda: v.assign_add(5.0), lambda: v)

    assert after(chosen, {p: taken}, v) == [expected, expected]


@pytest.mark.parametrize(("taken", "expected"), [(True, 6.0), (False, 1.0)])
def test_a_branch_that_builds_nothing_assigns_nothing(p: ag.Node, v: ag.Variable, taken: bool, expected: float) -> None:
    x = ag.constant(5.0)
    with ag.BlockingSession(p.graph) as session:
        first = ag.cond(p, lambda: v.assign(6.0), lambda: x)
        session.run(first, {p: taken})
        assert session.run(v).results == expected
    with ag.BlockingSession(p.graph) as session:
        second = ag.cond(p, lambda: x, lambda: v.assign(6.0))
        session.run(second, {p: not taken})
        assert session.run(v).results == expected


@pytest.mark.parametrize(("taken", "expected"), [(True, 6.0), (False, -1.0)])
def test_of_assignments_in_both_branches_that_of_the_taken_one_is_made(
    p: ag.Node, v: ag.Variable, taken: bool, expected: float
) -> None:
    chosen = ag.cond(p, lambda: v.assign_add(5.0), lambda: v.assign_sub(2.0))

    assert after(chosen, {p: taken}, v) == [expected, expected]


@pytest.mark.parametrize("taken", BOTH)
def test_several_variables_are_assigned(p: ag.Node, v: ag.Variable, taken: bool) -> None:
    w, u = ag.variable(10.0), ag.variable(np.zeros(2))

    def true() -> Any:
        return v.assign(w), u.assign(np.ones(2))

    def false() -> Any:
        return w.assign_add(v), u

    results = after(ag.cond(p, true, false), {p: taken}, v, w, u)[1:]

    assert [one.tolist() for one in results] == ([10, 10, [1, 1]] if taken else [1, 11, [0, 0]])


def test_whoever_wants_anything_of_a_cond_wants_what_it_assigns(p: ag.Node, v: ag.Variable) -> None:
    _, b = ag.cond(p, lambda: (v.assign(5.0), 1), lambda: (v, 2))

    assert after(b, {p: True}, v) == [1, 5.0]


def test_what_a_branch_gives_has_to_depend_on_an_assignment_for_it_to_be_made(p: ag.Node, v: ag.Variable) -> None:
    def ordered() -> ag.Node:
        with ag.control_dependencies([v.assign(5.0)]):
            return ag.constant(1.0) * 2

    def forgotten() -> ag.Node:
        v.assign(7.0)
        return ag.constant(1.0)

    assert after(ag.cond(p, ordered, lambda: 0.0), {p: True}, v) == [2.0, 5.0]
    assert after(ag.cond(p, forgotten, lambda: 0.0), {p: True}, v) == [1.0, 1.0]


@pytest.mark.parametrize(("outer", "inner", "expected"), [(True, True, 2.0), (True, False, 3.0), (False, True, 4.0)])
def test_assignments_in_nested_branches_are_made(
    p: ag.Node, v: ag.Variable, outer: bool, inner: bool, expected: float
) -> None:
    q = ag.placeholder("bool", ())
    chosen = ag.cond(p, lambda: ag.cond(q, lambda: v.assign(2.0), lambda: v.assign(3.0)), lambda: v.assign(4.0))

    assert after(chosen, {p: outer, q: inner}, v) == [expected, expected]


def test_a_loop_s_last_value_may_be_assigned_in_a_branch(p: ag.Node, v: ag.Variable) -> None:
    chosen = ag.cond(p, lambda: v.assign(ag.while_loop(lambda a: a < 100, lambda a: a * 2, v.current())), lambda: v)

    assert after(chosen, {p: True}, v) == [128.0, 128.0]


# -- before and after ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("taken", "expected"), [(True, [2.0, 12.0, 112.0]), (False, [2.0, 2.5, 102.0])])
def test_assignments_before_in_and_after_a_branch_apply_in_the_order_in_which_they_were_built(
    p: ag.Node, v: ag.Variable, taken: bool, expected: list[float]
) -> None:
    before = v.assign_add(1.0)
    chosen = ag.cond(p, lambda: v.assign_add(10.0), lambda: v.current() + 0.5)
    last = v.assign_add(100.0)

    assert after([before, chosen, last], {p: taken}, v) == [expected, expected[-1]]


@pytest.mark.parametrize(("taken", "expected"), [(True, 11.0), (False, 1.0)])
def test_a_read_after_a_cond_sees_what_the_taken_branch_has_assigned(
    p: ag.Node, v: ag.Variable, taken: bool, expected: float
) -> None:
    chosen = ag.cond(p, lambda: v.assign_add(10.0), lambda: v + 0.5)
    with ag.control_dependencies([chosen]):
        read = v.read()

    assert after([read, v], {p: taken}, v) == [[expected, 1.0], expected]


def test_a_branch_reads_what_its_control_dependencies_have_assigned(p: ag.Node, v: ag.Variable) -> None:
    with ag.control_dependencies([v.assign(5.0)]):
        around = ag.cond(p, lambda: v * 2, lambda: v)

    def branch() -> ag.Node:
        with ag.control_dependencies([v.assign(7.0)]):
            return v * 2

    inside = ag.cond(p, branch, lambda: v)

    assert after(around, {p: False}, v) == [5.0, 5.0]
    assert after(inside, {p: True}, v) == [14.0, 7.0]
    assert after(inside, {p: False}, v) == [1.0, 1.0]


@pytest.mark.parametrize("taken", BOTH)
def test_an_assignment_built_before_is_made_whichever_branch_uses_it(p: ag.Node, v: ag.Variable, taken: bool) -> None:
    made = v.assign(5.0)

    chosen = ag.cond(p, lambda: made + 1, lambda: 0.0)

    assert after(chosen, {p: taken}, v) == [6.0 if taken else 0.0, 5.0]


def test_a_read_after_a_cond_sees_what_its_branches_have_waited_for(p: ag.Node, v: ag.Variable) -> None:
    made = v.assign(5.0)

    def branch() -> ag.Node:
        with ag.control_dependencies([made]):
            return ag.constant(1.0) * 2

    chosen = ag.cond(p, branch, lambda: 0.0)
    with ag.control_dependencies([chosen]):
        read = v.read()

    assert after([read], {p: True}, v) == [[5.0], 5.0]


@pytest.mark.parametrize("taken", BOTH)
def test_a_loop_in_a_branch_reads_what_was_assigned_there_before(p: ag.Node, v: ag.Variable, taken: bool) -> None:
    q = ag.placeholder("bool", ())

    def branch() -> Any:
        made = v.assign(5.0)
        nested = ag.cond(q, lambda: made + 1, lambda: 0.0)
        loop = ag.while_loop(lambda a: a < 10, lambda a: a + v.current(), 0.0)
        return nested, loop, v.assign(7.0)

    chosen = ag.cond(p, branch, lambda: (0.0, 0.0, 0.0))

    assert after(chosen, {p: True, q: taken}, v) == [(6.0 if taken else 0.0, 10.0, 7.0), 7.0]


def test_an_assignment_that_is_used_outside_of_its_branch_is_not_made_there(p: ag.Node, v: ag.Variable) -> None:
    inside: list[ag.Node] = []
    ag.cond(p, lambda: inside.append(v.assign(5.0)) or inside[0], lambda: v)
    other = ag.cond(p, lambda: inside[0] + 1, lambda: 0.0)

    assert after(other, {p: True}, v) == [6.0, 1.0]


def test_an_assignment_in_one_branch_does_not_count_in_the_other(p: ag.Node, v: ag.Variable) -> None:
    chosen = ag.cond(p, lambda: v.assign(50.0), lambda: v.assign_add(1.0))

    assert after(chosen, {p: False}, v) == [2.0, 2.0]


def test_a_fed_variable_is_not_what_a_branch_adds_to(p: ag.Node, v: ag.Variable) -> None:
    chosen = ag.cond(p, lambda: v.assign_add(10.0), lambda: v)

    assert after(chosen, {p: True, v: 50.0}, v) == [11.0, 11.0]
    assert after(chosen, {p: False, v: 50.0}, v)[0] == 50.0


# -- first values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", BOTH)
def test_variables_of_either_branch_have_their_first_value(p: ag.Node, taken: bool) -> None:
    calls: list[str] = []

    def initial() -> float:
        calls.append("initial")
        return 3.0

    v = ag.variable(initial, dtype="float64", shape=())
    chosen = ag.cond(p, lambda: v + 1, lambda: 0.0)

    assert after(chosen, {p: taken}, v) == [4.0 if taken else 0.0, 3.0]
    assert calls == ["initial"]


# -- transactions ----------------------------------------------------------------------------------------


async def test_no_update_in_a_branch_is_lost(p: ag.Node, v: ag.Variable) -> None:
    chosen = ag.cond(p, lambda: v.assign_add(1.0), lambda: v.assign_sub(1.0))

    async with ag.Session(p.graph) as session:
        await asyncio.gather(*[session.run(chosen, {p: bool(i % 3)}) for i in range(90)])

        assert (await session.run(v)).results == 1.0 + 60 - 30


@pytest.mark.parametrize("taken", BOTH)
async def test_a_run_that_fails_commits_nothing_of_a_branch(p: ag.Node, v: ag.Variable, taken: bool) -> None:
    def fail(value: Any) -> Any:
        raise KeyError("boom")

    chosen = ag.cond(p, lambda: v.assign_add(1.0), lambda: v)
    broken = ag.cond(p, lambda: ag.op(fail, spec="float64[]").node(chosen), lambda: chosen)

    async with ag.Session(p.graph) as session:
        if taken:
            with pytest.raises(KeyError, match="boom"):
                await session.run(broken, {p: True})
        else:
            await session.run(broken, {p: False})

        assert (await session.run(v)).results == 1.0


async def test_a_run_that_an_op_of_a_branch_starts_is_nested(p: ag.Node, v: ag.Variable) -> None:
    doubled = v * 2

    async def look() -> Any:
        return (await session.run(doubled)).results

    chosen = ag.cond(p, lambda: v.assign(ag.op(look, spec="float64[]").node()), lambda: v)

    async with ag.Session(p.graph) as session:
        assert (await session.run(chosen, {p: True})).results == 2.0


async def test_a_run_that_an_op_of_a_branch_starts_is_refused_what_the_run_holds_itself(
    p: ag.Node, v: ag.Variable
) -> None:
    more = v.assign_add(1.0)

    async def add() -> Any:
        return (await session.run(more)).results

    chosen = ag.cond(p, lambda: v.assign(ag.op(add, spec="float64[]").node()), lambda: v)

    async with ag.Session(p.graph) as session:
        with pytest.raises(StateConflictError):
            await session.run(chosen, {p: True})


def test_what_a_branch_gives_is_checked_when_it_is_assigned(p: ag.Node, v: ag.Variable) -> None:
    chosen = ag.cond(p, lambda: ag.op(lambda: np.float32(3)).node(), lambda: v)
    made = v.assign(chosen)

    with ag.BlockingSession(p.graph) as session:
        with pytest.raises(SpecTypeError, match=r"^a float64\[\] was assigned a value of dtype float32"):
            session.run(made, {p: True})
        assert session.run([made, v], {p: False}).results == [1.0, 1.0]


def test_loops_read_variables_as_they_are_before(p: ag.Node, v: ag.Variable) -> None:
    made = v.assign_add(1.0)
    last = ag.while_loop(lambda a: a < 10, lambda a: a + v.current(), 0.0)

    assert after([last, made], {}, v) == [[10.0, 2.0], 2.0]
    assert after(last, {}, v) == [10.0, 1.0]


def test_global_steps_may_be_counted_in_a_branch(p: ag.Node) -> None:
    step = ag.global_step()
    chosen = ag.cond(p, lambda: step.assign_add(1), lambda: step)

    assert after(chosen, {p: True}, step) == [1, 1]
