"""Every way to run has hooks, and what runs inside of a run has none."""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FeedError, FetchError, SessionClosedError, SessionError, SessionOverloadedError

from ..session.gates import AsyncGate, turns
from .recorder import Calls, Recorder, at, names, of_runs, square


async def test_run_submit_prepare_map_and_stream_call_hooks() -> None:
    graph, x, y = square()
    calls: Calls = []
    args = ag.RunArgs(y, {x: [2.0]})
    async with ag.Session(graph, hooks=[Recorder("A", calls, ag.RunArgs("x"))]) as session:

        async def one_of_each() -> list[Any]:
            return [
                (await session.run(args)).results,
                (await session.submit(args)).results,
                (await session.prepare(y, [x])([2.0])).results,
                *[values.results async for values in session.map([args], concurrency=2)],
                *[value async for _, value in session.stream(args)],
                (await asyncio.to_thread(session.run_blocking, args)).results,
            ]

        results = await one_of_each()

    assert results == [4.0] * 6
    assert names(of_runs(calls)) == ["A before_run", "A after_run"] * 6


async def test_a_run_that_a_node_starts_has_no_hooks() -> None:
    calls: Calls = []
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        y = ag.ops.square(x, name="y")

    async def outer() -> list[Any]:
        prepared = session.prepare(y, [x])
        return [
            (await session.run(y, {x: 2.0})).results,
            (await session.submit(y, {x: 3.0})).results,
            (await prepared(4.0)).results,
            (await session.run(y, {x: 5.0}, ag.RunOptions(hooks=(Recorder("R", calls),)))).results,
        ]

    with graph:
        node = ag.op(outer).node()
    async with ag.Session(graph, hooks=[Recorder("A", calls)]) as session:
        assert (await session.run(node)).results == [4.0, 9.0, 16.0, 25.0]

    assert names(of_runs(calls)) == ["A before_run", "A after_run"]


async def test_runs_that_a_hook_starts_have_no_hooks_whichever_method_starts_them() -> None:
    graph, x, y = square()
    calls: Calls = []
    results: list[Any] = []

    async def run(*given: Any) -> None:
        session = given[0] if isinstance(given[0], ag.Session) else given[0].session
        results.append((await session.run(y, {x: [3.0]})).results[0])

    hook = Recorder("A", calls, after_create_session=run, before_run=run, after_run=run, on_error=run, end=run)
    with graph:
        failing = ag.op(lambda: 1 / 0).node()
    async with ag.Session(graph, hooks=[hook]) as session:
        await session.run(y, {x: [2.0]})
        with pytest.raises(ZeroDivisionError):
            await session.run(failing)

    assert results == [9.0] * 6
    assert names(of_runs(calls)) == ["A before_run", "A after_run", "A before_run", "A on_error"]


async def test_variables_are_initialized_replaced_saved_and_restored_without_hooks(tmp_path: Any) -> None:
    calls: Calls = []
    with ag.Graph() as graph:
        v = ag.variable(np.zeros(2), name="v")
    async with ag.Session(graph, hooks=[Recorder("A", calls)]) as session:
        await session.initialize()
        await session.replace({v: np.ones(2)})
        await session.save(tmp_path / "one.safetensors")
        await session.restore(tmp_path / "one.safetensors")

    assert of_runs(calls) == []


async def test_submit_checks_fetches_and_feeds_at_the_call_and_calls_no_hook_for_what_is_wrong() -> None:
    graph, x, y = square()
    calls: Calls = []
    async with ag.Session(graph, hooks=[Recorder("A", calls)]) as session:
        with pytest.raises(FetchError, match="no node is named 'z'"):
            session.submit("z")
        with pytest.raises(FeedError, match="its rank differs"):
            session.submit(y, {x: 1.0})

    assert of_runs(calls) == []


