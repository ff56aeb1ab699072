"""Strides, byte order and read-only flags of fed arrays change nothing."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import asyncgraph as ag

from .helpers import run


@pytest.mark.parametrize(
    "fed", [np.arange(6.0).reshape(2, 3)[:, ::-1], np.arange(12.0).reshape(1, 12)[::-1]], ids=["flipped", "one-row"]
)
async def test_ag_032_negative_strides_and_axes_of_length_one(fed: np.ndarray) -> None:
    """https://github.com/pytorch/pytorch/issues/92680, https://github.com/numpy/numpy/issues/23349."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None, None))
        y = x * 1

    result = await run(graph, [x, y], {x: fed})

    np.testing.assert_array_equal(result[0], fed)
    np.testing.assert_array_equal(result[1], fed)
    assert result[1].strides == (fed * 1).strides


async def test_ag_034_the_byte_order_of_a_feed_or_a_constant_does_not_matter() -> None:
    """https://github.com/dask/dask/issues/1647."""
    with ag.Graph() as graph:
        x, n = ag.placeholder("float32", [3]), ag.placeholder("int64")
        y, total = x * 2, ag.constant(np.arange(3, dtype=">i8")) + n

    doubled = await run(graph, y, {x: np.array([1, 2, 3], ">f4")})
    assert (doubled.dtype, doubled.tolist()) == (np.float32, [2.0, 4.0, 6.0])
    summed = await run(graph, total, {n: np.array([1, 1, 1], ">i8")})
    assert (summed.dtype, summed.tolist()) == (np.int64, [1, 2, 3])
    assert summed.dtype.isnative


async def test_ag_037_no_result_shows_one_element_several_times() -> None:
    """https://github.com/dask/dask/issues/11531."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (4,))
        nodes = [ag.ops.full((9,), 0.0), ag.ops.broadcast_to(x, (3, 4)), ag.ops.broadcast_to(x * 2, (3, 4))]

    for result in await run(graph, nodes, {x: [1, 2, 3, 4]}):
        before = result.copy()
        assert all(result.strides)
        result[0] = 17
        np.testing.assert_array_equal(result[1:], before[1:])


async def test_ag_038_a_read_only_feed_is_not_copied() -> None:
    """https://github.com/tensorflow/tensorflow/issues/17315."""
    array = np.ones(500_000)
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        total = ag.ops.sum(x)

    async with ag.Session(graph) as session:
        for writeable in (True, False, True, False):
            array.flags.writeable = writeable
            tracemalloc.start()
            assert (await session.run(total, {x: array})).results == 500_000
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < array.nbytes / 10
    assert np.shares_memory(await run(graph, x, {x: array}), array)
