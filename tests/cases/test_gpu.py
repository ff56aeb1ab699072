"""Public failures of GPUs, through the CuPy backend.

No GPU is used, nor CuPy: both are a stand-in's, whose kernels run late, in an order drawn from a seed, and whose
values are NumPy's. It shows what is waited for, moved, held and shared, and nothing of speed or rounding. Each test
ends with the stand-in's own check: nothing raced, and all memory of the devices was given back.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FeedError
from asyncgraph_cupy import CupyBackend, _backend, _dispatcher, _lanes, _reaper, _staging, _submission

from ..standin.world import World
from .helpers import run

LARGE = 20_000
"""So many float64 go to a device through pinned memory of the backend's own, not by CuPy's copy."""


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """`gpu:0` and `gpu:1` that there are not, with little pinned memory, so that it is used again and again."""
    world = World(devices=2, seed=7)
    world.watch(monkeypatch, _backend, _dispatcher, _lanes, _reaper, _staging, _submission)
    backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx, staging_bytes=1 << 18)
    with ag.use_backend(backend):
        yield world
    backend.close()
    world.check()


def on(device: str, build: Any, *operands: Any, **options: Any) -> Any:
    with ag.device(device):
        return build(*operands, **options)


def pinned(world: World, count: int) -> Any:
    """Memory that devices read by themselves; it raises where it is written while one does."""
    array = world.cupyx.empty_pinned((count,), np.float64)
    array[...] = 1.0
    return array


def summing() -> tuple[ag.Graph, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        return graph, x, on("gpu:0", ag.ops.sum, x)


@pytest.mark.parametrize("count", [100, LARGE])
async def test_ag_183_a_copied_feed_may_be_written_to_as_soon_as_the_run_is_submitted(
    no_gpu: World, count: int
) -> None:
    """https://github.com/cupy/cupy/pull/5155, https://github.com/cupy/cupy/issues/7821."""
    graph, x, total = summing()
    fed = pinned(no_gpu, count)
    async with ag.Session(graph) as session:
        running = session.submit(total, {x: fed}, ag.RunOptions(copy_feeds=True))
        fed[...] = 0.0
        assert (await running).results == count


@pytest.mark.parametrize("count", [100, LARGE])
async def test_ag_183_a_feed_is_borrowed_until_the_run_ends_and_no_longer(no_gpu: World, count: int) -> None:
    """https://github.com/cupy/cupy/pull/5155, https://github.com/cupy/cupy/issues/7821."""
    graph, x, total = summing()
    fed = pinned(no_gpu, count)
    async with ag.Session(graph) as session:
        for value in range(1, 6):
            fed[...] = value
            assert (await session.run(total, {x: fed})).results == value * count


async def test_ag_183_memory_for_transfers_is_used_again_only_after_its_copy(no_gpu: World) -> None:
    """https://github.com/cupy/cupy/pull/5155, https://github.com/cupy/cupy/issues/7821."""
    graph, x, total = summing()
    async with ag.Session(graph) as session:
        runs = [session.submit(total, {x: np.full(LARGE, float(i))}) for i in range(20)]
        assert [(await one).results for one in runs] == [i * LARGE for i in range(20)]


async def test_ag_185_what_one_lane_has_made_is_used_on_others_and_on_another_device(no_gpu: World) -> None:
    """https://github.com/cupy/cupy/issues/4899. A tenth of its thousand runs."""

    @ag.op(on_device=True, spec="float64[4]")
    async def produced(value: Any) -> Any:
        return await ag.launch(lambda one: one * 2, value)

    @ag.op(on_device=True, spec="float64[2]")
    async def consumed(value: Any) -> Any:
        return await ag.launch(lambda one: one[::2] + 1, value)

    with ag.Graph() as graph:
        x = ag.placeholder("float64", (4,))
        produced_there = on("gpu:0", produced, x)
        here = on("gpu:0", consumed, on("gpu:0", ag.ops.negative, produced_there))
        there = on("gpu:1", ag.ops.add, produced_there[::2], here)
    fed = np.arange(4.0)

    async with ag.Session(graph) as session:
        for start in range(0, 100, 20):
            runs = [session.run([here, there], {x: fed + i}) for i in range(start, start + 20)]
            for i, values in enumerate(await asyncio.gather(*runs), start):
                twice = 2 * (fed + i)[::2]
                np.testing.assert_array_equal(values.results, [1 - twice, [1.0, 1.0]])

    assert len({call.stream for call in no_gpu.log if call.kind == "launch" and call.device == 0}) > 1


