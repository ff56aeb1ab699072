"""What went wrong for others with streams, events, threads and the memory of GPUs: rows of `test_reports.REPORTS`."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

from ...standin.world import Call, World
from .conftest import MakeBackend
from .sessions import Slow, on, results, scaled
from .submitting import GPU, SECONDS, kernel, run


async def test_memory_that_another_stream_reads_is_not_given_out_meanwhile(gpus: World) -> None:
    """cupy/cupy#8068: an array made on one stream and used on another was freed, and its memory written to."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        rows = on("gpu:1", lambda: [x[start::3] for start in range(3)])
        total = on("gpu:0", lambda: rows[0] + rows[1] * 10 + rows[2] * 100)
        fed_here = on("gpu:0", ag.ops.negative, x)
    fed = np.arange(30.0)

    async with ag.Session(graph) as session:
        runs = [session.submit(total, {x: fed + i}) for i in range(10)]
        for i, one in enumerate(runs):
            rows = (fed + i).reshape(10, 3)
            np.testing.assert_array_equal((await one).results, rows @ [1, 10, 100])
        # Made on the null stream, and dropped as soon as they were fed.
        runs = [session.submit(fed_here, {x: gpus.cupy.asarray(fed) * i}) for i in range(10)]
        for i, one in enumerate(runs):
            np.testing.assert_array_equal((await one).results, -i * fed)


async def test_the_end_of_a_run_is_no_callback_of_the_driver_s(gpus: World, callers: list[tuple[str, Call]]) -> None:
    """NVIDIA/numba-cuda#317, NVIDIA/numba-cuda#321, chainer/chainer#1709, chainer/chainer#2084: it wants the GIL.

    A thread that holds it, and calls CUDA, waits for the driver, which waits for the callback.
    """
    called: list[object] = []
    for name in ("launch_host_func", "add_callback"):
        setattr(gpus.cupy.cuda.Stream, name, lambda *args: called.append(args))

    graph, x, y = scaled("gpu:0", "gpu:1")
    assert (await results(graph, y, {x: 1.0})) == 7

    assert called == []
    waits = {thread for thread, call in callers if call.kind in ("synchronize", "query")}
    assert waits == {"asyncgraph cupy gpu:0 lane 0", "asyncgraph cupy gpu:1 lane 0"}


@pytest.mark.parametrize("count", [4, 2000])
async def test_a_result_is_there_when_it_is_delivered_and_never_changes(gpus: World, count: int) -> None:
    """cupy/cupy#7820, cupy/cupy#7938: the result of `asnumpy` changed later, as its copy was not over."""
    graph, x, y = scaled()
    async with ag.Session(graph) as session:
        given = await asyncio.gather(*[session.run(y, {x: np.full(count, float(i))}) for i in range(20)])
        at_once = [values.results.copy() for values in given]
        await asyncio.gather(*[session.run(y, {x: np.zeros(count)}) for _ in range(20)])
    for i, (values, copied) in enumerate(zip(given, at_once, strict=True)):
        assert copied.tolist() == values.results.tolist() == [2.0 * i + 1] * count


async def test_results_come_while_the_dispatcher_goes_on(gpus: World, callers: list[tuple[str, Call]]) -> None:
    """cupy/cupy#1692: `get` waited for the device, although it was given a stream."""
    with ag.Graph() as graph, ag.device("gpu:0"):
        x = ag.placeholder("float64", ("n",))
        several = [x + i for i in range(5)]

    async with ag.Session(graph) as session:
        await session.run(several, {x: [1.0]})
        del callers[:]
        await session.run(several, {x: [1.0]})

    calls = [
        (thread.split()[-2], call.kind) for thread, call in callers if call.kind in ("d2h", "record", "synchronize")
    ]
    assert calls == [("gpu:0", "d2h")] * 5 + [("gpu:0", "record"), ("lane", "synchronize")]


