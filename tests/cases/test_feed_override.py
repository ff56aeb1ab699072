"""What is fed stands in for what would have been computed."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FetchError, MissingFeedError

from .helpers import run


async def test_ag_003_feeding_an_intermediate_cuts_its_ancestors_away() -> None:
    """https://github.com/PaddlePaddle/Paddle/pull/19589, https://github.com/Theano/Theano/issues/457."""
    calls: list[object] = []

    @ag.op(spec="float64[]")
    def expensive(value: object) -> object:
        calls.append(value)
        return value

    with ag.Graph() as graph:
        p = ag.placeholder("float64", ())
        e = expensive(p)
        h = e * 2

    assert await run(graph, [e, h], {e: 21.0}) == [21.0, 42.0]
    assert calls == []


async def test_ag_004_an_intermediate_and_its_ancestor_are_both_used_as_fed() -> None:
    """https://github.com/Theano/Theano/issues/457."""
    with ag.Graph() as graph:
        m = ag.placeholder("float64", (None, None))
        t = ag.ops.matrix_transpose(m)
        s = ag.ops.sum(m)

    fed_t, fed_s = await run(graph, [t, s], {t: [[1, 2, 3]], m: [[4, 5]]})

    np.testing.assert_array_equal(fed_t, [[1, 2, 3]])
    assert fed_s == 9.0


async def test_ag_006_a_feed_applies_at_its_key_and_not_at_the_nearest_placeholder() -> None:
    """https://github.com/tensorflow/tensorflow/issues/9960."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (5,))
        y = ag.ops.where(ag.ops.isnan(x), 0.0, x)
        z = y + 1
    value = [0, 1, 2, np.nan, 4]

    np.testing.assert_array_equal(await run(graph, z, {x: value}), [1, 2, 3, 1, 5])
    np.testing.assert_array_equal(await run(graph, z, {y: value}), [1, 2, 3, np.nan, 5])


async def test_ag_008_a_missing_feed_is_named_before_anything_runs() -> None:
    """https://github.com/tensorflow/tensorflow/issues/10632, https://github.com/tensorflow/tensorflow/issues/11438."""
    calls: list[int] = []
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="rate")
        bump = ag.op(lambda: calls.append(1)).node(name="bump")
        y = x * 2

    async with ag.Session(graph) as session:
        with pytest.raises(MissingFeedError, match="rate") as caught:
            await session.run([bump, y])
        assert calls == []
        await session.run(bump)
    assert calls == [1]
    assert "float64[]" in str(caught.value)


async def test_ag_008_a_missing_feed_leaves_variables_as_they_are() -> None:
    """https://github.com/tensorflow/tensorflow/issues/10632, https://github.com/tensorflow/tensorflow/issues/11438."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="rate")
        v = ag.variable(0.0)
        bump, y = v.assign_add(1.0), x * 2

    async with ag.Session(graph) as session:
        with pytest.raises(MissingFeedError, match="rate"):
            await session.run([bump, y])
        assert (await session.run(v)).results == 0.0


async def test_ag_010_a_variable_is_fed_for_one_run_only() -> None:
    """https://github.com/hunkim/DeepLearningZeroToAll/pull/54, https://github.com/hunkim/DeepLearningZeroToAll/pull/72."""
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        fetches = [v, v * 2]

    async with ag.Session(graph) as session:
        assert (await session.run(fetches, {v: 5.0})).results == [5.0, 10.0]
        assert (await session.run(fetches)).results == [1.0, 2.0]


@pytest.mark.parametrize("what", ["fed", "fetched"])
async def test_ag_009_a_node_of_another_graph_is_refused_by_name(what: str) -> None:
    """https://github.com/SciSharp/TensorFlow.NET/issues/370, https://github.com/tensorflow/tensorflow/issues/426."""
    with ag.Graph() as graph:
        own = ag.placeholder("float64", (), name="x")
        y = own + 1
    with ag.Graph():
        foreign = ag.placeholder("float64", (), name="x")

    with pytest.raises(FetchError, match=r"'x'.* belongs to another graph"):
        await run(graph, *{"fed": (y, {foreign: 5.0}), "fetched": (foreign, {foreign: 5.0})}[what])


async def test_ag_009_an_unknown_name_is_refused_with_those_that_are_near() -> None:
    """https://github.com/tensorflow/tensorflow/issues/426."""
    with ag.Graph() as graph:
        y = ag.placeholder("float64", (), name="rates") + 1

    with pytest.raises(FetchError, match=r"no node is named 'rate'[^$]*near: 'rates'"):
        await run(graph, y, {"rate": 5.0})
