"""Runs at the same time are as if they had run one after the other; and nobody waits who need not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

from .helpers import Gate, turns, until


@ag.op
async def a_turn_later(value: Any) -> Any:
    await asyncio.sleep(0)
    return np.array(value)


def read_modify_write(v: ag.Variable) -> ag.Node:
    return v.assign(a_turn_later(v) + 1)


async def test_no_update_is_lost_whatever_the_way_of_updating() -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        ways = [v.assign_add(1.0), v.assign(v + 1), read_modify_write(v), v.assign_add(a_turn_later(ag.constant(1.0)))]
    async with ag.Session(graph) as session:
        await asyncio.gather(*[session.run(ways[number % 4]) for number in range(100)])
        assert (await session.run(v)).results == 100.0


async def test_reads_in_a_run_that_assigns_are_not_outdated_when_it_commits() -> None:
    """Write skew: each checks both, and takes from one."""
    with ag.Graph() as graph:
        one, two = ag.variable(60.0), ag.variable(60.0)
        total = a_turn_later(one + two)
        takes = [v.assign(ag.ops.where(total >= 100.0, v - 100.0, v + 0)) for v in (one, two)]
    async with ag.Session(graph) as session:
        await asyncio.gather(*[session.run(take) for take in takes])
        assert sum((await session.run([one, two])).results) == 20.0


async def test_a_run_that_only_reads_never_waits_and_sees_what_was_committed_last() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        v, w = ag.variable(0.0), ag.variable(0.0)
        both = [v.assign(gate.node(1.0)), w.assign(1.0)]
        total = v + w
    async with ag.Session(graph) as session:
        await session.initialize()
        writing = session.submit(both)
        await gate.has_begun()
        for fetches in (total, v, [v, w]):
            assert np.sum((await session.run(fetches)).results) == 0.0
        gate.open()
        await writing
        assert (await session.run(total)).results == 2.0


async def test_a_run_that_only_reads_keeps_its_version_to_its_end() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        v, w = ag.variable(0.0), ag.variable(0.0)
        with ag.control_dependencies([gate.node()]):
            late = v.read() + w.read()
        both = [v.assign(1.0), w.assign(1.0)]
    async with ag.Session(graph) as session:
        reading = session.submit([late, v, w])
        await gate.has_begun()
        await session.run(both)
        gate.open()
        assert (await reading).results == [0.0, 0.0, 0.0]
        assert (await session.run([v, w])).results == [1.0, 1.0]


async def test_readers_beside_a_writer_never_see_half_of_what_it_assigns() -> None:
    with ag.Graph() as graph:
        v, w = ag.variable(np.zeros(50)), ag.variable(np.zeros(50))
        both = [v.assign_add(a_turn_later(ag.constant(np.ones(50)))), w.assign_sub(1.0)]
        total = v + w
    seen: list[float] = []
    async with ag.Session(graph) as session:

        async def read() -> None:
            for _ in range(30):
                seen.append(float(np.abs((await session.run(total)).results).max()))
                await asyncio.sleep(0)

        async def write() -> None:
            for _ in range(30):
                await session.run(both)

        await asyncio.gather(write(), *[read() for _ in range(5)])
    assert seen == [0.0] * 150


async def test_runs_that_share_nothing_that_one_of_them_assigns_do_not_wait_for_each_other() -> None:
    gates = [Gate(), Gate()]
    with ag.Graph() as graph:
        rate, one, two = ag.variable(0.5), ag.variable(0.0), ag.variable(0.0)
        steps = [v.assign_add(gate.node(1.0) * rate) for v, gate in zip((one, two), gates, strict=True)]
    async with ag.Session(graph) as session:
        runs = [session.submit(step) for step in steps]
        for gate in gates:
            await gate.has_begun()
        for gate in gates:
            gate.open()
        await asyncio.gather(*runs)
        assert (await session.run([one, two])).results == [0.5, 0.5]


async def test_runs_that_want_the_same_begin_in_the_order_in_which_they_were_asked_for() -> None:
    order: list[int] = []

    @ag.op(spec="float64[]")
    async def note(number: int, value: Any) -> Any:
        order.append(number)
        await asyncio.sleep(0)
        return value

    with ag.Graph() as graph:
        v = ag.variable(0.0)
        notes = [v.assign(note(number, v)) for number in range(20)]
    async with ag.Session(graph) as session:
        await session.initialize()
        await asyncio.gather(*[session.submit(one) for one in notes])
    assert order == list(range(20))


async def test_a_run_that_waits_begins_nothing_and_is_given_up_without_a_trace() -> None:
    holds, waits = Gate(), Gate()
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        first, second = v.assign(holds.node(1.0)), v.assign(waits.node(2.0))
        third = v.assign_add(10.0)
    async with ag.Session(graph) as session:
        runs = [session.submit(one) for one in (first, second, third)]
        await holds.has_begun()
        await turns()
        runs[1].cancel()
        await asyncio.wait([runs[1]])
        holds.open()
        await runs[2]
        assert waits.calls == 0
        assert (await session.run(v)).results == 11.0


async def test_runs_deadlock_in_no_order_of_variables() -> None:
    with ag.Graph() as graph:
        variables = [ag.variable(0.0) for _ in range(5)]
        moves = [
            [variables[i].assign(a_turn_later(variables[j] + 1)), variables[j].assign(a_turn_later(variables[k]))]
            for i, j, k in ((0, 1, 2), (1, 0, 3), (2, 3, 0), (3, 2, 1), (4, 0, 1), (0, 4, 3))
        ]
    async with asyncio.timeout(20), ag.Session(graph) as session:
        await asyncio.gather(*[session.run(move) for move in moves * 5])


async def test_who_waits_for_variables_takes_no_place_from_whom_it_waits_for() -> None:
    """One place: the nested run inside of the run that has it waits for a run that waits for the place."""
    gate = Gate()
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        added = v.assign_add(1.0)
        changed = v.assign(a_turn_later(v))

        @ag.op
        async def nest() -> Any:
            await gate()
            return (await session.run(added)).results

        nesting = nest.node()
    config = ag.SessionConfig(max_concurrent_runs=1)
    async with asyncio.timeout(10), ag.Session(graph, config=config) as session:
        await session.initialize()
        runs = [session.submit(nesting)]
        await gate.has_begun()
        runs.append(session.submit(changed))
        await turns()
        gate.open()
        assert (await runs[0]).results == 1.0
        await runs[1]


async def test_ops_of_a_run_that_holds_what_a_nested_run_wants_get_a_thread_though_all_are_waiting() -> None:
    begun, release = asyncio.Event(), threading.Event()
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        added = v.assign_add(1.0)
        changed = v.assign(ag.op(np.array)(v))

        @ag.op
        def nest() -> Any:
            loop.call_soon_threadsafe(begun.set)
            assert release.wait(10)
            return session.run_blocking(added).results

        nesting = nest.node()
    loop = asyncio.get_running_loop()
    for changes_first in (True, False):
        begun.clear()
        release.clear()
        async with asyncio.timeout(10), ag.Session(graph, config=ag.SessionConfig(threads=1)) as session:
            await session.initialize()
            runs = [session.submit(nesting)]
            await begun.wait()
            if not changes_first:
                release.set()
            runs.append(session.submit(changed))
            await turns()
            release.set()
            await asyncio.gather(*runs)
            assert (await session.run(v)).results == 1.0


async def test_an_op_gets_a_thread_that_is_wanted_when_all_are_waiting_already() -> None:
    """The nested run waits first; then a call is ready of the run that it waits for."""
    gate, nests = Gate(), asyncio.Event()
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        added = v.assign_add(1.0)
        changed = v.assign(ag.op(np.array)(gate.node(5.0)))

        @ag.op
        def nest() -> Any:
            loop.call_soon_threadsafe(nests.set)
            return session.run_blocking(added).results

        nesting = nest.node()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10), ag.Session(graph, config=ag.SessionConfig(threads=1)) as session:
        await session.initialize()
        runs = [session.submit(changed)]
        await gate.has_begun()
        runs.append(session.submit(nesting))
        await nests.wait()
        await until(lambda: session.store.blocks)
        gate.open()
        await asyncio.gather(*runs)
        assert (await session.run(v)).results == 6.0


# -- threads -----------------------------------------------------------------------------------------------


def test_threads_of_a_blocking_session_lose_no_update() -> None:
    with ag.Graph() as graph:
        v, w = ag.variable(0.0), ag.variable(0.0)
        step = [v.assign_add(1.0), w.assign(ag.op(lambda one: np.array(one) + 1, spec="float64[]")(w))]
        later = v.assign(a_turn_later(v) + 1)
    with ag.BlockingSession(graph) as session, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: session.run(step), range(200)))
        list(threads.map(lambda _: session.run(later), range(20)))
        assert session.run([v, w]).results == [220.0, 200.0]


def test_readers_in_threads_never_see_half_of_what_is_assigned() -> None:
    with ag.Graph() as graph:
        v, w = ag.variable(np.zeros(100)), ag.variable(np.zeros(100))
        both = [v.assign_add(1.0), w.assign_sub(1.0)]
    with ag.BlockingSession(graph) as session, ThreadPoolExecutor(4) as threads:
        session.initialize()

        def work(number: int) -> float:
            if not number % 4:
                session.run(both)
            one, two = session.run([v, w]).results
            return float(np.abs(one + two).max())

        assert set(threads.map(work, range(400))) == {0.0}


@pytest.mark.parametrize("ask", ["run_blocking", "run"])
async def test_any_thread_may_update_what_the_loop_updates(ask: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        step = v.assign_add(1.0)
    async with ag.Session(graph) as session:
        await session.initialize()

        def from_thread() -> None:
            for _ in range(20):
                session.run_blocking(step)

        async def on_loop() -> None:
            for _ in range(20):
                await session.run(step)
                await asyncio.sleep(0)

        one: Callable[[], Any] = on_loop if ask == "run" else (lambda: asyncio.to_thread(from_thread))
        await asyncio.gather(asyncio.to_thread(from_thread), one())
        assert (await session.run(v)).results == 40.0