async def test_the_future_of_a_hooked_run_is_done_when_its_hooks_are() -> None:
    graph, x, y = square()
    gate = AsyncGate()

    async with ag.Session(graph, hooks=[Recorder("A", [], after_run=at(gate))]) as session:
        future = session.submit(y, {x: [2.0]})
        await gate.has_begun()
        early = future.done()
        executing = session.statistics().runs_executing
        gate.open()
        values = await future

    assert isinstance(future, ag.RunFuture)
    assert not early
    assert executing == 1
    np.testing.assert_array_equal(values.results, [4.0])
    assert values is future.result()
    with pytest.raises(RuntimeError, match="does not support set_result"):
        future.set_result(values)


async def test_a_hooked_run_gives_fetches_as_soon_as_they_are_there() -> None:
    gate, before = AsyncGate(), AsyncGate()
    with ag.Graph() as graph:
        first, second, third = ag.op(lambda: 1).node(), ag.op(gate).node(2), ag.constant(3)
    hook = Recorder("A", [], before_run=at(before))

    async with ag.Session(graph, hooks=[hook]) as session:
        future = session.submit({"a": first, "b": second})
        early = future.fetched(first)
        late = future.fetched(second)
        with pytest.raises(FetchError, match="is not among the fetches of this run"):
            future.fetched(third)
        before.release.set()
        assert await early == 1
        assert not late.done()
        gate.open()
        assert (await future).results == {"a": 1, "b": 2}
        assert await late == 2
        assert await future.fetched(second) == 2


async def test_who_waits_for_a_fetch_of_a_run_that_never_begins_is_told_why() -> None:
    graph, x, y = square()

    def fail(_: ag.RunContext) -> None:
        raise ValueError("not today")

    async with ag.Session(graph, hooks=[Recorder("A", [], before_run=fail)]) as session:
        failed = session.submit(y, {x: [2.0]})
        waiter = failed.fetched(y)
        with pytest.raises(ValueError, match="not today"):
            await waiter
        with pytest.raises(ValueError, match="not today"):
            await failed
        cancelled = session.submit(y, {x: [2.0]})
        waiter = cancelled.fetched(y)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert cancelled.cancelled()


async def test_closing_waits_for_hooked_runs_and_lets_them_end() -> None:
    graph, x, y = square()
    before, after = AsyncGate(), AsyncGate()
    calls: Calls = []
    hook = Recorder("A", calls, before_run=at(before), after_run=at(after))

    session = ag.Session(graph, hooks=[hook])
    runs = [session.submit(y, {x: [2.0]}), asyncio.ensure_future(session.run(y, {x: [3.0]}))]
    await turns(3)
    closing = asyncio.ensure_future(session.aclose())
    await turns(3)
    before.release.set()
    await after.has_begun()
    waited = not closing.done()
    after.open()
    await closing

    assert waited
    assert [(await run).results for run in runs] == [4.0, 9.0]
    assert names(calls)[-1] == "A end"


async def test_leaving_a_session_by_an_error_ends_hooked_runs_and_tells_their_hooks() -> None:
    graph, x, y = square()
    calls: Calls = []
    hook = Recorder("A", calls)
    stuck = Recorder("B", calls, before_run=lambda _: asyncio.Event().wait())

    runs: list[ag.RunFuture[Any]] = []

    async def leave_by_error() -> None:
        async with ag.Session(graph, hooks=[hook, stuck]) as session:
            runs.append(session.submit(y, {x: [2.0]}))
            await turns(3)
            raise KeyError

    with pytest.raises(KeyError):
        await leave_by_error()
    with pytest.raises(SessionClosedError, match="before the run could end"):
        await runs[0]
    assert names(of_runs(calls)) == ["A before_run", "B before_run", "A on_error"]


async def test_a_hook_cannot_close_the_session_that_waits_for_it() -> None:
    graph, x, y = square()

    async def close(*given: Any) -> None:
        await session.aclose()

    async with ag.Session(graph) as session:
        with pytest.raises(SessionError, match="or a hook does"):
            await session.run(y, {x: [2.0]}, ag.RunOptions(hooks=(Recorder("A", [], before_run=close),)))
    session = ag.Session(graph, hooks=[Recorder("A", [], end=close)])
    await session.run(y, {x: [2.0]})
    with pytest.raises(SessionError, match="or a hook does"):
        await session.aclose()


