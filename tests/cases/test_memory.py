"""Nothing is kept that nobody holds."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import RunTimeoutError

from .helpers import run


async def test_ag_126_a_small_result_does_not_keep_a_large_array() -> None:
    """https://github.com/numpy/numpy/issues/10273, https://github.com/numpy/numpy/issues/15746."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        fed, made, constant = x[:10], (x + 1)[:10], ag.constant(np.ones(100_000))[:10]

    for result in await run(graph, [fed, made, constant], {x: np.ones(100_000)}):
        assert result.base is None or result.base.nbytes <= result.nbytes
        assert result.flags.writeable


async def test_ag_128_results_are_forgotten_as_soon_as_nobody_holds_them() -> None:
    """https://github.com/dask/distributed/issues/3657, https://github.com/dask/dask/issues/4630."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        nodes = [x + 1, ag.op(lambda value: value * 2)(x)]
    gc.collect()
    gc.disable()
    try:
        # One thread: it has left the call that made a value before it makes the next.
        async with ag.Session(graph, config=ag.SessionConfig(threads=1)) as session:
            for node in nodes:
                future = session.submit(node, {x: np.zeros(100_000)})
                gone = weakref.ref((await future).results)
                assert gone() is not None
                del future
                for _ in range(10):
                    await session.run(node, {x: np.zeros(3)})
                assert gone() is None
            statistics = session.statistics()
            assert (statistics.runs_executing, statistics.runs_waiting) == (0, 0)
            assert statistics.runs_started == statistics.runs_ended == 22
    finally:
        gc.enable()


async def test_ag_129_runs_leave_nothing_behind_however_they_end() -> None:
    """https://github.com/tensorflow/tensorflow/issues/29816, https://github.com/tensorflow/tensorflow/issues/9590, https://github.com/tensorflow/tensorflow/issues/13221."""

    async def for_ever(value: object) -> None:
        await asyncio.Event().wait()

    def fail(value: object) -> None:
        raise LookupError("as it should")

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        good, bad, endless = x * 2 + 1, ag.op(fail)(x), ag.op(for_ever)(x)
    graph.finalize()

    async def one_of_each(session: ag.Session) -> None:
        await session.run(good, {x: np.ones(1000)})
        with pytest.raises(LookupError):
            await session.run(bad, {x: np.ones(1000)})
        with pytest.raises(RunTimeoutError):
            await session.run(endless, {x: np.ones(1000)}, ag.RunOptions(timeout_s=0.0))
        cancelled = session.submit(endless, {x: np.ones(1000)})
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    async with ag.Session(graph) as session:
        tasks = len(asyncio.all_tasks())
        for _ in range(60):
            await one_of_each(session)
        gc.collect()
        objects = len(gc.get_objects())
        tracemalloc.start()
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(250):
            await one_of_each(session)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - start
        tracemalloc.stop()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == tasks
        assert len(gc.get_objects()) - objects < 100
        assert grown < 100_000
