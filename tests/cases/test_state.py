"""Public failures of state: updates that get lost, reads that see too much, values that change their kind."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.testing._kit.watching import WatchingBackend

from ..backends.strict_backend import StrictBackend
from .helpers import run


async def test_ag_065_two_updates_of_one_variable_in_one_run_both_apply() -> None:
    """https://github.com/tensorflow/tensorflow/issues/3879."""
    with ag.Graph() as graph:
        v = ag.variable(0)
        p, q = v.assign_add(100), v.assign_add(1)

    async with ag.Session(graph) as session:
        for _ in range(10):
            await session.run([p, q])
        assert (await session.run(v)).results == 1010


async def test_ag_066_a_read_before_an_assignment_gives_the_old_value() -> None:
    """https://github.com/tensorflow/tensorflow/issues/4663."""
    with ag.Graph() as graph:
        v = ag.variable(0)
        old = v + 0
        with ag.control_dependencies([old]):
            new = v.assign_add(1)

    async with ag.Session(graph) as session:
        assert [(await session.run([old, new])).results for _ in range(3)] == [[0, 1], [1, 2], [2, 3]]


async def test_ag_067_assignments_apply_in_the_order_of_their_edges() -> None:
    """https://github.com/tensorflow/tensorflow/issues/14498, https://github.com/tensorflow/tensorflow/issues/28020."""
    with ag.Graph() as graph:
        v = ag.variable(0)
        first = v.assign(1)
        unordered = v + 10
        with ag.control_dependencies([first]):
            second = v.assign(2)
            with ag.control_dependencies([second]):
                third = v + 0

    async with ag.Session(graph) as session:
        for fetches in ([first, second], [second, first], [second]):
            await session.run(fetches)
            assert (await session.run(v)).results == 2
        for _ in range(300):
            assert (await session.run([first, second])).results == [1, 2]
        assert (await session.run([third, unordered])).results == [2, 12]


async def test_ag_067_an_assignment_runs_what_it_is_ordered_after() -> None:
    """https://github.com/tensorflow/tensorflow/issues/14498, https://github.com/tensorflow/tensorflow/issues/28020."""
    with ag.Graph() as graph:
        v, w = ag.variable(0), ag.variable(0)
        with ag.control_dependencies([w.assign(1)]):
            second = v.assign(2)

    async with ag.Session(graph) as session:
        await session.run(second)
        assert (await session.run([v, w])).results == [2, 1]


@pytest.mark.parametrize("form", ["assign_add", "assign of what was read"])
async def test_ag_069_no_update_of_concurrent_runs_is_lost(form: str) -> None:
    """https://github.com/tensorflow/tensorflow/pull/3837, https://github.com/tensorflow/tensorflow/issues/6360.

    Runs that assign are isolated: so the second form, which the issue allows to race, does not either.
    """

    @ag.op(spec="float64[100]")
    async def step(value: Any) -> Any:
        await asyncio.sleep(0)
        return value + 1

    with ag.Graph() as graph:
        v = ag.variable(np.zeros(100))
        train = v.assign_add(1.0) if form == "assign_add" else v.assign(step(v))

    async with ag.Session(graph) as session:

        async def watch() -> None:
            for _ in range(50):
                assert len(set((await session.run(v)).results)) == 1, "half of an update was seen"
                await asyncio.sleep(0)

        await asyncio.gather(watch(), *[session.run(train) for _ in range(100)])
        np.testing.assert_array_equal((await session.run(v)).results, np.full(100, 100.0))


async def test_ag_071_an_assignment_never_changes_shape_or_dtype() -> None:
    """https://github.com/tensorflow/tensorflow/issues/3886. A float64 is not rounded: it is a TypeError."""
    with ag.Graph() as graph:
        v = ag.variable(np.float32(0))
        x = ag.placeholder(None, None)
        for value, error in (([1.0], ValueError), (np.float64(0.1), TypeError), ("x", TypeError)):
            with pytest.raises(error):
                v.assign(value)
        late = v.assign(x)
        new = v.assign(0.1)

    async with ag.Session(graph) as session:
        for value, error in (([np.float32(1)], ValueError), (np.float64(0.1), TypeError), ("x", TypeError)):
            with pytest.raises(error):
                await session.run(late, {x: np.asarray(value)})
            assert (await session.run(v)).results == 0
        result = (await session.run(new)).results
        assert (result.dtype, result) == (np.float32, np.float32(0.1))


async def test_ag_072_a_value_is_moved_to_another_device_once_for_each_version_and_no_more() -> None:
    """https://github.com/tensorflow/tensorflow/issues/16277."""
    backend = WatchingBackend(StrictBackend())
    with ag.use_backend(backend), ag.Graph() as graph:
        with ag.device("strict:1"):
            v = ag.variable(0.0)
            up = v.assign(100.0)
        with ag.device("cpu:0"):
            old = [v + 1, v * 2]
        with ag.control_dependencies([up]):
            with ag.device("cpu:0"):
                b = v + 2
            with ag.device("strict:1"):
                k = v + 3
        assert [float(one) for one in await run(graph, [b, k])] == [102.0, 103.0]
        backend.to_hosts.clear()
        assert [float(one) for one in await run(graph, [b, k, *old])] == [102.0, 103.0, 1.0, 0.0]
    # Each version of `v`, and `k`.
    assert backend.to_hosts == ["strict:1"] * 3
