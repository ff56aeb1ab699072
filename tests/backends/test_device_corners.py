"""What is rare on an asynchronous device: odd feeds, wrong ops, interrupts, and runs that end while it is busy."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.abc import Device, Done
from asyncgraph.errors import (
    DeviceLostError,
    FeedError,
    FeedTypeError,
    NodeResultError,
    RunTimeoutError,
    SessionError,
)

from .late_backend import DLPACK, LateBackend

FIRST = Device("late", 0)
THERE = ag.RunOptions(results="device")


@pytest.fixture
def late() -> Iterator[LateBackend]:
    backend = LateBackend(dlpack=True)
    with ag.use_backend(backend):
        yield backend
    backend.close()
    assert backend.complaints == []


def doubled() -> tuple[ag.Graph, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        with ag.device("late:0"):
            y = ag.ops.multiply(x, 2, name="y")
    return graph, x, y


def on_device(function: Callable[..., Any], spec: str | None = None) -> tuple[ag.Graph, ag.Node, ag.Node]:
    """A graph of one op that is given an array of `late:0`."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        with ag.device("late:0"):
            y = ag.op(function, on_device=True, spec=spec)(x)
    return graph, x, y


async def until_begun(late: LateBackend, count: int) -> None:
    await asyncio.to_thread(late.wait_until_begun, FIRST, count)


# -- blocking sessions -------------------------------------------------------------------------------------


def test_a_deadline_that_is_over_before_the_work_began_ends_a_blocking_run(late: LateBackend) -> None:
    graph, x, y = doubled()
    with ag.BlockingSession(graph) as session:
        session.run(y, {x: [1.0]})
        late.submit(FIRST, partial(time.sleep, 0.1), lambda _: None)
        with pytest.raises(RunTimeoutError):
            session.run(y, {x: [1.0]}, ag.RunOptions(timeout_s=0.02))


def test_an_interrupt_of_who_waits_for_a_device_blames_no_node(late: LateBackend) -> None:
    graph, x, y = doubled()
    hold = ExitStack()

    def interrupt() -> None:
        late.wait_until_begun(FIRST, 2)
        os.kill(os.getpid(), signal.SIGINT)
        hold.close()

    with ag.BlockingSession(graph) as session:
        session.run(y, {x: [1.0]})
        hold.enter_context(late.held())
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt) as caught:
            session.run(y, {x: [1.0]})
        thread.join()
    assert not hasattr(caught.value, "__notes__")


def test_a_blocking_session_submits_what_is_fed_on_a_device(late: LateBackend) -> None:
    graph, x, y = doubled()
    with ag.BlockingSession(graph) as session:
        there = session.run(y, {x: [1.0]}, THERE).results
        assert session.submit(y, {x: there}).result(30).results.tolist() == [4]


def test_a_failed_call_of_a_blocking_session_keeps_nothing_that_was_fed(late: LateBackend) -> None:
    async def failing(value: object) -> object:
        def compute(_: object) -> object:
            raise ValueError("in the work")

        return await ag.launch(compute, value)

    graph, x, y = on_device(failing)
    fed = np.ones(3)
    gone = weakref.ref(fed)
    gc.collect()
    gc.disable()
    try:
        with ag.BlockingSession(graph) as session, pytest.raises(ValueError, match="in the work"):
            session.run(y, {x: fed})
        del fed
        assert gone() is None
    finally:
        gc.enable()


# -- what is fed -------------------------------------------------------------------------------------------


async def test_a_node_may_be_named_as_a_place_of_results_is() -> None:
    with ag.Graph() as graph:
        y = ag.placeholder("float64", (), name="device", default=1.0) + 1
    async with ag.Session(graph) as session:
        assert (await session.run(y, options=THERE)).results == 2
        assert (await session.run(y, {"device": 5.0})).results == 6


