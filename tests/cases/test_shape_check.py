"""A fed value has the shape its node says, or nothing runs."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FeedError, MissingFeedError

from .helpers import run


async def test_ag_019_an_unknown_dimension_is_not_an_unknown_rank() -> None:
    """https://github.com/tensorflow/tensorflow/issues/2834."""
    with ag.Graph() as graph:
        a, b = ag.placeholder("int32", shape=(None,)), ag.placeholder("int32", shape=None)
        scalar, also_scalar = ag.placeholder("int32", shape=[]), ag.placeholder("int32", shape=())
        fetches = [one * 2 for one in (a, b, scalar, also_scalar)]
    square = np.ones((5, 5), np.int32)

    with pytest.raises(FeedError, match=r"(?s)int32\[\?\], shape \(None,\).*int32\[5,5\], shape \(5, 5\)") as caught:
        await run(graph, fetches[0], {a: square})
    assert isinstance(caught.value, ValueError)
    np.testing.assert_array_equal(await run(graph, fetches[1], {b: square}), 2 * square)
    for node, fetch in ((scalar, fetches[2]), (also_scalar, fetches[3])):
        assert await run(graph, fetch, {node: 3}) == 6
        with pytest.raises(FeedError, match="its rank differs"):
            await run(graph, fetch, {node: [3]})


async def test_ag_020_a_mismatch_is_reported_early_with_names_and_shapes() -> None:
    """https://github.com/tensorflow/tensorflow/issues/5751."""
    calls: list[int] = []
    with ag.Graph() as graph:
        x = ag.placeholder("float32", [None, 784], name="img")
        y = ag.op(lambda value: calls.append(1))(x)

    with pytest.raises(FeedError, match="'img'") as caught:
        await run(graph, y, {x: np.zeros((50, 2352), np.float32)})
    assert "(50, 2352)" in str(caught.value)
    assert "(None, 784)" in str(caught.value)
    assert __file__ in str(caught.value)
    assert calls == []


async def test_ag_023_a_ragged_list_is_refused_by_the_placeholders_name() -> None:
    """https://github.com/numpy/numpy/issues/17224, https://github.com/numpy/numpy/pull/14674."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", [None, None], name="table")
        untyped = ag.placeholder(None, [None], name="untyped")

    for node in (x, untyped):
        with pytest.raises(FeedError, match=rf"{node.name}.*inhomogeneous shape") as caught:
            await run(graph, node * 1, {node: [[1, 2], [3]]})
        assert isinstance(caught.value, ValueError)


async def test_ag_024_the_shape_of_an_unfed_placeholder_is_known_without_a_run_and_its_value_never_is() -> None:
    """https://github.com/tensorflow/tensorflow/issues/2709."""
    with ag.Graph() as graph:
        x = ag.placeholder("float32", [4, 5], name="x")
        shape = ag.op(lambda value: value.shape)(x)
    assert x.shape == (4, 5)
    async with ag.Session(graph) as session:
        for _ in range(2):
            with pytest.raises(MissingFeedError, match="'x'"):
                await session.run(shape)
            assert (await session.run(shape, {x: np.ones((4, 5), "float32")})).results == (4, 5)
