"""Who owns what a run gives back, and what is known of how it went."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag


async def test_a_fetch_that_shares_memory_with_a_feed_or_constant_is_read_only() -> None:
    with ag.Graph() as graph:
        x, table = ag.placeholder("float64", (None, None)), ag.placeholder(None)
        k = ag.constant(np.ones((40, 50)))
        nodes = [
            x, ag.ops.flip(x), ag.ops.matrix_transpose(x), ag.ops.reshape(x, (-1,)), x[1:], ag.ops.real(x),
            ag.ops.astype(x, "float64", copy=False), ag.item(table, "a"), k,
        ]  # fmt: skip
    a = np.arange(6.0).reshape(2, 3)

    async with ag.Session(graph) as session:
        for fetches in (nodes, *([one] for one in nodes)):
            results = (await session.run(fetches, {x: a, table: {"a": a}})).results
            assert [one.flags.writeable for one in results] == [False] * len(fetches)
            assert [np.shares_memory(one, a) for one in results] == [fetch is not k for fetch in fetches]
    assert a.flags.writeable


async def test_a_fetch_that_would_share_memory_with_another_is_copied() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (2, 3))
        y, same = x * 2, x * 2
        copied = ag.ops.reshape(ag.ops.matrix_transpose(x), (-1,))  # a copy, which is seen when it runs
        nodes = [
            y, same, ag.ops.flip(y), y[1:], y, copied, ag.ops.flip(copied), copied, *ag.ops.unstack(x * 3, axis=1),
        ]  # fmt: skip
    a = np.arange(6.0).reshape(2, 3)

    async with ag.Session(graph) as session:
        results = (await session.run(nodes, {x: a})).results
    assert all(one.flags.writeable for one in results)
    for i, one in enumerate(results):
        for other in [*results[:i], a]:
            assert not np.shares_memory(one, other)


async def test_any_other_fetch_is_the_callers_and_writable() -> None:
    with ag.Graph() as graph:
        x, k = ag.placeholder("float64", (2, 3)), ag.constant(np.arange(3.0))
        y = x * 2
        nodes = [
            y, ag.ops.sum(x), x[0, 0], ag.ops.imag(x), k + 1, ag.ops.zeros((2, 2)), ag.ops.flip(x + 1),
            ag.ops.broadcast_to(x + 2, (4, 2, 3)), ag.ops.broadcast_to(x, (4, 2, 3)), ag.ops.flip(k),
        ]  # fmt: skip
    a = np.ones((2, 3))

    async with ag.Session(graph) as session:
        for _ in range(2):
            results = (await session.run(nodes, {x: a})).results
            for one in results:
                one[...] = 17
            np.testing.assert_array_equal(a, 1)
        again = (await session.run(nodes, {x: a})).results
    assert again[0][0, 0] == 2
    assert again[4].tolist() == [1, 2, 3]
    assert again[9].tolist() == [2, 1, 0]


async def test_values_of_user_ops_come_back_as_they_are_and_share_with_no_other_fetch() -> None:
    kept = np.array([1.0, 2.0])
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = x * 2
        own, scalar = ag.op(lambda: kept).node(), ag.op(lambda: np.float64(1)).node()
        through, listed = ag.op(lambda a: a)(y), ag.op(lambda a: [a])(y)
        later = ag.op(lambda values: values[0])(listed)
        nodes = [own, scalar, y, through, listed, later, ag.ops.flip(y)]

    async with ag.Session(graph) as session:
        results = (await session.run(nodes, {x: [1.0, 2.0]})).results
    assert results[0] is kept
    assert type(results[1]) is np.float64
    np.testing.assert_array_equal(results[3], [2, 4])
    for mine in (results[2], results[6]):
        assert mine.flags.writeable
        for theirs in (results[3], results[4][0], results[5]):
            assert not np.shares_memory(mine, theirs)


async def test_user_ops_get_read_only_views() -> None:
    flags: list[bool] = []

    @ag.op
    def look(*arrays: Any) -> None:
        flags.extend(one.flags.writeable for one in arrays)

    with ag.Graph() as graph:
        x, k = ag.placeholder("float64", ("n",)), ag.constant([1.0, 2.0])
        y = look(x, k, x + 1, k + 1, ag.ops.sum(x), look_through(x), np.array([1.0]))
    a = np.ones(2)
    async with ag.Session(graph) as session:
        await session.run(y, {x: a})
    assert flags == [False] * 7
    assert a.flags.writeable


look_through = ag.op(lambda a: a * 2)


async def test_results_are_immutable_and_print_themselves() -> None:
    with ag.Graph() as graph:
        x = ag.constant(1.0)
    async with ag.Session(graph) as session:
        values = await session.run(x)
    assert repr(values) == "RunValues(array(1.))"
    for name in ("results", "options", "metadata"):
        with pytest.raises(AttributeError):
            setattr(values, name, None)
    with pytest.raises(AttributeError, match="cannot be deleted"):
        del values.results


async def test_metadata_has_wall_time_and_node_count() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = ag.ops.sqrt(x + 1)
    async with ag.Session(graph) as session:
        metadata = (await session.run(y, {x: [1.0]})).metadata
    assert metadata.node_count == 2
    assert 0 < metadata.wall_s < 60
    assert metadata.failures == ()
    assert metadata.trace is None
    assert metadata.node_seconds == {}


@pytest.mark.parametrize("blocking", [False, True])
async def test_node_seconds_has_every_node_that_ran_when_traced(blocking: bool) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = ag.ops.sqrt(x, name="root")
        z = ag.op(lambda value: value)(y, name="same")
        w = ag.ops.negative(z, name="last")
        ag.ops.exp(x, name="unused")
    options = ag.RunOptions(trace=True)
    if blocking:
        with ag.BlockingSession(graph) as plain:
            values = await asyncio.to_thread(plain.run, w, {x: [4.0]}, options)
    else:
        async with ag.Session(graph) as session:
            values = await session.run(w, {x: [4.0]}, options)
    seconds = values.metadata.node_seconds
    assert list(seconds) == ["root", "same", "last"]
    assert all(0 <= one <= values.metadata.wall_s for one in seconds.values())
    assert values.results == [-2.0]
    assert values.options is options


async def test_what_failed_while_a_failed_run_ended_is_in_the_metadata_of_its_future() -> None:
    begun = asyncio.Event()

    async def fail_first() -> None:
        await begun.wait()
        raise ValueError("first")

    async def fail_when_cancelled() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise KeyError("second")

    with ag.Graph() as graph:
        fetches = [ag.op(fail_first).node(), ag.op(fail_when_cancelled).node()]
    async with ag.Session(graph) as session:
        future = session.submit(fetches)
        with pytest.raises(ValueError, match="first"):
            await future

    assert [type(one) for one in future.metadata.failures] == [KeyError]
