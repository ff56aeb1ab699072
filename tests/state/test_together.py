"""Cheap runs that find others to hold what they assign wait for these in a line, and go on together."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._session.transaction import Transaction
from asyncgraph.errors import FeedError, SessionClosedError, SpecError

from .helpers import Gate, turns, until

MANY = 40


class Counter:
    """A variable, and what adds one to it: cheaply, or when a gate is opened."""

    def __init__(self) -> None:
        self.gate = Gate()
        with ag.Graph() as self.graph:
            self.variable = ag.variable(0.0)
            self.add = self.variable.assign_add(1.0)
            self.add_slowly = self.variable.assign_add(self.gate.node(ag.constant(1.0)))
            self.other = ag.variable(np.zeros(2))
            self.fed = ag.placeholder("float64", None)
            self.misfit = ag.group(self.variable.assign_add(1.0), self.other.assign(self.fed))

    async def open(self, budget_s: float = 10.0) -> ag.Session:
        session = ag.Session(self.graph, config=ag.SessionConfig(inline_budget_s=budget_s))
        await session.initialize()
        await session.run([self.add])
        await session.run(self.misfit, {self.fed: np.zeros(2)})
        return session

    def hold(self, session: ag.Session) -> Transaction:
        """Somebody else, who holds the variable and is about to set it to 0."""
        array = np.array(0.0)
        array.flags.writeable = False
        other = Transaction(session.store, None)
        assert other.enter_to_replace({self.variable: array}, lambda: None)
        return other


Ask = Callable[[ag.Session, list[ag.Node]], Awaitable[Any]]


async def by_run(session: ag.Session, fetches: list[ag.Node]) -> Any:
    return (await session.run(fetches)).results


async def by_prepared(session: ag.Session, fetches: list[ag.Node]) -> Any:
    return (await session.prepare(fetches)()).results


ASKS: list[Ask] = [by_run, by_prepared]


@pytest.mark.parametrize("ask", ASKS)
async def test_cheap_runs_that_wait_for_the_same_go_on_together(ask: Ask) -> None:
    counter = Counter()
    async with await counter.open() as session:
        holder = counter.hold(session)
        tasks = [asyncio.ensure_future(ask(session, [counter.add])) for _ in range(MANY)]
        await turns()
        seen = session.statistics()
        assert (seen.runs_executing, seen.runs_waiting) == (0, MANY)
        holder.commit()
        await turns(5)  # The wake-up of the loop, those that it tells, and whoever awaits them.
        assert [task.result() for task in tasks] == [[one] for one in range(1, MANY + 1)]
        assert session.store.idle


async def test_they_hold_the_loop_for_no_longer_than_others_do() -> None:
    counter = Counter()
    async with await counter.open(budget_s=1e-9) as session:
        holder = counter.hold(session)
        tasks = [asyncio.ensure_future(session.run([counter.add])) for _ in range(MANY)]
        await turns()
        holder.commit()
        seen = list[float]()
        while not all(task.done() for task in tasks):
            seen.append(float(session.store.snapshot()[counter.variable]))
            await asyncio.sleep(0)
    assert max(b - a for a, b in pairwise(seen)) == 1


async def test_a_run_that_takes_long_has_its_place_between_them() -> None:
    counter = Counter()
    async with await counter.open() as session:
        holder = counter.hold(session)
        before = asyncio.ensure_future(session.run([counter.add]))
        await turns()
        slow = asyncio.ensure_future(session.run([counter.add_slowly]))
        await turns()
        after = [asyncio.ensure_future(session.run([counter.add])) for _ in range(3)]
        await turns()
        holder.commit()
        await counter.gate.has_begun()
        await turns()
        assert (await before).results == [1.0]
        assert not any(task.done() for task in after)
        counter.gate.open()
        assert (await slow).results == [2.0]
        assert [(await task).results for task in after] == [[3.0], [4.0], [5.0]]


@pytest.mark.parametrize("granted", [False, True])
async def test_who_is_cancelled_in_the_line_changes_nothing_and_is_in_nobodys_way(granted: bool) -> None:
    counter = Counter()
    async with await counter.open() as session:
        for wait in range(6):
            holder = counter.hold(session)
            tasks = [asyncio.ensure_future(session.run([counter.add])) for _ in range(3)]
            await turns()
            if granted:
                holder.commit()
                await turns(wait)
            cancelled = tasks[1].cancel()
            await turns()
            if not granted:
                holder.commit()
            found = [(await task).results[0] for task in (tasks[0], tasks[2])]
            assert found == ([1.0, 2.0] if cancelled else [1.0, 3.0])
            assert tasks[1].cancelled() == cancelled
            assert session.store.idle
            assert session.statistics().runs_waiting == 0


async def test_one_that_fails_changes_nothing_and_those_behind_it_go_on() -> None:
    counter = Counter()
    async with await counter.open() as session:
        holder = counter.hold(session)
        wrong = asyncio.ensure_future(session.run(counter.misfit, {counter.fed: np.zeros(3)}))
        right = asyncio.ensure_future(session.run([counter.add]))
        await turns()
        holder.commit()
        with pytest.raises(SpecError, match="was assigned a value of shape"):
            await wrong
        assert (await right).results == [1.0]
        assert session.store.idle


async def test_closing_waits_for_them() -> None:
    counter = Counter()
    session = await counter.open()
    slow = asyncio.ensure_future(session.run([counter.add_slowly]))
    await counter.gate.has_begun()
    tasks = [asyncio.ensure_future(session.run([counter.add])) for _ in range(3)]
    await turns()
    closing = asyncio.ensure_future(session.aclose())
    await turns()
    assert not closing.done()
    counter.gate.open()
    await closing
    assert [(await task).results for task in (slow, *tasks)] == [[3.0], [4.0], [5.0], [6.0]]


async def test_a_session_in_which_one_run_takes_long_soon_takes_no_locks_again() -> None:
    counter = Counter()
    async with await counter.open(budget_s=100e-6) as session:
        going = True

        async def client() -> None:
            while going:
                await session.run([counter.add])

        clients = [asyncio.ensure_future(client()) for _ in range(8)]
        slow = asyncio.ensure_future(session.run([counter.add_slowly]))
        await counter.gate.has_begun()
        await turns()
        assert not session.store.idle
        counter.gate.open()
        await slow
        await until(lambda: session.store.idle)
        for _ in range(200):
            await asyncio.sleep(0)
            assert session.store.idle
            assert session.statistics().runs_executing == 0
        going = False
        await asyncio.gather(*clients)


@pytest.mark.parametrize("wait", range(8))
@pytest.mark.parametrize("ask", ASKS)
async def test_whoever_comes_later_does_not_overtake_those_that_are_granted(ask: Ask, wait: int) -> None:
    counter = Counter()
    async with await counter.open() as session:
        slow = asyncio.ensure_future(session.run([counter.add_slowly]))
        await counter.gate.has_begun()
        first = asyncio.ensure_future(session.run([counter.add]))
        await turns()
        counter.gate.open()
        await turns(wait)
        second = asyncio.ensure_future(ask(session, [counter.add]))
        assert await second == [5.0]
        assert [(await task).results for task in (slow, first)] == [[3.0], [4.0]]


@pytest.mark.parametrize("wrong", ["x", 1j, ["1"]])
async def test_a_feed_that_does_not_fit_is_told_before_anybody_is_waited_for(wrong: Any) -> None:
    counter = Counter()
    async with await counter.open() as session:
        holder = counter.hold(session)
        with pytest.raises(FeedError):
            async with asyncio.timeout(10):
                await session.run(counter.misfit, {counter.fed: wrong})
        assert session.statistics().runs_waiting == 0
        holder.commit()


@pytest.mark.parametrize("how", ["error", "cancelled"])
async def test_a_session_that_ends_all_ends_those_in_the_line_too(how: str) -> None:
    counter = Counter()
    session = await counter.open()
    slow = asyncio.ensure_future(session.run([counter.add_slowly]))
    await counter.gate.has_begun()
    tasks = [slow, *[asyncio.ensure_future(session.run([counter.add])) for _ in range(3)]]
    await turns()
    if how == "error":
        with pytest.raises(KeyError, match="boom"):
            async with session:
                raise KeyError("boom")
    else:
        closing = asyncio.ensure_future(session.aclose())
        await turns()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
    for task in tasks:
        with pytest.raises(SessionClosedError, match="before the run could end"):
            await task
    assert session.store.snapshot()[counter.variable] == 2.0


async def test_who_comes_after_all_were_to_end_in_a_session_that_stays_open_is_not_ended() -> None:
    counter = Counter()
    async with await counter.open() as session:
        session.runs.end_all()  # As an op does that leaves `async with` its own session by an error.
        holder = counter.hold(session)
        task = asyncio.ensure_future(session.run([counter.add]))
        await turns()
        holder.commit()
        assert (await task).results == [1.0]


async def test_the_end_of_all_runs_need_not_wait_for_who_holds_what_others_wait_for() -> None:
    counter = Counter()
    async with await counter.open() as session:
        holder = counter.hold(session)
        task = asyncio.ensure_future(session.run([counter.add]))
        await turns()
        session.runs.end_all()
        with pytest.raises(SessionClosedError):
            async with asyncio.timeout(10):
                await task
        holder.commit()
        assert session.host.turn.has_time


class Lazy:
    """An array that counts how often it is asked for."""

    def __init__(self, size: int = 2) -> None:
        self.size = size
        self.asked = 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self.asked += 1
        return np.zeros(self.size)


async def test_what_is_fed_is_converted_once() -> None:
    counter = Counter()
    async with await counter.open() as session:
        holder, lazy = counter.hold(session), Lazy()
        task = asyncio.ensure_future(session.run(counter.misfit, {counter.fed: lazy}))
        await turns()
        assert lazy.asked == 1
        holder.commit()
        await task
        assert lazy.asked == 1


async def test_who_turns_out_to_be_fed_too_much_to_be_cheap_does_not_stand_in_the_line() -> None:
    counter = Counter()
    with counter.graph:
        add_sum = counter.variable.assign_add(ag.ops.sum(ag.ops.sin(counter.fed)))
    async with await counter.open(budget_s=500e-6) as session:
        await session.run(add_sum, {counter.fed: np.zeros(2)})
        holder = counter.hold(session)
        task = asyncio.ensure_future(session.run(add_sum, {counter.fed: Lazy(1_000_000)}))
        await turns()
        assert (len(session.runs.in_line), len(session.runs.futures)) == (0, 1)
        holder.commit()
        await task


async def test_closing_waits_for_a_run_that_needs_first_values_and_waits_for_its_turn() -> None:
    counter = Counter()
    session = ag.Session(counter.graph)
    prepared = session.prepare([counter.add])

    async def ask() -> Any:
        session.host.turn.charge(1.0)
        return (await prepared()).results

    async with session:
        task = asyncio.ensure_future(ask())
        await asyncio.sleep(0)
    assert await task == [1.0]


async def test_an_error_that_is_told_in_the_line_keeps_nothing_that_was_fed() -> None:
    counter = Counter()
    with counter.graph:
        other = ag.placeholder("float64", (None,))
        both = ag.group(counter.variable.assign_add(ag.ops.sum(other)), counter.other.assign(counter.fed))
    async with await counter.open() as session:
        await session.run(both, {other: np.zeros(3), counter.fed: np.zeros(2)})
        holder = counter.hold(session)
        fed = np.zeros(3)
        watched = weakref.ref(fed)
        running = session.run(both, {other: fed, counter.fed: "x"})
        del fed
        with pytest.raises(FeedError) as kept:
            await running
        del running
        assert kept.value.__traceback__ is not None
        assert watched() is None
        holder.commit()


async def test_whoever_is_closed_in_the_line_or_once_told_is_in_nobodys_way() -> None:
    counter = Counter()
    async with await counter.open() as session:
        for wait in (None, 0, 5):
            holder = counter.hold(session)
            running = session.run([counter.add])
            running.send(None)
            if wait is not None:
                holder.commit()
                await turns(wait)
            running.close()
            if wait is None:
                holder.commit()
            await turns()
            assert session.host.turn.has_time
            assert session.store.idle
            assert session.runs.inline == 0
