"""How a run on real threads ends: stopped, failed, abandoned; once, and with nothing left."""

from __future__ import annotations

import asyncio
import random
import time
import weakref
from concurrent.futures import Future
from threading import Event
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._exec.calls import current_call
from asyncgraph._exec.workers import ThreadPool

from .helpers import PATIENCE_S, Watched, open_host, plan_of


@ag.op
def nothing(*values: object) -> None:
    """A call in a thread."""


@ag.op
async def nothing_awaited(*values: object) -> None:
    """A coroutine."""


@pytest.mark.parametrize("elements", [0, 1000], ids=["on the loop", "on a worker"])
async def test_a_kernel_that_fails_ends_the_run_with_its_own_exception_and_a_note(elements: int) -> None:
    with ag.Graph() as graph:
        x, y = ag.placeholder("float64", (None,)), ag.placeholder("float64", (None,))
        nodes = [ag.ops.add(x, y, name="sum"), nothing.node()]
    async with open_host(budget_s=0.0) as host:
        run = Watched(host, plan_of(graph, nodes, [x, y]), [np.zeros(2), np.zeros(3)], elements)
        run.run.start()
        error = await run.error()
        assert type(error) is ValueError
        (note,) = error.__notes__
        assert note.startswith("asyncgraph: node 'sum' (add) failed\n  inputs: float64[2], float64[3]\n")
        assert run.run.frame == []


@pytest.mark.parametrize("elements", [0, 50_000], ids=["on the loop", "on a worker"])
async def test_a_long_segment_ends_between_two_chunks_when_its_run_is_stopped(elements: int) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None,))
        node = x
        for _ in range(1000):
            node = ag.ops.sin(node)
        other = nothing.node()
    async with open_host(budget_s=0.0) as host:
        run = Watched(host, plan_of(graph, [node, other], [x]), [np.ones(elements)], elements)
        run.run.start()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        run.run.stop(TimeoutError())
        assert isinstance(await run.error(), TimeoutError)
        assert (host.counters.inline_segments, host.counters.offloaded_segments) == (0, 0)


async def test_an_op_may_end_its_own_run() -> None:
    runs: list[Watched] = []

    @ag.op
    async def end_it() -> None:
        runs[0].run.stop(KeyError("own"))
        await asyncio.sleep(3600)

    with ag.Graph() as graph:
        node = end_it.node()
    async with open_host() as host:
        runs.append(Watched(host, plan_of(graph, [node])))
        with pytest.raises(KeyError, match="own"):
            await runs[0].values()


async def test_a_stopped_run_waits_for_its_threads_and_starts_nothing_more() -> None:
    started, release, after = asyncio.Event(), Event(), list[int]()
    loop = asyncio.get_running_loop()

    @ag.op
    def hold() -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait(PATIENCE_S)

    @ag.op
    def follow(_: object) -> None:
        after.append(1)

    with ag.Graph() as graph:
        node = follow(hold.node())
    async with open_host() as host:
        run = Watched(host, plan_of(graph, [node]))
        run.run.start()
        await started.wait()
        run.run.stop(TimeoutError("stopped"))
        await asyncio.sleep(0.02)
        ended = run.ended.done()
        release.set()
        assert str(await run.error()) == "stopped"
    assert not ended
    assert after == []


async def test_what_a_thread_returned_to_be_awaited_is_closed_if_the_run_is_over_by_then() -> None:
    returning, release, closed = asyncio.Event(), Event(), list[str]()
    loop = asyncio.get_running_loop()

    async def late() -> None:
        closed.append("it began")

    @ag.op
    def make() -> Any:
        loop.call_soon_threadsafe(returning.set)
        release.wait(PATIENCE_S)
        return late()  # A warning, which is an error here, if it is neither awaited nor closed.

    with ag.Graph() as graph:
        node = make.node()
    async with open_host() as host:
        run = Watched(host, plan_of(graph, [node]))
        run.run.start()
        await returning.wait()
        run.run.stop(TimeoutError())
        release.set()
        await run.error()
    assert closed == []


