"""No one else's memory is written, and nobody's is changed afterwards."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import asyncgraph as ag

from .helpers import run


async def test_ag_040_a_constant_does_not_follow_the_array_it_was_made_of() -> None:
    """https://github.com/Theano/Theano/issues/2469."""
    with ag.Graph() as graph:
        a = np.array([1.0, 2.0, 3.0])
        k = ag.constant(a)
        x = ag.placeholder("float64", ("n",), default=a)
        a[0] = 99

    for result in await run(graph, [k, k + 0, x, x + 0]):
        np.testing.assert_array_equal(result, [1, 2, 3])


async def test_ag_040_a_variable_does_not_follow_the_array_that_was_its_initial_value() -> None:
    """https://github.com/Theano/Theano/issues/2469."""
    with ag.Graph() as graph:
        a = np.array([1.0, 2.0, 3.0])
        k, v = ag.constant(a), ag.variable(a)
        new = v.assign(a)
        a[0] = 99

    async with ag.Session(graph) as session:
        for fetches in ([k, v], [new], [v]):
            for result in (await session.run(fetches)).results:
                np.testing.assert_array_equal(result, [1, 2, 3])


async def test_ag_041_arguments_are_snapshots_of_when_the_node_was_built() -> None:
    """https://github.com/dask/dask/issues/2409."""
    first = ag.op(lambda value: value["k"] if isinstance(value, dict) else next(iter(value)))
    p: dict[str, int] = {}
    sequence, array, kinds, raw = [0], np.array([0]), {0}, bytearray([0])
    nodes = []
    with ag.Graph() as graph:
        for k in (0, 1, 2):
            p["k"] = sequence[0] = array[0] = raw[0] = k
            kinds.clear()
            kinds.add(k)
            nodes.append([first.node(one) for one in (p, sequence, array, kinds, raw)])

    assert await run(graph, nodes) == [[k] * 5 for k in (0, 1, 2)]


async def test_ag_041_what_an_op_does_to_its_arguments_stays_in_its_call() -> None:
    """https://github.com/dask/dask/issues/2409."""
    with ag.Graph() as graph:
        popped = ag.op(lambda values: values.pop()).node([1, 2, 3])

    async with ag.Session(graph) as session:
        assert [(await session.run(popped)).results for _ in range(3)] == [3, 3, 3]


@pytest.mark.parametrize("bad_is_first", [True, False])
async def test_ag_044_an_op_cannot_work_in_place_on_what_others_read(bad_is_first: bool) -> None:
    """https://github.com/dask/dask/issues/8324, https://github.com/dask/distributed/issues/3350, https://github.com/modin-project/modin/issues/961."""

    def bad(a: np.ndarray) -> np.ndarray:
        a += 1
        return a

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        nodes = [ag.op(bad)(x), ag.op(np.sum)(x), ag.op(bad)(x * 1)]
    array = np.array([1.0, 2.0, 3.0])

    for node in (nodes[0], nodes[2]):
        fetches = [node, nodes[1]] if bad_is_first else [nodes[1], node]
        with pytest.raises(ValueError, match="read-only"):
            await run(graph, fetches, {x: array})
    assert await run(graph, nodes[1], {x: array}) == 6.0
    np.testing.assert_array_equal(array, [1, 2, 3])


async def test_ag_045_an_op_that_returns_its_input_lends_it_read_only() -> None:
    """https://github.com/Theano/Theano/issues/4108."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = ag.op(lambda a: a)(x)
        z = 2 * y
    array = np.array([1.0, 2.0, 3.0])

    np.testing.assert_array_equal(await run(graph, z, {x: array}), [2, 4, 6])
    result = await run(graph, y, {x: array})
    assert np.shares_memory(result, array)
    with pytest.raises(ValueError, match="read-only"):
        result[0] = 7
    np.testing.assert_array_equal(array, [1, 2, 3])


async def test_ag_046_feeds_may_overlap_in_memory() -> None:
    """https://github.com/pymc-devs/pytensor/issues/1026."""
    b = np.ones((2, 5))
    with ag.Graph() as graph:
        x, y = ag.placeholder("float64", (5,)), ag.placeholder("float64", (2, 5))

    results = await run(graph, [x * 2, y * 2], {x: b[0], y: b})

    np.testing.assert_array_equal(results[0], [2] * 5)
    np.testing.assert_array_equal(results[1], [[2] * 5] * 2)
    np.testing.assert_array_equal(b, np.ones((2, 5)))


async def test_ag_047_results_of_a_run_are_not_touched_by_later_ones() -> None:
    """https://github.com/triton-inference-server/server/pull/1484."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = x * 10

    async with ag.Session(graph) as session:
        r1 = (await session.run(y, {x: np.ones(4)})).results
        r2 = (await session.run(y, {x: 2 * np.ones(4)})).results
        many = await asyncio.gather(*(session.run(y, {x: k * np.ones(4)}) for k in range(100)))
    np.testing.assert_array_equal(r1, [10] * 4)
    np.testing.assert_array_equal(r2, [20] * 4)
    for k, values in enumerate(many):
        np.testing.assert_array_equal(values.results, [10 * k] * 4)


async def test_ag_048_running_does_not_change_the_graph() -> None:
    """https://github.com/pymc-devs/pytensor/issues/347."""
    with ag.Graph() as graph:
        a, b = ag.constant(0, name="a"), ag.constant(0, name="b")
        total = a + b
        size, text = len(graph), str(graph)

    assert await run(graph, [total, a, b]) == [0, 0, 0]
    assert (a.name, b.name, a is b, len(graph), str(graph)) == ("a", "b", False, size, text)