@pytest.mark.parametrize("device", ["cpu:0", "gpu:0"])
async def test_ag_186_a_value_of_rank_0_is_an_array_wherever_it_was_computed(no_gpu: World, device: str) -> None:
    """AG-169, too: https://github.com/cupy/cupy/issues/3819, https://github.com/cupy/cupy/issues/2212,
    https://github.com/chainer/chainer/issues/428.
    """
    seen: list[tuple[type, int]] = []

    @ag.op
    def stacked(*values: Any) -> Any:
        seen.extend((type(one), one.ndim) for one in values)
        return np.stack(values)

    with ag.Graph() as graph, ag.device(device):
        x = ag.placeholder("float64", ("n",))
        parts = [ag.ops.sum(x), ag.ops.max(x), x[0], ag.ops.mean(x) + 1, ag.ops.cos(ag.constant(0.0))]
        by_user, by_op = stacked(*parts), ag.ops.stack(parts)

    *values, user_s, op_s = await run(graph, [*parts, by_user, by_op], {x: [1.0, 2.0, 3.0]})

    assert [(type(one), one.ndim, one.dtype) for one in values] == [(np.ndarray, 0, np.float64)] * 5
    assert seen == [(np.ndarray, 0)] * 5
    assert [float(one) for one in values] == user_s.tolist() == op_s.tolist() == [6.0, 3.0, 1.0, 3.0, 1.0]


async def test_ag_186_left_on_a_gpu_it_is_an_array_of_rank_0_there_also_to_an_op_that_computes_there(
    no_gpu: World,
) -> None:
    """https://github.com/cupy/cupy/issues/3819, https://github.com/chainer/chainer/issues/428."""
    seen: list[tuple[type, int]] = []

    @ag.op(on_device=True, spec="float64[2]")
    async def stacked(*values: Any) -> Any:
        seen.extend((type(one), one.ndim) for one in values)
        return await ag.launch(no_gpu.cupy.stack, values)

    with ag.Graph() as graph, ag.device("gpu:0"):
        x = ag.placeholder("float64", ("n",))
        total = ag.ops.sum(x)
        both = stacked(total, ag.ops.max(x))

    left, pair = await run(graph, [total, both], {x: [1.0, 2.0, 3.0]}, results="device")

    assert seen == [(no_gpu.cupy.ndarray, 0)] * 2
    assert (type(left), left.ndim, float(left), pair.tolist()) == (no_gpu.cupy.ndarray, 0, 6.0, [6.0, 3.0])


async def test_ag_187_an_op_of_the_host_gets_the_value_of_a_gpu_which_is_moved_once(no_gpu: World) -> None:
    """https://github.com/MouseLand/pykilosort/issues/67, https://github.com/cupy/cupy/issues/8389,
    https://github.com/odlgroup/odl/issues/1248.
    """
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        a = on("gpu:0", ag.ops.multiply, x, 2)
        b = on("cpu:0", ag.op(np.asarray), a)
        c = on("cpu:0", ag.ops.add, a, ag.constant([1.0, 1.0]))

    async with ag.Session(graph) as session:
        before = no_gpu.counts
        results = (await session.run([b, c], {x: [1.0, 2.0]})).results
        moved = no_gpu.counts - before

    assert [one.tolist() for one in results] == [[2, 4], [3, 5]]
    assert (moved["h2d"], moved["d2h"]) == (1, 1)


async def test_ag_188_a_flipped_array_has_the_right_values_on_a_gpu_and_back(no_gpu: World) -> None:
    """https://github.com/cupy/cupy/issues/5665, https://github.com/ecmwf/earthkit-meteo/issues/73."""
    for count in (10, LARGE):
        with ag.Graph() as graph, ag.device("gpu:0"):
            x = ag.placeholder("float64", ("n",))
            same, flipped = x * 1, ag.ops.flip(x)
        fed = np.arange(float(count))[::-1]
        as_fed, turned = await run(graph, [same, flipped], {x: fed})
        np.testing.assert_array_equal(as_fed, fed)
        np.testing.assert_array_equal(turned, fed[::-1])


async def test_ag_188_a_flipped_array_is_exchanged_over_dlpack(no_gpu: World) -> None:
    """https://github.com/cupy/cupy/issues/5665, https://github.com/ecmwf/earthkit-meteo/issues/73.

    A view that is left on a GPU stays one. A library that takes no negative strides is given
    `cupy.ascontiguousarray` of it, which copies once.
    """
    cupy = no_gpu.cupy
    with ag.Graph() as graph, ag.device("gpu:0"):
        x = ag.placeholder("float64", ("n",))
        flipped = ag.ops.flip(x)

    async with ag.Session(graph) as session:
        on_device = ag.RunOptions(results="device")
        left = (await session.run(flipped, {x: np.arange(10.0)}, on_device)).results
        fed_again = (await session.run(flipped, {x: left}, on_device)).results
        back = (await session.run(flipped, {x: fed_again})).results

    assert left.__dlpack_device__() == (2, 0)
    assert cupy.from_dlpack(left).get().tolist() == back.tolist() == np.arange(10.0)[::-1].tolist()
    assert cupy.from_dlpack(fed_again).get().tolist() == np.arange(10.0).tolist()
    packed = cupy.ascontiguousarray(left)
    assert packed.strides == (8,)
    assert cupy.ascontiguousarray(packed) is packed
    assert packed.get().tolist() == back.tolist()


