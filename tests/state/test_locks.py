"""The queue of those who ask for variables: alone, and against a model that looks at everybody each time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

import asyncgraph as ag
from asyncgraph._session.locks import LockQueue, LockRequest
from asyncgraph.errors import StateConflictError

with ag.Graph() as GRAPH:
    VARIABLES = {name: ag.variable(0.0, name) for name in "abcd"}


def never() -> None:
    raise AssertionError("the queue says who is granted; it calls nobody")


def request(reads: str = "", writes: str = "", *ancestors: LockRequest) -> LockRequest:
    return LockRequest([VARIABLES[one] for one in reads], [VARIABLES[one] for one in writes], never, ancestors)


# -- what is granted at once -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (("", "a"), ("", "b"), True),
        (("", "a"), ("", "a"), False),
        (("a", "b"), ("a", "c"), True),
        (("a", "b"), ("", "a"), False),
        (("", "a"), ("a", "b"), False),
        (("b", "a"), ("a", "b"), False),
        (("", "ab"), ("", "bc"), False),
        (("", "ab"), ("", "cd"), True),
        (("abc", "d"), ("abc", ""), True),
        (("a", "a"), ("a", "b"), False),  # What it writes it does not share.
    ],
)
def test_two_hold_together_what_neither_writes(first: tuple[str, str], second: tuple[str, str], together: bool) -> None:
    queue = LockQueue()
    assert queue.enter(request(*first))
    assert queue.enter(request(*second)) is together


def test_who_is_alone_is_granted_whatever_it_asks_for_and_leaves_nothing_behind() -> None:
    queue = LockQueue()
    for _ in range(2):
        alone = request("abc", "d")
        assert queue.enter(alone)
        assert not queue.idle
        assert queue.leave(alone) == []
        assert queue.idle


def test_a_reader_does_not_overtake_a_writer_that_waits() -> None:
    queue = LockQueue()
    holds, waits, late = request("a", "b"), request("", "a"), request("a", "c")
    assert [queue.enter(one) for one in (holds, waits, late)] == [True, False, False]
    assert queue.leave(holds) == [waits]
    assert queue.leave(waits) == [late]


def test_who_waits_holds_nothing_and_those_behind_who_want_something_else_pass() -> None:
    queue = LockQueue()
    holds, waits, passes, stuck = request("", "a"), request("", "ab"), request("", "c"), request("", "b")
    assert [queue.enter(one) for one in (holds, waits, passes, stuck)] == [True, False, True, False]
    # `stuck` came after `waits`, and `b` is free: it is not taken out of turn.
    assert queue.leave(passes) == []
    assert queue.leave(holds) == [waits]
    assert queue.leave(waits) == [stuck]


def test_a_writer_that_gives_up_lets_the_readers_behind_it_in() -> None:
    queue = LockQueue()
    holds, waits, one, two = request("a", "b"), request("", "a"), request("a", "c"), request("a", "d")
    assert [queue.enter(each) for each in (holds, waits, one, two)] == [True, False, False, False]
    assert queue.leave(waits) == [one, two]


def test_readers_that_leave_let_the_writer_in_when_the_last_has_gone() -> None:
    queue = LockQueue()
    one, two, writer = request("a", "b"), request("a", "c"), request("", "a")
    assert [queue.enter(each) for each in (one, two, writer)] == [True, True, False]
    assert queue.leave(one) == []
    assert queue.leave(two) == [writer]


def test_those_who_are_granted_together_are_given_in_the_order_in_which_they_came() -> None:
    queue = LockQueue()
    holds = request("", "abcd")
    waiting = [request("", one) for one in "cadb"]
    assert queue.enter(holds)
    assert {queue.enter(one) for one in waiting} == {False}
    assert queue.leave(holds) == waiting


def test_a_thousand_that_want_the_same_are_granted_one_by_one_in_order() -> None:
    queue = LockQueue()
    requests = [request("b", "a") for _ in range(1000)]
    assert [queue.enter(one) for one in requests] == [True] + [False] * 999
    for one, following in pairwise(requests):
        assert queue.leave(one) == [following]
    assert queue.leave(requests[-1]) == []
    assert queue.idle


def test_what_a_request_costs_does_not_grow_with_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    may_hold = LockQueue._may_hold

    def counted(self: LockQueue, request: LockRequest) -> bool:
        nonlocal looked_at
        looked_at += 1
        return may_hold(self, request)

    monkeypatch.setattr(LockQueue, "_may_hold", counted)
    queue = LockQueue()
    requests = [request("b", "a") for _ in range(500)]
    for one in requests:
        queue.enter(one)
    for one in requests:
        queue.leave(one)
    assert looked_at <= 3 * len(requests)


# -- nested runs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reads", "writes"), [("", "a"), ("", "b"), ("a", "c"), ("", "ac")])
def test_a_nested_run_that_would_wait_for_an_ancestor_is_refused_and_changes_nothing(reads: str, writes: str) -> None:
    queue = LockQueue()
    outer = request("b", "a")
    assert queue.enter(outer)
    inner = request(reads, writes, outer)
    with pytest.raises(StateConflictError):
        queue.enter(inner)
    assert queue.enter(request("", "c", outer))
    assert queue.enter(request("", "d"))


def test_a_refusal_says_which_variables_and_what_to_do() -> None:
    queue = LockQueue()
    outer = request("b", "a")
    queue.enter(outer)
    with pytest.raises(StateConflictError) as caught:
        queue.enter(request("", "abc", outer))
    assert str(caught.value) == (
        "a nested run would assign 'a', 'b', which a run that waits for it reads or assigns: none would ever end\n"
        "  give the value back to the outer run, and assign it there"
    )


def test_a_nested_run_does_not_wait_for_those_who_wait_for_its_ancestor() -> None:
    queue = LockQueue()
    outer, waits = request("", "a"), request("", "ab")
    assert [queue.enter(one) for one in (outer, waits)] == [True, False]
    inner = request("", "b", outer)
    assert queue.enter(inner)
    assert queue.leave(inner) == []
    assert queue.leave(outer) == [waits]


def test_a_nested_run_waits_for_who_holds_what_it_wants_if_that_one_does_not_wait_for_it() -> None:
    queue = LockQueue()
    outer, other = request("", "a"), request("", "b")
    assert [queue.enter(one) for one in (outer, other)] == [True, True]
    inner = request("", "b", outer)
    assert not queue.enter(inner)
    assert queue.leave(other) == [inner]


def test_two_whose_nested_runs_want_what_the_other_holds_are_told_apart() -> None:
    queue = LockQueue()
    one, two = request("", "a"), request("", "b")
    assert [queue.enter(each) for each in (one, two)] == [True, True]
    inner = request("", "b", one)
    assert not queue.enter(inner)
    with pytest.raises(StateConflictError, match="wait that wait for each other"):
        queue.enter(request("", "a", two))
    assert queue.leave(two) == [inner]


def test_a_ring_of_three_is_found() -> None:
    queue = LockQueue()
    outer = [request("", one) for one in "abc"]
    assert [queue.enter(one) for one in outer] == [True] * 3
    assert not queue.enter(request("", "b", outer[0]))
    assert not queue.enter(request("", "c", outer[1]))
    with pytest.raises(StateConflictError):
        queue.enter(request("", "a", outer[2]))


def test_those_who_come_after_a_nested_run_that_waits_do_not_keep_it_waiting_for_ever() -> None:
    queue = LockQueue()
    outer, reader = request("", "a"), request("b", "c")
    assert [queue.enter(one) for one in (outer, reader)] == [True, True]
    inner, late = request("", "b", outer), request("b", "d")
    assert [queue.enter(one) for one in (inner, late)] == [False, False]
    assert queue.leave(reader) == [inner]
    assert queue.leave(inner) == [late]


def test_a_nested_run_that_gives_up_lets_those_behind_it_in() -> None:
    queue = LockQueue()
    outer, reader = request("", "a"), request("b", "c")
    inner, late = request("", "b", outer), request("b", "d")
    assert [queue.enter(one) for one in (outer, reader, inner, late)] == [True, True, False, False]
    assert queue.leave(inner) == [late]


def test_a_run_whose_outer_run_has_ended_is_like_any_other() -> None:
    queue = LockQueue()
    outer = request("", "a")
    queue.enter(outer)
    inner = request("", "b", outer)
    assert queue.enter(inner)
    assert queue.leave(outer) == []
    assert not queue.enter(request("", "b"))
    assert queue.enter(request("", "a", outer, inner))


def test_it_says_whether_somebody_waits_who_blocks() -> None:
    queue = LockQueue()
    holds = request("", "a")
    waiting = [LockRequest((), [VARIABLES["a"]], never, (), blocks) for blocks in (False, True, True)]
    seen = [queue.enter(holds), queue.enter(waiting[0]), queue.blocks, queue.enter(waiting[1]), queue.blocks]
    assert seen == [True, False, False, False, True]
    queue.enter(waiting[2])
    queue.leave(waiting[2])
    assert queue.blocks
    queue.leave(holds)
    queue.leave(waiting[0])
    assert (waiting[1].granted, queue.blocks) == (True, False)


def test_what_those_cost_who_are_brief_does_not_depend_on_how_many_others_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_hold, asked = LockQueue._may_hold, [0]

    def counted(self: LockQueue, request: LockRequest) -> bool:
        asked[0] += 1
        return may_hold(self, request)

    monkeypatch.setattr(LockQueue, "_may_hold", counted)
    queue, count = LockQueue(), 200
    holds = request("", "a")
    queue.enter(holds)
    line = [LockRequest((), [VARIABLES["a"]], never, brief=True) for _ in range(count)]
    readers = [request("a", one) for one in "bcd"]
    for one in (*line, *readers):
        queue.enter(one)
    assert queue.leave(holds) == line
    for one in line[:-1]:
        assert queue.leave(one) == []
    assert queue.leave(line[-1]) == readers
    assert asked[0] <= 2 * (count + len(readers)) + 10


# -- against a model ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class Model:
    """One request, as the model knows it: what it asks for, and what became of it."""

    reads: frozenset[str]
    writes: frozenset[str]
    arrival: int
    ancestors: tuple[Model, ...] = ()
    brief: bool = False
    granted: bool = False
    real: LockRequest = field(init=False)

    def __post_init__(self) -> None:
        reads, writes = [[VARIABLES[one] for one in names] for names in (self.reads, self.writes)]
        self.real = LockRequest(reads, writes, never, tuple([one.real for one in self.ancestors]), brief=self.brief)

    def wants_the_same(self, other: Model) -> bool:
        mine = self.reads | self.writes
        return bool(self.writes & (other.reads | other.writes) or other.writes & mine)

    def excludes(self, other: Model) -> bool:
        return self.wants_the_same(other) and not (self.brief and other.brief)


class Queue(RuleBasedStateMachine):
    """The queue, and a model of it that compares everybody with everybody.

    A run that waits for a nested one does not leave. So the machine also proves, after each step, that if each leaves
    as soon as it can, all of them get what they ask for.
    """

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.queue = LockQueue()
        self.alive: list[Model] = []
        self.arrivals = count()

    names = st.frozensets(st.sampled_from("abcd"), max_size=2)
    some = st.frozensets(st.sampled_from("abcd"), min_size=1, max_size=2)

    @rule(target=requests, reads=names, writes=some, brief=st.booleans())
    def enter(self, reads: frozenset[str], writes: frozenset[str], brief: bool) -> Model:
        one = Model(reads - writes, writes, next(self.arrivals), brief=brief)
        one.granted = not any(self.is_in_the_way(other, one) for other in self.alive)
        assert self.queue.enter(one.real) is one.granted
        self.alive.append(one)
        return one

    @rule(target=requests, outer=requests, reads=names, writes=some)
    def enter_nested(self, outer: Model, reads: frozenset[str], writes: frozenset[str]) -> Any:
        if outer not in self.alive or not outer.granted:
            return outer
        ancestors = (outer, *outer.ancestors)
        held = frozenset[str]().union(*[one.reads | one.writes for one in ancestors])
        one = Model(reads - writes - held, writes, next(self.arrivals), ancestors)
        if self.would_never_end(one):
            with pytest.raises(StateConflictError):
                self.queue.enter(one.real)
            return outer
        one.granted = not any(one.excludes(other) for other in self.alive if other.granted)
        assert self.queue.enter(one.real) is one.granted
        self.alive.append(one)
        return one

    def would_never_end(self, asked: Model) -> bool:
        """Whether, with `asked` among those that wait, somebody waits for itself."""
        alive = [*self.alive, asked]
        waits_for = {
            one: {other for other in alive if other.granted and not one.granted and one.excludes(other)}
            | {other for other in alive if one in other.ancestors}
            for one in alive
        }
        reached: set[Model] = set()
        todo = [asked]
        while todo:
            for other in waits_for[todo.pop()] - reached:
                reached.add(other)
                todo.append(other)
        return asked in reached

    @rule(one=consumes(requests))
    def leave(self, one: Model) -> None:
        """It has ended, or has given up; perhaps although runs go on that it had started."""
        if one in self.alive:
            self.alive.remove(one)
            freed = self.free()
            assert self.queue.leave(one.real) == [each.real for each in freed]

    def free(self) -> list[Model]:
        """Grants what can be granted now: nested ones first, each kind in the order of arrival."""
        freed: list[Model] = []
        waiting = [one for one in self.alive if not one.granted]
        for one in sorted(waiting, key=lambda one: (not one.ancestors, one.arrival)):
            before = [other for other in self.alive if other.granted or (not one.ancestors and self.came(other, one))]
            if not any(self.is_in_the_way(other, one) for other in before):
                one.granted = True
                freed.append(one)
        return freed

    @staticmethod
    def is_in_the_way(other: Model, one: Model) -> bool:
        """Who holds it or, brief or not, came before and waits."""
        return one.excludes(other) if other.granted else one.wants_the_same(other)

    @staticmethod
    def came(other: Model, one: Model) -> bool:
        return other.arrival < one.arrival

    @invariant()
    def nobody_holds_what_another_writes(self) -> None:
        holding = [one for one in self.alive if one.real.granted]
        assert holding == [one for one in self.alive if one.granted]
        assert not any(one.excludes(other) for one in holding for other in holding if one is not other)
        assert self.queue.idle is not bool(self.alive)

    def teardown(self) -> None:
        while self.alive:
            done = [
                one for one in self.alive if one.granted and not any(one in other.ancestors for other in self.alive)
            ]
            assert done, "nobody can leave, and nobody is granted"
            self.leave(done[0])
        assert self.queue.idle


Queue.TestCase.settings = settings(max_examples=40, stateful_step_count=25, derandomize=True, deadline=None)


class TestQueue(Queue.TestCase):
    """Whatever comes, in whatever order."""


def test_the_order_of_variables_in_a_set_decides_nothing() -> None:
    def granted(names: Iterable[str]) -> list[str]:
        with ag.Graph():
            variables = {name: ag.variable(0.0) for name in names}
        queue = LockQueue()
        holds = LockRequest((), variables.values(), never)
        waiting = {one: LockRequest((), [variables[one]], never) for one in "dbca"}
        queue.enter(holds)
        for one in waiting.values():
            queue.enter(one)
        order = {one: name for name, one in waiting.items()}
        return [order[one] for one in queue.leave(holds)]

    assert granted("abcd") == granted("dcab") == ["d", "b", "c", "a"]
