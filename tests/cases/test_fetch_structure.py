"""Results have the structure of the fetches."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.errors import FetchError

from .helpers import run


async def test_ag_012_results_come_in_the_order_of_the_fetches() -> None:
    """https://github.com/tensorflow/tensorflow/issues/13133, https://github.com/tensorflow/tensorflow/pull/17773."""
    fast_is_done = asyncio.Event()

    async def slow() -> str:
        await fast_is_done.wait()
        return "slow"

    async def fast() -> str:
        fast_is_done.set()
        return "fast"

    with ag.Graph() as graph:
        a, b = ag.op(slow).node(), ag.op(fast).node()

    assert await run(graph, [a, b, a]) == ["slow", "fast", "slow"]
    assert list((await run(graph, {"z": a, "a": b, 0: a})).items()) == [("z", "slow"), ("a", "fast"), (0, "slow")]


async def test_ag_013_the_keys_of_a_dict_of_fetches_are_the_callers_own() -> None:
    """https://github.com/tensorflow/tensorflow/issues/4031, https://github.com/tensorflow/tensorflow/issues/1941."""
    with ag.Graph() as graph:
        a, b = ag.constant(1.0), ag.constant(2.0)

    results = await run(graph, {"loss": a, 0: b, None: a, ("t", 1): b, "caller": a})

    assert list(results.items()) == [("loss", 1.0), (0, 2.0), (None, 1.0), (("t", 1), 2.0), ("caller", 1.0)]


async def test_ag_015_a_bare_fetch_gives_the_value_and_a_list_of_one_a_list() -> None:
    """https://github.com/aesara-devs/aesara/issues/964."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        ag.ops.multiply(x, 2, name="a")

    for one in (graph, pickle.loads(pickle.dumps(graph))):
        async with ag.Session(one) as session:
            a, fed = one["a"], {one["x"]: 4.0}
            bare, listed = await session.run(a, fed), await session.run([a], fed)
            assert (bare.results, listed.results) == (8.0, [8.0])
            assert (await session.prepare(a, ["x"])(4.0)).results == 8.0
            assert (await session.prepare([a], ["x"])(4.0)).results == [8.0]
            assert (await session.submit([a], fed)).results == [8.0]
        with ag.BlockingSession(one) as blocking:
            of_threads = [await asyncio.to_thread(blocking.run, fetches, fed) for fetches in (a, [a])]
            assert [values.results for values in of_threads] == [8.0, [8.0]]


async def test_ag_017_none_among_the_fetches_is_an_error_that_gives_its_path() -> None:
    """https://github.com/tensorflow/tensorflow/issues/5861."""
    calls: list[int] = []
    with ag.Graph() as graph:
        a, b = (ag.op(lambda: calls.append(1)).node() for _ in range(2))

    with pytest.raises(FetchError, match=r"^fetches\['g'\]\[1\] is None\n"):
        await run(graph, {"g": [a, None, b]})
    assert issubclass(FetchError, TypeError)
    assert issubclass(FetchError, ValueError)
    assert calls == []


async def test_ag_018_plans_are_told_apart_by_the_sets_of_fetched_and_fed_nodes() -> None:
    """https://github.com/tensorflow/tfjs/issues/6312."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        h = ag.ops.multiply(x, 2, name="a,b")
        y = ag.ops.add(h, 1, name="a")
        ag.ops.subtract(h, 1, name="b")

    async with ag.Session(graph) as session:

        async def got(fetches: object, feeds: dict[Any, float]) -> object:
            return (await session.run(fetches, feeds)).results

        assert await got(y, {x: 1}) == 3
        assert await got(y, {h: 5}) == 6
        assert await got(y, {x: 1, h: 5}) == 6
        assert await got([h, y], {x: 1}) == [2, 3]
        assert await got([y, h], {x: 1}) == [3, 2]
        assert await got(y, {x: 1}) == 3
        assert await got("a,b", {x: 1}) == 2
        assert await got(["a", "b"], {x: 1}) == [3, 1]
        assert await got({"one": "a,b", "two": "a"}, {"x": 1}) == {"one": 2, "two": 3}