async def test_a_future_that_a_thread_returned_is_cancelled_if_the_run_is_over_by_then() -> None:
    returning, release, returned = asyncio.Event(), Event(), Future[None]()
    loop = asyncio.get_running_loop()

    @ag.op
    def make() -> Future[None]:
        loop.call_soon_threadsafe(returning.set)
        release.wait(PATIENCE_S)
        return returned

    with ag.Graph() as graph:
        node = make.node()
    async with open_host() as host:
        run = Watched(host, plan_of(graph, [node]))
        run.run.start()
        await returning.wait()
        run.run.stop(TimeoutError())
        release.set()
        await run.error()
    assert returned.cancelled()


async def test_a_run_whose_tasks_are_cancelled_from_outside_ends_and_is_cancelled() -> None:
    @ag.op
    async def wait() -> None:
        await asyncio.sleep(3600)

    with ag.Graph() as graph:
        nodes = [wait.node() for _ in range(3)]
    async with open_host() as host:
        for turns in (0, 1, 2):
            run = Watched(host, plan_of(graph, nodes))
            run.run.start()
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            assert isinstance(await run.error(), asyncio.CancelledError)


async def test_a_failure_cancels_the_coroutines_beside_it_and_waits_for_their_ends() -> None:
    cleaned: list[str] = []

    @ag.op
    async def wait() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.001)
            cleaned.append("cleaned")

    @ag.op
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("failed")

    with ag.Graph() as graph:
        nodes = [wait.node(), fail.node(), wait.node()]
    async with open_host() as host:
        with pytest.raises(ValueError, match="failed"):
            await Watched(host, plan_of(graph, nodes)).values()
    assert cleaned == ["cleaned", "cleaned"]


async def test_an_abandoned_call_is_named_until_it_returns_and_its_run_has_ended_before() -> None:
    started, release = asyncio.Event(), Event()
    loop = asyncio.get_running_loop()

    @ag.op(abandon_on_cancel=True)
    def stuck() -> str:
        loop.call_soon_threadsafe(started.set)
        release.wait(PATIENCE_S)
        return "late"

    with ag.Graph() as graph:
        node = stuck.node(name="stuck")
    async with open_host() as host:
        run = Watched(host, plan_of(graph, [node]))
        run.run.start()
        await started.wait()
        run.run.stop(TimeoutError("stopped"))
        assert str(await run.error()) == "stopped"
        assert list(host.abandoned.values()) == ["stuck"]
        release.set()
        await host.wait_until_idle()
        assert host.abandoned == {}


