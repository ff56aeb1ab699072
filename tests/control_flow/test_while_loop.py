"""What `while_loop` computes, and what runs how often."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph.errors import FeedError, FetchError, MissingFeedError

from .helpers import Calls, values, values_async


@pytest.fixture
def x(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("float64", (), name="x")


@pytest.fixture(params=["thread", "async", "inline"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        steps, n = steps + 1, n // 2 if n % 2 == 0 else 3 * n + 1
    return steps


# -- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 27])
def test_a_loop_gives_what_python_s_would(graph: ag.Graph, n: int) -> None:
    start = ag.placeholder("int64", ())

    def body(steps: ag.Node, value: ag.Node) -> Any:
        return steps + 1, ag.cond(value % 2 == 0, lambda: value // 2, lambda: 3 * value + 1)

    steps, _ = ag.while_loop(lambda _, value: value > 1, body, (0, start))

    assert values(steps, {start: n}) == collatz(n)


async def test_a_loop_gives_the_same_on_a_worker_and_in_the_calling_thread(graph: ag.Graph) -> None:
    x = ag.placeholder("float32", ("n",))
    last = ag.while_loop(lambda a: ops.max(a) < 100, lambda a: a * 1.7 + ops.sin(a), x)
    feeds = {x: np.linspace(1, 2, 1000, dtype=np.float32)}

    async with ag.Session(graph) as session:
        asynchronous = (await session.run(last, feeds)).results
        offloaded = session.statistics().offloaded_segments
    expected = feeds[x]
    while expected.max() < 100:
        expected = expected * 1.7 + np.sin(expected)

    assert offloaded == 1
    assert asynchronous.tobytes() == expected.tobytes()


def test_a_loop_without_an_iteration_gives_its_first_values(x: ag.Node) -> None:
    calls = Calls()
    last = ag.while_loop(lambda a: a < 0, lambda a: calls.op("body")(a), x)

    assert values(last, {x: 3.0}) == 3.0
    assert calls == []


@pytest.mark.parametrize(("most", "expected"), [(0, 0), (1, 1), (7, 7), (100, 10), (None, 10)])
def test_a_loop_ends_after_so_many_iterations_whatever_the_condition_says(
    graph: ag.Graph, most: int | None, expected: int
) -> None:
    assert values(ag.while_loop(lambda i: i < 10, lambda i: i + 1, 0, maximum_iterations=most)) == expected


def test_shapes_may_grow(graph: ag.Graph) -> None:
    _, all_ = ag.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, ops.concat([a, a])), (0, np.ones(1)))

    assert values(all_).shape == (16,)


def test_python_numbers_take_the_dtype_of_the_value_before(graph: ag.Graph) -> None:
    a, b = ag.while_loop(lambda a, b: a > 0, lambda a, b: (a - 1, 2.5), (3, np.float32(0)))

    assert repr([values(a), values(b)]) == "[array(0), array(2.5, dtype=float32)]"


def test_booleans_may_be_the_condition_themselves(graph: ag.Graph) -> None:
    go_on, n = ag.while_loop(lambda go_on, n: go_on, lambda go_on, n: (n < 3, n + 1), (True, 0))

    assert values([go_on, n]) == [False, 4]


def test_values_may_change_places(graph: ag.Graph) -> None:
    a, b, _ = ag.while_loop(lambda a, b, n: n < 3, lambda a, b, n: (b, a, n + 1), (1.0, 2.0, 0))

    assert values([a, b]) == [2.0, 1.0]


def test_loops_run_in_loops(graph: ag.Graph) -> None:
    def outer(i: ag.Node, total: ag.Node) -> Any:
        _, inner = ag.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + i * j), (0, total))
        return i + 1, inner

    _, total = ag.while_loop(lambda i, t: i < 6, outer, (0, 0))

    assert values(total) == sum(i * j for i in range(6) for j in range(i))


def test_a_loop_runs_in_a_branch_only_if_that_is_taken(x: ag.Node, kind: str) -> None:
    calls = Calls()
    op = calls.op("body", kind)
    chosen = ag.cond(x > 0, lambda: ag.while_loop(lambda a: a < 3, lambda a: op(a) + 1, x), lambda: x)

    assert values(chosen, {x: -1.0}) == -1.0
    assert calls == []
    assert values(chosen, {x: 1.0}) == 3.0
    assert calls == ["body", "body"]


def test_conditions_may_be_loops(graph: ag.Graph) -> None:
    def below_10(i: ag.Node) -> ag.Node:
        return ag.while_loop(lambda j: j < i * i, lambda j: j + 1, 0) < 10

    assert values(ag.while_loop(below_10, lambda i: i + 1, 0)) == 4


async def test_numpy_scalars_and_arrays_are_one_in_loops(graph: ag.Graph) -> None:
    a = ag.while_loop(lambda a: a < 10, lambda a: a * np.float32(1.5), np.float32(1))
    b = ag.while_loop(lambda b: b < 10, lambda b: ag.op(np.asarray).node(b) * np.float32(1.5), ag.placeholder(None))

    results = await values_async([a, b], {graph["placeholder"]: np.float32(1)})

    assert [repr(np.asarray(one)) for one in results] == ["array(11.390625, dtype=float32)"] * 2


# -- how often -------------------------------------------------------------------------------------------


async def test_what_a_body_builds_runs_in_each_iteration(x: ag.Node, kind: str) -> None:
    calls = Calls()
    condition, body = calls.op("condition", kind), calls.op("body", kind)

    last = ag.while_loop(lambda a: condition(a) < 3, lambda a: body(a) + 1, x)

    assert await values_async(last, {x: 1.0}) == 3.0
    assert calls == ["condition", "body", "condition", "body", "condition"]


async def test_what_was_built_before_runs_once_before_the_loop(x: ag.Node, kind: str) -> None:
    calls = Calls()
    early, deep, body = calls.op("early", kind)(x), calls.op("deep", kind)(x), calls.op("body", kind)

    last = ag.while_loop(lambda a: a < 3, lambda a: body(a) + ag.cond(a > 100, lambda: deep, lambda: early), x)

    assert await values_async(last, {x: 1.0}) == 3.0
    assert sorted(calls[:2]) == ["deep", "early"]
    assert calls[2:] == ["body", "body"]


def test_control_dependencies_of_what_a_body_builds_run_once_before_the_loop(x: ag.Node) -> None:
    calls = Calls()
    before, body = calls.op("before")(x), calls.op("body")

    def add(a: ag.Node) -> ag.Node:
        with ag.control_dependencies([before]):
            return body(a) + 1

    values(ag.while_loop(lambda a: a < 3, lambda a: ag.cond(a > 0, lambda: add(a), lambda: a), x), {x: 1.0})

    assert calls == ["before", "body", "body"]


def test_what_branches_of_a_body_share_runs_once_in_an_iteration_that_needs_it(x: ag.Node, kind: str) -> None:
    calls = Calls()
    op = calls.op("shared", kind)

    def body(a: ag.Node) -> ag.Node:
        shared = op(a)
        first = ag.cond(a > 2, lambda: shared, lambda: a)
        second = ag.cond(a > 1, lambda: shared * 0 + first, lambda: a)
        return second + 1

    assert values(ag.while_loop(lambda a: a < 5, body, x), {x: 0.0}) == 5.0
    assert calls == ["shared"] * 3


# -- feeds, fetches --------------------------------------------------------------------------------------


def test_what_a_loop_gives_may_be_fed(x: ag.Node) -> None:
    last = ag.while_loop(lambda a: a > 0, lambda a: a, x)

    assert values(last * 2, {last: 3.0}) == 6.0


def test_nodes_of_a_body_may_be_fed_and_are_that_in_every_iteration(graph: ag.Graph) -> None:
    def body(a: ag.Node) -> ag.Node:
        steps.append(a * 0 + 1)
        return a + steps[0]

    steps: list[ag.Node] = []
    last = ag.while_loop(lambda a: a < 10, body, 0)

    assert values(last, {steps[0]: 4}) == 12


def test_values_of_one_iteration_are_not_to_be_fetched(graph: ag.Graph) -> None:
    inside: list[ag.Node] = []
    ag.while_loop(lambda a: a < 3, lambda a: inside.append(a) or a + 1, 0)

    for one in (inside[0], inside[0] * 2):
        message = r"^<loop_value 'loop_value': int64\[\]> is a value of one iteration of a loop, and is needed outside"
        with pytest.raises(MissingFeedError, match=message):
            values(one)


def test_values_of_one_iteration_are_not_to_be_fed(graph: ag.Graph) -> None:
    last = ag.while_loop(lambda a: a < 3, lambda a: a + 1, 0)

    with pytest.raises(FeedError, match="has another in each\n  built at .*\n  feed what the loop begins with"):
        values(last, {graph["loop_value"]: 1})


def test_the_node_that_runs_a_loop_is_not_to_be_fetched(graph: ag.Graph) -> None:
    ag.while_loop(lambda a: a < 3, lambda a: a + 1, 0)

    with pytest.raises(FetchError, match="^<while_loop 'while_loop': any> has no value of its own"):
        values([graph["while_loop"]])


# -- cost ------------------------------------------------------------------------------------------------


def test_thousands_of_iterations_take_no_more_memory_than_a_few(graph: ag.Graph) -> None:
    count = ag.placeholder("int64", ())
    _, last = ag.while_loop(lambda i, a: i < count, lambda i, a: (i + 1, a * 0.5 + 1.0), (0, np.zeros(1000)))
    peaks: list[int] = []
    with ag.BlockingSession(graph) as session:
        for iterations in (100, 10, 4_000):
            tracemalloc.start()
            session.run(last, {count: iterations})
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    assert peaks[2] < peaks[1] + 8_000


async def test_iterations_that_are_awaited_take_no_more_memory_each(graph: ag.Graph) -> None:
    count = ag.placeholder("int64", ())

    async def half(a: Any) -> Any:
        return a * 0.5

    halved = ag.op(half, spec="float64[1000]")
    _, last = ag.while_loop(lambda i, a: i < count, lambda i, a: (i + 1, halved.node(a)), (0, np.zeros(1000)))
    peaks: list[int] = []
    async with ag.Session(graph) as session:
        for iterations in (100, 10, 200):
            tracemalloc.start()
            await session.run(last, {count: iterations})
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    assert peaks[2] < peaks[1] + 30_000


def test_a_body_is_emitted_once_it_is_hot(graph: ag.Graph) -> None:
    last = ag.while_loop(lambda i: i < 60, lambda i: i + 1, 0)
    with ag.BlockingSession(graph) as session:
        assert "emitted" not in str(session.explain(last))
        session.run(last)
        text = str(session.explain(last))

    assert len(re.findall(r"segment 0: computed on .*, emitted", text)) == 2


def test_a_plan_with_a_loop_is_made_once(graph: ag.Graph) -> None:
    last = ag.while_loop(lambda i: i < 6, lambda i: i + 1, 0)
    with ag.BlockingSession(graph) as session:
        session.run(last)
        plan = session.explain(last).plan
        session.run(last)

        assert session.explain(last).plan is plan


def test_a_plan_says_that_it_has_a_loop_and_shows_what_that_runs(graph: ag.Graph) -> None:
    last = ag.while_loop(lambda i: i < 6, lambda i: i + 1, 0)
    with ag.BlockingSession(graph) as session:
        text = str(session.explain(last))

    assert "\n    condition: plan of 1 nodes" in text
    assert "\n    body: plan of 1 nodes" in text
    assert "\n  segment 0: on a worker: it has a loop\n" in text
    assert "not needed" not in text
