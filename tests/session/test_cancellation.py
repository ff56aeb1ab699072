"""How a run is waited for, cancelled and timed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

import asyncgraph as ag
from asyncgraph.errors import NodeTimeoutError, RunTimeoutError

from .gates import AsyncGate, Gate, one_node, turns


async def cancel_and_open(task: asyncio.Task[Any], gate: Gate, times: int = 1) -> bool:
    """Cancels a task some times; whether it went on waiting until the gate was opened."""
    for _ in range(times):
        task.cancel()
        await turns(10)
    waited = not task.done()
    gate.open()
    await asyncio.wait([task])
    return waited


# -- cancellation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_cancelling_waits_for_the_running_call_and_starts_no_other(times: int) -> None:
    gate, later = Gate(), []
    with ag.Graph() as graph:
        late = ag.op(gate).node()
        after = ag.op(later.append)(late)
    async with ag.Session(graph) as session:
        task = asyncio.create_task(session.run(after))
        await gate.has_begun()
        waited = await cancel_and_open(task, gate, times)

    assert waited
    assert task.cancelled()
    assert later == []


async def test_one_cancelled_error_comes_out_and_uncancel_counts_stay_right() -> None:
    gate = Gate()
    graph, node = one_node(gate)
    counts: list[int] = []

    async def caller(session: ag.Session) -> str:
        task = asyncio.current_task()
        assert task is not None
        with contextlib.suppress(asyncio.CancelledError):
            await session.run(node)
        counts.append(task.cancelling())
        while task.uncancel():
            pass
        await asyncio.sleep(0)  # a second CancelledError would come out here
        return "went on"

    async with ag.Session(graph) as session:
        task = asyncio.create_task(caller(session))
        await gate.has_begun()
        await cancel_and_open(task, gate, 3)

    assert task.result() == "went on"
    assert counts == [3]


async def test_an_outer_timeout_ends_the_run_and_raises_timeout_error() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate)
    async with ag.Session(graph) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await session.run(node)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    assert gate.ended == ["cancelled"]


async def test_of_nested_timeouts_the_one_that_was_first_raises() -> None:
    gate = Gate()
    graph, node = one_node(gate)
    raised: list[str] = []

    async def run(session: ag.Session) -> None:
        try:
            async with asyncio.timeout(0.01):
                asyncio.get_running_loop().call_later(0.06, gate.open)
                await session.run(node)
        except TimeoutError:
            raised.append("inner")
        except asyncio.CancelledError:
            raised.append("cancelled")
            raise

    async with ag.Session(graph) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.03):  # passes while the inner one is waited for
                await run(session)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    assert raised == ["cancelled"]  # both had passed: the outer one's


async def test_a_task_group_ends_the_runs_of_its_other_tasks() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate)

    async def fail() -> None:
        await gate.has_begun()
        raise ValueError("a sibling")

    async def run_both(session: ag.Session) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(session.run(node))
            group.create_task(fail())

    async with ag.Session(graph) as session:
        with pytest.raises(ExceptionGroup) as caught:
            await run_both(session)

    assert [str(one) for one in caught.value.exceptions] == ["a sibling"]
    assert gate.ended == ["cancelled"]


async def test_an_anyio_scope_ends_the_run_and_a_shielded_wait_does_not_spin() -> None:
    gate, scope = Gate(), anyio.CancelScope()
    graph, node = one_node(gate)
    delivered = 0

    class Counting(asyncio.Task[Any]):
        def cancel(self, msg: Any | None = None) -> bool:
            nonlocal delivered
            delivered += 1
            return super().cancel(msg)

    async def caller(session: ag.Session) -> str:
        with scope:
            await session.run(node)
        assert scope.cancelled_caught
        await anyio.lowlevel.checkpoint()
        return "went on"

    async with ag.Session(graph) as session:
        task = Counting(caller(session), loop=asyncio.get_running_loop())
        await gate.has_begun()
        scope.cancel()
        await turns(100)
        assert not task.done()
        gate.open()
        assert await task == "went on"

    assert 1 <= delivered <= 3  # not one in each of a hundred turns


async def test_cancelling_an_anyio_task_group_ends_the_runs_in_it() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate)
    async with ag.Session(graph) as session, anyio.create_task_group() as group:
        group.start_soon(session.run, node)
        await gate.has_begun()
        group.cancel_scope.cancel()

    assert gate.ended == ["cancelled"]


async def test_a_shielded_anyio_scope_keeps_the_run() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate, "kept")
    results: list[Any] = []
    async with ag.Session(graph) as session:
        with anyio.CancelScope() as outer:
            asyncio.get_running_loop().call_later(0.01, gate.open)
            outer.cancel()
            with anyio.CancelScope(shield=True):
                results.append((await session.run(node)).results)

    assert results == ["kept"]


async def test_a_failure_while_a_cancelled_run_ends_is_not_reported_by_the_loop() -> None:
    noise: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
    gate = Gate()

    def fail() -> None:
        gate()
        raise ValueError("late")

    graph, node = one_node(fail)
    async with ag.Session(graph) as session:
        task = asyncio.create_task(session.run(node))
        await gate.has_begun()
        await cancel_and_open(task, gate)
        del task
        gc.collect()

    assert noise == []


# -- time ------------------------------------------------------------------------------------------------


async def test_a_run_that_takes_longer_than_its_timeout_is_ended_and_leaves_nothing() -> None:
    gate = AsyncGate()
    graph, node = one_node(gate)
    async with ag.Session(graph) as session:
        with pytest.raises(RunTimeoutError, match=r"longer than its timeout_s=0\.01") as caught:
            await session.run(node, options=ag.RunOptions(timeout_s=0.01))
        executing = session.statistics().runs_executing

    assert isinstance(caught.value, TimeoutError)
    assert gate.ended == ["cancelled"]
    assert executing == 0


@pytest.mark.parametrize("timeout_s", [0, 1e-9])
@pytest.mark.parametrize("kind", ["fed", "kernel", "op", "async"])
async def test_a_run_whose_time_is_over_before_it_starts_runs_nothing_in_either_session(
    kind: str, timeout_s: float
) -> None:
    called: list[Any] = []

    async def call(value: Any) -> None:
        called.append(value)

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        fetch = {"fed": x, "kernel": x + 1.0, "op": ag.op(called.append)(x), "async": ag.op(call)(x)}[kind]
    args = ag.RunArgs(fetch, {x: [1.0]}, ag.RunOptions(timeout_s=timeout_s))

    async with ag.Session(graph) as session:
        with ag.BlockingSession(graph) as blocking:
            await session.run(fetch, {x: [1.0]})
            await asyncio.to_thread(blocking.run, fetch, {x: [1.0]})
            called.clear()
            runs: list[Callable[[ag.RunArgs[Any]], Awaitable[Any]]]
            runs = [session.run, session.submit, partial(asyncio.to_thread, blocking.run)]
            await turns(2)  # The plan is known, and the loop's turn has time: a cheap run would be done at once.
            for run in runs:
                with pytest.raises(RunTimeoutError, match=f"timeout_s={timeout_s}"):
                    await run(args)
        assert session.statistics().runs_executing == 0

    assert called == []


async def test_a_run_that_is_out_of_time_waits_for_its_thread() -> None:
    gate = Gate()
    graph, node = one_node(gate)
    async with ag.Session(graph) as session:
        future = session.submit(node, options=ag.RunOptions(timeout_s=0.3))
        await gate.has_begun()
        await asyncio.sleep(0.35)
        waited = not future.done()
        gate.open()
        with pytest.raises(RunTimeoutError):
            await future

    assert waited


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_call_that_takes_longer_than_its_ops_timeout_names_its_node(is_async: bool) -> None:
    gate: Any = AsyncGate() if is_async else Gate()
    graph, node = one_node(gate, timeout_s=0.01)
    async with ag.Session(graph) as session:
        asyncio.get_running_loop().call_later(0.05, gate.open)
        with pytest.raises(NodeTimeoutError, match=r"'n' took longer than its timeout_s=0\.01") as caught:
            await session.run(node)

    assert isinstance(caught.value, TimeoutError)
    assert "node 'n' (Gate) failed" in caught.value.__notes__[0] or is_async


async def test_a_call_that_may_be_abandoned_is_not_waited_for_when_its_own_time_is_up() -> None:
    gate = Gate()
    graph, node = one_node(gate, timeout_s=0.01, abandon_on_cancel=True)
    async with ag.Session(graph) as session:
        with pytest.raises(NodeTimeoutError):
            await session.run(node)
        still_running = gate.begun.is_set() and not gate.release.is_set()
        gate.open()

    assert still_running
