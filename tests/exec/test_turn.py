from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from itertools import pairwise

import pytest

from asyncgraph._exec.turn import Turn

Slice = Callable[[], bool]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, to be changed by the test."""
    now = [0.0]
    monkeypatch.setattr("asyncgraph._exec.turn.perf_counter", lambda: now[0])
    return now


def slices(log: list[str], name: str, clock: list[float], seconds: float, count: int = 1) -> Slice:
    """Work of so many slices, each of which takes so long."""
    left = count

    def work() -> bool:
        nonlocal left
        left -= 1
        clock[0] += seconds
        log.append(name)
        return left > 0

    return work


async def test_work_is_done_at_once_while_there_is_time(clock: list[float]) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()
    turn.do(slices(log, "a", clock, 0.4))
    turn.do(slices(log, "b", clock, 0.4))
    assert log == ["a", "b"]
    assert turn.has_time


async def test_work_that_finds_the_time_spent_waits_and_each_turn_does_a_budgets_worth(clock: list[float]) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()
    for name in "abcdef":
        turn.do(slices(log, name, clock, 0.6))
    assert log == ["a", "b"]
    assert turn.waiting == 4
    assert not turn.has_time
    await asyncio.sleep(0)
    assert log == ["a", "b", "c", "d"]
    await asyncio.sleep(0)
    assert log == ["a", "b", "c", "d", "e", "f"]
    await asyncio.sleep(0)
    assert turn.has_time


async def test_work_does_not_overtake_what_waits(clock: list[float]) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()
    turn.wait(slices(log, "first", clock, 0.1))
    turn.do(slices(log, "second", clock, 0.1))
    assert log == []
    await asyncio.sleep(0)
    assert log == ["first", "second"]


async def test_long_work_is_done_a_slice_at_a_time_and_shares_its_turns(clock: list[float]) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()
    turn.do(slices(log, "long", clock, 0.6, count=5))
    turn.do(slices(log, "short", clock, 0.6))
    for _ in range(4):
        await asyncio.sleep(0)
    assert log == ["long", "long", "long", "long", "short", "long"]


async def test_a_slice_longer_than_the_budget_ends_the_turn(clock: list[float]) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()
    for name in "abc":
        turn.wait(slices(log, name, clock, 5.0))
    for seen in ("a", "ab", "abc"):
        await asyncio.sleep(0)
        assert "".join(log) == seen


async def test_without_a_budget_each_turn_does_one_slice(clock: list[float]) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 0.0), list[str]()
    turn.do(slices(log, "a", clock, 0.1, count=2))
    turn.do(slices(log, "b", clock, 0.1))
    assert log == []
    for count in (1, 2, 3):
        await asyncio.sleep(0)
        assert len(log) == count


async def test_what_comes_to_wait_during_a_turn_waits_for_the_next() -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()

    def again() -> bool:
        log.append("again")
        if len(log) < 3:
            turn.wait(again)
        return False

    turn.wait(again)
    for count in (1, 2, 3):
        await asyncio.sleep(0)
        assert len(log) == count


async def test_work_that_leads_to_work_needs_no_recursion_and_is_done_in_the_same_turn() -> None:
    turn, depths = Turn(asyncio.get_running_loop(), 60.0), set[int]()

    def step(left: int) -> Slice:
        def work() -> bool:
            depths.add(depth())
            if left:
                turn.do(step(left - 1))
            return False

        return work

    turn.do(step(5000))
    assert len(depths) == 1


def depth() -> int:
    frame, count = sys._getframe(), 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


async def test_time_that_others_charge_counts(clock: list[float]) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()
    turn.charge(1.5)
    turn.do(slices(log, "a", clock, 0.1))
    assert log == []
    await asyncio.sleep(0)
    assert log == ["a"]


# -- who yields to the loop ----------------------------------------------------------------------------------


async def test_who_is_next_goes_on_before_what_comes_to_wait_after_it(clock: list[float]) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()

    async def come(name: str) -> None:
        await turn.comes(lambda: 0.1)
        log.append(name)

    turn.charge(2.0)
    tasks = [asyncio.create_task(come("first"))]
    await asyncio.sleep(0)
    turn.wait(slices(log, "second", clock, 0.1))
    assert not turn.has_time
    tasks.append(asyncio.create_task(come("third")))
    await asyncio.wait(tasks)
    assert log == ["first", "second", "third"]


async def test_who_is_next_waits_for_one_turn_of_the_loop_and_is_counted_in_the_next(clock: list[float]) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()
    turn.charge(2.0)
    asyncio.get_running_loop().call_soon(log.append, "others")
    await turn.comes(lambda: 0.25)
    assert log == ["others"]
    assert turn.spent_s == 0.25


async def test_who_is_next_is_not_overtaken_when_the_turn_has_begun(clock: list[float]) -> None:
    turn, had_time = Turn(asyncio.get_running_loop(), 1.0), list[bool]()
    turn.charge(2.0)
    asyncio.get_running_loop().call_soon(lambda: had_time.append(turn.has_time))
    await turn.comes(lambda: 0.25)
    assert had_time == [False]
    assert turn.has_time


async def test_who_was_told_that_its_turn_has_come_is_not_overtaken() -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()

    async def come(name: str) -> None:
        await turn.comes(lambda: 0.1)
        log.append(name)

    turn.charge(2.0)
    tasks = [asyncio.create_task(come(name)) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    while len(log) < 3:
        assert not turn.has_time
        await asyncio.sleep(0)
    assert log == ["first", "second", "third"]
    assert turn.has_time
    await asyncio.wait(tasks)


async def test_what_a_turn_takes_is_asked_when_it_has_come() -> None:
    turn, log, cost = Turn(asyncio.get_running_loop(), 1.0), list[str](), [0.1]

    async def come(name: str) -> None:
        await turn.comes(lambda: cost[0])
        log.append(name)

    turn.charge(2.0)
    tasks = [asyncio.create_task(come(str(number))) for number in range(4)]
    await asyncio.sleep(0)
    cost[0] = 1.0
    seen = list[int]()
    while not all(one.done() for one in tasks):
        await asyncio.sleep(0)
        seen.append(len(log))
    assert [b - a for a, b in pairwise(seen) if b > a] == [1] * 3


@pytest.mark.parametrize("also_waiting", [False, True])
async def test_who_is_cancelled_while_it_waits_for_its_turn_is_in_nobodys_way(
    also_waiting: bool, clock: list[float]
) -> None:
    turn, log = Turn(asyncio.get_running_loop(), 1.0), list[str]()
    turn.charge(2.0)

    async def wait() -> None:
        await turn.comes(lambda: 5.0)

    first = asyncio.create_task(wait())
    await asyncio.sleep(0)
    if also_waiting:
        turn.wait(slices(log, "second", clock, 0.1))
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    await asyncio.sleep(0)
    assert log == ["second"] * also_waiting
    await asyncio.sleep(0)
    assert turn.has_time
    assert turn.spent_s == 0.0
