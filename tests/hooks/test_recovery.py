"""What a monitored session does when a run fails by what it recovers from."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import RunTimeoutError, SessionClosedError

from ..session.gates import AsyncGate, turns
from .recorder import Calls, Recorder, at, names, of_runs

GUARD_S = 10.0
AT_ONCE = ag.Retry(attempts=3, backoff_s=0.0, on=(ConnectionError,))


def failing(fail: Callable[[], Any]) -> tuple[ag.Graph, ag.Node, ag.Node]:
    """A graph that counts a step after a call of `fail`, and the counting alone."""
    with ag.Graph() as graph:
        step = ag.global_step()
        call = ag.op(fail).node(name="call")
        with ag.control_dependencies([call]):
            train = step.assign_add(1, name="train")
        return graph, train, step.assign_add(1, name="count")


def times(count: int) -> Callable[[], None]:
    """A function that fails so many times."""
    left = [None] * count

    def fail() -> None:
        if left:
            left.pop()
            raise ConnectionError(f"{len(left)} left")

    return fail


async def step_of(session: ag.MonitoredSession) -> int:
    return int((await session.session.run("global_step")).results)


async def test_the_run_is_tried_again_in_a_new_session_with_its_hooks() -> None:
    graph, train, _ = failing(times(2))
    calls: Calls = []
    sessions: list[ag.Session] = []
    hook = Recorder("A", calls, after_create_session=sessions.append)

    async with asyncio.timeout(GUARD_S), ag.MonitoredSession(graph, hooks=[hook], recover=AT_ONCE) as session:
        assert (await session.run(train)).results == 1
        assert session.session is sessions[-1]

    assert names(calls) == [
        *["A begin", "A after_create_session"],
        *["A before_run", "A on_error", "A after_create_session"] * 2,
        *["A before_run", "A after_run", "A end"],
    ]
    assert len({*map(id, sessions)}) == 3


async def test_the_last_checkpoint_is_restored(tmp_path: Path) -> None:
    fails: list[None] = []

    def fail() -> None:
        if fails:
            fails.clear()
            raise ConnectionError

    graph, train, count = failing(fail)
    async with ag.MonitoredSession(graph, checkpoint_dir=tmp_path, save_every_steps=2, recover=AT_ONCE) as session:
        for _ in range(3):
            await session.run(count)
        fails.append(None)
        assert (await session.run(train)).results == 3  # From step 2, which was saved last.


@pytest.mark.parametrize("saves", [True, False])
async def test_what_is_drawn_after_a_recovery_was_not_drawn_before_it(tmp_path: Path, saves: bool) -> None:
    graph, train, _ = failing(times(2))
    with graph:
        noise = ag.ops.random.uniform(3)
    directory = tmp_path if saves else None
    config = ag.SessionConfig(seed=1)

    draws: list[Any] = []
    async with ag.MonitoredSession(graph, config=config, checkpoint_dir=directory, recover=AT_ONCE) as session:
        draws += [(await session.run(noise)).results for _ in range(3)]
        await session.run(train)
        draws += [(await session.run(noise)).results for _ in range(3)]

    assert len({one.tobytes() for one in draws}) == 6


async def test_what_is_drawn_after_a_recovery_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    async def drawn(directory: Path) -> list[float]:
        graph, train, _ = failing(times(1))
        with graph:
            noise = ag.ops.random.uniform(3)
        config = ag.SessionConfig(seed=1)
        after = np.zeros(0)
        async with ag.MonitoredSession(graph, config=config, checkpoint_dir=directory, recover=AT_ONCE) as session:
            await session.run([noise, train])
            after = (await session.run(noise)).results
        return after.tolist()

    assert await drawn(tmp_path / "a") == await drawn(tmp_path / "b")


async def test_without_checkpoints_variables_keep_what_was_committed() -> None:
    graph, train, count = failing(times(1))
    async with ag.MonitoredSession(graph, recover=AT_ONCE) as session:
        for _ in range(3):
            await session.run(count)
        assert (await session.run(train)).results == 4


async def test_it_is_tried_as_often_as_is_said_and_then_raised() -> None:
    graph, train, count = failing(times(5))
    calls: Calls = []

    async with ag.MonitoredSession(graph, hooks=[Recorder("A", calls)], recover=AT_ONCE) as session:
        with pytest.raises(ConnectionError, match="2 left"):
            await session.run(train)
        assert (await session.run(count)).results == 1

    assert names(of_runs(calls)).count("A on_error") == 3


@pytest.mark.parametrize("recover", [None, ag.Retry(attempts=3, backoff_s=0.0, on=(KeyError,))])
async def test_what_is_not_listed_is_raised_at_once(recover: ag.Retry | None) -> None:
    graph, train, _ = failing(times(1))
    async with ag.MonitoredSession(graph, recover=recover) as session:
        with pytest.raises(ConnectionError):
            await session.run(train)
        assert (await session.run(train)).results == 1


def test_a_device_that_is_lost_is_what_is_recovered_from_by_default() -> None:
    default = inspect.signature(ag.MonitoredSession).parameters["recover"].default

    assert default == ag.Retry(attempts=4, backoff_s=1.0, on=(ag.errors.DeviceLostError,))


async def test_each_wait_is_twice_as_long_as_the_last() -> None:
    graph, train, _ = failing(times(3))
    began: list[float] = []
    hook = Recorder("A", [], before_run=lambda _: began.append(asyncio.get_running_loop().time()))
    recover = ag.Retry(attempts=4, backoff_s=0.02, on=(ConnectionError,))

    async with ag.MonitoredSession(graph, hooks=[hook], recover=recover) as session:
        await session.run(train)

    waits = [later - before for before, later in pairwise(began)]
    assert [wait >= least for wait, least in zip(waits, (0.02, 0.04, 0.08), strict=True)] == [True] * 3


async def test_runs_that_fail_together_wait_for_one_new_session_and_all_succeed() -> None:
    both = asyncio.Event()
    begun: list[int] = []

    async def fail() -> int:
        begun.append(1)
        if len(begun) > 4:
            return 1
        if len(begun) == 4:
            both.set()
        await both.wait()
        raise ConnectionError

    with ag.Graph() as graph:
        node = ag.op(fail).node()
    calls: Calls = []
    async with (
        asyncio.timeout(GUARD_S),
        ag.MonitoredSession(graph, hooks=[Recorder("A", calls)], recover=AT_ONCE) as session,
    ):
        values = await asyncio.gather(*[session.run(node) for _ in range(4)])
        assert [one.results for one in values] == [1] * 4

    assert names(calls).count("A after_create_session") == 2


async def test_a_recovery_waits_for_the_runs_in_flight_and_new_ones_wait_for_it() -> None:
    gate = AsyncGate()
    graph, train, count = failing(times(1))
    with graph:
        slow = ag.op(gate).node("ended")

    waiting: list[bool] = []
    failure = asyncio.Event()
    hook = Recorder("A", [], on_error=lambda *_: failure.set())
    async with asyncio.timeout(GUARD_S), ag.MonitoredSession(graph, hooks=[hook], recover=AT_ONCE) as session:
        going = asyncio.ensure_future(session.run(slow))
        await gate.has_begun()
        failed = asyncio.ensure_future(session.run(train))
        await failure.wait()
        await turns(5)
        later = asyncio.ensure_future(session.run(count))
        await turns(5)
        waiting.append(not failed.done() and not later.done())
        gate.open()
        assert (await going).results == "ended"
        assert sorted([int((await failed).results), int((await later).results)]) == [1, 2]

    assert waiting == [True]


async def test_a_hook_that_fails_when_its_run_has_committed_has_nothing_done_twice() -> None:
    graph, _, count = failing(times(0))
    hook = Recorder("A", [], after_run=lambda *_: times(1)())
    async with ag.MonitoredSession(graph, hooks=[hook], recover=AT_ONCE) as session:
        with pytest.raises(ConnectionError):
            await session.run(count)
        assert await step_of(session) == 1


async def test_runs_that_wait_for_a_place_when_a_session_fails_are_run_by_the_next_one() -> None:
    graph, train, _ = failing(times(1))
    config = ag.SessionConfig(max_concurrent_runs=1)
    async with asyncio.timeout(GUARD_S), ag.MonitoredSession(graph, config=config, recover=AT_ONCE) as session:
        values = await asyncio.gather(*[session.run(train) for _ in range(6)])
        assert sorted(int(one.results) for one in values) == [1, 2, 3, 4, 5, 6]


async def test_a_deadline_covers_the_recovery_which_goes_on_for_others() -> None:
    gate = AsyncGate()
    graph, train, count = failing(times(1))
    created: list[int] = []

    async def create(_: ag.Session) -> None:
        created.append(1)
        if len(created) == 2:
            await at(gate)()

    hook = Recorder("A", [], after_create_session=create)
    async with asyncio.timeout(GUARD_S), ag.MonitoredSession(graph, hooks=[hook], recover=AT_ONCE) as session:
        with pytest.raises(RunTimeoutError, match="timeout_s=0.05"):
            await session.run(train, None, ag.RunOptions(timeout_s=0.05))
        later = asyncio.ensure_future(session.run(count))
        await gate.has_begun()
        gate.open()
        assert (await later).results == 1
        assert gate.ended == ["returned"]


async def test_leaving_ends_a_recovery_that_nobody_waits_for_any_more() -> None:
    gate = AsyncGate()
    graph, train, _ = failing(times(1))
    created: list[int] = []

    async def create(_: ag.Session) -> None:
        created.append(1)
        if len(created) == 2:
            await at(gate)()

    hook = Recorder("A", [], after_create_session=create)
    async with asyncio.timeout(GUARD_S), ag.MonitoredSession(graph, hooks=[hook], recover=AT_ONCE) as session:
        with pytest.raises(RunTimeoutError):
            await session.run(train, None, ag.RunOptions(timeout_s=0.05))
        await gate.has_begun()

    assert gate.ended == ["cancelled"]


async def test_a_recovery_that_fails_by_what_is_recovered_from_counts_as_a_try() -> None:
    graph, train, _ = failing(times(1))
    created: list[int] = []

    def create(_: ag.Session) -> None:
        created.append(1)
        if len(created) == 2:
            raise ConnectionError("not yet")

    async with ag.MonitoredSession(
        graph, hooks=[Recorder("A", [], after_create_session=create)], recover=AT_ONCE
    ) as session:
        assert (await session.run(train)).results == 1
        assert await step_of(session) == 1

    assert len(created) == 3


async def test_who_waits_for_a_recovery_when_the_session_is_left_is_told_that_it_is_closed() -> None:
    graph, train, _ = failing(times(2))
    gate = AsyncGate()
    created: list[int] = []

    async def create(_: ag.Session) -> None:
        created.append(1)
        if len(created) == 2:
            await at(gate)()

    hook = Recorder("A", [], after_create_session=create)
    waiting: list[asyncio.Future[Any]] = []
    async with asyncio.timeout(GUARD_S):
        async with ag.MonitoredSession(graph, hooks=[hook], recover=AT_ONCE) as session:
            waiting += [asyncio.ensure_future(session.run(train)) for _ in range(2)]
            await gate.has_begun()
        told = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(one) for one in told] == [SessionClosedError] * 2


async def test_a_run_that_leaving_by_an_error_ends_says_that_the_session_was_closed() -> None:
    gate = AsyncGate()
    graph, train, _ = failing(gate)
    runs: list[asyncio.Future[Any]] = []

    async def leave() -> None:
        async with ag.MonitoredSession(graph, recover=AT_ONCE) as session:
            runs.append(asyncio.ensure_future(session.run(train)))
            await gate.has_begun()
            raise KeyError

    async with asyncio.timeout(GUARD_S):
        with pytest.raises(KeyError):
            await leave()
        with pytest.raises(SessionClosedError, match="closed before the run could end"):
            await runs[0]


async def test_a_run_that_fails_while_the_session_is_left_raises_its_own_error() -> None:
    gate = AsyncGate()

    async def fail() -> None:
        await gate()
        raise ConnectionError("lost")

    graph, train, _ = failing(fail)
    runs: list[asyncio.Future[Any]] = []
    async with asyncio.timeout(GUARD_S):
        async with ag.MonitoredSession(graph, recover=AT_ONCE) as session:
            runs.append(asyncio.ensure_future(session.run(train)))
            await gate.has_begun()
            asyncio.get_running_loop().call_soon(gate.open)
        with pytest.raises(ConnectionError, match="lost"):
            await runs[0]
