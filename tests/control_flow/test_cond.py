"""What runs of the branches of `cond`: what the taken one needs, once."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FetchError, GraphError, MissingFeedError

from .helpers import Calls, values, values_async


@pytest.fixture
def q(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("bool", (), name="q")


@pytest.fixture
def x(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("float64", (), name="x")


@pytest.fixture(params=["thread", "async", "inline"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


BOTH = (True, False)

# -- what is taken ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", BOTH)
def test_only_the_taken_branch_runs(p: ag.Node, x: ag.Node, kind: str, taken: bool) -> None:
    calls = Calls()
    true, false = calls.op("true", kind), calls.op("false", kind)

    chosen = ag.cond(p, lambda: true(x) + 1, lambda: false(x) - 1)

    assert values(chosen, {p: taken, x: 1.0}) == (2.0 if taken else 0.0)
    assert calls == ["true" if taken else "false"]


@pytest.mark.parametrize("taken", BOTH)
def test_what_was_built_before_runs_only_if_the_branch_that_uses_it_is_taken(
    p: ag.Node, x: ag.Node, kind: str, taken: bool
) -> None:
    calls = Calls()
    early = calls.op("second", kind)(calls.op("first", kind)(x))

    chosen = ag.cond(p, lambda: early + 1, lambda: x)
    given = ag.cond(p, lambda: early, lambda: x)

    for one in (chosen, given):
        values(one, {p: taken, x: 1.0})
        assert calls.taken() == (["first", "second"] if taken else [])


def test_what_else_the_run_needs_runs_whatever_is_taken(p: ag.Node, x: ag.Node) -> None:
    calls = Calls()
    early = calls.op("early")(x)
    chosen = ag.cond(p, lambda: early + 1, lambda: x)

    assert values([chosen, early], {p: False, x: 1.0}) == [1.0, 1.0]
    assert calls == ["early"]


@pytest.mark.parametrize("taken", BOTH)
def test_what_both_branches_use_runs_once(p: ag.Node, x: ag.Node, kind: str, taken: bool) -> None:
    calls = Calls()
    early = calls.op("early", kind)(x)

    values(ag.cond(p, lambda: early + 1, lambda: early - 1), {p: taken, x: 1.0})

    assert calls == ["early"]


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in BOTH for b in BOTH])
async def test_what_two_conds_use_runs_once_if_one_of_them_needs_it_and_else_not(
    p: ag.Node, q: ag.Node, x: ag.Node, kind: str, first: bool, second: bool
) -> None:
    calls = Calls()
    early = calls.op("outer", kind)(calls.op("inner", kind)(x))
    a, b = ag.cond(p, lambda: early + 1, lambda: x), ag.cond(q, lambda: early + 2, lambda: x)

    results = await values_async([a, b], {p: first, q: second, x: 1.0})

    assert results == [2.0 if first else 1.0, 3.0 if second else 1.0]
    assert calls == (["inner", "outer"] if first or second else [])


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in BOTH for b in BOTH])
def test_parts_of_what_is_shared_run_only_if_they_are_needed(
    p: ag.Node, q: ag.Node, x: ag.Node, first: bool, second: bool
) -> None:
    calls = Calls()
    common = calls.op("common")(x)
    left, right = calls.op("left")(common), calls.op("right")(common)
    a = ag.cond(p, lambda: left + right, lambda: x)
    b = ag.cond(q, lambda: right * 1, lambda: x)

    values([a, b], {p: first, q: second, x: 1.0})

    expected = {"common", "left", "right"} if first else {"common", "right"} if second else set[str]()
    assert set(calls) == expected
    assert len(calls) == len(expected)


def test_what_is_shared_by_branches_at_different_depths_runs_once(p: ag.Node, q: ag.Node, x: ag.Node) -> None:
    calls = Calls()
    early = calls.op("early")(x)
    nested = ag.cond(p, lambda: ag.cond(q, lambda: early, lambda: x), lambda: x)
    a, b = nested, ag.cond(q, lambda: early * 2, lambda: x)

    for first, second, count in ((True, True, 1), (False, True, 1), (True, False, 0)):
        values([a, b], {p: first, q: second, x: 1.0})
        assert len(calls.taken()) == count


def test_of_what_a_branch_gives_only_what_is_wanted_runs(p: ag.Node, x: ag.Node) -> None:
    calls = Calls()
    one, other, away = calls.op("one"), calls.op("other"), ag.placeholder("float64", (), name="away")

    a, b, c = ag.cond(p, lambda: (one(x), other(x), away), lambda: (x, x, x))

    assert values(b, {p: True, x: 1.0}) == 1.0
    assert calls.taken() == ["other"]
    values([a, b], {p: True, x: 1.0})
    assert sorted(calls) == ["one", "other"]
    assert values(c, {p: False, x: 1.0, away: 5.0}) == 1.0


# -- nesting ---------------------------------------------------------------------------------------------


def test_conds_run_in_the_branches_of_others(p: ag.Node, q: ag.Node, x: ag.Node, kind: str) -> None:
    calls = Calls()
    op = {name: calls.op(name, kind) for name in ("tt", "tf", "f")}
    chosen = ag.cond(p, lambda: ag.cond(q, lambda: op["tt"](x), lambda: op["tf"](x)), lambda: op["f"](x))

    for first, second, name in ((True, True, "tt"), (True, False, "tf"), (False, True, "f")):
        values(chosen, {p: first, q: second, x: 1.0})
        assert calls.taken() == [name]


def test_a_cond_takes_what_another_gives(p: ag.Node, q: ag.Node, x: ag.Node) -> None:
    first = ag.cond(p, lambda: x + 1, lambda: x + 2)
    second = ag.cond(q, lambda: first * 10, lambda: first * 100)
    third = ag.cond(second > 150, lambda: second, lambda: -second)

    assert values(third, {p: True, q: True, x: 0.0}) == -10
    assert values(third, {p: False, q: False, x: 0.0}) == 200


def test_a_condition_is_computed_for_the_branch_that_needs_it(p: ag.Node, x: ag.Node) -> None:
    calls = Calls()
    pred = calls.op("pred")(x) > 0
    chosen = ag.cond(p, lambda: ag.cond(pred, lambda: x, lambda: -x), lambda: x)

    values(chosen, {p: False, x: 1.0})
    assert calls.taken() == []
    assert values(chosen, {p: True, x: -1.0}) == 1.0
    assert calls.taken() == ["pred"]


@pytest.mark.parametrize("length", [1, 2, 30])
def test_a_chain_of_conds_runs_flat_where_all_need_the_one_before(graph: ag.Graph, x: ag.Node, length: int) -> None:
    last = x
    for i in range(length):
        last = ag.cond(x > i, lambda: last + 1, lambda: last * 2)  # noqa: B023  # called at once

    assert values(last, {x: 1.0}) == 2.0 * 2 ** (length - 1)


def test_150_conds_in_the_branches_of_each_other_are_planned_and_run(graph: ag.Graph, x: ag.Node) -> None:
    last = x
    for i in range(150):
        last = ag.cond(x > i, lambda: last + 1, lambda: ag.constant(-1.0))  # noqa: B023  # called at once

    assert values(last, {x: 1000.0}) == 1150.0
    assert values(last, {x: 100.0}) == -1.0


def test_more_than_fit_onto_the_stack_are_refused(graph: ag.Graph, x: ag.Node) -> None:
    last = x
    for i in range(600):
        last = ag.cond(x > i, lambda: last + 1, lambda: ag.constant(-1.0))  # noqa: B023  # called at once

    with pytest.raises(GraphError, match="^cond and while_loop are nested too deeply in each other"):
        values(last, {x: 1.0})


def test_100_conds_side_by_side_share_what_they_use(graph: ag.Graph, x: ag.Node) -> None:
    calls = Calls()
    early = calls.op("early")(x)
    total = x
    for i in range(100):
        total = total + ag.cond(x > i, lambda: early + 1, lambda: x)

    assert values(total, {x: 2.0}) == 2 + 2 * 3.0 + 98 * 2.0
    assert calls == ["early"]


# -- feeds, fetches --------------------------------------------------------------------------------------


def test_what_a_cond_gives_may_be_fed(p: ag.Node, x: ag.Node) -> None:
    calls = Calls()
    chosen = ag.cond(p, lambda: calls.op("true")(x), lambda: x)

    assert values(chosen + 1, {chosen: 5.0}) == 6.0
    assert calls == []


def test_nodes_of_a_branch_may_be_fed(p: ag.Node, x: ag.Node) -> None:
    calls = Calls()
    op = calls.op("called")

    def branch() -> ag.Node:
        inside.append(op(x))
        return inside[0] + 1

    inside: list[ag.Node] = []
    chosen = ag.cond(p, branch, lambda: x)

    assert values(chosen, {p: True, x: 1.0, inside[0]: 10.0}) == 11.0
    assert calls == []


@pytest.mark.parametrize("taken", BOTH)
def test_a_fetched_node_of_a_branch_runs_once_whatever_is_taken(p: ag.Node, x: ag.Node, taken: bool) -> None:
    calls = Calls()
    op = calls.op("called")

    def branch() -> ag.Node:
        inside.append(op(x))
        return inside[0] + 1

    inside: list[ag.Node] = []
    chosen = ag.cond(p, branch, lambda: x)

    assert values([chosen, inside[0]], {p: taken, x: 3.0}) == [4.0 if taken else 3.0, 3.0]
    assert calls == ["called"]


def test_placeholders_of_both_branches_have_to_be_fed(p: ag.Node, x: ag.Node) -> None:
    y = ag.placeholder("float64", (), name="y")

    with pytest.raises(MissingFeedError, match="^no value was fed for 'y', which the fetches need"):
        values(ag.cond(p, lambda: x, lambda: y), {p: True, x: 1.0})


def test_the_node_that_runs_branches_is_not_to_be_fetched(p: ag.Node, x: ag.Node) -> None:
    ag.cond(p, lambda: (x, x), lambda: (x, x), name="c")

    message = r"^<cond 'c': any> has no value of its own\n  built at .*\n  fetch what it gives: 'c:0', 'c:1'$"
    with pytest.raises(FetchError, match=message):
        values(x.graph["c"], {p: True, x: 1.0})


# -- order -----------------------------------------------------------------------------------------------


def test_control_dependencies_around_a_cond_run_before_it(p: ag.Node, x: ag.Node) -> None:
    calls = Calls()
    before, inside = calls.op("before")(x), calls.op("inside")

    with ag.control_dependencies([before]):
        chosen = ag.cond(p, lambda: inside(x), lambda: x)

    values(chosen, {p: True, x: 1.0})
    assert calls.taken() == ["before", "inside"]
    values(chosen, {p: False, x: 1.0})
    assert calls.taken() == ["before"]


def test_control_dependencies_in_a_branch_run_if_it_is_taken(p: ag.Node, x: ag.Node) -> None:
    calls = Calls()
    before, inside = calls.op("before")(x), calls.op("inside")

    def branch() -> ag.Node:
        with ag.control_dependencies([before]):
            return inside(x)

    chosen = ag.cond(p, branch, lambda: x)

    values(chosen, {p: False, x: 1.0})
    assert calls.taken() == []
    values(chosen, {p: True, x: 1.0})
    assert calls.taken() == ["before", "inside"]


def test_what_depends_on_a_cond_runs_after_the_taken_branch(p: ag.Node, x: ag.Node) -> None:
    calls = Calls()
    inside, after = calls.op("inside"), calls.op("after")
    chosen = ag.cond(p, lambda: inside(x), lambda: x)
    with ag.control_dependencies([chosen]):
        last = after(x)

    values(last, {p: True, x: 1.0})

    assert calls == ["inside", "after"]


# -- values ----------------------------------------------------------------------------------------------


def test_shapes_and_dtypes_are_those_of_the_taken_branch(p: ag.Node) -> None:
    chosen = ag.cond(p, lambda: np.zeros((2, 3), np.float32), lambda: np.zeros(4, np.float32))

    assert [values(chosen, {p: one}).shape for one in BOTH] == [(2, 3), (4,)]


def test_python_objects_go_through_branches(p: ag.Node) -> None:
    thing = ag.placeholder(None)
    told = ag.op(lambda value: f"told {value}")
    chosen = ag.cond(p, lambda: told.node(thing), lambda: thing)

    results: list[Any] = [values(chosen, {p: one, thing: {"a": 1}}) for one in BOTH]

    assert results == ["told {'a': 1}", {"a": 1}]


def test_a_branch_may_be_all_constants(p: ag.Node) -> None:
    chosen = ag.cond(p, lambda: ag.constant(2.0) * 3, lambda: 1.0)

    assert [values(chosen, {p: one}) for one in BOTH] == [6.0, 1.0]


def test_a_plan_shows_what_its_branches_run(p: ag.Node, x: ag.Node) -> None:
    chosen = ag.cond(p, lambda: x + 1, lambda: -x, name="c")
    with ag.BlockingSession(p.graph) as session:
        text = str(session.explain(chosen, {p: True, x: 1.0}))

    assert re.search(r"\n  c: any = cond\(p, x, .*\n    true: plan of 1 nodes", text)
    assert "\n      add: float64[] = add(x, 1)\n" in text
    assert "\n    false: plan of 1 nodes" in text
    assert "\n      negative: float64[] = negative(x)\n" in text
    assert "not needed" not in text
