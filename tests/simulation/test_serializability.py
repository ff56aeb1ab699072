"""The checker of histories finds what is wrong with those that are, and nothing wrong with the others."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncgraph.testing._serializability import Transaction, check_serializable

FIRST = {"x": 0.0, "y": 0.0}
T = Transaction

w_x = T("w_x", writes={"x": 1})
w_both = T("w_both", writes={"x": 1, "y": 1})

SERIALIZABLE: dict[str, list[Transaction]] = {
    "nothing": [],
    "one after the other": [T("a", {"x": 0}, {"x": 1}), T("b", {"x": 1}, {"x": 2}), T("c", {"x": 2, "y": 0})],
    "a snapshot of before": [w_both, T("r", {"x": 0, "y": 0})],
    "a snapshot of after": [w_both, T("r", {"x": 1, "y": 1})],
    "two who assign without reading": [w_both, T("v", writes={"x": 2, "y": 2}), T("r", {"x": 2, "y": 2})],
    "the same, read in the other order": [w_both, T("v", writes={"x": 2, "y": 2}), T("r", {"x": 1, "y": 1})],
    "what looks like write skew, and is none": [T("a", {"x": 0}, {"y": 1}), T("b", {"x": 0}, {"x": 2})],
    "reads of what was replaced at the same time": [
        T("a", {"x": 0}, {"x": 1}, asked=0, ended=9),
        T("r", {"x": 0}, asked=1, ended=8),
        T("s", {"x": 1}, asked=2, ended=7),
    ],
    "an old version, for who was asked for early": [
        T("a", writes={"x": 1}, asked=0, ended=1),
        T("r", {"x": 0}, asked=0.5, ended=3),
    ],
    "a first value of another's, which is assigned later": [
        T("first", {"x": 0}, {"z": 5}, is_first=True),
        T("a", writes={"z": 7}),
        T("r", {"z": 5}),
        T("s", {"z": 7, "x": 0}),
    ],
}

WRONG: dict[str, tuple[list[Transaction], str]] = {
    "lost update": (
        [T("a", {"x": 0}, {"x": 1}), T("b", {"x": 0}, {"x": 2})],
        "an update is lost: b and a have both read x = 0, and committed another value",
    ),
    "dirty read": ([T("a", {"x": 5})], "a has read x = 5, which nobody has committed"),
    "write skew": (
        [T("a", {"x": 0, "y": 0}, {"x": 1}), T("b", {"x": 0, "y": 0}, {"y": 2})],
        "no order of the runs gives what they have seen:\n"
        "  a has read y as it was before it was assigned by b\n"
        "  b has read x as it was before it was assigned by a",
    ),
    "torn read": (
        [w_both, T("r", {"x": 1, "y": 0})],
        "no order of the runs gives what they have seen:\n"
        "  w_both has committed the x that was read by r\n"
        "  r has read y as it was before it was assigned by w_both",
    ),
    "torn read of what was assigned twice": (
        [w_both, T("v", {"x": 1}, {"x": 2, "y": 2}), T("r", {"x": 2, "y": 1})],
        "  v has committed the x that was read by r\n  r has read y as it was before it was assigned by v",
    ),
    "two snapshots of which each misses what the other has": (
        [w_x, T("w_y", writes={"y": 1}), T("r", {"x": 1, "y": 0}), T("s", {"x": 0, "y": 1})],
        "no order of the runs",
    ),
    "assignments of two that apply in two orders": (
        [w_both, T("v", writes={"x": 2, "y": 2}), T("r", {"x": 2, "y": 1}, asked=100)],
        "no order of the runs",
    ),
    "a value that was read after another had replaced it": (
        [T("a", writes={"x": 1}, asked=0, ended=1), T("r", {"x": 0}, asked=2, ended=3)],
        "  a had ended before r\n  r has read x as it was before it was assigned by a",
    ),
    "a run that does not see what the program has done before": (
        [one := T("a", writes={"x": 1}), T("r", {"x": 0}, after=(one,))],
        "  a comes first for r",
    ),
    "a read only run that gives others away": (
        [
            T("a", {"x": 0, "y": 0}, {"x": -11}, asked=0, ended=50),
            T("b", {"y": 0}, {"y": 20}, asked=1, ended=5),
            T("r", {"x": 0, "y": 20}, asked=10, ended=20),
        ],
        "no order of the runs",
    ),
    "one version twice": ([T("a", writes={"x": 1}), T("b", writes={"x": 1})], "x = 1 was committed twice"),
    "a first value that replaces what was assigned": (
        [
            T("first", {"x": 0}, {"z": 5}, is_first=True),
            T("a", writes={"z": 7}, asked=0, ended=1),
            T("r", {"z": 7}, asked=2, ended=3),
            T("s", {"z": 5}, asked=4, ended=5),
        ],
        "no order of the runs",
    ),
    "two who read what the other has committed": (
        [T("a", {"x": 2}, {"x": 1}), T("b", {"x": 1}, {"x": 2})],
        "have read x in a ring",
    ),
}


@pytest.mark.parametrize("history", SERIALIZABLE.values(), ids=list(SERIALIZABLE))
def test_a_history_that_has_an_order_is_right(history: list[Transaction]) -> None:
    check_serializable(history, FIRST)
    check_serializable(history[::-1], FIRST)


@pytest.mark.parametrize(("history", "told"), WRONG.values(), ids=list(WRONG))
def test_a_history_that_has_none_is_wrong_and_it_is_said_why(history: list[Transaction], told: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_serializable(history, FIRST)
    assert told in str(caught.value)


def executed(seed: int, count: int) -> list[Transaction]:
    """Runs one after the other, of which those that only read may read what was committed some time before."""
    random = Random(seed)
    states = [dict.fromkeys("xyz", 0.0)]
    history: list[Transaction] = []
    for number in range(1, count + 1):
        assigned = random.sample("xyz", random.choice((0, 0, 1, 1, 2, 3)))
        read = random.sample("xyz", random.randint(1, 3))
        asked = number - random.random() * 3
        seen = states[-1] if assigned else random.choice(states[max(0, int(asked)) :])
        writes = {name: 10.0 * number + place for place, name in enumerate(assigned)}
        reads = {name: seen[name] for name in read if random.random() < 0.7 or not assigned}
        history.append(Transaction(f"run {number}", reads, writes, asked, float(number)))
        states.append({**states[-1], **writes})
    return history


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 25))
def test_what_ran_one_after_the_other_is_right(seed: int, count: int) -> None:
    history = executed(seed, count)
    Random(seed).shuffle(history)
    check_serializable(history, dict.fromkeys("xyz", 0.0))


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(0, 10**6))
def test_a_version_that_is_read_when_it_is_over_is_found(seed: int) -> None:
    history = executed(seed, 12)
    last = {name: version for one in history for name, version in one.writes.items()}
    for name in last:
        stale = Transaction("stale", {**last, name: 0.0}, {}, asked=100.0, ended=101.0)
        with pytest.raises(AssertionError):
            check_serializable([*history, stale], dict.fromkeys("xyz", 0.0))
    check_serializable([*history, Transaction("right", last, {}, 100.0, 101.0)], dict.fromkeys("xyz", 0.0))
