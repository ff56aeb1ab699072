"""When it is time again."""

from __future__ import annotations

from typing import Any

import pytest

from asyncgraph._hooks.timer import Timer


class Clock:
    """Gives what a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def due(timer: Timer, steps: range) -> list[int]:
    """The steps at which it was time, each marked."""
    times: list[int] = []
    for step in steps:
        if timer.is_due(step):
            timer.mark(step)
            times.append(step)
    return times


def test_by_steps_it_is_time_at_once_and_then_every_so_many() -> None:
    assert due(Timer(3, None), range(1, 12)) == [1, 4, 7, 10]
    assert due(Timer(None, None, 4), range(1, 12)) == [1, 5, 9]
    assert due(Timer(3, None), range(5, 20, 2)) == [5, 9, 13, 17]


def test_by_seconds_it_is_time_at_once_and_then_when_they_have_passed() -> None:
    clock = Clock()
    timer = Timer(None, 10.0, clock=clock)
    times: list[float] = []
    for step in range(1, 8):
        if timer.is_due(step):
            timer.mark(step)
            times.append(clock.now)
        clock.now += 4.0

    assert times == [100.0, 112.0, 124.0]


def test_it_is_never_time_twice_at_one_step_and_again_when_steps_go_back() -> None:
    clock = Clock()
    for timer in (Timer(1, None), Timer(None, 1.0, clock=clock)):
        timer.mark(5)
        clock.now += 100.0
        assert not timer.is_due(5)
        assert timer.is_due(6)
    timer = Timer(10, None)
    timer.mark(25)
    assert timer.is_due(20)


def test_marking_gives_steps_and_seconds_since_the_last_time() -> None:
    clock = Clock()
    timer = Timer(1, None, clock=clock)

    assert timer.mark(3) is None
    clock.now += 2.5
    assert timer.mark(8) == (5, 2.5)


@pytest.mark.parametrize(
    ("every_steps", "every_s", "message"),
    [
        (1, 1.0, "every_steps=1 and every_s=1.0: give one of them"),
        (0, None, "every_steps=0: give a number of more than 0, or None"),
        (None, -1.0, "every_s=-1.0: give a number of more than 0, or None"),
    ],
)
def test_settings_that_mean_nothing_are_errors(every_steps: Any, every_s: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Timer(every_steps, every_s)
