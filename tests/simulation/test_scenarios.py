"""Random graphs in random orders are right; and each kind of fault that is planted in the driver is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from asyncgraph._exec.calls import CallScope
from asyncgraph._exec.coroutines import Coroutines
from asyncgraph._exec.host import Host
from asyncgraph._exec.mailbox import Mailbox
from asyncgraph._exec.run import Run
from asyncgraph._exec.scheduler import Scheduler
from asyncgraph._exec.turn import Turn
from asyncgraph.testing.__main__ import campaign, main
from asyncgraph.testing._play import play
from asyncgraph.testing._scenario import GraphScenario

FIRST = 1_000_000
"""Other seeds than those of campaigns."""


@pytest.mark.parametrize("first", range(FIRST, FIRST + 1000, 250))
def test_a_thousand_scenarios_are_as_promised(first: int) -> None:
    said = campaign(range(first, first + 250))
    assert said.startswith("250 scenarios in ")
    for seen in ("value", "CancelledError", "PlantedError", "NodeTimeoutError", "RunTimeoutError", "TimeoutError"):
        assert seen in said


def test_a_scenario_is_the_same_each_time() -> None:
    for seed in range(FIRST, FIRST + 20):
        assert play(seed, GraphScenario) == play(seed, GraphScenario)


def test_the_command_line_plays_as_many_scenarios_as_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--count", "3", "--seed", "5"])
    assert capsys.readouterr().out.startswith("3 scenarios in 3 different orders of ")


def lose_a_wake_up(patch: pytest.MonkeyPatch) -> None:
    posts = 0
    post = Mailbox.post

    def faulty(self: Mailbox, call: Callable[[], None]) -> None:
        nonlocal posts
        posts += 1
        if posts % 7:
            post(self, call)

    patch.setattr(Mailbox, "post", faulty)


def run_a_segment_twice(patch: pytest.MonkeyPatch) -> None:
    finish = Scheduler.finish

    def faulty(self: Scheduler, segment: int, frame: list[Any]) -> list[int]:
        ready = finish(self, segment, frame)
        return ready + ready[:1]

    patch.setattr(Scheduler, "finish", faulty)
    patch.setattr(Scheduler, "begin", begin_whatever_it_is)


def begin_whatever_it_is(self: Scheduler, segment: int) -> bool:
    if self.stopped:
        return False
    self._states[segment] = type(self._states[segment]).RUNNING
    self._running += 1
    return True


def free_a_value_one_reader_early(patch: pytest.MonkeyPatch) -> None:
    begin = Scheduler.__init__

    def faulty(self: Scheduler, plan: Any) -> None:
        begin(self, plan)
        self._unread = {slot: max(1, count - 1) for slot, count in self._unread.items()}

    patch.setattr(Scheduler, "__init__", faulty)


def ignore_cancellations(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Run, "stop", lambda self, error: None)


def never_note_that_an_abandoned_call_returned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Host, "returned", lambda self, call: None)


def leave_coroutines_running(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Coroutines, "cancel", lambda self, run: None)


def tell_no_call_that_its_run_is_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CallScope, "end", lambda self: None)


def end_before_what_is_running(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "over", property(lambda self: self.stopped or not self._left))


def forget_what_waits_for_its_turn(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Turn, "wait", lambda self, work: None)


def keep_the_values_of_a_run(patch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    start = Run.start

    def faulty(self: Run) -> None:
        kept.append(list(self.frame))
        start(self)

    patch.setattr(Run, "start", faulty)


def leave_a_task(patch: pytest.MonkeyPatch) -> None:
    left: list[asyncio.Task[None]] = []
    start = Run.start

    def faulty(self: Run) -> None:
        start(self)
        left.append(asyncio.get_running_loop().create_task(asyncio.sleep(10)))

    patch.setattr(Run, "start", faulty)


@pytest.mark.parametrize(
    "plant",
    [
        lose_a_wake_up,
        run_a_segment_twice,
        free_a_value_one_reader_early,
        ignore_cancellations,
        never_note_that_an_abandoned_call_returned,
        leave_coroutines_running,
        tell_no_call_that_its_run_is_over,
        end_before_what_is_running,
        forget_what_waits_for_its_turn,
        keep_the_values_of_a_run,
        leave_a_task,
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::RuntimeWarning")
def test_a_fault_of_the_driver_is_found_within_200_scenarios(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="^seed "):
        campaign(range(FIRST, FIRST + 200))