async def test_however_much_is_fed_at_once_little_is_pinned(
    world: World, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cupy/cupy#6360, cupy/cupy#3625, cupy/cupy#4775: staging doubled the host's memory, in powers of two, for good."""
    pinned: list[int] = []
    empty = world.cupyx.empty_pinned
    monkeypatch.setattr(
        world.cupyx, "empty_pinned", lambda shape, *rest: pinned.append(shape[0]) or empty(shape, *rest)
    )
    graph, x, y = scaled("gpu:0", "gpu:1")
    fed = np.arange(12_000.0)

    with ag.use_backend(make_backend(staging_bytes=1 << 16)):
        async with ag.Session(graph) as session:
            runs = [session.submit(y, {x: fed + i}) for i in range(8)]
            for i, one in enumerate(runs):
                np.testing.assert_array_equal((await one).results, (fed + i) * 4 + 3)

    assert set(pinned) == {1 << 14}
    assert sum(pinned) <= 1 << 16


@pytest.mark.parametrize("leaves", ["a device", "a device, entered", "a stream"])
async def test_whatever_an_op_leaves_current_the_next_has_its_device_and_lane(gpus: World, leaves: str) -> None:
    """cupy/cupy#5006, cupy/cupy#5083: a thread was given another's device back. And after `with`, a stream was lost:
    cupy/cupy#5705, cupy/cupy#5943, cupy/cupy#6965, cupy/cupy#8377, cupy/cupy#7866, cupy/cupy#8379.
    """
    cuda = gpus.cupy.cuda

    def careless(value: Any) -> Any:
        result = value * 3
        if leaves == "a stream":
            cuda.Stream(non_blocking=True).__enter__()
        elif leaves == "a device":
            cuda.Device(1).use()
        else:
            cuda.Device(1).__enter__()
        return result

    @ag.op(on_device=True, spec="float64[n]")
    async def tripled(value: Any) -> Any:
        return await ag.launch(careless, value)

    with ag.Graph() as graph, ag.device("gpu:0"):
        x = ag.placeholder("float64", ("n",))
        y = tripled(x) + 1

    cuda.Device(1).use()
    try:
        async with ag.Session(graph) as session:
            for _ in range(3):
                left = (await session.run(y, {x: [1.0]}, ag.RunOptions(results="device"))).results
                assert (left.device.id, left.tolist()) == (0, [4.0])
        assert cuda.runtime.getDevice() == 1
    finally:
        cuda.Device(0).use()


async def test_streams_live_until_the_backend_is_closed_and_end_in_their_thread(
    world: World, make_backend: MakeBackend
) -> None:
    """cupy/cupy#5237, cupy/cupy#5251: a stream was destroyed while another thread used it."""
    ended: list[str] = []
    for kind in (world.cupy.cuda.Stream, world.cupy.cuda.Event):
        kind.__del__ = lambda one: ended.append(threading.current_thread().name)
    backend = make_backend()
    graph, x, y = scaled("gpu:0", "gpu:1")
    with graph, ag.device("gpu:0"):
        y = y + on("gpu:1", ag.ops.negative, x)[::2]

    with ag.use_backend(backend):
        for _ in range(3):
            async with ag.Session(graph) as session:
                await asyncio.gather(*[session.run(y, {x: [1.0, 2.0]}) for _ in range(10)])
    made = world.counts
    assert 0 < made["stream"] == made["event"] <= 2 * 8 + 1
    assert ended == []

    backend.close()
    assert len(ended) == made["stream"] + made["event"]
    assert set(ended) == {"asyncgraph cupy gpu:0 dispatcher", "asyncgraph cupy gpu:1 dispatcher"}


async def test_streams_and_events_are_those_of_the_device_in_any_thread(gpus: World) -> None:
    """cupy/cupy#4899, cupy/cupy#4618: invalid handles in threads with another device. NVIDIA/cuCascade#189: events
    that devices shared were invalid handles, too.

    Large results are fetched by threads that wait, and have never made a device current.
    """
    graph, x, y = scaled("gpu:0", "gpu:1")
    with graph:
        also = on("gpu:0", ag.ops.add, on("gpu:1", ag.ops.negative, x)[::2], 0.0)
    fed = np.arange(4000.0)

    async with ag.Session(graph) as session:
        runs = [session.submit([y, also], {x: fed + i}) for i in range(10)]
        for i, one in enumerate(runs):
            first, second = (await one).results
            np.testing.assert_array_equal(first, (fed + i) * 4 + 3)
            np.testing.assert_array_equal(second, -(fed + i)[::2])

    streams, events = defaultdict(set[int]), defaultdict(set[int])
    for call in gpus.log:
        if call.stream:
            streams[call.stream].add(call.device)
        if call.kind == "record" and call.what.isdecimal():
            events[int(call.what)].add(call.device)
    assert {len(devices) for devices in (*streams.values(), *events.values())} == {1}


async def test_no_memory_is_given_out_on_a_default_stream(gpus: World) -> None:
    """cupy/cupy#5069: threads whose default streams had one number shared blocks of memory."""
    graph, x, y = scaled("gpu:0", "gpu:1")
    del gpus.log[:]
    async with ag.Session(graph) as session:
        await asyncio.gather(*[session.run(y, {x: [float(i)]}) for i in range(10)])

    lanes = {one.ptr for device in gpus.devices for one in device.queues if one.non_blocking}
    used = {call.stream for call in gpus.log if call.kind in ("alloc", "launch", "h2d", "d2h", "d2d")}
    assert used <= lanes
    assert len(used) >= 2


async def test_one_thread_of_a_device_computes_and_a_limit_of_memory_is_one_device_s(
    gpus: World, callers: list[tuple[str, Call]]
) -> None:
    """cupy/cupy#1109, pytorch/pytorch#6962: each thread that multiplies matrices makes handles, which take memory.

    cupy/cupy#4866: a limit was taken for that of all devices, and is the current one's.
    """
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n", "n"))
        squares = {one: on(one, ag.ops.matmul, x, x) for one in ("gpu:0", "gpu:1")}
    with gpus.cupy.cuda.Device(1):
        gpus.cupy.get_default_memory_pool().set_limit(1 << 10)

    async with ag.Session(graph) as session:
        await asyncio.gather(*[session.run(squares["gpu:0"], {x: np.ones((20, 20))}) for _ in range(10)])
        with pytest.raises(MemoryError, match="limit set to: 1,024 bytes"):
            await session.run(squares["gpu:1"], {x: np.ones((20, 20))})
        assert (await session.run(squares["gpu:1"], {x: np.ones((2, 2))})).results.tolist() == [[2, 2], [2, 2]]

    computed = {thread for thread, call in callers if call.kind in ("launch", "alloc")}
    assert computed == {"asyncgraph cupy gpu:0 dispatcher", "asyncgraph cupy gpu:1 dispatcher"}


async def test_runs_at_one_time_are_on_streams_that_may_overlap(gpus: World, slow: Slow) -> None:
    """cupy/cupy#1695, cupy/cupy#1938, cupy/cupy#2524, dask/dask#4040: nothing overlapped, in spite of streams.

    Whether it does takes a card; that it may is seen here: none waits for another, nor for the default stream.
    """
    graph, x, y = scaled()
    async with ag.Session(graph) as session:
        first = session.submit(y, {x: 1.0})
        assert await asyncio.to_thread(slow.reached.wait, SECONDS)
        for i in range(5):
            assert (await session.run(y, {x: float(i)})).results == 2 * i + 1
        assert not first.done()
        slow.opened.set()
        assert (await first).results == 3

    streams = {call.stream for call in gpus.log if call.kind == "launch" and call.stream}
    assert len(streams) == 2
    assert all(one.non_blocking for one in gpus.devices[0].queues if one.ptr in streams)


def test_the_first_kernels_of_a_process_start_in_one_thread(
    make_backend: MakeBackend, callers: list[tuple[str, Call]]
) -> None:
    """cupy/cupy#8773: threads that started their first kernels at once crashed, as symbols are loaded when needed."""
    backend = make_backend()
    ready = threading.Barrier(8)

    def first() -> None:
        ready.wait()
        add = kernel(backend, "add")
        assert run(backend, lambda: backend.to_host(add(backend.to_device(np.ones(2), GPU), 1.0))).tolist() == [2, 2]

    threads = [threading.Thread(target=first, name=f"first {i}") for i in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    launches = [(thread, call.device) for thread, call in callers if call.kind == "launch"]
    probing = [(thread, device) for thread, device in launches if thread == "asyncgraph cupy probe"]
    assert {device for _, device in probing} == {0, 1}
    assert launches[: len(probing)] == probing


async def test_who_waits_for_a_device_does_not_spin(gpus: World) -> None:
    """cupy/cupy#7911: by default a thread that waits for an event keeps a core busy."""
    graph, x, y = scaled("gpu:0", "gpu:1")
    async with ag.Session(graph) as session:
        await session.run(y, {x: 1.0})
        events = list(gpus.events.values())
        assert {(one.block, one.disable_timing) for one in events} == {(True, True)}
        assert len(events) == 2
    assert gpus.counts["query"] == 0


async def test_the_loop_goes_on_and_calls_nothing_of_cuda_s(
    gpus: World, callers: list[tuple[str, Call]], slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA/cudf#4529: calls of a GPU library held up web servers, whose authors wrote `sleep(0)` between them."""
    cuda, asked = gpus.cupy.cuda, list[tuple[str, str]]()

    class Watched:
        def __getattr__(self, name: str) -> Any:
            asked.append((threading.current_thread().name, name))
            return getattr(cuda, name)

    monkeypatch.setattr(gpus.cupy, "cuda", Watched())
    graph, x, y = scaled("gpu:0", "gpu:1")
    async with ag.Session(graph) as session:
        running = session.submit(y, {x: np.ones(4000)})
        assert await asyncio.to_thread(slow.reached.wait, SECONDS)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not running.done()
        slow.opened.set()
        await running

    for calls in (callers, asked):
        threads = {thread for thread, _ in calls}
        assert threads
        assert threading.current_thread().name not in threads
