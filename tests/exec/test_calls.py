"""The adapter of user code: each case of a call, decided once for threads, for the loop and for plain threads."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from types import FrameType
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._exec.calls import CallScope, CallSite, calls_in_progress, drive
from asyncgraph.errors import NodeCancelledError, NodeResultError, NodeTimeoutError

variable: ContextVar[int] = ContextVar("variable", default=0)

HOWS = ["thread", "inline", "async", "awaited", "blocking"]


def run_as(how: str, function: Callable[[], Any], **options: Any) -> Any:
    """The value of one call of `function`, made in one of the ways in which calls are made."""

    async def coroutine() -> Any:
        return function()

    called: dict[str, Callable[[], Any]] = {"async": coroutine, "awaited": lambda: coroutine()}
    if how == "inline":
        options["where"] = "inline"
    with ag.Graph() as graph:
        node = ag.op(**options)(called.get(how, function)).node(name="n")

    async def main() -> Any:
        async with asyncio.timeout(10), ag.Session(graph) as session:
            return (await session.run(node)).results

    if how != "blocking":
        return asyncio.run(main())
    with ag.BlockingSession(graph) as session:
        return session.run(node).results


class Flaky:
    """Fails some times, then returns."""

    def __init__(self, failures: int, error: Callable[[], BaseException] = lambda: ValueError("not yet")) -> None:
        self.failures = failures
        self.error = error
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error()
        return "done"


# -- retry -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
def test_a_call_is_tried_again_until_it_succeeds(how: str) -> None:
    flaky = Flaky(2)
    assert run_as(how, flaky, retry=3) == "done"
    assert flaky.calls == 3


@pytest.mark.parametrize("how", HOWS)
def test_after_the_last_attempt_the_failure_is_raised(how: str) -> None:
    flaky = Flaky(5)
    with pytest.raises(ValueError, match="not yet"):
        run_as(how, flaky, retry=3)
    assert flaky.calls == 3


@pytest.mark.parametrize("how", HOWS)
def test_only_the_failures_that_are_named_are_tried_again(how: str) -> None:
    flaky = Flaky(5)
    with pytest.raises(ValueError, match="not yet"):
        run_as(how, flaky, retry=ag.Retry(attempts=3, on=(KeyError,)))
    assert flaky.calls == 1


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_cancellations_and_interrupts_are_never_tried_again(how: str, error: type[BaseException]) -> None:
    flaky = Flaky(5, error)
    with pytest.raises(NodeCancelledError if error is asyncio.CancelledError else error):
        run_as(how, flaky, retry=3)
    assert flaky.calls == 1


@pytest.mark.parametrize("how", HOWS)
def test_stop_iteration_is_tried_again_as_the_runtime_error_that_it_becomes(how: str) -> None:
    flaky = Flaky(1, StopIteration)
    assert run_as(how, flaky, retry=ag.Retry(attempts=2, on=(RuntimeError,))) == "done"


@pytest.mark.parametrize("how", HOWS)
def test_a_value_that_does_not_fit_its_spec_is_not_tried_again(how: str) -> None:
    flaky = Flaky(0)
    with pytest.raises(NodeResultError):
        run_as(how, flaky, retry=3, spec="float64[]")
    assert flaky.calls == 1


@pytest.mark.parametrize("how", ["thread", "async", "awaited", "blocking"])
def test_each_wait_is_twice_the_last(how: str) -> None:
    times: list[float] = []
    flaky = Flaky(2)

    def call() -> str:
        times.append(time.perf_counter())
        return flaky()

    assert run_as(how, call, retry=ag.Retry(attempts=3, backoff_s=0.01)) == "done"
    assert times[1] - times[0] >= 0.01
    assert times[2] - times[1] >= 0.02


@pytest.mark.parametrize("how", ["thread", "async", "awaited", "blocking"])
def test_the_clock_of_a_call_stands_still_while_it_waits_to_be_tried_again(how: str) -> None:
    retry = ag.Retry(attempts=2, backoff_s=0.25)
    assert run_as(how, Flaky(1), retry=retry, timeout_s=0.2) == "done"


async def test_a_run_that_is_cancelled_while_an_op_waits_to_be_tried_again_ends_at_once() -> None:
    for is_async in (False, True):
        called = threading.Event()

        def fail(called: threading.Event = called) -> None:
            called.set()
            raise ValueError

        async def fail_async(fail: Callable[[], None] = fail) -> None:
            fail()

        with ag.Graph() as graph:
            node = ag.op(retry=ag.Retry(attempts=3, backoff_s=30.0))(fail_async if is_async else fail).node()
        async with asyncio.timeout(5), ag.Session(graph) as session:
            run = session.submit(node)
            assert await asyncio.to_thread(called.wait, 5)
            run.cancel()
            await asyncio.wait([run])


# -- time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["thread", "inline", "blocking"])
def test_a_sync_call_that_took_too_long_fails_and_is_not_made_again(how: str) -> None:
    calls: list[int] = []

    def slow() -> None:
        calls.append(1)
        time.sleep(0.03)

    with pytest.raises(NodeTimeoutError, match=r"'n' took longer than its timeout_s=0\.01") as caught:
        run_as(how, slow, timeout_s=0.01, retry=3)
    assert calls == [1]
    assert len(caught.value.__notes__) == 1
    assert "also failed" not in caught.value.__notes__[0]


async def test_an_async_call_that_takes_too_long_is_cancelled_and_made_again() -> None:
    ended: list[str] = []

    async def slow() -> str:
        try:
            await asyncio.sleep(0 if ended else 10)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "done"

    with ag.Graph() as graph:
        node = ag.op(timeout_s=0.01, retry=2)(slow).node()
    async with ag.Session(graph) as session:
        assert (await session.run(node)).results == "done"
    assert ended == ["cancelled"]


async def test_a_timeout_error_of_the_functions_own_stays_what_it_is() -> None:
    async def fail() -> None:
        raise TimeoutError("its own")

    with ag.Graph() as graph:
        node = ag.op(timeout_s=10)(fail).node()
    async with ag.Session(graph) as session:
        with pytest.raises(TimeoutError, match="its own") as caught:
            await session.run(node)
    assert type(caught.value) is TimeoutError


# -- context ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
def test_every_attempt_sees_the_callers_context_and_changes_nothing_in_it(how: str) -> None:
    def change() -> tuple[int, str]:
        seen = variable.get(), np.geterr()["divide"]
        variable.set(99)
        np.seterr(divide="ignore")
        return seen

    def call() -> Any:
        token = variable.set(7)
        try:
            with np.errstate(divide="raise"):
                seen = run_as(how, change)
                return seen, variable.get(), np.geterr()["divide"]
        finally:
            variable.reset(token)

    assert copy_context().run(call) == ((7, "raise"), 7, "raise")


async def test_every_step_of_a_driven_coroutine_runs_in_its_context() -> None:
    seen: list[int] = []

    async def work() -> str:
        for _ in range(3):
            seen.append(variable.get())
            variable.set(variable.get() + 1)
            await asyncio.sleep(0)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(variable.get())
        async with asyncio.timeout(1):
            await asyncio.sleep(0)
            return f"in {asyncio.current_task() is task}"

    context = copy_context()
    context.run(variable.set, 10)
    task = asyncio.create_task(drive(work(), context))
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()

    assert await task == "in True"
    assert seen == [10, 11, 12, 13]
    assert variable.get() == 0


def test_closing_what_drives_a_coroutine_closes_it() -> None:
    ended: list[str] = []

    class Pause:
        def __await__(self) -> Any:
            yield

    async def work() -> None:
        try:
            await Pause()
        finally:
            ended.append("closed")

    driving = drive(work(), copy_context())
    driving.send(None)
    driving.close()

    assert ended == ["closed"]


# -- the end of a run ------------------------------------------------------------------------------------


def site() -> CallSite:
    with ag.Graph():
        node = ag.op(lambda: None).node()
    return CallSite(node, [], copy_context(), object())


def test_what_is_to_be_done_when_a_run_is_over_is_done_even_if_it_is_asked_for_late() -> None:
    scope, calls = site().scope, []
    scope.when_over(lambda: calls.append("early"))
    assert calls == []
    scope.end()
    scope.when_over(lambda: calls.append("late"))

    assert calls == ["early", "late"]
    assert scope.is_over


def test_a_thread_waits_for_the_end_of_a_run_or_for_as_long_as_it_says() -> None:
    scope = site().scope
    assert not scope.wait(0.001)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(scope.wait, 10)
        scope.end()
        assert waiting.result()
    assert scope.wait(10)


@pytest.mark.parametrize("line", [0, 1])
def test_what_is_to_be_done_when_a_run_is_over_is_done_at_whatever_line_another_thread_ends_it(line: int) -> None:
    scope, calls, lines = site().scope, list[str](), list[int]()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is not CallScope.when_over.__code__:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) == line + 1:
                scope.end()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        scope.when_over(lambda: calls.append("called"))
    finally:
        sys.settrace(before)

    assert len(lines) > line
    assert calls


def test_check_cancelled_does_nothing_outside_ops_and_raises_inside_one_whose_run_is_over() -> None:
    ag.check_cancelled()
    one = site()
    one.context.run(ag.check_cancelled)
    one.scope.end()
    with pytest.raises(asyncio.CancelledError, match="is over"):
        one.context.run(ag.check_cancelled)


def test_a_call_knows_the_calls_that_its_run_is_nested_in() -> None:
    runs: list[Any] = []

    def nest(depth: int) -> int:
        if depth == 0:
            runs.append([call.run for call in calls_in_progress()])
            return 0
        return session.run("node", {"depth": depth - 1}).results

    with ag.Graph() as graph:
        ag.op(nest)(ag.placeholder(None, name="depth"), name="node")
    with ag.BlockingSession(graph) as session:
        session.run("node", {"depth": 2})

    assert len({id(run) for run in runs[0]}) == 3
    assert list(calls_in_progress()) == []
