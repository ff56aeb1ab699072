"""How many runs a session takes, and in which order they get their places."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.errors import SessionOverloadedError

from .gates import AsyncGate, one_node, turns


async def test_beyond_its_limits_a_session_refuses_runs_at_once() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate)
    config = ag.SessionConfig(max_concurrent_runs=2, max_pending_runs=1)
    async with ag.Session(graph, config=config) as session:
        runs = [session.submit(node) for _ in range(3)]
        with pytest.raises(SessionOverloadedError, match=r"3 runs are in flight, and the session takes 3"):
            session.submit(node)
        with pytest.raises(SessionOverloadedError):
            await session.run(node)
        gate.open()
        await asyncio.gather(*runs)
        assert (await session.run(node)).results == "late"


async def test_runs_that_wait_get_their_places_in_the_order_of_arrival() -> None:
    order: list[int] = []

    async def note(value: int) -> None:
        order.append(value)
        await asyncio.sleep(0)

    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        node = ag.op(note)(x)
    async with ag.Session(graph, config=ag.SessionConfig(max_concurrent_runs=2)) as session:
        runs: list[Any] = []
        for i in range(30):
            runs.append(session.submit(node, {x: i}))
            await turns(i % 3)  # so that some arrive just as a place falls free
        await asyncio.gather(*runs)

    # Two that start in one turn may change places.
    assert all(abs(order.index(i) - i) <= 1 for i in range(30))


async def test_runs_that_finish_where_they_are_called_do_not_count_twice() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        y = x + 1.0
    config = ag.SessionConfig(max_concurrent_runs=10, max_pending_runs=10, inline_budget_s=0.0)
    async with ag.Session(graph, config=config) as session:
        values = await asyncio.gather(*[session.run(y, {x: i}) for i in range(20)])
        assert [one.results for one in values] == [i + 1.0 for i in range(20)]
        more = await asyncio.gather(*[session.run(y, {x: i}) for i in range(21)], return_exceptions=True)

    assert [isinstance(one, SessionOverloadedError) for one in more] == [False] * 20 + [True]


@pytest.mark.parametrize("field", ["max_concurrent_runs", "threads", "workers", "plan_cache_size", "blas_threads"])
def test_a_limit_of_nothing_is_an_error(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}=0"):
        ag.SessionConfig(**{field: 0})  # pyright: ignore[reportArgumentType]  # one field after the other
