"""Random numbers in sessions: other ones in each run, and the same for the same seeds."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._registry import registry

from ..backends.strict_backend import StrictBackend

ops = ag.ops
random = ag.ops.random

X = np.arange(12, dtype="float32").reshape(4, 3)


@pytest.fixture
def graph() -> ag.Graph:
    """Draws of all kinds, of shapes that are known and that are not, and what is computed of them."""
    with ag.Graph() as graph:
        x = ag.placeholder("float32", ("n", 3), name="x")
        draw = random.uniform((2,), name="draw")
        ops.stack([draw, draw], name="twice")
        random.uniform((2,), name="other")
        ops.where(random.bernoulli(0.5, x), x, 0.0, name="dropped")
        random.normal(x, dtype="float32", name="noise")
        random.permutation(x, name="shuffled")
    return graph


NAMES = ["draw", "twice", "other", "dropped", "noise", "shuffled"]
Values = list[list[Any]]


def runs(graph: ag.Graph, count: int, seed: int | None, options: ag.RunOptions | None = None, **config: Any) -> Values:
    """The values of all names, in some runs of a session."""
    with ag.BlockingSession(graph, config=ag.SessionConfig(seed=seed, **config)) as session:
        args = ag.RunArgs(NAMES, {"x": X}, options)
        return [[value.tolist() for value in session.run(args).results] for _ in range(count)]


def test_a_seed_gives_the_same_numbers_in_the_same_runs_of_any_session(graph: ag.Graph) -> None:
    assert runs(graph, 3, seed=7) == runs(graph, 3, seed=7)


def test_a_session_on_a_loop_draws_what_a_blocking_one_does_also_once_plans_are_hot(graph: ag.Graph) -> None:
    async def on_a_loop() -> Values:
        async with ag.Session(graph, config=ag.SessionConfig(seed=7)) as session:
            args = ag.RunArgs(NAMES, {"x": X})
            return [[value.tolist() for value in (await session.run(args)).results] for _ in range(300)]

    assert asyncio.run(on_a_loop()) == runs(graph, 300, seed=7)


def test_runs_nodes_and_seeds_draw_something_else_each(graph: ag.Graph) -> None:
    values = [*runs(graph, 20, seed=7), *runs(graph, 20, seed=8), *runs(graph, 20, seed=None)]

    assert len({tuple(drawn) for draw, _, other, *_ in values for drawn in (draw, other)}) == 120


def test_all_that_use_a_draw_see_the_same(graph: ag.Graph) -> None:
    for draw, twice, *_ in runs(graph, 3, seed=7):
        assert twice == [draw, draw]


def test_a_seed_of_the_run_fixes_what_it_draws_in_any_session(graph: ag.Graph) -> None:
    options = ag.RunOptions(seed=3)
    found = [*runs(graph, 2, seed=7, options=options), *runs(graph, 2, seed=None, options=options)]

    assert found == [found[0]] * 4
    assert runs(graph, 1, seed=None, options=ag.RunOptions(seed=3, trace=True)) == found[:1]


def test_draws_do_not_depend_on_what_else_a_run_draws(graph: ag.Graph) -> None:
    everything = dict(zip(NAMES, runs(graph, 1, seed=7)[0], strict=True))
    for name in NAMES:
        with ag.BlockingSession(graph, config=ag.SessionConfig(seed=7)) as session:
            assert session.run(ag.RunArgs(name, {"x": X})).results.tolist() == everything[name]


def test_a_device_has_the_numbers_that_the_host_has(graph: ag.Graph) -> None:
    expected = runs(graph, 3, seed=7)
    with registry.lend(StrictBackend()):
        assert runs(graph, 3, seed=7, device="strict:1") == expected


def test_rows_are_shuffled_and_none_is_lost(graph: ag.Graph) -> None:
    orders = {tuple(row[0] for row in values[-1]) for values in runs(graph, 50, seed=7)}

    assert {tuple(sorted(order)) for order in orders} == {(0, 3, 6, 9)}
    assert len(orders) > 15


async def test_concurrent_runs_draw_something_else_each(graph: ag.Graph) -> None:
    async with ag.Session(graph, config=ag.SessionConfig(seed=7)) as session:
        values = await asyncio.gather(*[session.run(ag.RunArgs("draw")) for _ in range(200)])
    assert len({tuple(one.results.tolist()) for one in values}) == 200


async def test_an_op_with_a_seed_draws_the_same_in_sessions_whose_seed_nobody_chose() -> None:
    with ag.Graph() as graph:
        seeded, free = ag.ops.random.uniform(3, seed=1), ag.ops.random.uniform(3)
    draws: list[list[np.ndarray]] = []
    for _ in range(2):
        async with ag.Session(graph) as session:
            draws.append([(await session.run([seeded, free])).results for _ in range(2)])
    (one, again), (other, _) = draws
    np.testing.assert_array_equal(one[0], other[0])
    assert (one[1] != other[1]).any()
    assert (one[0] != again[0]).any()


async def test_variables_begin_with_the_same_whatever_has_been_run_before() -> None:
    with ag.Graph() as graph:
        first, second = (ag.variable(random.uniform(()), name) for name in ("first", "second"))
        noise, both = random.uniform(()), first + second
    found: list[list[float]] = []
    for order in ([first, second], [second, first], [noise, noise, both]):
        async with ag.Session(graph, config=ag.SessionConfig(seed=7)) as session:
            for fetch in order:
                await session.run(ag.RunArgs(fetch, options=ag.RunOptions(seed=1)))
            found.append([float(one) for one in (await session.run([first, second])).results])
    assert found[0][0] != found[0][1]
    assert found == [found[0]] * 3


async def test_runs_that_start_together_draw_by_the_order_in_which_they_were_asked_for() -> None:
    with ag.Graph() as graph:
        drawn = ag.ops.random.uniform(3, name="drawn")
        large = drawn
        for _ in range(2500):  # Planned on a worker: it begins after those that were asked for later.
            large = large + 0.0
        calls = [large, drawn, drawn * 1.0, large, drawn]
    seen: list[list[np.ndarray]] = []
    for _ in range(3):
        async with ag.Session(graph, config=ag.SessionConfig(seed=1)) as session:
            seen.append([one.results for one in await asyncio.gather(*[session.run(call) for call in calls])])
    async with ag.Session(graph, config=ag.SessionConfig(seed=1)) as session:
        seen.append([(await session.run(call)).results for call in calls])
    for other in seen[1:]:
        np.testing.assert_array_equal(seen[0], other)


async def test_the_options_of_a_run_are_no_seed_for_the_next() -> None:
    with ag.Graph() as graph:
        drawn = ag.ops.random.uniform(3)
    async with ag.Session(graph) as session:
        first = await session.run(drawn)
        second = await session.run(ag.RunArgs(drawn, None, first.options))
    assert (first.results != second.results).any()
