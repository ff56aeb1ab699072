"""Branches and loops in all that a session does with a graph."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops


@pytest.fixture
def x(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("float64", (), name="x")


@pytest.fixture
def both(x: ag.Node) -> list[ag.Node]:
    return [
        ag.cond(x > 0, lambda: x * 2, lambda: -x, name="chosen"),
        ag.while_loop(lambda a: a < 100, lambda a: a * 2 + 1, ops.abs(x), name="last"),
    ]


def expected(x: float) -> list[float]:
    last = abs(x)
    while last < 100:
        last = last * 2 + 1
    return [x * 2 if x > 0 else -x, last]


async def test_prepared_runs_give_them(x: ag.Node, both: list[ag.Node]) -> None:
    async with ag.Session(x.graph) as session:
        run = session.prepare(both, [x])

        assert [list((await run(float(i))).results) for i in (-2, 0, 3)] == [expected(float(i)) for i in (-2, 0, 3)]


async def test_many_runs_at_once_give_them(x: ag.Node, both: list[ag.Node]) -> None:
    numbers = [float(i) for i in range(-10, 10)]
    async with ag.Session(x.graph) as session:
        asked = [ag.RunArgs(both, {x: one}) for one in numbers]

        assert [list(one.results) async for one in session.map(asked, concurrency=5)] == list(map(expected, numbers))


async def test_fetches_come_as_they_are_there(x: ag.Node, both: list[ag.Node]) -> None:
    async with ag.Session(x.graph) as session:
        come = [one async for one in session.stream(ag.RunArgs(both, {x: 3.0}))]

    assert sorted(float(value) for _, value in come) == expected(3.0)


def test_names_find_them(x: ag.Node, both: list[ag.Node]) -> None:
    with ag.BlockingSession(x.graph) as session:
        assert session.run(["chosen:0", "last:0"], {"x": 3.0}).results == expected(3.0)


def test_a_graph_is_pickled_with_them_and_goes_on(x: ag.Node) -> None:
    v = ag.variable(0.0, "v")
    ag.cond(
        x > 0,
        lambda: ag.while_loop(lambda a: a < 10, lambda a: a + ag.cond(a > 5, lambda: a, lambda: x), x),
        lambda: v.assign_sub(x),
        name="chosen",
    )

    with pickle.loads(pickle.dumps(x.graph)) as graph:
        again = ag.cond(graph["chosen:0"] > 5, lambda: graph["x"], lambda: graph["v"] + 1.0)

    with ag.BlockingSession(graph) as session:
        assert session.run("chosen:0", {"x": 2.0}).results == 12.0
        assert session.run("chosen:0", {"x": -2.0}).results == 2.0
        assert session.run([again, "v"], {"x": 3.0}).results == [3.0, 2.0]


async def test_a_trace_has_what_was_awaited_in_a_branch_and_kernels_in_the_span_of_what_runs_them(
    x: ag.Node, both: list[ag.Node]
) -> None:
    async def same(value: Any) -> Any:
        return value

    op = ag.op(same, spec="float64[]")
    awaited = ag.cond(x > 0, lambda: op.node(x, name="awaited"), lambda: x, name="outer")
    async with ag.Session(x.graph) as session:
        values = await session.run(ag.RunArgs([*both, awaited], {x: 3.0}, ag.RunOptions(trace=True)))

    assert values.metadata.trace is not None
    names = [one.node.name for one in values.metadata.trace.spans]
    assert {"chosen", "last", "awaited", "outer"} <= set(names)
    assert names.index("awaited") < names.index("outer")
    assert not {"multiply", "multiply_1"} & set(names)


async def test_a_second_run_makes_no_plan(x: ag.Node, both: list[ag.Node]) -> None:
    async with ag.Session(x.graph) as session:
        for i in range(5):
            await session.run(both, {x: float(i)})

        assert session.statistics().plans == 1


async def test_a_cheap_cond_runs_on_the_loop_and_a_loop_on_a_worker(x: ag.Node, both: list[ag.Node]) -> None:
    async with ag.Session(x.graph) as session:
        chosen, last = [str(session.explain(one, {x: 1.0})) for one in both]

    assert "segment 0: on the loop" in chosen
    assert "segment 0: on a worker: it has a loop" in last


async def test_runs_with_user_ops_in_loops_start_no_more_workers_than_there_are_cores_for(graph: ag.Graph) -> None:
    y = ag.placeholder("float64", ("n",))
    op = ag.op(lambda i: i + 1, spec="int64[]")
    _, last = ag.while_loop(lambda i, _: i < 5, lambda i, a: (op.node(i), ops.sin(a)), (0, y))
    async with ag.Session(graph, config=ag.SessionConfig(workers=2)) as session:
        most = 0

        async def look() -> None:
            nonlocal most
            while True:
                most = max(most, session.statistics().worker_threads)
                await asyncio.sleep(0)

        looking = asyncio.ensure_future(look())
        await asyncio.gather(*[session.run(last, {y: np.ones(100_000)}) for _ in range(6)])
        looking.cancel()

    assert 1 <= most <= 2