async def test_what_does_not_fit_is_described_without_a_look_at_its_values(late: LateBackend) -> None:
    graph, x, y = doubled()
    with graph:
        matrix = ag.placeholder("float64", (None, None), name="matrix") + 1
        whole = ag.placeholder("int32", None, name="whole") + 1
        pair = ag.placeholder("float64", ("k",), name="a") + ag.placeholder("float64", ("k",), name="b")
    async with ag.Session(graph) as session:
        there = (await session.run(y, {x: [1.0]}, THERE)).results
        with pytest.raises(FeedError, match=r"fed: +float64\[1\] on a device"):
            await session.run(matrix, {"matrix": there})
        with pytest.raises(FeedTypeError, match=r"fed: +float64\[1\] on a device"):
            await session.run(whole, {"whole": there})
        with pytest.raises(FeedError, match=r"a: float64\[k\], fed \(1,\)"):
            await session.run(pair, {"a": there, "b": [1.0, 2.0]})


async def test_an_object_that_cannot_say_where_its_memory_is_may_be_fed_as_an_object() -> None:
    class Odd:
        def __dlpack_device__(self) -> tuple[int, int]:
            raise ValueError("it has no memory")

        def __dlpack__(self) -> object:
            raise ValueError("it has no memory")

    with ag.Graph() as graph:
        kind = ag.op(lambda value: type(value).__name__)(ag.placeholder(None, name="x"))
        z = ag.placeholder("float64", name="z") + 1
    async with ag.Session(graph) as session:
        assert (await session.run(kind, {"x": Odd()})).results == "Odd"
        with pytest.raises(FeedError, match="'z'"):
            await session.run(z, {"z": Odd()})


async def test_what_is_fed_on_a_device_and_not_needed_is_not_moved(late: LateBackend) -> None:
    graph, x, y = doubled()
    with graph:
        z = ag.placeholder("float64", name="z") + 1
    async with ag.Session(graph) as session:
        there = (await session.run(y, {x: [1.0]}, THERE)).results
        assert (await session.run(z, {"z": 1.0, x: there})).results == 2
        assert session.statistics().submitted_segments == 1


async def test_an_array_of_a_backend_that_a_session_does_not_use_for_its_device_is_refused() -> None:
    graph, x, y = doubled()
    late = LateBackend(dlpack=True)
    with ag.use_backend(late), ag.BlockingSession(graph) as session:
        there = await asyncio.to_thread(session.run, y, {x: [1.0]}, THERE)
    async with ag.Session(graph, config=ag.SessionConfig(soft_placement=True)) as session:
        await session.run(y, {x: [1.0]})  # on the host, for good
        with ag.use_backend(late), pytest.raises(FeedTypeError, match=r"late:0 of the backend 'late'.*cpu:0"):
            await session.run(y, {x: there.results})
    late.close()


# -- ops that are given arrays of a device -----------------------------------------------------------------


async def test_an_op_on_a_device_returns_the_dtype_that_it_says(late: LateBackend) -> None:
    async def halved(value: object) -> object:
        return await ag.launch(late.kernel("astype", {"dtype": np.dtype("float32")}, [], FIRST), value)

    graph, x, y = on_device(halved, "float64[n]")
    async with ag.Session(graph) as session:
        with pytest.raises(NodeResultError, match=r"float32\[1\]"):
            await session.run(y, {x: [1.0]})


async def test_an_op_on_a_device_returns_the_named_sizes_that_it_was_given(late: LateBackend) -> None:
    async def cut(value: object) -> object:
        return await ag.launch(late.kernel("index", {"key": (slice(1),)}, [], FIRST), value)

    graph, x, y = on_device(cut, "float64[n]")
    async with ag.Session(graph) as session:
        assert (await session.run(y, {x: [1.0]})).results.tolist() == [1]
        with pytest.raises(NodeResultError, match=r"float64\[1\]"):
            await session.run(y, {x: [1.0, 2.0]})


async def test_an_op_on_a_device_returns_no_array_of_the_host(late: LateBackend) -> None:
    async def elsewhere(value: object) -> object:
        return np.zeros(1)

    graph, x, y = on_device(elsewhere, "float64[n]")
    async with ag.Session(graph) as session:
        with pytest.raises(NodeResultError, match=r"float64\[1\] on the host"):
            await session.run(y, {x: [1.0]})