@pytest.mark.parametrize(
    ("fed", "dtype"),
    [([-1.9, 0.0, 127.5], "int8"), ([2.9, 4e9], "uint32"), ([-(2.0**31), 2.0**31 - 1], "int32"), ([0.0, 2.5], "bool")],
)
async def test_ag_189_floats_that_an_integer_can_hold_convert_alike_everywhere(
    no_gpu: World, fed: list[float], dtype: str
) -> None:
    """https://github.com/chainer/chainer/pull/1723, https://github.com/cupy/cupy/pull/7341."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        casts = [on(device, ag.ops.astype, x, dtype) for device in ("cpu:0", "gpu:0")]

    here, there = await run(graph, casts, {x: fed})

    assert here.dtype == there.dtype == np.dtype(dtype)
    assert here.tolist() == there.tolist() == np.array(fed).astype(dtype).tolist()


async def test_ag_189_floats_that_it_cannot_hold_become_some_integers_as_is_documented(no_gpu: World) -> None:
    """https://github.com/chainer/chainer/pull/1723, https://github.com/cupy/cupy/pull/7341."""
    with ag.Graph() as graph, ag.device("gpu:0"):
        x = ag.placeholder("float64", ("n",))
        unsigned, signed = ag.ops.astype(x, "uint32"), ag.ops.astype(x, "int32")

    results = await run(graph, [unsigned, signed], {x: [-1.5, np.inf, np.nan, 3e9]})

    assert [(one.dtype, one.shape) for one in results] == [(np.uint32, (4,)), (np.int32, (4,))]
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text().split())
    assert "Infinite, NaN and other floats that an integer cannot hold become other integers." in readme


@pytest.mark.parametrize("fed", [[np.nan], np.array([np.nan]), [np.inf], [1.5]], ids=str)
async def test_ag_028_a_float_that_is_no_integer_is_refused_before_a_gpu_hears_of_it(no_gpu: World, fed: Any) -> None:
    """https://github.com/numpy/numpy/issues/22076, https://github.com/numpy/numpy/issues/21166,
    https://github.com/numpy/numpy/issues/6109.
    """
    with ag.Graph() as graph:
        x = ag.placeholder("int64", (1,))
        y = on("gpu:0", ag.ops.multiply, x, 1)

    async with ag.Session(graph) as session:
        await session.run(y, {x: [3]})
        before = len(no_gpu.log)
        with pytest.raises(FeedError, match="does not fit"):
            await session.run(y, {x: fed})
        assert len(no_gpu.log) == before


async def test_ag_170_division_by_zero_and_remainders_of_infinity_are_numpy_s_on_a_gpu_and_silent(
    no_gpu: World,
) -> None:
    """https://github.com/numpy/numpy/issues/14900, https://github.com/cupy/cupy/issues/9111.

    CuPy's own remainder of infinity is NaN; the backend computes another.
    """
    with ag.Graph() as graph, ag.device("gpu:0"):
        x, y = ag.placeholder("float64", None), ag.placeholder("float64", None)
        fetches = [x // y, x % y]

    quotient, remainder = await run(graph, fetches, {x: [1.0], y: [0.0]})
    assert quotient.tolist() == [np.inf]
    assert np.isnan(remainder).all()
    assert [one.item() for one in await run(graph, fetches, {x: 1.0, y: np.inf})] == [0.0, 1.0]
    assert [one.item() for one in await run(graph, fetches, {x: -1.0, y: np.inf})] == [-1.0, np.inf]
    assert not any(call.what == "remainder" for call in no_gpu.log)


FORKED = textwrap.dedent("""
    import asyncio, os, sys
    sys.path[:0] = [{tests!r}]
    import asyncgraph as ag
    from asyncgraph.errors import DeviceNotFoundError
    from asyncgraph_cupy import CupyBackend
    from standin.world import World

    world = World()
    backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx)
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        here = x * 2
        with ag.device("gpu:0"):
            there = x * 3

    async def main():
        async with ag.Session(graph) as session:
            return (await session.run([here, there], {{x: 1.0}})).results

    async def in_child():
        async with ag.Session(graph, config=ag.SessionConfig(soft_placement=False)) as session:
            assert (await session.run(here, {{x: 1.0}})).results == 2.0
            try:
                await session.run(there, {{x: 1.0}})
            except DeviceNotFoundError as error:
                print(error)

    with ag.use_backend(backend):
        assert asyncio.run(main()) == [2.0, 3.0]
        if child := os.fork():
            assert os.waitpid(child, 0)[1] == 0
        else:
            asyncio.run(in_child())
            sys.exit()
    backend.close()
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_ag_105_a_child_forked_after_a_gpu_was_used_is_told_so_and_computes_on_the_host() -> None:
    """https://github.com/tensorflow/tensorflow/issues/2448, https://github.com/tensorflow/tensorflow/issues/8220,
    https://github.com/tensorflow/tensorflow/issues/14442.
    """
    source = FORKED.format(tests=str(Path(__file__).parents[1]))
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "backend 'cupy' has it, but was looked for before this process was forked" in done.stdout
