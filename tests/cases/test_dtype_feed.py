"""A feed converts only if no value changes."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FeedError, FeedOverflowError, FeedTypeError

from .helpers import run


async def test_ag_027_an_integer_that_a_float32_cannot_hold_is_refused_and_ops_promote_as_numpy_does() -> None:
    """https://github.com/tensorflow/tensorflow/issues/61875."""
    with ag.Graph() as graph:
        x = ag.placeholder("float32", [2], name="x")
        a, b = ag.placeholder("int32", [1]), ag.placeholder("float32", [1])
        y, total = x * 1, a + b

    with pytest.raises(FeedError, match="'x'.*52479843 would become 52479844"):
        await run(graph, y, {x: np.array([52479843, 52479845], np.int32)})
    np.testing.assert_array_equal(await run(graph, y, {x: np.array([2**24, 3], np.int32)}), np.array([2**24, 3], "f4"))
    result = await run(graph, total, {a: [52479843], b: [0.0]})
    assert (result.dtype, result.tolist()) == (np.float64, [52479843.0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.5])
async def test_ag_028_what_is_no_integer_is_refused_as_a_list_and_as_an_array(value: float) -> None:
    """https://github.com/numpy/numpy/issues/22076, https://github.com/numpy/numpy/issues/21166, https://github.com/numpy/numpy/issues/6109."""
    with ag.Graph() as graph:
        x = ag.placeholder("int64", [1], name="count")
        y = x * 1

    for fed in ([value], np.array([value])):
        with pytest.raises(FeedError, match=f"'count'.*{value} is no integer"):
            await run(graph, y, {x: fed})


async def test_ag_029_text_is_never_a_number() -> None:
    """https://github.com/udacity/sdc-issue-reports/issues/7."""
    with ag.Graph() as graph:
        x, y = ag.placeholder("int32", [], name="x"), ag.placeholder("float32", [2], name="y")

    for fetch, feeds in ((x + 1, {x: "123"}), (y * 1, {y: ["1", "2"]}), (x + 1, {x: b"123"}), (y * 1, {y: [1, "2"]})):
        with pytest.raises(FeedTypeError, match="is never converted to") as caught:
            await run(graph, fetch, feeds)
        assert isinstance(caught.value, TypeError)


async def test_ag_031_huge_integers_are_neither_objects_nor_floats() -> None:
    """https://github.com/numpy/numpy/pull/21875."""
    with ag.Graph() as graph:
        x, signed = ag.placeholder(None, [None], name="x"), ag.placeholder("int64", [None], name="signed")

    accepted = await run(graph, x, {x: [2**63]})
    assert (accepted.dtype, accepted.tolist()) == (np.uint64, [2**63])
    for fed in ([2**63, -1], [2**70]):
        with pytest.raises(FeedOverflowError, match="'x'"):
            await run(graph, x, {x: fed})
    for fed in ([2**63], [2**63, -1], [2**70]):
        with pytest.raises(FeedOverflowError, match="'signed'") as caught:
            await run(graph, signed, {signed: fed})
        assert isinstance(caught.value, OverflowError)
