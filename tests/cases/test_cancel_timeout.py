"""Public failures in cancellation and time: lost, late, ignored, or leaving work behind."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FetchError, RunTimeoutError


def one_node(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[ag.Graph, ag.Node]:
    with ag.Graph() as graph:
        return graph, ag.op(**options)(function).node(*args)


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 10)


@pytest.mark.parametrize("turns", range(12))
async def test_ag_088_a_cancellation_in_the_tick_of_the_result_is_not_swallowed(turns: int) -> None:
    """`wait_for` returned the result although its task was cancelled:
    https://github.com/python/cpython/issues/86296,
    https://github.com/aio-libs-abandoned/async-timeout/issues/229.
    """
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait() -> int:
        return await answer

    graph, node = one_node(wait)
    async with ag.Session(graph) as session:
        task = asyncio.create_task(session.run(ag.RunArgs(node, options=ag.RunOptions(timeout_s=10))))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not answer.done():
            answer.set_result(7)
        had_ended = task.done()
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled() or had_ended


@pytest.mark.parametrize("turns", range(12))
async def test_ag_088_a_cancellation_some_turns_after_the_result_is_not_swallowed(turns: int) -> None:
    """The same, cancelled a few turns later: https://github.com/python/cpython/issues/86296."""
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait() -> int:
        return await answer

    graph, node = one_node(wait)
    async with ag.Session(graph) as session:
        task = asyncio.create_task(session.run(node))
        for _ in range(6):
            await asyncio.sleep(0)
        answer.set_result(7)
        for _ in range(turns):
            await asyncio.sleep(0)
        had_ended = task.done()
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled() or had_ended


async def test_ag_090_a_cancelled_run_waits_for_its_thread_and_drops_the_late_result() -> None:
    """The thread cannot be stopped, and was hidden: https://github.com/python/cpython/issues/107505,
    https://github.com/python/cpython/issues/111358. By default the run waits for it (`Session.run`).
    """
    begun, release = threading.Event(), threading.Event()
    after: list[Any] = []

    def slow() -> str:
        begun.set()
        release.wait(10)
        return "late"

    with ag.Graph() as graph:
        late = ag.op(slow).node()
        seen = ag.op(after.append)(late)
        x = ag.placeholder(None)
        other = ag.op(lambda v: v + 1)(x)
    async with ag.Session(graph, config=ag.SessionConfig(threads=1)) as session:
        task = asyncio.create_task(session.run(seen))
        await until(begun)
        task.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        still_running = not task.done()
        release.set()
        await asyncio.wait([task])
        values = await asyncio.gather(*[session.run(other, {x: i}) for i in range(20)])

    assert still_running
    assert task.cancelled()
    assert after == []
    assert [one.results for one in values] == list(range(1, 21))


async def test_ag_090_an_op_may_say_that_a_cancelled_run_does_not_wait_for_it() -> None:
    """The other outcome, with `abandon_on_cancel=True`: https://github.com/python/cpython/issues/107505."""
    begun, release = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        release.wait(10)
        return "late"

    with ag.Graph() as graph:
        late = ag.op(abandon_on_cancel=True)(slow).node(name="late")
        x = ag.placeholder(None)
        other = ag.op(lambda v: v + 1)(x)
    async with ag.Session(graph) as session:
        task = asyncio.create_task(session.run(late))
        await until(begun)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        ended_at_once = task.cancelled()
        abandoned = session.statistics().abandoned
        values = await asyncio.gather(*[session.run(other, {x: i}) for i in range(20)])
        release.set()

    assert ended_at_once
    assert abandoned == ("late",)
    assert session.statistics().abandoned == ()
    assert [one.results for one in values] == list(range(1, 21))


@pytest.mark.parametrize("abandons", [False, True])
async def test_ag_090_a_run_that_is_over_assigns_nothing_whenever_its_thread_returns(abandons: bool) -> None:
    """https://github.com/python/cpython/issues/107505, https://github.com/python/cpython/issues/111358."""
    begun, release = threading.Event(), threading.Event()

    def slow() -> Any:
        begun.set()
        release.wait(10)
        return np.float64(13.0)

    with ag.Graph() as graph:
        v = ag.variable(0.0)
        dead = v.assign(ag.op(slow, abandon_on_cancel=abandons).node())
        bump = v.assign_add(1.0)
    async with ag.Session(graph) as session:
        task = asyncio.create_task(session.run(dead))
        await until(begun)
        task.cancel()
        if not abandons:
            release.set()
        await asyncio.wait([task])
        await asyncio.gather(*[session.run(bump) for _ in range(20)])
        release.set()
    assert task.cancelled()
    assert session.store.snapshot()[v] == 20.0


async def test_ag_090_a_token_tells_the_thread_that_its_run_is_over() -> None:
    """The documented cancel token, `check_cancelled`: https://github.com/python/cpython/issues/111358."""
    begun = threading.Event()

    def loop_for_long() -> None:
        begun.set()
        while True:
            ag.check_cancelled()

    graph, node = one_node(loop_for_long)
    async with ag.Session(graph) as session:
        task = asyncio.create_task(session.run(node))
        await until(begun)
        task.cancel()
        await asyncio.wait([task], timeout=5)

    assert task.cancelled()


