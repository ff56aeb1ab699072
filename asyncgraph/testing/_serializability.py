"""Whether what runs have seen and committed could have come of running one after the other.

A history says of each run which versions it has read and which it has committed. Every version has a value of its own,
so that who reads one says whose it is. One run comes before another

    if the other has read what it committed,
    if it has read a version, and the other has committed the next one of that variable,
    if it has committed a version, and the other the next one,
    if it had ended before the other was asked for, or the program says so.

The history is serializable if that is no ring. Who has read a version and committed another has committed the next one:
so the versions of a variable are chains. Which chain follows which is not known where somebody has assigned without
reading. Mostly it is the order in which they ended; if that leads to a ring, all orders of the runs are tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, final

Version = float
_NONE: Final[Mapping[str, Version]] = {}


@final
@dataclass(frozen=True, slots=True, eq=False)
class Transaction:
    """One run that has committed what it assigned, or assigned nothing.

    Fields:
        name: what messages call it.
        reads: of the variables that it has read, the versions.
        writes: of those that it has assigned, the versions that it has committed.
        asked: the moment from which on it has seen at least what had ended by then.
        ended: when somebody knew that it had ended.
        after: others that come before it, as the program says.
        is_first: whether it gives variables their first values, before whatever is assigned to them.
    """

    name: str
    reads: Mapping[str, Version] = field(default_factory=lambda: _NONE)
    writes: Mapping[str, Version] = field(default_factory=lambda: _NONE)
    asked: float = float("-inf")
    ended: float = float("inf")
    after: tuple[Transaction, ...] = ()
    is_first: bool = False


_Edges = dict[Transaction, dict[Transaction, str]]
"""For each run, those that come after it, and why."""
_Writers = dict[tuple[str, Version], Transaction | None]
"""Who has committed each version; `None` for first values that nobody has computed."""


def check_serializable(history: Sequence[Transaction], first: Mapping[str, Version]) -> None:
    """Raises if the runs of a history cannot have run one after the other.

    Args:
        history: all runs that have ended well.
        first: the values that variables had at first. Of others nobody has read any such value.

    Raises:
        AssertionError: they cannot. The message says what one of them has seen.
    """
    writers: _Writers = dict.fromkeys(first.items())
    for one in history:
        for variable, version in one.writes.items():
            assert (variable, version) not in writers, f"{variable} = {version:.0f} was committed twice"
            writers[variable, version] = one
    for one in history:
        for variable, version in one.reads.items():
            assert (variable, version) in writers, (
                f"{one.name} has read {variable} = {version:.0f}, which nobody has committed"
            )
    edges: _Edges = {one: {} for one in history}
    for one in history:
        for other in history:
            if one.ended < other.asked:
                edges[one][other] = "had ended before"
        for other in one.after:
            edges[other][one] = "comes first for"
    known = {one: dict(after) for one, after in edges.items()}
    for variable in sorted({variable for variable, _ in writers}):
        _add_versions(edges, variable, _likeliest(variable, history, writers, first), history)
    ring = _ring(edges)
    assert not ring or _some_order(known, first), ring


def _likeliest(
    variable: str, history: Sequence[Transaction], writers: _Writers, first: Mapping[str, Version]
) -> list[tuple[Transaction | None, Version]]:
    """The versions of a variable, and who has committed them: chains, in the order in which their first runs ended."""
    following: dict[Transaction | None, Transaction] = {}
    heads: list[Transaction | None] = [None] if variable in first else []
    for one in sorted(history, key=lambda one: (not one.is_first, one.ended)):
        if variable in one.writes and variable in one.reads:
            writer = writers[variable, one.reads[variable]]
            assert writer not in following, (
                f"an update is lost: {one.name} and {following[writer].name} have both read "
                f"{variable} = {one.reads[variable]:.0f}, and committed another value"
            )
            following[writer] = one
        elif variable in one.writes:
            heads.append(one)
    versions: list[tuple[Transaction | None, Version]] = []
    for head in heads:
        one = head
        while True:
            versions.append((one, first[variable] if one is None else one.writes[variable]))
            if one not in following:
                break
            one = following.pop(one)
    assert not following, f"{[one.name for one in following.values()]} have read {variable} in a ring"
    return versions


def _add_versions(
    edges: _Edges,
    variable: str,
    versions: Sequence[tuple[Transaction | None, Version]],
    history: Sequence[Transaction],
) -> None:
    """Adds what follows from the versions of a variable, in their order."""
    readers: dict[Version, list[Transaction]] = {}
    for one in history:
        if variable in one.reads:
            readers.setdefault(one.reads[variable], []).append(one)
    for (writer, version), (following, _) in pairwise([*versions, (None, 0.0)]):
        for reader in readers.get(version, ()):
            if writer is not None and reader is not writer:
                edges[writer].setdefault(reader, f"has committed the {variable} that was read by")
            if following is not None and reader is not following:
                edges[reader].setdefault(following, f"has read {variable} as it was before it was assigned by")
        if writer is not None and following is not None:
            edges[writer].setdefault(following, f"has assigned {variable} before")


def _ring(edges: _Edges) -> str:
    """Some that come before each other, and why; nothing, if there are none."""
    done: set[Transaction] = set()
    for start in edges:
        if start in done:
            continue
        path, on_path, todo = [start], {start}, [iter(edges[start])]
        while path:
            following = next(todo[-1], None)
            if following is None:
                todo.pop()
                last = path.pop()
                on_path.remove(last)
                done.add(last)
            elif following in on_path:
                ring = [*path[path.index(following) :], following]
                told = [f"  {one.name} {edges[one][other]} {other.name}" for one, other in pairwise(ring)]
                return "\n".join(["no order of the runs gives what they have seen:", *told])
            elif following not in done:
                path.append(following)
                on_path.add(following)
                todo.append(iter(edges[following]))
    return ""


def _some_order(edges: _Edges, first: Mapping[str, Version]) -> bool:
    """Whether the runs can have run one after the other, in an order that `edges` allow. Tries all."""
    before = {one: {other for other in edges if one in edges[other]} for one in edges}
    seen: set[tuple[frozenset[Transaction], tuple[tuple[str, Version], ...]]] = set()
    todo: list[tuple[frozenset[Transaction], Mapping[str, Version]]] = [(frozenset(), first)]
    while todo:
        done, held = todo.pop()
        if len(done) == len(edges):
            return True
        next_ones = [one for one in edges if one not in done and before[one] <= done and _may_run(one, held)]
        # Who only reads may as well do so now: nobody has to wait for anything but that.
        for one in next(([one] for one in next_ones if not one.writes), next_ones):
            state = done | {one}, {**held, **one.writes}
            key = state[0], tuple(sorted(state[1].items()))
            if key not in seen:
                seen.add(key)
                todo.append(state)
    return False


def _may_run(one: Transaction, held: Mapping[str, Version]) -> bool:
    """Whether it sees what it has seen, if it runs when that is held."""
    if one.is_first and not held.keys().isdisjoint(one.writes):
        return False
    return all(held.get(variable) == version for variable, version in one.reads.items())