async def test_a_run_ends_once_however_its_ends_meet() -> None:
    """https://github.com/omnilib/aiosqlite/issues/80: 200 runs, stopped while their threads are finishing."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    drawn = random.Random(1)

    @ag.op
    def work(_: object = None) -> int:
        return sum(range(drawn.randrange(2000)))

    @ag.op(abandon_on_cancel=True)
    def left(_: object) -> int:
        return sum(range(2000))

    with ag.Graph() as graph:
        first = work.node()
        nodes = [work(left(first)), work(first), left(work(first))]
    plan = plan_of(graph, nodes)
    ends = {"values": 0, "stopped": 0}
    async with open_host() as host:
        for _ in range(200):
            run = Watched(host, plan)
            run.run.start()
            for _ in range(drawn.randrange(12)):
                await asyncio.sleep(0)
            run.run.stop(TimeoutError())
            error, _ = await run.ended
            assert run.ends == 1
            ends["values" if error is None else "stopped"] += 1
    assert complaints == []
    assert ends["stopped"] > 0


async def test_a_run_that_has_ended_keeps_no_values() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (3,))
        node = nothing.node()
        nodes = [ag.ops.sin(x), node]
    async with open_host() as host:
        run = Watched(host, plan_of(graph, nodes, [x]), [np.zeros(3)])
        await run.values()
        assert run.run.frame == []


async def test_a_system_that_gives_no_thread_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(self: ThreadPool) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPool, "_start", no_thread)
    with ag.Graph() as graph:
        node = nothing.node()
    async with open_host() as host:
        run = Watched(host, plan_of(graph, [node]))
        run.run.start()
        assert str(await run.error()) == "can't start new thread"


async def test_an_array_that_cannot_be_shown_to_an_op_fails_the_run() -> None:
    class Odd(np.ndarray):
        def __array_finalize__(self, other: object) -> None:
            if isinstance(other, Odd):
                raise TypeError("no views of it")

    @ag.op
    def make() -> Any:
        return np.ndarray.__new__(Odd, (3,))

    with ag.Graph() as graph:
        node = nothing(make.node())
    async with open_host() as host:
        with pytest.raises(TypeError, match="no views of it"):
            await Watched(host, plan_of(graph, [node])).values()


async def test_a_call_that_begins_while_its_run_is_being_stopped_is_told() -> None:
    viewed, stopped, told = asyncio.Event(), Event(), list[bool]()
    loop = asyncio.get_running_loop()

    class Slow(np.ndarray):
        def __array_finalize__(self, other: object) -> None:
            if isinstance(other, Slow):
                loop.call_soon_threadsafe(viewed.set)
                stopped.wait(PATIENCE_S)

    @ag.op(where="inline")
    def make() -> Any:
        return np.ndarray.__new__(Slow, (3,))

    @ag.op
    def work(_: object) -> None:
        scope = current_call.get()
        assert scope is not None
        told.append(scope.wait(PATIENCE_S))

    with ag.Graph() as graph:
        node = work(make.node())
    async with open_host() as host:
        run = Watched(host, plan_of(graph, [node]))
        run.run.start()
        await viewed.wait()
        run.run.stop(TimeoutError())
        stopped.set()
        await run.error()
    assert told == [True]


async def test_a_segment_that_was_ready_when_its_run_ended_is_placed_nowhere() -> None:
    with ag.Graph() as graph:
        nodes = [nothing_awaited.node(), nothing.node()]
    async with open_host() as host:
        run = Watched(host, plan_of(graph, nodes))
        run.run.scheduler.start()
        run.run.stop(TimeoutError())
        await run.error()
        before = asyncio.all_tasks()
        for segment in (0, 1):
            run.run.place(segment)
        assert asyncio.all_tasks() == before
        assert host.calls.threads == 0


async def test_a_run_that_has_ended_is_not_kept_by_the_clock_of_its_calls() -> None:
    @ag.op(timeout_s=3600)
    def quick() -> None:
        time.sleep(0)

    with ag.Graph() as graph:
        node = quick.node()
    async with open_host() as host:
        run = Watched(host, plan_of(graph, [node]))
        await run.values()
        kept = weakref.ref(run.run)
        del run
    await asyncio.sleep(0)  # Its thread, which had it in hand, has ended by now.
    assert kept() is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("how", ["thread", "inline", "async"])
async def test_an_exit_that_an_op_raises_ends_the_run_and_reaches_its_caller(
    kind: type[BaseException], how: str
) -> None:
    """https://github.com/python/cpython/issues/95571"""
    cleaned: list[str] = []
    began = asyncio.Event()

    def leave() -> None:
        raise kind("leave")

    async def leave_later() -> None:
        await asyncio.sleep(0)
        raise kind("leave")

    @ag.op
    async def beside() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cleaned.append("cleaned")

    op = ag.op(leave_later) if how == "async" else ag.op(where="inline" if how == "inline" else "thread")(leave)
    with ag.Graph() as graph:
        nodes = [beside.node()]
        with ag.control_dependencies([ag.op(began.wait).node()]):
            nodes.append(op.node())
    async with open_host() as host:
        run = Watched(host, plan_of(graph, nodes))
        run.run.start()
        assert type(await run.error()) is kind
    assert cleaned == ["cleaned"]
