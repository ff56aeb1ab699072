"""Public failures in the order of work: shared nodes, run-ahead, memory, and a loop that stands still."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag


@pytest.mark.parametrize("is_async", [False, True])
async def test_ag_073_a_shared_node_runs_once_and_every_reader_gets_its_value(is_async: bool) -> None:
    """A diamond around a sync or an async node: https://github.com/dask/dask/issues/1802 and
    https://github.com/xitu/tensorflow/pull/140 (a stored coroutine cannot be awaited twice).
    """
    calls: list[int] = []

    async def counting_async() -> int:
        calls.append(1)
        await asyncio.sleep(0)
        return 5

    def counting() -> int:
        calls.append(1)
        return 5

    with ag.Graph() as graph:
        a = ag.op(counting_async if is_async else counting).node()
        b = ag.op(lambda v: v + 1)(a)
        d = ag.op(lambda v: v * 2)(a)
        e = ag.op(lambda left, right: (left, right))(b, d)

    async with ag.Session(graph) as session:
        values = await session.run([e, a])

    assert values.results == [(6, 10), 5]
    assert calls == [1]


@pytest.mark.parametrize("is_async", [False, True])
async def test_ag_074_no_more_runs_execute_than_may_and_those_that_wait_hold_nothing(is_async: bool) -> None:
    """Thousands of steps were queued before the first had ended: https://github.com/jax-ml/jax/issues/928.

    `SessionConfig.max_concurrent_runs` is the documented bound.
    """
    live = 0
    peak = 0
    lock = threading.Lock()

    def enter() -> None:
        nonlocal live, peak
        with lock:
            live += 1
            peak = max(peak, live)

    def leave() -> None:
        nonlocal live
        with lock:
            live -= 1

    def in_thread(v: int) -> int:
        enter()
        leave()
        return v + 1

    async def on_loop(v: int) -> int:
        enter()
        await asyncio.sleep(0)
        leave()
        return v + 1

    count = 2000 if is_async else 500
    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        y = ag.op(on_loop if is_async else in_thread)(x)

    async with ag.Session(graph, config=ag.SessionConfig(max_concurrent_runs=8)) as session:
        futures = [session.submit(y, {x: i}) for i in range(count)]
        await asyncio.sleep(0)
        waiting = session.statistics()
        tasks = len(asyncio.all_tasks())
        values = await asyncio.gather(*futures)

    assert [one.results for one in values] == list(range(1, count + 1))
    assert peak <= 8
    assert waiting.runs_executing <= 8
    assert waiting.runs_waiting >= count - 8 - waiting.runs_ended
    assert tasks <= 1 + 8


async def test_ag_075_what_is_ready_is_finished_before_more_is_begun() -> None:
    """All loaders ran before any reduction: https://github.com/dask/dask/issues/3139,
    https://github.com/dask/dask/issues/5859, https://github.com/dask/dask/issues/4310.
    """
    chunk = 1_000_000  # elements: 8 MB
    live = 0
    peak = 0
    lock = threading.Lock()

    def gone() -> None:
        nonlocal live
        with lock:
            live -= 1

    def load(index: int) -> np.ndarray:
        nonlocal live, peak
        array = np.full(chunk, float(index))
        with lock:
            live += 1
            peak = max(peak, live)
        weakref.finalize(array, gone)
        return array

    loading = ag.op(spec="float64[?]")(load)
    with ag.Graph() as graph:
        sums = [ag.ops.sum(loading.node(index)) for index in range(50)]
        total = ag.ops.sum(ag.ops.stack(sums))

    async with ag.Session(graph, config=ag.SessionConfig(threads=2, workers=2)) as session:
        values = await session.run(total)

    assert values.results == sum(index * chunk for index in range(50))
    assert peak <= 4  # two threads load at a time; 50 would be all of them


async def test_ag_076_a_blocking_op_leaves_the_loop_free() -> None:
    """Sync work inside the loop delayed everybody: https://github.com/MagicStack/uvloop/issues/123 and
    https://github.com/ray-project/ray/pull/7262. Sync ops run in threads unless they say `where="inline"`.
    """
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(time.perf_counter())
            await asyncio.sleep(0.01)

    with ag.Graph() as graph:
        n = ag.op(lambda: time.sleep(0.3)).node()

    async with ag.Session(graph) as session:
        ticking = asyncio.create_task(tick())
        await session.run(n)
        ticking.cancel()
        await asyncio.wait([ticking])

    assert len(ticks) >= 20


async def test_ag_076_an_inline_op_says_so_and_runs_on_the_loop() -> None:
    """The documented exception of the same case: `where="inline"`."""
    threads: list[Any] = []
    with ag.Graph() as graph:
        n = ag.op(where="inline")(lambda: threads.append(threading.current_thread())).node()

    async with ag.Session(graph) as session:
        await session.run(n)

    assert threads == [threading.current_thread()]
