"""A run commits all that it assigns at its end, or nothing: however it is asked for, and however it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import RunTimeoutError, SpecError, SpecTypeError

from .helpers import KINDS, Gate, opened, turns

Ask = Callable[[ag.Session, Any, Any], Awaitable[Any]]


async def by_run(session: ag.Session, fetches: Any, feeds: Any) -> Any:
    return (await session.run(fetches, feeds)).results


async def by_submit(session: ag.Session, fetches: Any, feeds: Any) -> Any:
    return (await session.submit(fetches, feeds)).results


async def by_prepared(session: ag.Session, fetches: Any, feeds: Any) -> Any:
    return (await session.prepare(fetches, list(feeds))(*feeds.values())).results


async def by_stream(session: ag.Session, fetches: Any, feeds: Any) -> Any:
    async with session.stream(fetches, feeds) as stream:
        found = {node: value async for node, value in stream}
    return [found[one] for one in fetches]


async def by_map(session: ag.Session, fetches: Any, feeds: Any) -> Any:
    async with session.map([ag.RunArgs(fetches, feeds)], concurrency=1) as runs:
        results = [values.results async for values in runs]
    return results[0]


async def by_thread(session: ag.Session, fetches: Any, feeds: Any) -> Any:
    return (await asyncio.to_thread(session.run_blocking, fetches, feeds)).results


ASKS: list[Ask] = [by_run, by_submit, by_prepared, by_stream, by_map, by_thread]


@dataclass
class Transfer:
    """A graph that moves an amount from `one` to `two`, and what may go wrong on the way."""

    def __post_init__(self) -> None:
        self.between: Callable[[Any], Any] = np.asarray
        with ag.Graph() as self.graph:
            self.amount = ag.placeholder("float64", ())
            self.one, self.two = ag.variable(100.0, "one"), ag.variable(0.0, "two")
            taken = self.one.assign_sub(self.amount)
            with ag.control_dependencies([taken]):
                given = ag.op(self._between, spec="float64[]")(self.amount)
            self.both = [taken, self.two.assign_add(given)]

    async def _between(self, amount: Any) -> Any:
        result = self.between(amount)
        return await result if isinstance(result, Awaitable) else result

    async def held(self, session: ag.Session) -> list[float]:
        return [float(one) for one in (await session.run([self.one, self.two])).results]


@pytest.mark.parametrize("ask", ASKS)
async def test_what_has_returned_is_committed(ask: Ask) -> None:
    transfer = Transfer()
    async with ag.Session(transfer.graph) as session:
        for step in range(1, 4):
            await ask(session, transfer.both, {transfer.amount: 1.0})
            assert await transfer.held(session) == [100.0 - step, 0.0 + step]


@pytest.mark.parametrize("ask", ASKS)
async def test_a_run_that_fails_changes_nothing(ask: Ask) -> None:
    transfer = Transfer()

    def fail(amount: Any) -> Any:
        raise ValueError("between the two")

    transfer.between = fail
    async with ag.Session(transfer.graph) as session:
        with pytest.raises(ValueError, match="between the two"):
            await ask(session, transfer.both, {transfer.amount: 1.0})
        assert await transfer.held(session) == [100.0, 0.0]
        transfer.between = np.asarray
        await ask(session, transfer.both, {transfer.amount: 1.0})
        assert await transfer.held(session) == [99.0, 1.0]


@pytest.mark.parametrize("ask", ASKS[:-1])
async def test_a_run_that_is_cancelled_changes_nothing(ask: Ask) -> None:
    transfer, gate = Transfer(), Gate()
    transfer.between = gate
    async with ag.Session(transfer.graph) as session:
        task = asyncio.ensure_future(ask(session, transfer.both, {transfer.amount: 1.0}))
        await gate.has_begun()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await transfer.held(session) == [100.0, 0.0]
        gate.open()
        await ask(session, transfer.both, {transfer.amount: 1.0})
        assert await transfer.held(session) == [99.0, 1.0]


async def test_runs_that_are_out_of_time_change_nothing() -> None:
    transfer, gate = Transfer(), Gate()
    transfer.between = gate
    async with ag.Session(transfer.graph) as session:
        with pytest.raises(RunTimeoutError):
            await session.run(transfer.both, {transfer.amount: 1.0}, ag.RunOptions(timeout_s=0.02))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await session.run(transfer.both, {transfer.amount: 1.0})
        with anyio.move_on_after(0.02):
            await session.run(transfer.both, {transfer.amount: 1.0})
        assert await transfer.held(session) == [100.0, 0.0]


async def test_an_assignment_whose_value_was_handed_out_already_is_not_committed_if_the_run_fails_then() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        new = v.assign(1.0)

        @ag.op
        async def fail(_: Any) -> None:
            await gate()
            raise ValueError("after the assignment")

        failing = fail(ag.constant(0.0))
    async with ag.Session(graph) as session:
        run = session.submit([new, failing])
        assert await run.fetched(new) == 1.0
        assert (await session.run(v)).results == 0.0
        gate.open()
        with pytest.raises(ValueError, match="after the assignment"):
            await run
        assert (await session.run(v)).results == 0.0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kernel_that_fails_leaves_what_kernels_before_it_have_assigned(kind: str) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None,))
        v = ag.variable(0.0)
        new = v.assign(1.0)
        with ag.control_dependencies([new]):
            wrong = x + ag.constant([1.0, 2.0])
    async with opened(kind, graph) as session:
        for _ in range(2):
            with pytest.raises(ValueError, match="shapes"):
                await session.run([new, wrong], {x: [1.0, 2.0, 3.0]})
            assert await session.run(v) == 0.0
        await session.run([new, wrong], {x: [1.0, 2.0]})
        assert await session.run(v) == 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.zeros(3), SpecError),
        (np.zeros(2, np.float32), SpecTypeError),
        ("text", SpecTypeError),
        (None, SpecTypeError),
    ],
)
async def test_a_value_that_turns_out_not_to_fit_is_an_error_and_nothing_is_committed(
    kind: str, value: Any, error: type[Exception]
) -> None:
    with ag.Graph() as graph:
        v, w = ag.variable(np.ones(2)), ag.variable(0.0)
        both = [w.assign(1.0), v.assign(ag.op(lambda: value).node())]
    async with opened(kind, graph) as session:
        with pytest.raises(error):
            await session.run(both)
        assert [one.tolist() for one in await session.run([v, w])] == [[1.0, 1.0], 0.0]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_object_that_only_looks_like_an_array_is_no_value_of_a_variable(kind: str) -> None:
    class Looks:
        dtype, shape = np.dtype("float64"), ()

    with ag.Graph() as graph:
        v = ag.variable(0.0)
        new = v.assign(ag.op(Looks).node())
    async with opened(kind, graph) as session:
        with pytest.raises(SpecTypeError, match="no array of NumPy's"):
            await session.run(new)
        assert await session.run(v) == 0.0


class Refusing(list[Any]):
    """A list that holds nodes, and nothing else."""

    def __setitem__(self, key: Any, items: Any) -> None:
        if not all(isinstance(one, ag.Node) for one in items):
            raise ValueError("not of these")
        super().__setitem__(key, items)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_structure_that_cannot_hold_the_results_fails_the_run_before_it_commits(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        new = v.assign(1.0)
    async with opened(kind, graph) as session:
        for _ in range(3):
            with pytest.raises(ValueError, match="not of these"):
                await session.run(Refusing([new]))
            assert await session.run(v) == 0.0


# -- between the end of a run and its caller ----------------------------------------------------------------


@pytest.mark.parametrize("ask", [by_run, by_prepared])
@pytest.mark.parametrize("calls_code", [False, True])
async def test_a_caller_that_is_cancelled_at_any_moment_gets_the_values_or_has_changed_nothing(
    ask: Ask, calls_code: bool
) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        v = ag.variable(0.0)

        @ag.op(spec="float64[]")
        async def passed(value: Any) -> Any:
            await asyncio.sleep(0)
            return value

        new = v.assign(passed(x) if calls_code else x)
    outcomes: set[bool] = set()
    async with ag.Session(graph, config=ag.SessionConfig(inline_budget_s=0.0)) as session:
        await session.run([new, v], {x: 0.0})
        for moment in range(16):
            await session.replace({v: 0.0})
            task = asyncio.ensure_future(ask(session, [new], {x: 1.0}))
            await turns(moment)
            task.cancel()
            await asyncio.wait([task])
            outcomes.add(task.cancelled())
            assert (await session.run(v)).results == (0.0 if task.cancelled() else 1.0)
            assert session.statistics().runs_executing == 0
    assert outcomes == {False, True}


async def test_a_run_that_was_cancelled_when_it_had_ended_lets_others_go_on() -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)

        @ag.op(spec="float64[]")
        async def next_of(value: Any) -> Any:
            await asyncio.sleep(0)
            return value + 1

        new = v.assign(next_of(v))
    async with ag.Session(graph) as session:
        await session.initialize()
        tasks = [asyncio.create_task(session.run(new)) for _ in range(40)]
        for task in tasks[::2]:
            await turns(3)
            task.cancel()
        await asyncio.wait(tasks)
        assert (await session.run(v)).results == sum(not task.cancelled() for task in tasks)


# -- threads -----------------------------------------------------------------------------------------------


def test_in_a_blocking_session_what_raises_changes_nothing_and_what_waits_can_run_out_of_time() -> None:
    begun, release = threading.Event(), threading.Event()

    @ag.op(spec="float64[]")
    def wait(value: Any) -> Any:
        begun.set()
        assert release.wait(10)
        return value

    with ag.Graph() as graph:
        v = ag.variable(0.0)
        slow, quick = v.assign(wait(ag.constant(1.0))), v.assign_add(10.0)
    with ag.BlockingSession(graph) as session:
        session.initialize()
        holder = session.submit(slow)
        assert begun.wait(10)
        with pytest.raises(RunTimeoutError):
            session.run(quick, options=ag.RunOptions(timeout_s=0.02))
        assert session.run(v).results == 0.0
        release.set()
        holder.result()
        assert session.run(quick).results == 11.0
