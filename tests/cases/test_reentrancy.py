"""Public failures of runs inside runs: pools that are full of those who wait for them, and locks taken twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import asyncgraph as ag

GUARD_S = 20
SMALL = [1, 2, 4]


def multiplying(graph: ag.Graph) -> tuple[ag.Node, ag.Node, ag.Node]:
    with graph:
        a, b = ag.placeholder("float64", (), name="a"), ag.placeholder("float64", (), name="b")
        return a, b, ag.ops.multiply(a, b, name="product")


@pytest.mark.parametrize("pool", SMALL)
@pytest.mark.parametrize("is_async", [False, True])
async def test_ag_107_ops_run_the_session_again_though_every_thread_is_taken_by_one(pool: int, is_async: bool) -> None:
    """Callbacks that call the session deadlock when all workers are occupied by them:
    https://github.com/tensorflow/tensorflow/issues/4917, https://github.com/tensorflow/tensorflow/issues/32454,
    https://github.com/tensorflow/tensorflow/issues/48418.
    """
    graph = ag.Graph()
    a, b, product = multiplying(graph)

    def inner(x: float) -> float:
        return session.run_blocking(product, {a: 2.0, b: x}).results + 1

    async def inner_async(x: float) -> float:
        return (await session.run(product, {a: 2.0, b: x})).results + 1

    outer = ag.op(inner_async if is_async else inner)
    with graph:
        nodes = [outer.node(float(x)) for x in range(pool + 4)]
    config = ag.SessionConfig(threads=pool, workers=1, max_concurrent_runs=1, max_pending_runs=0)
    async with asyncio.timeout(GUARD_S), ag.Session(graph, config=config) as session:
        values = await session.run(nodes)

    assert values.results == [2.0 * x + 1 for x in range(pool + 4)]


@pytest.mark.parametrize("pool", SMALL)
@pytest.mark.parametrize("depth", [1, 2, 3, 5, 10, 20])
@pytest.mark.parametrize("is_async", [False, True])
async def test_ag_108_runs_nest_as_deep_as_one_likes_on_a_pool_of_any_size(
    pool: int, depth: int, is_async: bool
) -> None:
    """Every level pinned threads of one pool: https://github.com/xorq-labs/xorq/issues/2243."""
    graph = ag.Graph()
    with graph:
        level = ag.placeholder(None, name="level")

    def nested(n: int) -> int:
        return 0 if n == 0 else 1 + session.run_blocking("node", {"level": n - 1}).results

    async def nested_async(n: int) -> int:
        return 0 if n == 0 else 1 + (await session.run("node", {"level": n - 1})).results

    with graph:
        node = ag.op(nested_async if is_async else nested)
        node.node(level, name="node")
    config = ag.SessionConfig(threads=pool, workers=1, max_concurrent_runs=1)
    async with asyncio.timeout(GUARD_S), ag.Session(graph, config=config) as session:
        values = await asyncio.gather(*[session.run("node", {"level": depth}) for _ in range(3)])

    assert [one.results for one in values] == [depth] * 3


def test_ag_108_runs_nest_in_a_blocking_session_in_the_same_thread() -> None:
    """The same in plain threads: https://github.com/xorq-labs/xorq/issues/2243."""

    def nested(n: int) -> int:
        return 0 if n == 0 else 1 + session.run("node", {"level": n - 1}).results

    with ag.Graph() as graph:
        ag.op(nested)(ag.placeholder(None, name="level"), name="node")
    with ag.BlockingSession(graph, config=ag.SessionConfig(threads=1)) as session:
        assert session.run("node", {"level": 20}).results == 20
        assert session.submit("node", {"level": 20}).result(GUARD_S).results == 20


async def test_ag_110_a_graph_runs_itself_recursively() -> None:
    """The compile lock was taken again by the recursive call: https://github.com/tensorflow/tensorflow/issues/35540,
    https://github.com/tensorflow/tensorflow/pull/52729. No lock is held while user code runs.
    """

    def factorial(n: int) -> int:
        return 1 if n == 0 else n * session.run_blocking("factorial", {"n": n - 1}).results

    with ag.Graph() as graph:
        ag.op(factorial)(ag.placeholder(None, name="n"), name="factorial")
    async with asyncio.timeout(GUARD_S), ag.Session(graph, config=ag.SessionConfig(threads=1)) as session:
        assert (await session.run("factorial", {"n": 5})).results == 120


async def test_ag_110_two_tasks_plan_the_same_run_at_once() -> None:
    """The same lock, from two tasks: https://github.com/tensorflow/tensorflow/pull/52729."""
    with ag.Graph() as graph:
        y: Any = ag.placeholder("float64", (), name="x")
        for _ in range(3000):  # large enough to be planned on a worker
            y = y + 1.0
    async with asyncio.timeout(GUARD_S), ag.Session(graph) as session:
        values = await asyncio.gather(*[session.run(y, {"x": float(i)}) for i in range(4)])

    assert [one.results for one in values] == [3000.0 + i for i in range(4)]
