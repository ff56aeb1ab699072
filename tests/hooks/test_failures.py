"""What hooks are told of failures, cancellations and deadlines, and what their own failures do."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import HookCancelledError, RunTimeoutError

from ..session.gates import AsyncGate, Gate, turns
from .recorder import Calls, Recorder, at, names, of_runs, raising, square

GUARD_S = 10.0


def three(calls: Calls, **of_b: Callable[..., Any]) -> list[Recorder]:
    """The hooks A, B and D, of which B does something."""
    return [Recorder("A", calls), Recorder("B", calls, None, **of_b), Recorder("D", calls)]


async def failed(session: ag.Session, fetches: Any, kind: type[BaseException], feeds: Any = None) -> BaseException:
    with pytest.raises(kind) as caught:
        await session.run(fetches, feeds)
    return caught.value


# -- failures of hooks -----------------------------------------------------------------------------------


async def test_before_run_that_raises_ends_the_run_and_only_those_before_it_are_told() -> None:
    error = ValueError("no")
    calls: Calls = []
    ran: list[int] = []
    with ag.Graph() as graph:
        node = ag.op(lambda: ran.append(1)).node()

    async with ag.Session(graph, hooks=three(calls, before_run=raising(error))) as session:
        assert await failed(session, node, ValueError) is error

    assert ran == []
    assert of_runs(calls) == [("A", "before_run"), ("B", "before_run"), ("A", "on_error", error)]
    assert error.__notes__ == ["asyncgraph, a hook: Recorder, hooks[1] of the session failed in before_run"]


async def test_after_run_that_raises_leaves_no_other_hook_out_and_harms_no_later_run() -> None:
    graph, x, y = square()
    calls: Calls = []
    fails = [True]

    def fail(*_: object) -> None:
        if fails.pop():
            raise ValueError("b")

    async with ag.Session(graph, hooks=three(calls, after_run=fail)) as session:
        await failed(session, y, ValueError, {x: [2.0]})
        first = names(of_runs(calls))
        calls.clear()
        fails.append(False)
        values = await session.run(y, {x: [2.0]})
        assert names(calls) == first

    assert first[3:] == ["D after_run", "B after_run", "A after_run"]
    np.testing.assert_array_equal(values.results, [4.0])


@pytest.mark.parametrize(("kind", "told"), [(ValueError, ValueError), (asyncio.CancelledError, HookCancelledError)])
async def test_what_after_run_raises_says_that_the_run_itself_had_succeeded(
    kind: type[BaseException], told: type[BaseException]
) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        more = v.assign_add(1.0)

    async with ag.Session(graph, hooks=three([], after_run=raising(kind("b")))) as session:
        raised = await failed(session, more, told)
        value = (await session.run(v, None, ag.RunOptions(hooks=None))).results

    assert value == 1.0
    assert raised.__notes__ == [
        "asyncgraph, a hook: Recorder, hooks[1] of the session failed in after_run\n"
        "  the run itself had succeeded: what it assigned is committed"
    ]


async def test_the_first_failure_is_raised_and_the_others_are_attached() -> None:
    graph, x, y = square()
    hooks = [
        Recorder("A", [], after_run=raising(KeyError("a"))),
        Recorder("B", [], after_run=raising(ValueError("b"))),
    ]

    async with ag.Session(graph, hooks=hooks) as session:
        future = session.submit(y, {x: [2.0]})
        with pytest.raises(ValueError, match="b") as caught:
            await future

    assert "also failed: 'Recorder, hooks[0] of the session, in after_run': KeyError: 'a'" in caught.value.__notes__[-1]
    assert [repr(one) for one in future.metadata.failures] == ["KeyError('a')"]
    assert future.metadata.node_count == 1


async def test_a_failure_of_a_node_is_told_to_all_and_hidden_by_nobody() -> None:
    error = ZeroDivisionError("of a node")
    calls: Calls = []
    with ag.Graph() as graph:
        node = ag.op(raising(error)).node(name="n")

    async with ag.Session(graph, hooks=three(calls, on_error=raising(ValueError("b")))) as session:
        future = session.submit(node)
        with pytest.raises(ZeroDivisionError) as caught:
            await future

    assert caught.value is error
    assert of_runs(calls)[3:] == [(name, "on_error", error) for name in "DBA"]
    notes = "\n".join(error.__notes__)
    assert "node 'n'" in notes
    assert "also failed: 'Recorder, hooks[1] of the session, in on_error': ValueError: b" in notes
    assert [repr(one) for one in future.metadata.failures] == ["ValueError('b')"]


@pytest.mark.parametrize("method", ["before_run", "after_run"])
async def test_a_hook_s_own_cancelled_error_cancels_nothing(method: str) -> None:
    graph, x, y = square()
    own = asyncio.CancelledError("its own")

    hook = Recorder("A", [], None, **{method: raising(own)})
    async with ag.Session(graph, hooks=[hook]) as session:
        error = await failed(session, y, HookCancelledError, {x: [2.0]})

    assert error.__cause__ is own
    assert (
        str(error)
        == f"Recorder, hooks[0] of the session raised CancelledError in {method}, but its run was not cancelled"
    )
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_stop_iteration_of_a_hook_is_an_error_that_says_what_to_write() -> None:
    graph, x, y = square()

    class Stops(ag.Hook):
        def before_run(self, context: ag.RunContext) -> None:
            raise StopIteration

    async with ag.Session(graph, hooks=[Stops()]) as session:
        error = await failed(session, y, RuntimeError, {x: [2.0]})

    assert str(error) == "a hook raised StopIteration\n  to stop a session, call context.request_stop()"


@pytest.mark.parametrize("method", ["before_run", "after_run", "on_error"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_in_a_hook_reaches_the_caller_whatever_else_failed(
    method: str, kind: type[BaseException]
) -> None:
    calls: Calls = []
    with ag.Graph() as graph:
        node = ag.op(raising(ValueError("of a node")) if method == "on_error" else lambda: 1).node()
    interrupt = kind(3)
    hooks = [*three(calls, **{method: raising(interrupt)}), Recorder("E", calls, after_run=raising(KeyError("e")))]

    async with ag.Session(graph, hooks=hooks) as session:
        future = session.submit(node)
        await asyncio.wait([future])
        assert future.exception() is interrupt

    assert names(of_runs(calls))[-1][0] == "A"  # Others were told all the same.


# -- cancellation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["task", "future", "timeout", "anyio"])
async def test_a_cancelled_run_tells_all_its_hooks_and_one_cancelled_error_comes_out(how: str) -> None:
    calls: Calls = []
    gate = AsyncGate()
    with ag.Graph() as graph:
        node = ag.op(gate).node()

    async def clean_up(*_: object) -> None:
        await turns(3)

    async def cancelled(session: ag.Session) -> bool:
        if how == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await session.run(node)
        elif how == "anyio":
            with anyio.move_on_after(0.02) as scope:
                await session.run(node)
            assert scope.cancelled_caught
        else:
            run = asyncio.ensure_future(session.run(node)) if how == "task" else session.submit(node)
            await gate.has_begun()
            run.cancel()
            run.cancel()
            await asyncio.wait([run])
            assert run.cancelled()
        return True

    async with asyncio.timeout(GUARD_S), ag.Session(graph, hooks=three(calls, on_error=clean_up)) as session:
        assert await cancelled(session)
        statistics = session.statistics()

    assert [(*call[:2], type(call[2])) for call in of_runs(calls)[3:]] == [
        (name, "on_error", asyncio.CancelledError) for name in "DBA"
    ]
    assert gate.ended == ["cancelled"]
    assert statistics.runs_executing == 0
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_run_that_is_cancelled_in_before_run_computes_nothing() -> None:
    graph, x, y = square()
    calls: Calls = []
    gate = AsyncGate()

    async with ag.Session(graph, hooks=three(calls, before_run=at(gate))) as session:
        run = session.submit(y, {x: [2.0]})
        await gate.has_begun()
        run.cancel("enough")
        with pytest.raises(asyncio.CancelledError) as caught:
            await run

    assert caught.value.args == ("enough",)
    assert gate.ended == ["cancelled"]
    assert names(of_runs(calls)) == ["A before_run", "B before_run", "A on_error"]


@pytest.mark.parametrize("how", ["run", "submit"])
async def test_a_hook_that_keeps_a_cancellation_to_itself_does_not_keep_the_run_going(how: str) -> None:
    graph, x, y = square()
    calls: Calls = []
    gate = AsyncGate()

    async def wait(_: ag.RunContext) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await gate()

    async with ag.Session(graph, hooks=three(calls, before_run=wait)) as session:
        run = asyncio.ensure_future(getattr(session, how)(y, {x: [2.0]}))
        await gate.has_begun()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    assert names(of_runs(calls)) == ["A before_run", "B before_run", "B on_error", "A on_error"]


async def test_a_run_that_is_cancelled_in_after_run_has_committed_and_tells_the_others_so() -> None:
    calls: Calls = []
    gate = AsyncGate()
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        more = v.assign_add(1.0)

    async with ag.Session(graph, hooks=three(calls, after_run=at(gate))) as session:
        run = session.submit(more)
        await gate.has_begun()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        value = (await session.run(v, None, ag.RunOptions(hooks=None))).results

    assert value == 1.0
    assert names(of_runs(calls))[3:] == ["D after_run", "B after_run", "A after_run"]


@pytest.mark.parametrize("timeout_s", [None, 60.0])
@pytest.mark.parametrize("submits", [False, True])
async def test_hooks_are_told_of_values_just_if_the_run_has_committed_whenever_it_is_cancelled(
    timeout_s: float | None, submits: bool
) -> None:
    calls: Calls = []
    runs: list[asyncio.Future[Any]] = []

    async def cancel_in(count: int) -> None:
        async def cancel() -> None:
            await turns(count)
            runs[count].cancel()

        others.append(asyncio.create_task(cancel()))

    others: list[asyncio.Task[None]] = []
    with ag.Graph() as graph:
        count = ag.placeholder(None, name="count")
        with ag.control_dependencies([ag.op(cancel_in)(count)]):
            train = ag.global_step().assign_add(1)

    async with ag.Session(graph, hooks=[Recorder("A", calls)]) as session:
        for turn in range(16):
            args = ag.RunArgs(train, {count: turn}, ag.RunOptions(timeout_s))
            runs.append(session.submit(args) if submits else asyncio.ensure_future(session.run(args)))
            await asyncio.wait(runs)
        await asyncio.wait(others)
        steps = (await session.run("global_step", None, ag.RunOptions(hooks=None))).results

    told = names(of_runs(calls))
    assert told.count("A after_run") == steps
    assert told.count("A on_error") == 16 - steps
    assert 0 < steps < 16


async def test_a_run_that_is_cancelled_before_it_begins_calls_no_hook() -> None:
    graph, x, y = square()
    calls: Calls = []
    async with ag.Session(graph, hooks=[Recorder("A", calls)]) as session:
        run = session.submit(y, {x: [2.0]})
        assert run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()
        assert not run.cancel()

    assert of_runs(calls) == []


async def test_on_error_is_not_cut_short_by_another_cancellation() -> None:
    graph, x, y = square()
    gate = AsyncGate()
    hooks = [Recorder("A", [], on_error=at(gate)), Recorder("B", [], before_run=raising(ValueError("b")))]

    async with ag.Session(graph, hooks=hooks) as session:
        run = asyncio.ensure_future(session.run(y, {x: [2.0]}))
        await gate.has_begun()
        run.cancel()
        await turns(3)
        run.cancel()
        await turns(3)
        waited = not run.done()
        gate.open()
        await asyncio.wait([run])

    assert waited
    assert run.cancelled()
    assert gate.ended == ["returned"]


# -- deadlines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["begin", "after_create_session", "before_run", "after_run"])
async def test_the_deadline_covers_hooks(method: str) -> None:
    graph, x, y = square()
    calls: Calls = []
    gate = AsyncGate()
    session = ag.Session(graph, hooks=three(calls, **{method: at(gate)}))

    async with asyncio.timeout(GUARD_S):
        with pytest.raises(RunTimeoutError, match=r"the run took longer than its timeout_s=0.02"):
            await session.run(y, {x: [2.0]}, ag.RunOptions(timeout_s=0.02))
        gate.open()
        await session.aclose()

    assert gate.ended == ["cancelled"]
    told = {"before_run": ["A on_error"], "after_run": ["D after_run", "B after_run", "A after_run"]}
    assert [one for one in names(of_runs(calls)) if "before_run" not in one] == told.get(method, [])


async def test_hooks_whose_after_run_begins_after_the_deadline_do_not_prolong_it() -> None:
    graph, x, y = square()
    calls: Calls = []
    hooks = [Recorder(name, calls, after_run=lambda *_: asyncio.Event().wait()) for name in "ABD"]

    async with asyncio.timeout(GUARD_S), ag.Session(graph, hooks=hooks) as session:
        with pytest.raises(RunTimeoutError) as caught:
            await session.run(y, {x: [2.0]}, ag.RunOptions(timeout_s=0.02))

    assert names(of_runs(calls))[3:] == ["D after_run", "B after_run", "A after_run"]
    assert caught.value.__notes__[0].startswith(
        "asyncgraph, a hook: Recorder, hooks[2] of the session failed in after_run"
    )


async def test_a_run_without_any_time_calls_no_hook() -> None:
    graph, x, y = square()
    calls: Calls = []
    async with ag.Session(graph, hooks=[Recorder("A", calls)]) as session:
        with pytest.raises(RunTimeoutError):
            await session.run(y, {x: [2.0]}, ag.RunOptions(timeout_s=0))

    assert of_runs(calls) == []


async def test_a_timeout_error_of_a_hook_s_own_stays_its_own() -> None:
    graph, x, y = square()
    own = TimeoutError("its own")
    async with ag.Session(graph, hooks=[Recorder("A", [], before_run=raising(own))]) as session:
        with pytest.raises(TimeoutError) as caught:
            await session.run(y, {x: [2.0]}, ag.RunOptions(timeout_s=60.0))

    assert caught.value is own


async def test_the_clean_up_after_a_deadline_has_time() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        node = ag.op(asyncio.Event().wait).node()
    cleaned: list[BaseException] = []

    async def clean_up(_: ag.RunContext, error: BaseException) -> None:
        await asyncio.to_thread(gate.release.wait, GUARD_S)
        cleaned.append(error)

    async with ag.Session(graph, hooks=[Recorder("A", [], on_error=clean_up)]) as session:
        run = session.submit(node, None, ag.RunOptions(timeout_s=0.01))
        asyncio.get_running_loop().call_later(0.03, gate.open)
        with pytest.raises(RunTimeoutError) as caught:
            await run

    assert cleaned == [caught.value]


# -- what is kept ----------------------------------------------------------------------------------------


class Fed(np.ndarray):
    """An array that can be watched."""


def fail(*given: Any) -> None:
    del given  # Who writes such an op has an exception that keeps what it was given.
    raise ValueError("kept")


@pytest.mark.parametrize("where", ["before_run", "after_run", "node"])
@pytest.mark.parametrize("how", ["run", "submit", "monitored"])
async def test_a_kept_error_of_a_hooked_run_keeps_nothing_that_was_fed(where: str, how: str) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        node = ag.op(fail if where == "node" else lambda _: 1)(x)

    class Failing(ag.Hook):
        def before_run(self, context: ag.RunContext) -> None:
            if where == "before_run":
                fail()

        def after_run(self, context: ag.RunContext, values: Any) -> None:
            if where == "after_run":
                fail()

    kept: list[BaseException] = []
    session = (ag.MonitoredSession if how == "monitored" else ag.Session)(graph, hooks=[Failing()])
    async with session:
        run = session.submit if isinstance(session, ag.Session) and how == "submit" else session.run
        with pytest.raises(ValueError, match="kept") as caught:
            await run(node, {x: np.ones(3).view(Fed)})
        kept.append(caught.value)

    gc.collect()
    assert [one for one in gc.get_objects() if isinstance(one, Fed)] == []
    assert kept[0].__traceback__ is not None


async def test_the_values_of_a_hooked_run_are_freed_with_the_last_who_holds_them() -> None:
    graph, x, y = square()
    gc.disable()  # Arrays do not make it come sooner, however large.
    try:
        async with ag.Session(graph, hooks=[Recorder("A", [])]) as session:
            for run in (session.run, session.submit):
                values = await run(y, {x: np.ones(3)})
                kept = weakref.ref(values.results)
                del values
                await turns(3)
                assert kept() is None, run
    finally:
        gc.enable()
