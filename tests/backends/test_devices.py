"""Several devices in one run, whose arrays raise when they meet.

AG-187 (https://github.com/MouseLand/pykilosort/issues/67, https://github.com/cupy/cupy/issues/8389,
https://github.com/odlgroup/odl/issues/1248): a value is moved once to each device that needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import array_api_strict
import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._registry import registry
from asyncgraph.testing._kit.watching import WatchingBackend

from .strict_backend import StrictBackend

ON_DEVICE = ag.RunOptions(results="device")


@pytest.fixture
def strict() -> Iterator[WatchingBackend]:
    """array-api-strict, found as if it were installed, with an account of what is moved."""
    backend = WatchingBackend(StrictBackend())
    with registry.lend(backend):
        yield backend


@pytest.fixture
def graph() -> Iterator[ag.Graph]:
    with ag.Graph() as graph:
        yield graph


def on(device: str, build: Any, *operands: Any, **options: Any) -> Any:
    with ag.device(device):
        return build(*operands, **options)


def test_an_op_of_the_host_uses_a_value_of_a_device(graph: ag.Graph, strict: WatchingBackend) -> None:
    x = ag.placeholder("float64", ("n",))
    a = on("strict:1", ag.ops.multiply, x, 2)
    b = on("cpu:0", ag.op(np.asarray), a)
    c = on("cpu:0", ag.ops.add, a, ag.constant([1.0, 1.0]))

    with ag.BlockingSession(graph) as session:
        results = session.run([b, c], {x: [1.0, 2.0]}).results

    assert [one.tolist() for one in results] == [[2, 4], [3, 5]]
    assert strict.to_devices == ["strict:1"]
    assert strict.to_hosts == ["strict:1"]


async def test_edges_cross_between_two_devices_and_the_host_in_both_directions(
    graph: ag.Graph, strict: WatchingBackend
) -> None:
    x = ag.placeholder("float32", (3,), name="x")
    a = on("strict:1", ag.ops.add, x, 1)
    b = on("strict:2", ag.ops.multiply, x, a)
    c = on("strict:1", ag.ops.subtract, b, a)
    d = on("cpu:0", ag.ops.add, c, b)
    e = on("strict:0", ag.ops.stack, [a, b, c, d])
    fed = np.array([1, 2, 3], np.float32)

    async with ag.Session(graph) as session:
        runs = [session.run([e, d, x], {x: fed * i}) for i in range(8)]
        results = [values.results for values in await asyncio.gather(*runs)]

    for i, (stacked, summed, same) in enumerate(results):
        n = fed * i
        rows = [n + 1, n * (n + 1), n * (n + 1) - (n + 1), 2 * n * (n + 1) - (n + 1)]
        np.testing.assert_array_equal(stacked, rows)
        np.testing.assert_array_equal(summed, rows[3])
        np.testing.assert_array_equal(same, n)
        assert stacked.dtype == summed.dtype == np.float32


def test_explain_names_each_transfer_and_where_to(graph: ag.Graph, strict: WatchingBackend) -> None:
    x = ag.placeholder("float64", (), name="x")
    a = on("strict:1", ag.ops.square, x, name="a")
    b = on("strict:2", ag.ops.negative, a, name="b")
    with ag.BlockingSession(graph) as session:
        explanation = session.explain(b, {x: 1.0})
    moves = [(node.name, where) for node, where in explanation.transfers]
    assert moves[:3] == [("x", "strict:1"), ("a", "host"), ("a", "strict:2")]
    assert "a moved to host" in str(explanation)
    assert "a moved to strict:2" in str(explanation)


def test_user_ops_between_devices_get_numpy_arrays_that_they_cannot_write(
    graph: ag.Graph, strict: WatchingBackend
) -> None:
    seen: list[tuple[type, bool]] = []

    @ag.op(spec="float64[3]")
    async def shifted(value: Any) -> Any:
        seen.append((type(value), value.flags.writeable))
        await asyncio.sleep(0)
        return value[::-1]

    x = ag.placeholder("float64", (3,))
    y = on("strict:1", ag.ops.multiply, x, 2)
    z = on("strict:2", ag.ops.subtract, shifted(y), x)

    with ag.BlockingSession(graph) as session:
        assert session.run(z, {x: [1, 2, 3]}).results.tolist() == [5, 2, -1]
    assert seen == [(np.ndarray, False)]


def test_a_fed_intermediate_is_moved_to_where_it_is_needed(graph: ag.Graph, strict: WatchingBackend) -> None:
    x = ag.placeholder("float64", (2,))
    y = on("strict:1", ag.ops.exp, x)
    z = on("strict:1", ag.ops.add, y, 1)

    with ag.BlockingSession(graph) as session:
        results = session.run([y, z], {y: [1.0, 2.0]}).results

    assert [one.tolist() for one in results] == [[1, 2], [2, 3]]
    assert not results[0].flags.writeable
    assert strict.to_devices == ["strict:1"]


def test_what_a_user_op_returns_promotes_on_a_device_as_on_numpy(graph: ag.Graph, strict: WatchingBackend) -> None:
    x = ag.placeholder("float32", (2,))
    number = ag.op(lambda: 2.0).node()
    scalar = ag.op(lambda: np.float32(2)).node()
    double = ag.op(lambda: np.float64(2)).node()  # a Python float, too, but one with a dtype
    listed = ag.op(lambda: [1.0, 2.0]).node()
    for value, dtype in ((number, "float32"), (scalar, "float32"), (double, "float64"), (listed, "float64")):
        results = [on(where, ag.ops.multiply, x, value) for where in ("cpu:0", "strict:1")]
        with ag.BlockingSession(graph) as session:
            ours, theirs = session.run(results, {x: [1, 2]}).results
        assert ours.dtype == theirs.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(ours, theirs)


def test_what_is_no_array_is_not_moved_to_a_device(graph: ag.Graph, strict: WatchingBackend) -> None:
    y = on("strict:1", ag.ops.square, ag.op(lambda: {"a": 1}).node(name="made"), name="y")
    message = "the value of 'made' is a dict and cannot be moved to strict:1"
    with ag.BlockingSession(graph) as session, pytest.raises(TypeError, match=message):
        session.run(y)


def test_constants_and_what_depends_on_them_alone_are_moved_when_the_plan_is_made(
    graph: ag.Graph, strict: WatchingBackend
) -> None:
    x, c = ag.placeholder("float64", (2,)), ag.constant([1.0, 2.0])
    folded = on("strict:1", ag.ops.add, c, c)
    y = on("strict:1", ag.ops.multiply, x, folded)
    z = on("strict:2", ag.ops.multiply, x, folded)

    with ag.BlockingSession(graph) as session:
        session.explain([y, z, c, folded], {x: [1.0, 1.0]}, ON_DEVICE)
        planned = len(strict.to_devices), len(strict.to_hosts)
        _, results = [session.run([y, z, c, folded], {x: [1.0, 1.0]}, ON_DEVICE).results for _ in range(2)]

    assert [strict.to_host(results[i]).tolist() for i in (0, 1, 3)] == [[2, 4]] * 3
    assert results[2].tolist() == [1, 2]
    assert strict.to_devices[planned[0] :] == ["strict:1", "strict:2"] * 2
    assert strict.computed.count("strict:1") == 1 + 2
    assert len(strict.to_hosts) - planned[1] == 3


def test_fetched_constants_of_a_device_are_copies_that_a_caller_may_write(
    graph: ag.Graph, strict: WatchingBackend
) -> None:
    y = on("strict:1", ag.ops.add, ag.constant([1.0, 2.0]), 1)
    with ag.BlockingSession(graph) as session:
        first = session.run(y).results
        first[:] = 0
        assert session.run(y).results.tolist() == [2, 3]


def test_results_on_their_devices_are_the_backends_own_arrays(graph: ag.Graph, strict: WatchingBackend) -> None:
    x = ag.placeholder("float64", (2,))
    y = on("strict:1", ag.ops.square, x)
    z = on("cpu:0", ag.ops.add, y, 1)
    u = on("strict:2", ag.op(lambda value: value), y)

    with ag.BlockingSession(graph) as session:
        fed = np.array([2.0, 3.0])
        results = session.run({"x": x, "y": y, "z": z, "u": u}, {x: fed}, ON_DEVICE).results

    assert results["y"].device == array_api_strict.Device("device1")
    assert strict.to_host(results["y"]).tolist() == [4, 9]
    # What is computed on the host, by NumPy or by a user op, is there.
    assert [results[name].tolist() for name in "xzu"] == [[2, 3], [5, 10], [4, 9]]


def test_views_of_a_feed_on_a_device_do_not_give_the_feed_away(graph: ag.Graph, strict: WatchingBackend) -> None:
    x = ag.placeholder("float64", (2, 3))
    y = on("strict:1", ag.ops.reshape, x, (3, 2))
    fed = np.arange(6.0).reshape(2, 3)

    with ag.BlockingSession(graph) as session:
        result = session.run(y, {x: fed}).results

    # array-api-strict shares memory with the host.
    assert not (result.flags.writeable and np.shares_memory(result, fed))
    assert result.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_creation_ops_make_their_arrays_on_the_device(graph: ag.Graph, strict: WatchingBackend) -> None:
    made = [
        ag.ops.ones((2,), device="strict:2"),
        ag.ops.arange(0, 2, device="strict:2", dtype="float64"),
        ag.ops.linspace(0, 1, 2, device="strict:2"),
    ]
    x = ag.placeholder("float64", (2,))
    sums = [on("strict:2", ag.ops.add, x, one) for one in made]
    with ag.BlockingSession(graph) as session:
        results = session.run(sums, {x: [1.0, 2.0]}).results
    assert [one.tolist() for one in results] == [[2, 3], [1, 3], [1, 3]]
    assert strict.to_devices == ["strict:2"]


def test_outputs_of_an_op_with_several_results_stay_on_its_device(graph: ag.Graph, strict: WatchingBackend) -> None:
    x = ag.placeholder("float64", (2, 2))
    first, second = on("strict:1", ag.ops.unstack, x)
    y = on("strict:1", ag.ops.add, first, second)
    with ag.BlockingSession(graph) as session:
        results = session.run([y, first, second], {x: [[1, 2], [3, 4]]}).results
    assert [one.tolist() for one in results] == [[4, 6], [1, 2], [3, 4]]
    assert strict.to_devices == ["strict:1"]


async def test_a_kernel_that_fails_on_a_device_is_named_with_it(graph: ag.Graph, strict: WatchingBackend) -> None:
    x = ag.placeholder("float64", ("n",), name="x")
    y = on("strict:2", ag.ops.max, x, name="y")
    async with ag.Session(graph) as session:
        with pytest.raises(ValueError, match="zero-size") as raised:
            await session.run(y, {x: []})
    (note,) = raised.value.__notes__
    assert note.startswith("asyncgraph: node 'y' (max) failed\n")
    assert "\n  device: strict:2\n" in note


def test_a_value_that_reaches_a_device_by_two_nodes_that_are_equal_is_moved_once(
    graph: ag.Graph, strict: WatchingBackend
) -> None:
    x = ag.placeholder("float64", (2,))
    a, b = on("cpu:0", ag.ops.exp, x), on("cpu:0", ag.ops.exp, x)
    y = on("strict:1", ag.ops.add, a, b)
    with ag.BlockingSession(graph) as session:
        assert session.run(y, {x: [0.0, 0.0]}).results.tolist() == [2, 2]
    assert strict.to_devices == ["strict:1"]


def test_equal_nodes_of_different_devices_are_not_merged(graph: ag.Graph, strict: WatchingBackend) -> None:
    x = ag.placeholder("float64", (2,))
    results = [on(f"strict:{i}", ag.ops.square, x) for i in (1, 2)]
    with ag.BlockingSession(graph) as session:
        session.run(results, {x: [1.0, 2.0]})
    assert sorted(strict.computed) == ["strict:1", "strict:2"]