@pytest.mark.parametrize("device", ["cpu:0", "late:0"])
async def test_nothing_is_launched_after_the_run(late: LateBackend, device: str) -> None:
    go_on = asyncio.Event()
    tasks: list[asyncio.Task[object]] = []

    @ag.op(on_device=True)
    async def leaves_a_task(value: object) -> object:
        async def later() -> object:
            await go_on.wait()
            return await ag.launch(lambda: None)

        tasks.append(asyncio.create_task(later()))
        return value

    with ag.Graph() as graph, ag.device(device):
        y = leaves_a_task(ag.placeholder("float64", name="x"))
    async with ag.Session(graph) as session:
        await session.run(y, {"x": [1.0]})
    go_on.set()
    with pytest.raises(SessionError, match="after the op's run was over"):
        await tasks[0]


async def test_a_launch_on_another_loop_is_refused(late: LateBackend) -> None:
    async def elsewhere(value: object) -> object:
        return await asyncio.to_thread(lambda: asyncio.run(ag.launch(lambda: None)))

    graph, x, y = on_device(elsewhere)
    async with ag.Session(graph) as session:
        with pytest.raises(SessionError, match="another event loop"):
            await session.run(y, {x: [1.0]})


# -- plans and errors --------------------------------------------------------------------------------------


async def test_a_cancelled_run_moves_no_more_constants(late: LateBackend) -> None:
    with ag.Graph() as graph, ag.device("late:0"):
        y = ag.placeholder("float64", (3,), name="x")
        for one in range(20):
            y = y + ag.ops.sin(ag.constant(np.arange(3.0) + one)) + ag.constant(np.arange(3.0) - one)
    async with ag.Session(graph) as session:
        with late.held():
            run = session.submit(y, {"x": np.ones(3)})
            await until_begun(late, 1)
            run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert late.begun[FIRST] == 1


async def test_what_a_backend_makes_of_a_kernel_s_error_is_told_the_node(
    late: LateBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = LateBackend.submit

    def losing(self: LateBackend, device: Device, work: Callable[[], None], done: Done) -> None:
        submit(self, device, work, lambda error: done(error and DeviceLostError(f"lost by: {error}")))

    with ag.Graph() as graph:
        x = ag.placeholder("float64", None, name="x")
        with ag.device("late:0"):
            y = ag.ops.matmul(x, x, name="product")
    monkeypatch.setattr(LateBackend, "submit", losing)
    async with ag.Session(graph) as session:
        with pytest.raises(DeviceLostError, match="matmul") as caught:
            await session.run(y, {x: np.ones((2, 3))})
    (note,) = caught.value.__notes__
    assert "node 'product' (matmul) failed" in note


async def test_what_a_backend_adds_to_an_error_is_told_beside_its_nodes(
    late: LateBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = LateBackend.submit

    def surfacing(self: LateBackend, device: Device, work: Callable[[], None], done: Done) -> None:
        surfaced = RuntimeError("unspecified")
        surfaced.add_note("this came up late")
        submit(self, device, work, lambda _: done(surfaced))

    graph, x, y = doubled()
    monkeypatch.setattr(LateBackend, "submit", surfacing)
    async with ag.Session(graph) as session:
        with pytest.raises(RuntimeError) as caught:
            await session.run(y, {x: [1.0]})
    advice, note = caught.value.__notes__
    assert advice == "this came up late"
    assert "late:0 reported this after it was given 'x', 'y', 'y'" in note


async def test_what_has_a_device_and_no_shape_is_no_array(late: LateBackend) -> None:
    class Something:
        def __dlpack_device__(self) -> tuple[int, int]:
            return DLPACK, 0

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        with ag.device("late:0"):
            y = x + 1
    async with ag.Session(graph) as session:
        with pytest.raises(FeedTypeError, match="has a shape and a dtype"):
            await session.run(y, {x: Something()})
