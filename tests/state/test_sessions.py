"""Each session has state of its own; and its values are what was committed last."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import SessionClosedError

from .helpers import KINDS, Gate, opened


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
async def test_sessions_of_one_graph_know_nothing_of_each_other(first: str, second: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        more = v.assign_add(1.0)
    async with opened(first, graph) as one, opened(second, graph) as two:
        await asyncio.gather(*[one.run(more) for _ in range(5)], *[two.run(more) for _ in range(7)])
        assert [await one.run(v), await two.run(v)] == [5.0, 7.0]


async def test_a_session_holds_nothing_that_another_waits_for() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        slow, quick = v.assign(gate.node(1.0)), v.assign(2.0)
    async with ag.Session(graph) as one, ag.Session(graph) as two:
        waiting = one.submit(slow)
        await gate.has_begun()
        assert (await two.run(quick)).results == 2.0
        gate.open()
        await waiting


async def test_a_node_may_run_another_session_of_the_same_graph_which_is_not_nested_there() -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        more = v.assign_add(1.0)

        @ag.op
        async def elsewhere() -> float:
            return float((await other.run(more)).results)

        outer = [v.assign(10.0), elsewhere.node()]
    async with ag.Session(graph) as session, ag.Session(graph) as other:
        assert (await session.run(outer)).results == [10.0, 2.0]
        assert [(await one.run(v)).results for one in (session, other)] == [10.0, 2.0]


async def test_variables_that_are_built_while_a_session_runs_are_its_too() -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        async with ag.Session(graph) as session:
            assert (await session.run(v)).results == 1.0
            w = ag.variable(v * 2)
            both = [v.assign(5.0), w.assign_add(1.0)]
            assert (await session.run(both)).results == [5.0, 3.0]
            assert (await session.run([v, w])).results == [5.0, 3.0]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_snapshot_is_what_was_committed_last_and_never_changes(kind: str) -> None:
    with ag.Graph() as graph:
        v, w = ag.variable([0.0, 0.0]), ag.variable(5.0)
        more = v.assign_add(1.0)
    async with opened(kind, graph) as session:
        seen: list[Mapping[ag.Variable, np.ndarray]] = [session.held()]
        for _ in range(3):
            await session.run(more)
            seen.append(session.held())
        assert [list(one) for one in seen] == [[], [v], [v], [v]]
        assert [one[v].tolist() for one in seen[1:]] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
        assert not any(one[v].flags.writeable for one in seen[1:])
        assert await session.run(w) == 5.0
        assert set(session.held()) == {v, w}


@pytest.mark.parametrize("kind", KINDS)
async def test_named_fetches_and_feeds_mean_variables_as_well(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0, "v")
        v.assign_add(1.0, name="more")
    async with opened(kind, graph) as session:
        assert await session.run({"a": "v", "b": ["more"]}) == {"a": 1.0, "b": [2.0]}
        assert await session.run("v", {"v": 9.0}) == 9.0
        await session.replace({"v": 4.0})
        assert await session.run(v) == 4.0


async def test_closing_waits_for_those_who_wait_for_variables() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        slow, quick = v.assign(gate.node(1.0)), v.assign_add(1.0)
    session = ag.Session(graph)
    runs = [session.submit(slow), session.submit(quick)]
    await gate.has_begun()
    closing = asyncio.create_task(session.aclose())
    await asyncio.sleep(0)
    gate.open()
    await closing
    assert [(await run).results for run in runs] == [1.0, 2.0]
    with pytest.raises(SessionClosedError):
        await session.run(v)


async def test_leaving_a_session_with_an_error_ends_those_who_wait_for_variables() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        slow, quick = v.assign(gate.node(1.0)), v.assign_add(1.0)
    session = ag.Session(graph)
    runs: list[ag.RunFuture] = []

    async def fail() -> None:
        async with session:
            runs.extend([session.submit(slow), session.submit(quick)])
            await gate.has_begun()
            raise ValueError("outside")

    with pytest.raises(ValueError, match="outside"):
        await fail()
    for run in runs:
        with pytest.raises(SessionClosedError):
            await run
    assert session.store.snapshot().get(v, 0.0) == 0.0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_plan_says_what_it_reads_and_assigns(kind: str) -> None:
    with ag.Graph() as graph:
        v, w = ag.variable(1.0, "v"), ag.variable(2.0, "w")
        new = v.assign(w + 1, name="new")
    async with opened(kind, graph) as session:
        text = str(session.session.explain(new))
    assert "reads: w\n" in text
    assert "assigns: v" in text
