"""Streams of fetches and maps over runs: order, back-pressure, and what is left when they are left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.errors import FetchError, RunArgsError

from .gates import AsyncGate, one_node, turns


def echo() -> tuple[ag.Graph, ag.Node, ag.Node]:
    """A graph whose node waits for the event it is fed, and gives the number that is fed with it."""

    async def wait(order: tuple[asyncio.Event, int]) -> int:
        event, number = order
        await event.wait()
        if number < 0:
            raise ValueError(f"run {number}")
        return number

    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        return graph, x, ag.op(wait)(x)


def opened() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


# -- streams ---------------------------------------------------------------------------------------------


async def test_a_stream_gives_fetches_in_the_order_in_which_they_are_done() -> None:
    gates = [AsyncGate() for _ in range(3)]
    with ag.Graph() as graph:
        nodes = [ag.op(gate).node(index, name=f"n{index}") for index, gate in enumerate(gates)]
    async with ag.Session(graph) as session:
        given: list[Any] = []
        stream = session.stream({"a": nodes[0], "b": ["n1", nodes[2], nodes[0]]})
        for index in (2, 0, 1):
            gates[index].open()
            given.append(await anext(stream))
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    assert given == [(nodes[2], 2), (nodes[0], 0), ("n1", 1)]


async def test_a_stream_raises_what_ends_its_run_and_is_exhausted_then() -> None:
    gate = AsyncGate()

    async def fail() -> None:
        await gate()
        raise ValueError("ended")

    with ag.Graph() as graph:
        first = ag.op(lambda: 1).node()
        second = ag.op(fail).node()
    async with ag.Session(graph) as session:
        stream = session.stream([second, first])
        assert await anext(stream) == (first, 1)
        gate.open()
        with pytest.raises(ValueError, match="ended"):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_leaving_a_stream_ends_its_run() -> None:
    gate = AsyncGate()
    with ag.Graph() as graph:
        nodes = [ag.op(lambda: 1).node(), ag.op(gate).node()]
    async with ag.Session(graph) as session:
        async with session.stream(nodes) as stream:
            async for _, value in stream:
                assert value == 1
                await gate.has_begun()
                break
        executing = session.statistics().runs_executing
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    assert gate.ended == ["cancelled"]
    assert executing == 0


async def test_a_stream_that_is_closed_before_it_began_runs_nothing() -> None:
    calls: list[Any] = []
    graph, node = one_node(calls.append, 1)
    async with ag.Session(graph) as session:
        stream = session.stream(node)
        await stream.aclose()
        assert [one async for one in stream] == []

    assert calls == []


async def test_cancelling_who_waits_for_a_stream_ends_its_run() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate)
    async with ag.Session(graph) as session:
        task = asyncio.ensure_future(anext(session.stream(node)))
        await gate.has_begun()
        task.cancel()
        await asyncio.wait([task])
        executing = session.statistics().runs_executing

    assert task.cancelled()
    assert gate.ended == ["cancelled"]
    assert executing == 0


async def test_a_task_that_is_cancelled_can_close_a_stream_and_go_on_cleaning_up() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate)
    cleaned: list[str] = []

    async def consume(session: ag.Session) -> None:
        stream = session.stream(node)
        reading = asyncio.ensure_future(anext(stream))
        try:
            await asyncio.Event().wait()
        finally:
            await stream.aclose()
            cleaned.append("after aclose")
            await asyncio.wait([reading])

    async with ag.Session(graph) as session:
        task = asyncio.create_task(consume(session))
        await gate.has_begun()
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled()
    assert cleaned == ["after aclose"]


# -- maps ------------------------------------------------------------------------------------------------


async def test_a_map_keeps_the_order_of_its_source_or_gives_what_is_done_first() -> None:
    graph, x, node = echo()
    async with ag.Session(graph) as session:
        for ordered in (True, False):
            events = [asyncio.Event() for _ in range(3)]
            args = [ag.RunArgs(node, {x: (event, i)}) for i, event in enumerate(events)]
            results = session.map(args, concurrency=3, ordered=ordered)
            first = asyncio.ensure_future(anext(results))
            events[2].set()
            await turns(10)
            assert first.done() == (not ordered)
            for event in events:
                event.set()
            given = [(await first).results, *[one.results async for one in results]]
            assert given == ([0, 1, 2] if ordered else [2, 0, 1])


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_map_takes_and_starts_no_more_than_its_concurrency(ordered: bool) -> None:
    graph, x, node = echo()
    taken: list[int] = []

    def source() -> Iterator[ag.RunArgs[Any]]:
        for i in range(100):
            taken.append(i)
            yield ag.RunArgs(node, {x: (opened(), i)})

    async with ag.Session(graph) as session:
        ahead: list[int] = []
        count = 0
        async for _ in session.map(source(), concurrency=4, ordered=ordered):
            count += 1
            await turns(5)
            ahead.append(len(taken) - count)

    assert count == 100
    assert max(ahead) <= 4


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_map_of_an_async_source_gives_what_is_done_while_it_waits_for_more(ordered: bool) -> None:
    graph, x, node = echo()
    answers: asyncio.Queue[int] = asyncio.Queue()

    async def source() -> AsyncIterator[ag.RunArgs[Any]]:
        for i in range(5):
            yield ag.RunArgs(node, {x: (opened(), i)})
            assert await answers.get() == i  # asks for the answer before it goes on

    given: list[int] = []
    async with asyncio.timeout(5), ag.Session(graph) as session:
        async for values in session.map(source(), concurrency=3, ordered=ordered):
            given.append(values.results)
            answers.put_nowait(values.results)

    assert given == list(range(5))


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_error_of_the_source_ends_the_runs_in_flight(is_async: bool) -> None:
    graph, x, node = echo()

    def source() -> Iterator[ag.RunArgs[Any]]:
        yield ag.RunArgs(node, {x: (asyncio.Event(), 0)})
        raise ValueError("of the source")

    async def source_async() -> AsyncIterator[ag.RunArgs[Any]]:
        for one in source():
            yield one

    async with asyncio.timeout(5), ag.Session(graph) as session:
        results = session.map(source_async() if is_async else source(), concurrency=2)
        with pytest.raises(ValueError, match="of the source"):
            await anext(results)
        assert session.statistics().runs_executing == 0
        assert [one async for one in results] == []


async def test_an_error_of_a_run_ends_the_others() -> None:
    graph, x, node = echo()
    args = [ag.RunArgs(node, {x: (opened(), -1)}), ag.RunArgs(node, {x: (asyncio.Event(), 1)})]
    async with asyncio.timeout(5), ag.Session(graph) as session:
        results = session.map(args, concurrency=2)
        with pytest.raises(ValueError, match="run -1"):
            await anext(results)
        assert session.statistics().runs_executing == 0


@pytest.mark.parametrize("is_async", [False, True])
async def test_leaving_a_map_ends_its_runs_and_takes_nothing_more(is_async: bool) -> None:
    graph, x, node = echo()
    taken: list[int] = []

    def source() -> Iterator[ag.RunArgs[Any]]:
        for i in range(100):
            taken.append(i)
            yield ag.RunArgs(node, {x: (opened() if i == 0 else asyncio.Event(), i)})

    async def source_async() -> AsyncIterator[ag.RunArgs[Any]]:
        for one in source():
            yield one

    async with ag.Session(graph) as session:
        async with session.map(source_async() if is_async else source(), concurrency=3) as results:
            async for values in results:
                assert values.results == 0
                break
        executing = session.statistics().runs_executing
        await results.aclose()

    assert executing == 0
    assert len(taken) <= 4


async def test_cancelling_who_waits_for_a_map_ends_its_runs_and_its_source() -> None:
    graph, x, node = echo()
    ended: list[str] = []

    async def source() -> AsyncIterator[ag.RunArgs[Any]]:
        yield ag.RunArgs(node, {x: (asyncio.Event(), 0)})
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("source")

    async with ag.Session(graph) as session:
        results = session.map(source(), concurrency=3)
        task = asyncio.ensure_future(anext(results))
        await turns(10)
        task.cancel()
        await asyncio.wait([task])
        executing = session.statistics().runs_executing

    assert task.cancelled()
    assert executing == 0
    assert ended == ["source"]


async def test_a_map_says_what_is_wrong_with_its_arguments() -> None:
    graph, _, _ = echo()
    async with ag.Session(graph) as session:
        with pytest.raises(RunArgsError, match="concurrency=0"):
            session.map([], concurrency=0)
        with pytest.raises(RunArgsError, match="concurrency='2'"):
            session.map([], concurrency="2")  # pyright: ignore[reportArgumentType]  # the point
        with pytest.raises(FetchError, match="None"):
            await anext(session.map([None], concurrency=1))  # pyright: ignore[reportArgumentType]  # the point
        assert [one async for one in session.map([], concurrency=1)] == []