async def test_hooked_runs_count_for_the_limits_of_a_session_once_each() -> None:
    graph, x, y = square()
    gate = AsyncGate()
    config = ag.SessionConfig(max_concurrent_runs=1, max_pending_runs=1)
    hook = Recorder("A", [], before_run=at(gate))

    async with ag.Session(graph, config=config, hooks=[hook]) as session:
        two = [session.submit(y, {x: [2.0]}) for _ in range(2)]
        with pytest.raises(SessionOverloadedError):
            session.submit(y, {x: [2.0]})
        gate.release.set()
        results = [(await one).results for one in two]
        statistics = session.statistics()

    assert results == [4.0, 4.0]
    assert (statistics.runs_started, statistics.runs_ended) == (2, 2)
    assert (statistics.runs_executing, statistics.runs_waiting) == (0, 0)


async def test_no_more_hooked_runs_execute_than_may() -> None:
    gates = [AsyncGate() for _ in range(2)]
    with ag.Graph() as graph:
        nodes = [ag.op(gate).node() for gate in gates]
    calls: Calls = []

    async with ag.Session(
        graph, config=ag.SessionConfig(max_concurrent_runs=1), hooks=[Recorder("A", calls)]
    ) as session:
        runs = [session.submit(node) for node in nodes]
        await gates[0].has_begun()
        await turns(5)
        began = gates[1].begun.is_set()
        for gate in gates:
            gate.open()
        await asyncio.wait(runs)

    assert not began
    assert names(of_runs(calls))[:2] == ["A before_run"] * 2  # Hooks need no place.


async def test_what_a_hook_leaves_running_knows_that_its_run_is_over() -> None:
    graph, x, y = square()
    kept: list[Context] = []
    async with ag.Session(
        graph, hooks=[Recorder("A", [], before_run=lambda _: kept.append(copy_context()))]
    ) as session:
        await session.run(y, {x: [2.0]})

    with pytest.raises(asyncio.CancelledError, match="the run that this op belongs to is over"):
        kept[0].run(ag.check_cancelled)


async def test_hooks_can_run_a_session_whose_only_place_others_want() -> None:
    graph, x, y = square()

    async def run(context: ag.RunContext, *_: Any) -> None:
        await context.session.submit(y, {x: [5.0]})

    hook = Recorder("A", [], before_run=run, after_run=run)
    config = ag.SessionConfig(max_concurrent_runs=1, max_pending_runs=3)
    async with asyncio.timeout(10), ag.Session(graph, config=config, hooks=[hook]) as session:
        values = await asyncio.gather(*[session.submit(y, {x: [2.0]}) for _ in range(4)])

    assert [one.results for one in values] == [4.0] * 4


async def test_hooks_hold_no_variables_while_they_are_called() -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0, name="v")
        more, steps = v.assign_add(1.0), ag.global_step().assign_add(1)

    async def count(context: ag.RunContext, *_: Any) -> None:
        await context.session.run(steps)
        await context.session.run(more)

    async with (
        asyncio.timeout(10),
        ag.Session(graph, hooks=[Recorder("A", [], before_run=count, after_run=count)]) as s,
    ):
        await asyncio.gather(*[s.run(more) for _ in range(5)])
        assert (await s.run([v, "global_step"], None, ag.RunOptions(hooks=None))).results == [15.0, 10]


async def test_after_run_sees_what_its_run_has_committed() -> None:
    with ag.Graph() as graph:
        step = ag.global_step()
        train = step.assign_add(1)
    seen: list[int] = []

    async def look(context: ag.RunContext, _: ag.RunValues[Any]) -> None:
        seen.append(int((await context.session.run(step)).results))

    async with ag.Session(graph, hooks=[Recorder("A", [], after_run=look)]) as session:
        for _ in range(3):
            await session.run(train)

    assert seen == [1, 2, 3]
