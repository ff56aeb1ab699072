"""Runs that nodes of other runs start: what they may assign, and what they see."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import StateConflictError

from .helpers import Gate


class Nesting:
    """A graph of which one node does what a test gives it to do."""

    def __init__(self) -> None:
        self.inner: Any = None
        with ag.Graph() as self.graph:
            self.v, self.w = ag.variable(1.0, "v"), ag.variable(10.0, "w")
            self.v_added, self.w_added = self.v.assign_add(1.0), self.w.assign_add(1.0)
            self.v_set = self.v.assign(50.0)
            self.both = self.v + self.w
            self.node = ag.op(self._call).node()
            self.reads_v = [self.v + 0, self.node]
            self.sets_v = [self.v_set, self.node]

    async def _call(self) -> Any:
        return await self.inner()


async def test_a_nested_run_that_would_assign_what_an_ancestor_holds_is_an_error_at_once() -> None:
    nesting = Nesting()
    async with asyncio.timeout(10), ag.Session(nesting.graph) as session:
        nesting.inner = lambda: session.run(nesting.v_added)
        for _ in range(2):
            with pytest.raises(StateConflictError, match="'v'"):
                await session.run(nesting.sets_v)
        assert (await session.run(nesting.v)).results == 1.0


async def test_a_nested_run_may_assign_what_an_ancestor_only_reads_if_that_assigns_nothing() -> None:
    nesting = Nesting()
    async with asyncio.timeout(10), ag.Session(nesting.graph) as session:
        nesting.inner = lambda: session.run(nesting.v_added)
        assert (await session.run(nesting.reads_v)).results[0] == 1.0
        assert (await session.run(nesting.v)).results == 2.0


async def test_a_nested_run_that_assigns_may_read_what_an_ancestor_assigns_and_sees_it_as_it_was() -> None:
    nesting = Nesting()
    with nesting.graph:
        doubled = nesting.w.assign(nesting.v * 2)
    async with asyncio.timeout(10), ag.Session(nesting.graph) as session:
        nesting.inner = lambda: session.run(doubled)
        await session.run(nesting.sets_v)
        assert (await session.run([nesting.v, nesting.w])).results == [50.0, 2.0]


async def test_a_nested_run_reads_what_the_outer_run_reads() -> None:
    nesting, gate = Nesting(), Gate()
    async with ag.Session(nesting.graph) as session:

        async def inner() -> float:
            await gate()
            return float((await session.run(nesting.both)).results)

        nesting.inner = inner
        for outer in (nesting.reads_v, nesting.sets_v):
            await session.replace({nesting.v: 1.0, nesting.w: 10.0})
            gate.begun.clear()
            gate.release.clear()
            run = session.submit(outer)
            await gate.has_begun()
            await session.run(nesting.w_added)
            gate.open()
            assert (await run).results[1] == 11.0


async def test_nested_runs_see_what_nested_runs_before_them_have_assigned() -> None:
    nesting = Nesting()
    async with ag.Session(nesting.graph) as session:

        async def inner() -> list[float]:
            seen: list[float] = []
            for _ in range(3):
                await session.run(nesting.w_added)
                seen.append(float((await session.run(nesting.w)).results))
            return seen

        nesting.inner = inner
        for number, outer in enumerate((nesting.reads_v, nesting.sets_v)):
            results = (await session.run(outer)).results
            assert results[1] == [3 * number + 11.0, 3 * number + 12.0, 3 * number + 13.0]


async def test_what_a_nested_run_has_assigned_stays_when_the_outer_run_fails() -> None:
    nesting = Nesting()
    async with ag.Session(nesting.graph) as session:

        async def inner() -> None:
            await session.run(nesting.w_added)
            raise ValueError("after it")

        nesting.inner = inner
        with pytest.raises(ValueError, match="after it"):
            await session.run(nesting.sets_v)
        assert (await session.run([nesting.v, nesting.w])).results == [1.0, 11.0]


async def test_a_nested_run_sees_all_of_what_others_have_committed_or_nothing() -> None:
    """Also if a variable had no value when the outer run began."""
    gate = Gate()
    with ag.Graph() as graph:
        old, new = ag.variable(0.0), ag.variable(0.0)
        both = [old.assign(1.0), new.assign(1.0)]

        @ag.op
        async def inner() -> Any:
            await gate()
            return [float(one) for one in (await session.run([old, new])).results]

        outer = [old + 0, inner.node()]
    async with ag.Session(graph) as session:
        await session.initialize([old])
        run = session.submit(outer)
        await gate.has_begun()
        await session.run(both)
        gate.open()
        assert (await run).results == [0.0, [1.0, 1.0]]


async def test_the_first_run_of_all_may_nest_one_that_reads_the_same_variable() -> None:
    with ag.Graph() as graph:
        v = ag.variable(2.0)
        inner = v * 10

        @ag.op
        async def nest() -> Any:
            return (await session.run(inner)).results

        outer = [v + 0, nest.node()]
    async with asyncio.timeout(10), ag.Session(graph) as session:
        assert (await session.run(outer)).results == [2.0, 20.0]


async def test_a_nested_run_may_give_first_values_to_what_the_outer_run_assigns() -> None:
    nesting = Nesting()
    async with asyncio.timeout(10), ag.Session(nesting.graph) as session:
        nesting.inner = lambda: session.run(nesting.v)
        results = (await session.run(nesting.sets_v)).results
        assert [results[0], results[1].results] == [50.0, 1.0]
        assert (await session.run(nesting.v)).results == 50.0


async def test_what_an_op_has_left_running_is_nested_no_more_when_its_run_has_ended() -> None:
    nesting, gate = Nesting(), Gate()
    left: list[asyncio.Task[Any]] = []
    async with ag.Session(nesting.graph) as session:

        async def later() -> list[float]:
            await gate()
            await session.run(nesting.v_added)
            return [float(one) for one in (await session.run([nesting.v, nesting.w])).results]

        async def inner() -> None:
            left.append(asyncio.create_task(later()))

        nesting.inner = inner
        await session.run(nesting.sets_v)
        await session.run(nesting.w_added)
        gate.open()
        assert await left[0] == [51.0, 11.0]


async def test_runs_whose_nested_runs_want_what_the_other_holds_end() -> None:
    gates = [Gate(), Gate()]
    with ag.Graph() as graph:
        one, two = ag.variable(0.0), ag.variable(0.0)
        added = [one.assign_add(1.0), two.assign_add(1.0)]

        @ag.op(spec="float64[]")
        async def nest(number: int) -> Any:
            await gates[number]()
            await session.run(added[1 - number])
            return np.float64(10.0)

        outer = [one.assign(nest.node(0)), two.assign(nest.node(1))]
    async with asyncio.timeout(10), ag.Session(graph) as session:
        runs = [session.submit(each) for each in outer]
        for gate in gates:
            await gate.has_begun()
            gate.open()
        ended = await asyncio.gather(*runs, return_exceptions=True)
        assert [type(each) for each in ended if isinstance(each, Exception)] == [StateConflictError]
        # The other's nested run has added to what nobody holds any more.
        assert sorted((await session.run([one, two])).results) == [1.0, 10.0]


def test_in_a_blocking_session_it_is_the_same() -> None:
    with ag.Graph() as graph:
        v, w = ag.variable(1.0, "v"), ag.variable(10.0)
        v_added, w_added = v.assign_add(1.0), w.assign_add(1.0)

        @ag.op
        def nest(wrongly: bool) -> Any:
            session.run(w_added)
            assert session.run(w).results > 10.0
            if wrongly:
                session.run(v_added)
            return session.run(v).results

        right, wrong = [v.assign(5.0), nest.node(False)], [v.assign(6.0), nest.node(True)]
    with ag.BlockingSession(graph) as session:
        assert session.run(right).results == [5.0, 1.0]
        with pytest.raises(StateConflictError, match="'v'"):
            session.run(wrong)
        assert session.run([v, w]).results == [5.0, 12.0]
