"""How runs of branches and loops end: by failures, cancellations and deadlines, and with nothing left."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph._plan.control import Body, Delayed, Stopped
from asyncgraph.errors import RunTimeoutError

from ..exec.helpers import Watched, open_host, plan_of
from ..session.gates import Gate, turns
from .helpers import values, values_async

PATIENCE_S = 20


@pytest.fixture
def x(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("float64", ("n",), name="x")


def boom(*_: Any) -> Any:
    raise KeyError("boom")


async def boom_later(*_: Any) -> Any:
    await asyncio.sleep(0)
    raise KeyError("boom")


# -- failures --------------------------------------------------------------------------------------------


async def test_an_error_names_the_kernel_that_failed_and_all_that_ran_it(x: ag.Node) -> None:
    def body(i: ag.Node, a: ag.Node) -> Any:
        return i + 1, ag.cond(i > 1, lambda: ops.add(a, np.ones(3), name="sum"), lambda: a, name="inner")

    _, last = ag.while_loop(lambda i, _: i < 5, body, (0, x), name="loop")
    chosen = ag.cond(ops.all(x > 0), lambda: last, lambda: x, name="outer")

    for run in (
        lambda: asyncio.to_thread(values, chosen, {x: np.ones(2)}),
        lambda: values_async(chosen, {x: np.ones(2)}),
    ):
        with pytest.raises(ValueError, match="could not be broadcast") as failure:
            await run()

        (note,) = failure.value.__notes__
        assert [line.split(" built at")[0] for line in note.splitlines()] == [
            "asyncgraph: node 'sum' (add) failed",
            "  inputs: float64[2], float64[3]",
            "  device: cpu:0",
            " ",
            "  run by 'inner' (cond),",
            "  run by 'loop' (while_loop),",
            "  run by 'outer' (cond),",
        ]


@pytest.mark.parametrize("fails", [boom, boom_later])
async def test_an_error_names_the_user_op_that_failed_and_all_that_ran_it(
    x: ag.Node, fails: Callable[..., Any]
) -> None:
    op = ag.op(fails, spec="float64[n]")

    def branch() -> ag.Node:
        return ag.while_loop(lambda a: ops.all(a < 3), lambda a: op.node(a, name="op"), x, name="loop")

    chosen = ag.cond(ops.all(x > 0), branch, lambda: x, name="outer")

    with pytest.raises(KeyError, match="boom") as failure:
        await values_async(chosen, {x: np.ones(2)})

    (note,) = failure.value.__notes__
    assert note.startswith("asyncgraph: node 'op' (boom")
    assert [line.split(",")[0] for line in note.splitlines()[4:]] == [
        "  run by 'loop' (while_loop)",
        "  run by 'outer' (cond)",
    ]


async def test_an_error_of_what_branches_share_names_the_first_that_needed_it(x: ag.Node) -> None:
    shared = ag.op(boom, spec="float64[n]").node(x, name="shared")
    first = ag.cond(ops.all(x > 0), lambda: shared + 1, lambda: x, name="first")
    second = ag.cond(ops.all(x > 5), lambda: shared + 2, lambda: x, name="second")

    with pytest.raises(KeyError, match="boom") as failure:
        await values_async([first, second], {x: np.ones(2)})

    (note,) = failure.value.__notes__
    assert note.startswith("asyncgraph: node 'shared' (boom) failed")
    assert [line.split(",")[0] for line in note.splitlines()[4:]] == ["  run by 'first' (cond)"]


async def test_what_branches_share_is_called_once_though_it_fails(x: ag.Node) -> None:
    calls: list[str] = []

    async def fail(_: Any) -> Any:
        calls.append("call")
        await asyncio.sleep(0)
        raise KeyError("boom")

    shared = ag.op(fail, spec="float64[n]").node(x)
    both = [ag.cond(ops.all(x > 0), lambda: shared + 1, lambda: x) for _ in range(2)]

    with pytest.raises(KeyError, match="boom"):
        await values_async(both, {x: np.ones(2)})
    assert calls == ["call"]


def test_who_waits_for_what_another_thread_fails_to_compute_stops() -> None:
    class Failing:
        """A plan that waits to fail, as far as a body needs one."""

        fetches = ()
        cold = ("a chunk",)
        draws = False
        begun, fail = threading.Event(), threading.Event()

        def frame(self, given: list[Any]) -> list[Any]:
            return given

        def count_run(self) -> None:
            self.begun.set()
            assert self.fail.wait(PATIENCE_S)
            raise KeyError("boom")

    plan: Any = Failing()
    delayed = Delayed(Body(plan, []), (), None)
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            delayed.now()
        except BaseException as error:
            raised.append(error)

    first, second = threading.Thread(target=ask), threading.Thread(target=ask)
    first.start()
    assert plan.begun.wait(PATIENCE_S)
    second.start()
    plan.fail.set()
    for one in (first, second):
        one.join(PATIENCE_S)

    assert [type(one) for one in raised] == [KeyError, Stopped]


@pytest.mark.parametrize("calls", [False, True])
@pytest.mark.parametrize("blocking", [False, True])
async def test_an_error_that_is_kept_keeps_no_values(x: ag.Node, calls: bool, blocking: bool) -> None:
    seen: list[weakref.ref[Any]] = []

    def watched(value: Any) -> Any:
        result = value + 1
        seen.append(weakref.ref(result))
        return result

    def body(i: ag.Node, a: ag.Node) -> Any:
        shared = ag.op(watched, spec="float64[n]").node(a) if calls else a * 2
        one = ag.cond(i > 2, lambda: shared + np.ones(3), lambda: a)
        return i + 1, one + ag.cond(i > 1, lambda: shared, lambda: a)

    _, last = ag.while_loop(lambda i, _: i < 5, body, (0, x))
    given = [np.ones(5)]
    seen.append(weakref.ref(given[0]))

    def in_a_thread() -> None:
        with ag.BlockingSession(x.graph) as session:
            session.run(last, {x: given.pop()})

    async def here() -> None:
        async with ag.Session(x.graph) as session:
            await session.run(last, {x: given.pop()})

    with pytest.raises(ValueError, match="broadcast") as failure:
        await (asyncio.to_thread(in_a_thread) if blocking else here())
    gc.collect()
    assert failure.value.__notes__
    assert [one() for one in seen] == [None] * (3 if calls else 1)


# -- time ------------------------------------------------------------------------------------------------


def endless(body: Callable[[ag.Node], ag.Node], start: Any = 0) -> ag.Node:
    return ag.while_loop(lambda i: i >= 0, body, start)


async def step_async(i: Any) -> Any:
    await asyncio.sleep(0)
    return i + 1


BODIES: dict[str, Callable[[ag.Node], ag.Node]] = {
    "kernels": lambda i: i + 1,
    "async op": lambda i: ag.op(step_async, spec="int64[]").node(i),
    "thread": lambda i: ag.op(lambda i: i + 1, spec="int64[]").node(i),
    "inline": lambda i: ag.op(lambda i: i + 1, spec="int64[]", where="inline").node(i),
    "nested loop": lambda i: i + ag.while_loop(lambda j: j < 10, lambda j: j + 1, 0),
}


@pytest.fixture(params=list(BODIES))
def loop(request: pytest.FixtureRequest, graph: ag.Graph) -> ag.Node:
    return endless(BODIES[request.param])


async def test_a_loop_sees_its_deadline(loop: ag.Node) -> None:
    async with ag.Session(loop.graph) as session:
        start = time.perf_counter()
        with pytest.raises(RunTimeoutError):
            await session.run(ag.RunArgs(loop, options=ag.RunOptions(timeout_s=0.03)))
        assert time.perf_counter() - start < PATIENCE_S
        assert session.statistics().runs_executing == 0


def test_a_loop_sees_its_deadline_in_the_calling_thread(loop: ag.Node) -> None:
    with pytest.raises(RunTimeoutError):
        values(loop, timeout_s=0.03)


async def test_a_loop_is_cancelled(loop: ag.Node) -> None:
    async with ag.Session(loop.graph) as session:
        task = asyncio.ensure_future(session.run(loop))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)
        assert session.statistics().runs_executing == 0


async def test_a_failure_beside_a_loop_ends_it(graph: ag.Graph) -> None:
    begun = threading.Event()

    def note(i: Any) -> Any:
        begun.set()
        return i

    def fail() -> Any:
        assert begun.wait(PATIENCE_S)
        return boom()

    beside = endless(lambda i: i + 1, ag.op(note, spec="int64[]").node(ag.constant(0)))
    broken = ag.op(fail).node()

    with pytest.raises(KeyError, match="boom"):
        await asyncio.wait_for(values_async([beside, broken]), PATIENCE_S)


async def test_ops_in_branches_and_bodies_are_cancelled_and_told(graph: ag.Graph) -> None:
    waiting, both_wait, told = set[str](), asyncio.Event(), list[str]()

    async def wait(name: str, value: Any) -> Any:
        waiting.add(name)
        if len(waiting) == 2:
            both_wait.set()
        try:
            await asyncio.sleep(PATIENCE_S)
        except asyncio.CancelledError:
            told.append(name)
            raise
        return value

    op = ag.op(wait, spec="int64[]")
    p = ag.placeholder("bool", ())
    shared = op.node("shared", 1)
    loop = ag.while_loop(lambda i: i < 5, lambda i: ag.cond(p, lambda: op.node("inner", i), lambda: i), 0)
    both = [ag.cond(p, lambda: shared, lambda: 0) for _ in range(2)]

    async with ag.Session(graph) as session:
        future = session.submit(ag.RunArgs([loop, *both], {p: True}))
        await asyncio.wait_for(both_wait.wait(), PATIENCE_S)
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future
        assert sorted(told) == ["inner", "shared"]
        assert (await session.run(loop, {loop: 3})).results == 3


def test_an_interrupt_ends_a_loop_in_the_main_thread(graph: ag.Graph) -> None:
    last = endless(lambda i: i + 1)
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        values(last)
    timer.join()


@pytest.mark.parametrize("kind", ["branch", "body", "shared"])
async def test_a_cancelled_run_waits_for_an_op_in_a_thread(graph: ag.Graph, kind: str) -> None:
    gate = Gate()
    p = ag.placeholder("bool", ())
    waits = ag.op(gate, spec="int64[]").node
    node = {
        "branch": lambda: ag.cond(p, lambda: waits(1), lambda: 0),
        "body": lambda: ag.while_loop(lambda i: i < 5, lambda i: waits(i), 0),
        "shared": lambda: (lambda one: ag.cond(p, lambda: one, lambda: 0) + ag.cond(p, lambda: one, lambda: 1))(
            waits(1)
        ),
    }[kind]()
    async with ag.Session(graph) as session:
        future = session.submit(ag.RunArgs(node, {p: True}))
        await gate.has_begun()
        future.cancel()
        await turns(5)
        was_done = future.done()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await future

    assert not was_done


async def test_a_kernel_that_stops_since_another_has_failed_is_no_failure(graph: ag.Graph) -> None:
    async def fail(_: Any) -> Any:
        await asyncio.sleep(0)
        return boom()

    start = ag.op(lambda: 1.0, spec="float64[]", where="inline").node()
    broken, stopping = ag.op(fail).node(start), start * 2
    plan = plan_of(graph, [broken, stopping])

    def stop(_: Any) -> None:
        raise Stopped

    chunk = next(one for chunks in plan.chunks for one in chunks)
    chunk.run = stop
    async with open_host() as host:
        watched = Watched(host, plan)
        with pytest.raises(KeyError, match="boom"):
            await watched.values()


async def test_the_loop_turns_while_small_kernels_repeat_on_a_worker(graph: ag.Graph) -> None:
    last = endless(lambda i: i + 1)
    interval = sys.getswitchinterval()
    async with ag.Session(graph) as session:
        await session.run(last + 0, {last: 0})
        future = session.submit(ag.RunArgs(last))
        turned, end = 0, time.perf_counter() + 0.3
        sys.setswitchinterval(0.1)
        try:
            while time.perf_counter() < end:
                await asyncio.sleep(1e-3)
                turned += 1
        finally:
            sys.setswitchinterval(interval)
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future

    assert turned > 10  # Without pauses each turn would wait for 0.1 s.
