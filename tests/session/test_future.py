"""How a run is waited for, cancelled and timed, and what its future tells."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FeedError, FetchError, NodeTimeoutError, RunTimeoutError

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
    gate = Gate()
    graph, node = one_node(gate)
    loop_turns = 0

    async def count_turns() -> None:
        nonlocal loop_turns
        while True:
            await asyncio.sleep(0.001)
            loop_turns += 1

    delivered = 0

    class Counting(asyncio.Task[Any]):
        def cancel(self, msg: Any | None = None) -> bool:
            nonlocal delivered
            delivered += 1
            return super().cancel(msg)

    async def caller(session: ag.Session) -> str:
        with anyio.move_on_after(0.01) as scope:
            await session.run(node)
        assert scope.cancelled_caught
        await anyio.lowlevel.checkpoint()
        return "went on"

    async with ag.Session(graph) as session:
        counting = asyncio.create_task(count_turns())
        loop = asyncio.get_running_loop()
        task = Counting(caller(session), loop=loop)
        loop.call_later(0.1, gate.open)
        assert await task == "went on"
        counting.cancel()
        await asyncio.wait([counting])

    assert loop_turns > 5
    assert delivered <= 3  # not one in each of the turns of a tenth of a second


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


# -- the future ------------------------------------------------------------------------------------------


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
    assert noise == ["RunFuture exception was never retrieved"]


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


# -- what is kept ----------------------------------------------------------------------------------------


def kernel_failure(x: ag.Node) -> ag.Node:
    return ag.ops.concat([x, ag.constant(np.zeros((2, 2)))], axis=0)


def user_failure(x: ag.Node) -> ag.Node:
    def fail(value: Any) -> None:
        del value
        raise ValueError("of a user")

    return ag.op(fail)(x)


def spec_failure(x: ag.Node) -> ag.Node:
    return ag.op(spec="int8[1]")(lambda value: value + 1)(x)


FAILURES: list[Callable[[ag.Node], ag.Node]] = [kernel_failure, user_failure, spec_failure]


class Fed(np.ndarray):
    """An array that can be watched."""


def living() -> int:
    gc.collect()
    return sum(isinstance(one, Fed) for one in gc.get_objects())


@pytest.mark.parametrize("runs", [1, 3, 60], ids=["new", "interpreted", "emitted"])
@pytest.mark.parametrize("size", [3, 300_000], ids=["small", "large"])
@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("how", ["run", "submit", "blocking"])
async def test_a_kept_exception_holds_no_arrays(fail: Any, how: str, size: int, runs: int) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        node = fail(x)
    kept: list[BaseException] = []

    def feeds() -> dict[Any, Any]:
        return {x: np.ones((size, 3)).view(Fed)}

    def block() -> None:
        with ag.BlockingSession(graph) as session:
            for _ in range(runs):
                try:
                    session.run(node, feeds())
                except Exception as error:
                    kept.append(error)

    if how == "blocking":
        await asyncio.to_thread(block)
    else:
        async with ag.Session(graph) as session:
            for _ in range(runs):
                try:
                    await (session.run(node, feeds()) if how == "run" else session.submit(node, feeds()))
                except Exception as error:
                    kept.append(error)

    assert len(kept) == runs
    assert living() == 0


async def test_an_exception_that_is_raised_again_has_one_note() -> None:
    error = ValueError("the same object")
    error.add_note("a note of the user's")

    def fail() -> None:
        raise error

    with ag.Graph() as graph:
        nodes = [ag.op(fail).node(name="a"), ag.op(fail).node(name="b")]
    async with ag.Session(graph) as session:
        for node in (*nodes, *nodes):
            with pytest.raises(ValueError, match="the same object"):
                await session.run(node)

    assert len(error.__notes__) == 2
    assert error.__notes__[0] == "a note of the user's"
    assert error.__notes__[1].startswith("asyncgraph: node 'b' (fail) failed\n  inputs: none\n  device: host\n")


class Frozen(Exception):
    """A class that forbids what notes and tracebacks are set by."""

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(f"{name} cannot be set")


@pytest.mark.parametrize("where", ["thread", "inline"])
async def test_an_exception_that_takes_no_note_is_raised_all_the_same(where: Any) -> None:
    def fail() -> None:
        raise Frozen("as it is")

    graph, node = one_node(fail, where=where)
    async with asyncio.timeout(5), ag.Session(graph) as session:
        with pytest.raises(Frozen, match="as it is"):
            await session.run(node)


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
