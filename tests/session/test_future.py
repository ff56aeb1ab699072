"""The future of a run: an asyncio.Future that gives fetches early."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.errors import FeedError, FetchError

from .gates import AsyncGate, Gate, one_node, turns


async def test_a_future_is_done_when_nothing_of_the_run_is_left() -> None:
    gate = Gate()
    graph, node = one_node(gate)
    async with ag.Session(graph) as session:
        future = session.submit(node)
        await gate.has_begun()
        asked = future.cancel()
        await turns(5)
        before = (future.done(), future.cancelled())
        gate.open()
        await asyncio.wait([future])

    assert asked
    assert before == (False, False)
    assert future.cancelled()
    assert not future.cancel()


async def test_a_future_follows_asyncio_future() -> None:
    graph, node = one_node(lambda: 5)
    async with ag.Session(graph) as session:
        called: list[Any] = []
        first, second, third = session.submit(node), session.submit(node), session.submit(node)
        first.add_done_callback(called.append)
        with pytest.raises(asyncio.InvalidStateError):
            first.result()
        done, pending = await asyncio.wait([first])
        gathered = await asyncio.gather(second, first)
        shielded = await asyncio.shield(third)
        wrapped = await asyncio.wait_for(session.submit(node), 5)

    assert (done, pending) == ({first}, set())
    assert called == [first]
    assert [one.results for one in (*gathered, shielded, wrapped)] == [5] * 4
    assert first.exception() is None
    assert isinstance(first, asyncio.Future)


@pytest.mark.parametrize("change", ["set_result", "set_exception"])
async def test_nobody_but_its_run_sets_the_result_of_a_future(change: str) -> None:
    graph, node = one_node(lambda: 5)
    async with ag.Session(graph) as session:
        future = session.submit(node)
        with pytest.raises(RuntimeError, match="does not support"):
            getattr(future, change)(1)
        assert (await future).results == 5


async def test_cancelling_a_shield_keeps_the_run_and_cancelling_gather_ends_it() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate)
    async with ag.Session(graph) as session:
        kept = session.submit(node)
        shield = asyncio.shield(kept)
        await gate.has_begun()
        shield.cancel()
        await turns(3)
        still_running = not kept.done()
        both = asyncio.gather(kept, session.submit(node))
        both.cancel()
        with pytest.raises(asyncio.CancelledError):
            await both

    assert still_running
    assert kept.cancelled()


async def test_validation_is_done_by_submit_itself() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("int32", (3,), name="x")
        y = x + 1
    async with ag.Session(graph) as session:
        with pytest.raises(FeedError):
            session.submit(y, {x: 1.5})
        with pytest.raises(FetchError):
            session.submit("nothing")
        assert session.statistics().runs_started == 0


async def test_a_cancelled_future_that_nobody_awaits_is_silent_and_a_failed_one_is_not() -> None:
    noise: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context["message"]))

    def fail() -> None:
        raise ValueError

    graph, node = one_node(fail)
    async with ag.Session(graph) as session:
        session.submit(node).cancel()
        await turns(2)
        gc.collect()
        silent = list(noise)
        future = session.submit(node)
        await asyncio.wait([future])
        del future
        gc.collect()

    assert silent == []
    assert noise == ["PlainRunFuture exception was never retrieved"]


async def test_a_run_that_is_cancelled_while_it_waits_for_a_place_lets_the_next_one_have_it() -> None:
    gate = AsyncGate()
    with ag.Graph() as graph:
        slow = ag.op(gate).node()
        quick = ag.op(lambda: "quick").node()
    async with ag.Session(graph, config=ag.SessionConfig(max_concurrent_runs=1)) as session:
        first = session.submit(slow)
        await gate.has_begun()
        second, third = session.submit(quick), session.submit(quick)
        await turns(3)
        first.add_done_callback(lambda _: second.cancel())  # it has just been given the place
        gate.open()
        async with asyncio.timeout(5):
            values = await third

    assert values.results == "quick"
    assert second.cancelled()


async def test_a_fetch_is_given_before_the_run_ends() -> None:
    gate = AsyncGate()
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        early = ag.op(lambda v: v + 1)(x, name="early")
        late = ag.op(gate)(early)
        kernel = x * 2.0
    async with ag.Session(graph) as session:
        future = session.submit([early, late, kernel, x], {x: [1.0]})
        async with asyncio.timeout(5):
            values = [await future.fetched(one) for one in (early, "early", kernel, x)]
        before = future.done()
        gate.open()
        results = (await future).results
        again = await future.fetched(late)

    assert not before
    assert [one.tolist() for one in values] == [[2.0], [2.0], [2.0], [1.0]]
    assert values[0] is results[0]
    assert again is results[1]


async def test_asking_for_what_is_no_fetch_is_an_error_and_leaves_the_run_alone() -> None:
    with ag.Graph() as graph:
        node = ag.op(lambda: 1).node()
        other = ag.op(lambda: 2).node(name="other")
    async with ag.Session(graph) as session:
        future = session.submit(node)
        with pytest.raises(FetchError, match="other.* is not among the fetches of this run"):
            future.fetched(other)
        assert (await future).results == 1
        with pytest.raises(FetchError):
            future.fetched(other)


@pytest.mark.parametrize("cancel", [False, True])
async def test_a_fetch_that_never_comes_raises_what_ended_the_run(cancel: bool) -> None:
    gate = AsyncGate()

    async def wait_and_fail() -> None:
        await gate()
        raise ValueError("ended")

    graph, node = one_node(wait_and_fail)
    async with ag.Session(graph) as session:
        future = session.submit(node)
        fetched, ignored = future.fetched(node), future.fetched("n")
        await gate.has_begun()
        if cancel:
            future.cancel()
        gate.open()
        with pytest.raises(asyncio.CancelledError if cancel else ValueError):
            await fetched
        del ignored
        await asyncio.wait([future])
        future.cancelled() or future.exception()


async def test_a_run_that_waits_holds_no_thread() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate)
    async with ag.Session(graph) as session:
        before = threading.active_count()
        futures = [session.submit(node) for _ in range(50)]
        await gate.has_begun()
        assert threading.active_count() == before
        gate.open()
        await asyncio.gather(*futures)
