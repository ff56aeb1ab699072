"""Cheap runs, done where they are called: in one go, or over several turns of the loop."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

import asyncgraph as ag

LENGTH = 1000  # Five chunks.


def chain() -> tuple[ag.Graph, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        last = x
        for _ in range(LENGTH):
            last = ag.ops.add(last, 1.0)
    return graph, x, last


@asynccontextmanager
async def counted_turns() -> AsyncIterator[list[int]]:
    """Counts the turns of the loop."""
    turns = [0]

    async def count() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    try:
        yield turns
    finally:
        counting.cancel()


async def test_a_run_of_several_chunks_lets_the_loop_go_on_when_its_turn_has_no_time_left() -> None:
    graph, x, last = chain()
    async with ag.Session(graph, config=ag.SessionConfig(inline_budget_s=1e-6)) as session, counted_turns() as turns:
        await session.run(last, {x: [0.0]})  # The plan is made.
        before = turns[0]
        values = await session.run(last, {x: [1.0, 2.0]})
    np.testing.assert_array_equal(values.results, [1001.0, 1002.0])
    assert turns[0] - before >= 4


async def test_a_prepared_run_of_several_chunks_does_so_too() -> None:
    graph, x, last = chain()
    async with ag.Session(graph, config=ag.SessionConfig(inline_budget_s=1e-6)) as session, counted_turns() as turns:
        prepared = session.prepare(last, [x])
        await prepared([0.0])
        before = turns[0]
        values = await prepared([1.0])
    np.testing.assert_array_equal(values.results, [1001.0])
    assert turns[0] - before >= 4


async def test_a_run_of_several_chunks_that_has_time_is_done_in_its_own_turn() -> None:
    graph, x, last = chain()
    async with ag.Session(graph, config=ag.SessionConfig(inline_budget_s=60.0)) as session, counted_turns() as turns:
        await session.run(last, {x: [0.0]})
        await asyncio.sleep(0)
        before = turns[0]
        await session.run(last, {x: [1.0]})
    assert turns[0] == before


async def test_a_run_that_waits_for_its_next_turn_can_be_cancelled() -> None:
    graph, x, last = chain()
    async with ag.Session(graph, config=ag.SessionConfig(inline_budget_s=1e-6)) as session:
        await session.run(last, {x: [0.0]})
        fed = np.zeros(3)
        gone = weakref.ref(fed)
        running = asyncio.create_task(session.run(ag.RunArgs(last, {x: fed})))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        del running, fed
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert gone() is None
        np.testing.assert_array_equal((await session.run(last, {x: [1.0]})).results, [1001.0])


async def test_closing_waits_for_runs_that_wait_for_their_turn() -> None:
    graph, x, last = chain()
    session = ag.Session(graph, config=ag.SessionConfig(inline_budget_s=1e-6))
    await session.run(last, {x: [0.0]})
    running = [asyncio.create_task(session.run(last, {x: [float(i)]})) for i in range(5)]
    await asyncio.sleep(0)
    await session.aclose()
    assert [float((await one).results[0]) for one in running] == [1000.0, 1001.0, 1002.0, 1003.0, 1004.0]


async def test_a_failure_in_a_later_turn_names_its_node_and_keeps_no_arrays() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        last = x
        for _ in range(LENGTH):
            last = ag.ops.add(last, 1.0)
        bad = ag.ops.matmul(last, ag.placeholder("float64", ("m", 2), name="w"), name="bad")
    async with ag.Session(graph, config=ag.SessionConfig(inline_budget_s=1e-6)) as session:
        await session.run(bad, {x: [0.0], "w": [[1.0, 2.0]]})
        fed = np.zeros(3)
        gone = weakref.ref(fed)
        with pytest.raises(ValueError, match="mismatch") as raised:
            await session.run(ag.RunArgs(bad, {x: fed, "w": np.zeros((2, 2))}))
        assert "'bad'" in raised.value.__notes__[0]
        del fed
        assert gone() is None


async def test_a_deadline_is_seen_between_the_chunks_of_a_cheap_run() -> None:
    graph, x, last = chain()
    options = ag.RunOptions(timeout_s=1e-9)
    async with ag.Session(graph, config=ag.SessionConfig(inline_budget_s=1e-6)) as session:
        await session.run(last, {x: [0.0]})
        with pytest.raises(ag.errors.RunTimeoutError):
            await session.run(last, {x: [0.0]}, options)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("has_time", [False, True])
async def test_a_cheap_run_is_counted_however_it_ends(prepared: bool, has_time: bool) -> None:
    with ag.Graph() as graph:
        x, index = ag.placeholder("float64", ("n",)), ag.placeholder("int64", ())
        taken = ag.ops.take(x, index)
    async with ag.Session(graph) as session:
        ready = session.prepare(taken, [x, index])

        async def ask(at: int, has_time: bool = has_time) -> object:
            if not has_time:
                session.host.turn.charge(1.0)
            return await (ready([1.0], at) if prepared else session.run(taken, {x: [1.0], index: at}))

        for at in (0, 0, 5, 0, 5):
            try:
                await ask(at)
            except IndexError:
                assert at == 5
        task = asyncio.ensure_future(ask(0, has_time=False))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        seen = session.statistics()
    assert task.cancelled()
    assert (seen.runs_started, seen.runs_ended, seen.runs_waiting) == (6, 6, 0)


async def test_a_run_that_is_fed_too_much_to_be_cheap_does_not_wait_for_a_turn_of_the_cheap_ones() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = ag.ops.sin(x)
    async with ag.Session(graph) as session:
        await session.run(y, {x: np.ones(3)})
        seen = list[tuple[int, int]]()

        async def ask(size: int) -> None:
            session.host.turn.charge(1.0)
            await session.run(y, {x: np.ones(size)})

        for size in (3, 1_000_000):
            task = asyncio.ensure_future(ask(size))
            await asyncio.sleep(0)
            seen.append((session.runs.inline, len(session.runs.futures)))
            await task
    assert seen == [(1, 0), (0, 1)]


@pytest.mark.parametrize("prepared", [False, True])
async def test_a_run_of_several_chunks_that_is_cancelled_half_way_keeps_no_values(prepared: bool) -> None:
    graph, x, last = chain()
    async with ag.Session(graph, config=ag.SessionConfig(inline_budget_s=0.1)) as session:
        ready = session.prepare(last, [x])
        await ready([0.0])
        fed = np.zeros(3)
        watched = weakref.ref(fed)

        async def ask(value: object) -> None:
            session.host.turn.charge(0.1 - 1e-9)
            running = ready(value) if prepared else session.run(last, {x: value})
            del value  # What is raised keeps this frame.
            await running

        task = asyncio.ensure_future(ask(fed))
        del fed
        await asyncio.sleep(0)
        assert session.runs.inline == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as kept:
            await task
        del task
        assert kept.value.__traceback__ is not None
        assert watched() is None
