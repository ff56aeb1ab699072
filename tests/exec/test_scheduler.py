"""The scheduler, without threads, loops or clocks: calls and answers."""

from __future__ import annotations

import pytest

import asyncgraph as ag
from asyncgraph._exec.scheduler import Scheduler
from asyncgraph._plan.plan import Plan

from .helpers import plan_of


@ag.op
def call(*values: object) -> None:
    """A segment of its own."""


def diamond() -> Plan:
    """0 → 1, 2 → 3; the value of 3 is fetched."""
    with ag.Graph() as graph:
        top = call.node(name="top")
        bottom = call.node(call.node(top, name="left"), call.node(top, name="right"), name="bottom")
    return plan_of(graph, [bottom])


def slot_of(plan: Plan, name: str) -> int:
    return next(one.out for segment in plan.segments for one in segment.instructions if one.node.name == name)


def test_segments_start_when_all_they_wait_for_is_done() -> None:
    plan = diamond()
    scheduler, frame = Scheduler(plan), plan.frame([])
    assert scheduler.start() == [0]
    assert scheduler.begin(0)
    assert scheduler.finish(0, frame) == [1, 2]
    assert scheduler.begin(2)
    assert scheduler.begin(1)
    assert scheduler.finish(2, frame) == []
    assert scheduler.finish(1, frame) == [3]
    assert not scheduler.over
    assert scheduler.begin(3)
    assert scheduler.finish(3, frame) == []
    assert scheduler.over
    assert scheduler.succeeded


def test_a_segment_begins_once() -> None:
    scheduler = Scheduler(diamond())
    scheduler.start()
    assert scheduler.begin(0)
    with pytest.raises(AssertionError):
        scheduler.begin(0)


def test_a_segment_that_waits_does_not_begin() -> None:
    scheduler = Scheduler(diamond())
    scheduler.start()
    with pytest.raises(AssertionError):
        scheduler.begin(3)


def test_a_value_is_freed_when_its_last_reader_is_done_and_a_fetched_one_is_kept() -> None:
    plan = diamond()
    scheduler, frame = Scheduler(plan), plan.frame([])
    top, left, bottom = slot_of(plan, "top"), slot_of(plan, "left"), slot_of(plan, "bottom")
    frame[top], frame[left], frame[bottom] = "top", "left", "bottom"
    scheduler.start()
    for segment in (0, 1, 2):
        assert frame[top] == "top"
        scheduler.begin(segment)
        scheduler.finish(segment, frame)
    assert frame[top] is None
    assert frame[left] == "left"
    scheduler.begin(3)
    scheduler.finish(3, frame)
    assert (frame[left], frame[bottom]) == (None, "bottom")


def test_after_a_failure_nothing_begins_and_the_run_is_over_when_what_had_begun_has_ended() -> None:
    plan = diamond()
    scheduler, frame = Scheduler(plan), plan.frame([])
    scheduler.start()
    scheduler.begin(0)
    scheduler.finish(0, frame)
    scheduler.begin(1)
    error = ValueError()
    assert scheduler.begin(2)
    assert scheduler.fail(1, error)
    assert not scheduler.over
    assert scheduler.finish(2, frame) == []
    assert scheduler.over
    assert not scheduler.succeeded
    assert not scheduler.begin(3)
    assert scheduler.failures == [error]


def test_what_a_segment_makes_possible_after_the_run_was_stopped_is_not_ready() -> None:
    plan = diamond()
    scheduler = Scheduler(plan)
    scheduler.start()
    scheduler.begin(0)
    scheduler.stop(TimeoutError())
    assert scheduler.finish(0, plan.frame([])) == []
    assert scheduler.over


def test_failures_are_kept_in_their_order_and_the_first_reason_to_stop_stays_the_first() -> None:
    plan = diamond()
    scheduler, frame = Scheduler(plan), plan.frame([])
    scheduler.start()
    scheduler.begin(0)
    scheduler.finish(0, frame)
    scheduler.begin(1)
    scheduler.begin(2)
    first, second, third = TimeoutError(), ValueError(), KeyError()
    assert scheduler.stop(first)
    assert not scheduler.stop(KeyboardInterrupt())
    scheduler.fail(2, second)
    scheduler.fail(1, third)
    assert scheduler.failures == [first, second, third]
    assert scheduler.over


def test_a_run_whose_segments_are_all_done_can_still_be_stopped() -> None:
    with ag.Graph() as graph:
        node = call.node()
    plan = plan_of(graph, [node])
    scheduler = Scheduler(plan)
    scheduler.start()
    scheduler.begin(0)
    scheduler.finish(0, plan.frame([]))
    assert scheduler.succeeded
    assert scheduler.stop(TimeoutError())
    assert scheduler.over
    assert not scheduler.succeeded


def test_what_an_abandoned_segment_does_is_nobodys_business() -> None:
    plan = diamond()
    scheduler = Scheduler(plan)
    scheduler.start()
    scheduler.begin(0)
    scheduler.stop(TimeoutError())
    assert scheduler.running() == [0]
    scheduler.abandon(0)
    assert scheduler.running() == []
    assert scheduler.over
    assert scheduler.finish(0, plan.frame([])) == []
    assert not scheduler.fail(0, ValueError())
    assert len(scheduler.failures) == 1


def test_a_chain_of_5000_segments_needs_no_recursion() -> None:
    with ag.Graph() as graph:
        node = call.node()
        for _ in range(5_000):
            node = call.node(node)
    plan = plan_of(graph, [node])
    scheduler, frame = Scheduler(plan), plan.frame([])
    ready = scheduler.start()
    while ready:
        (segment,) = ready
        scheduler.begin(segment)
        ready = scheduler.finish(segment, frame)
    assert scheduler.succeeded