async def test_ag_091_late_results_of_cancelled_runs_disturb_nobody() -> None:
    """InvalidStateError in the loop, sometimes killing the worker: https://github.com/omnilib/aiosqlite/issues/80,
    https://github.com/python/asyncio/issues/255, https://github.com/empicano/aiomqtt/issues/122,
    https://github.com/apache/pulsar-client-python/pull/297.
    """
    noise: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
    draw = random.Random(91)
    graph, node = one_node(lambda: time.sleep(0.001))
    abandoned_graph, abandoned = one_node(lambda: time.sleep(0.001), abandon_on_cancel=True)
    async with ag.Session(graph) as session, ag.Session(abandoned_graph) as other:
        futures = [session.submit(node) if i % 2 else other.submit(abandoned) for i in range(200)]
        for future in draw.sample(futures, len(futures)):
            if draw.random() < 0.3:
                await asyncio.sleep(0.001)
            future.cancel()
        await asyncio.wait(futures)

    assert noise == []
    assert all(one.cancelled() or one.result().results is None for one in futures)


async def test_ag_093_the_deadline_covers_waiting_for_a_place() -> None:
    """The timeout started only after set-up: https://github.com/tensorflow/tensorflow/issues/14489.

    (Hooks and batching come later; planning and queueing are what there is.)
    """
    release = asyncio.Event()
    graph, node = one_node(release.wait)
    async with ag.Session(graph, config=ag.SessionConfig(max_concurrent_runs=1)) as session:
        first = session.submit(node)
        with pytest.raises(TimeoutError, match="timeout_s=0.05"):
            await session.run(node, options=ag.RunOptions(timeout_s=0.05))
        assert not first.done()
        release.set()
        await first


async def test_ag_093_the_deadline_covers_planning() -> None:
    """The same while a large graph is planned: https://github.com/tensorflow/tensorflow/issues/14489."""
    with ag.Graph() as graph:
        y = x = ag.placeholder("float64", (3,))
        for _ in range(30_000):
            y = y + x
    async with ag.Session(graph) as session:
        with pytest.raises(RunTimeoutError):
            await session.run(y, {x: np.ones(3)}, ag.RunOptions(timeout_s=0.02))
        assert session.statistics().plans == 0  # It was not waited for.


async def test_ag_094_a_long_chain_of_cheap_nodes_sees_its_deadline_and_lets_the_loop_go_on() -> None:
    """The loop construct did not look at the cancellation flag: https://github.com/tensorflow/tensorflow/issues/22217.

    The chain is run again and again until its time is up, which is the same to the run and needs fewer nodes.
    """
    with ag.Graph() as graph:
        y = x = ag.placeholder("float64", (3,))
        for _ in range(20_000):
            y = y + x

    async def turns_beside(work: Coroutine[Any, Any, None]) -> int:
        """How many turns the loop has while `work` goes on."""
        turns = 0
        task = asyncio.create_task(work)
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        await task
        return turns

    async with ag.Session(graph) as session:

        async def run_until_time_is_up() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    while True:
                        await session.run(y, {x: np.ones(3)})

        await session.run(y, {x: np.ones(3)})
        with pytest.raises(TimeoutError):
            await session.run(y, {x: np.ones(3)}, ag.RunOptions(timeout_s=0.002))
        turns = await turns_beside(run_until_time_is_up())

    assert turns > 5  # One for each half millisecond; in one go it would be one.


async def test_ag_095_everybody_who_awaits_a_cancelled_run_is_told_at_once() -> None:
    """Getting a cancelled object could hang: https://github.com/ray-project/ray/issues/46157."""
    graph, node = one_node(asyncio.Event().wait)
    async with ag.Session(graph) as session:
        future = session.submit(node)

        async def consume() -> None:
            await future

        before = asyncio.create_task(consume())
        await asyncio.sleep(0)
        future.cancel()
        after = asyncio.create_task(consume())
        done, _ = await asyncio.wait([before, after], timeout=0.5)
        with pytest.raises(FetchError, match="RunFuture"):
            session.submit(future)

    assert done == {before, after}
    assert before.cancelled()
    assert after.cancelled()


async def test_ag_096_a_run_that_is_cancelled_before_it_starts_does_nothing() -> None:
    """The cancel found nothing, and the task ran to its end: https://github.com/ray-project/ray/issues/52628."""
    log: list[str] = []
    graph, node = one_node(log.append, "ran")
    async with ag.Session(graph) as session:
        task = asyncio.create_task(session.run(node))
        task.cancel()
        future = session.submit(node)
        future.cancel()
        await asyncio.wait([task, future], timeout=5)
        for _ in range(5):
            await asyncio.sleep(0)

    assert log == []
    assert task.cancelled()
    assert future.cancelled()
