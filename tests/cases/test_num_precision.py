"""Sums and means round as NumPy's do."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgraph as ag

from .helpers import run


async def test_ag_178_half_precision_sums_overflow_and_means_do_not() -> None:
    """https://github.com/numpy/numpy/issues/7930, https://github.com/numpy/numpy/issues/8217."""
    with ag.Graph() as graph:
        x = ag.placeholder("float16", ("n",))
        total, mean, wide = ag.ops.sum(x), ag.ops.mean(x), ag.ops.sum(x, dtype="float64")

    with pytest.warns(RuntimeWarning, match="overflow encountered in reduce"):
        results = await run(graph, [total, mean, wide], {x: np.ones(65520, np.float16)})
    assert results == [np.inf, 1.0, 65520.0]
    assert [one.dtype for one in results] == [np.float16, np.float16, np.float64]
    assert await run(graph, mean, {x: np.ones(100_000, np.float16)}) == 1.0


async def test_ag_180_single_precision_sticks_where_numpys_does() -> None:
    """https://github.com/numpy/numpy/issues/22956, https://github.com/numpy/numpy/issues/29772, https://github.com/numpy/numpy/issues/11331."""
    with ag.Graph() as graph:
        a, b = ag.placeholder("float32", ()), ag.placeholder("float32", ())
        tall = ag.placeholder("float32", ("n", 2))
        total, mean = a + b, ag.ops.mean(tall, axis=0)
    fed = np.full((300_000, 2), 0.1, np.float32)

    assert await run(graph, total, {a: 16777216, b: 1}) == np.float32(16777216.0)
    result = await run(graph, mean, {tall: fed})
    np.testing.assert_array_equal(result, fed.mean(axis=0))
    assert abs(result[0] - 0.1) > 1e-5  # as far off as NumPy's own
