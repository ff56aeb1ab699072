"""Integers are NumPy's: they wrap around, and sums widen."""

from __future__ import annotations

import numpy as np

import asyncgraph as ag

from .helpers import run


async def test_ag_156_the_absolute_value_of_the_smallest_integer_is_itself() -> None:
    """https://github.com/numpy/numpy/issues/21289, https://github.com/numpy/numpy/issues/26145."""
    with ag.Graph() as graph:
        x = ag.placeholder("int8", ("n",))
        y, by_operator = ag.ops.abs(x), abs(x)

    for result in await run(graph, [y, by_operator], {x: np.array([-128, -127], np.int8)}):
        assert (result.dtype, result.tolist()) == (np.int8, [-128, 127])
    assert y.dtype == np.int8


async def test_ag_159_small_integers_wrap_around() -> None:
    """https://github.com/numpy/numpy/issues/10782, https://github.com/numpy/numpy/issues/6753."""
    with ag.Graph() as graph:
        x, m = ag.placeholder("int16", ("n",)), ag.placeholder("int16", (2, 3))
        square, product = x * x, ag.ops.matrix_transpose(m) @ m

    squared, multiplied = await run(
        graph, [square, product], {x: np.array([182], np.int16), m: np.full((2, 3), 3201, np.int16)}
    )
    assert (squared.dtype, squared.tolist()) == (np.int16, [-32412])
    assert (multiplied.dtype, multiplied.tolist()) == (np.int16, [[-19966] * 3] * 3)


async def test_ag_162_sums_of_bytes_widen_unless_told_otherwise() -> None:
    """https://github.com/data-apis/array-api-tests/issues/160."""
    with ag.Graph() as graph:
        x = ag.placeholder("uint8", ("n",))
        wide, narrow = ag.ops.sum(x), ag.ops.sum(x, dtype="uint8")

    results = await run(graph, [wide, narrow], {x: np.array([200, 100], np.uint8)})
    assert [(one.dtype, one.item()) for one in results] == [(np.uint64, 300), (np.uint8, 44)]
    assert [wide.dtype, narrow.dtype] == [np.uint64, np.uint8]


async def test_ag_163_means_of_integers_are_taken_in_float64() -> None:
    """https://github.com/tensorflow/tensorflow/pull/126012."""
    with ag.Graph() as graph:
        x = ag.placeholder("int32", ("n",))
        mean = ag.ops.mean(x)

    for fed, expected in (
        (np.array([2147483647, 2147483647], np.int32), 2147483647.0),
        ([0, 1, 1], 0.6666666666666666),
    ):
        result = await run(graph, mean, {x: fed})
        assert (result.dtype, result.item()) == (np.float64, expected)
