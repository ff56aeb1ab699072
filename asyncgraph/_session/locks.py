"""Who may read and write which variables, in the order of arrival. Sans-I/O: no threads, no loop, no clock.

A run that assigns asks once, for all that it may write and read, and holds it until its end. So runs that assign
are as if they had run one after the other, in the order of their ends. Whoever asks waits for those who came
before and want the same, and holds nothing while it waits: so there is no deadlock, whatever the sets are.

A nested run is waited for by runs that hold something: its ancestors. It does not wait for those who wait, since
they may wait for its ancestors; and if what it would wait for waits, in the end, for an ancestor, it is refused.
Those who come later and are not nested wait for it as for anybody else, or it might wait for ever.

A brief run is computed and committed in one go, on the one loop of its session. So brief runs that want the same may
hold it at once: they go on together when their turn has come, and a line of them is done as fast as if nobody waited.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import count, takewhile
from typing import Final, final

from .._graph.node import Node
from ..errors import StateConflictError

_NONE: Final[frozenset[Node]] = frozenset()


@final
class LockRequest:
    """What one run asks for.

    Fields:
        writes: what it may write, and no other run may read or write meanwhile: variables; and the initial values of
            those that get their first value, which nobody else computes meanwhile.
        reads: the variables that it may read besides, and no other run may write meanwhile.
            Neither holds between two that are brief.
        ancestors: the requests of the runs that wait for it, as far as these hold anything.
        blocks: whether a node of another run waits for it, and may keep a thread from everybody else meanwhile.
        brief: whether it is done in one go, and not nested.
        on_grant: called when it no longer waits, by who has let go of what it waited for; `None` when nobody need be.
        granted: whether it holds what it asks for.
        arrival: its number among those that had to look at others.
    """

    __slots__ = ("ancestors", "arrival", "blocks", "brief", "granted", "on_grant", "reads", "writes")

    def __init__(
        self,
        reads: Collection[Node],
        writes: Collection[Node],
        on_grant: Callable[[], None],
        ancestors: tuple[LockRequest, ...] = (),
        blocks: bool = False,
        brief: bool = False,
    ) -> None:
        self.writes: Final = frozenset(writes)
        self.reads: Final = frozenset(reads).difference(self.writes) if reads else _NONE
        self.ancestors: Final = ancestors
        self.blocks: Final = blocks
        self.brief: Final = brief
        self.on_grant: Callable[[], None] | None = on_grant
        self.granted = False
        self.arrival = 0

    def excludes(self, other: LockRequest) -> bool:
        """Whether they cannot both hold what they ask for, unless both are brief."""
        return not (
            self.writes.isdisjoint(other.writes)
            and self.writes.isdisjoint(other.reads)
            and self.reads.isdisjoint(other.writes)
        )


_Requests = OrderedDict[LockRequest, None]
"""In the order of arrival. A dict would look at all places that have become free to find its first."""


@final
class LockQueue:
    """Who holds what, and who waits. Not thread-safe.

    What a request costs does not depend on how many others there are, as far as these are not nested.

    Fields:
        idle: whether nobody holds anything, nor waits.
        _alone: the only request there is, which stands in no table: so it is, mostly.
        _held: for each variable, those who hold it and are not brief: any number that read it, or one that writes it.
        _held_briefly: the same of those who are brief: any number.
        _written_briefly: how many of these write it.
        _waiting: for each variable, those who wait, for it or for another, and are not nested.
        _writers: of these, those that write it.
        _nested: those who wait and are nested.
        _blocking: those who wait and block.
        _arrivals: numbers them all.
    """

    def __init__(self) -> None:
        self.idle = True
        self._alone: LockRequest | None = None
        self._held: Final[dict[Node, _Requests]] = {}
        self._held_briefly: Final[dict[Node, _Requests]] = {}
        self._written_briefly: Final[dict[Node, int]] = {}
        self._waiting: Final[dict[Node, _Requests]] = {}
        self._writers: Final[dict[Node, _Requests]] = {}
        self._nested: Final = _Requests()
        self._blocking: Final = _Requests()
        self._arrivals: Final = count(1)

    @property
    def blocks(self) -> bool:
        """Whether somebody waits who blocks."""
        return bool(self._blocking)

    def enter(self, request: LockRequest, waits: bool = True) -> bool:
        """Takes a request in; whether it is granted at once. If it is not, and does not wait, nothing has changed.

        Raises:
            StateConflictError: a nested run would wait for a run that waits for it. Nothing has changed.
        """
        if self.idle:
            self.idle = False
            self._alone = request
            request.granted = True
            return True
        alone = self._alone
        if alone is not None:
            self._hold(alone)
            self._alone = None
        request.arrival = next(self._arrivals)
        if self._may_hold(request):
            self._hold(request)
            return True
        if not waits:
            return False
        if request.ancestors:
            self._refuse_deadlock(request)
            self._nested[request] = None
        else:
            _add(self._waiting, request, (*request.writes, *request.reads))
            _add(self._writers, request, request.writes)
        if request.blocks:
            self._blocking[request] = None
        return False

    def leave(self, request: LockRequest) -> list[LockRequest]:
        """Lets go of what a request holds, or of its place among those who wait.

        Gives those who now wait no longer, in the order in which they came, nested ones first.
        """
        if self._alone is request:
            self._alone = None
            self.idle = True
            return []
        if request.granted:
            self._let_go(request)
        else:
            self._stop_waiting(request)
        nested = [one for one in self._nested if self._may_hold(one) and self._hold(one)]
        for one in nested:
            self._stop_waiting(one)
        freed: list[LockRequest] = []
        heads = self._to_look_at([request])
        if request.granted and request.brief:
            # Those who are brief did not wait for it, and the others wait until nobody is left.
            heads = [one for one in heads if one not in self._written_briefly]
        while heads:
            first: list[LockRequest] = []
            for variable in heads:
                first += self._grant_head(variable)
            freed += first
            # Who is brief waited for those of them that are brief, too, but does so no longer.
            heads = self._to_look_at([one for one in first if one.brief])
        self.idle = not (self._held or self._held_briefly or self._waiting or self._nested)
        return nested + sorted(freed, key=_arrival)

    def _to_look_at(self, left: list[LockRequest]) -> Collection[Node]:
        """The variables whose heads may be granted, now that some have left, or wait no longer."""
        found: dict[Node, None] = {}
        for request in left:
            found.update(dict.fromkeys(request.writes))
            for variable in request.reads:
                # Others who read it do not wait for it.
                if next(iter(self._waiting.get(variable, ())), None) in self._writers.get(variable, ()):
                    found[variable] = None
        return found

    def _grant_head(self, variable: Node) -> list[LockRequest]:
        """Grants those who stand first in the queue for a variable, as far as they wait for nothing else."""
        freed: list[LockRequest] = []
        while True:
            one = next(iter(self._waiting.get(variable, ())), None)
            if one is None:
                return freed
            if not self._may_hold(one):
                break
            self._grant(one)
            freed.append(one)
        if variable not in one.writes:
            # It waits for another variable. Who reads this one, too, does not wait for it.
            for other in list(takewhile(lambda other: variable not in other.writes, self._waiting[variable])):
                if self._may_hold(other):
                    self._grant(other)
                    freed.append(other)
        return freed

    def _grant(self, request: LockRequest) -> None:
        self._stop_waiting(request)
        self._hold(request)

    def _may_hold(self, request: LockRequest) -> bool:
        """Whether nobody is in its way: who holds what it asks for, or, if it is not nested, came before and waits."""
        if next(self._holders_against(request), None) is not None:
            return False
        if request.ancestors:
            return True
        for variable in request.writes:
            if next(iter(self._waiting.get(variable, ())), request).arrival < request.arrival:
                return False
        for variable in request.reads:
            if next(iter(self._writers.get(variable, ())), request).arrival < request.arrival:
                return False
        return not any(one.arrival < request.arrival and one.excludes(request) for one in self._nested)

    def _holders_against(self, request: LockRequest) -> Iterator[LockRequest]:
        for variable in request.writes:
            yield from self._held.get(variable, ())
        for variable in request.reads:
            for one in self._held.get(variable, ()):
                if variable not in one.writes:
                    break  # Then nobody writes it.
                yield one
        if not request.brief:
            for variable in request.writes:
                yield from self._held_briefly.get(variable, ())
            for variable in request.reads:
                if variable in self._written_briefly:
                    for one in self._held_briefly[variable]:
                        if variable in one.writes:
                            yield one

    def _hold(self, request: LockRequest) -> bool:
        request.granted = True
        if not request.brief:
            _add(self._held, request, (*request.writes, *request.reads))
            return True
        _add(self._held_briefly, request, (*request.writes, *request.reads))
        for variable in request.writes:
            self._written_briefly[variable] = self._written_briefly.get(variable, 0) + 1
        return True

    def _let_go(self, request: LockRequest) -> None:
        if not request.brief:
            _remove(self._held, request)
            return
        _remove(self._held_briefly, request)
        for variable in request.writes:
            self._written_briefly[variable] -= 1
            if not self._written_briefly[variable]:
                del self._written_briefly[variable]

    def _stop_waiting(self, request: LockRequest) -> None:
        self._blocking.pop(request, None)
        if request in self._nested:
            del self._nested[request]
        else:
            _remove(self._waiting, request)
            _remove(self._writers, request)

    def _refuse_deadlock(self, request: LockRequest) -> None:
        """Follows who waits for whom, from those in the way of a nested request."""
        seen: set[LockRequest] = set()
        todo = list(self._holders_against(request))
        while todo:
            one = todo.pop()
            if one in request.ancestors:
                raise StateConflictError(_refusal(request, one))
            if one not in seen:
                seen.add(one)
                for waiting in self._nested:
                    if one in waiting.ancestors:
                        todo += self._holders_against(waiting)


def _arrival(request: LockRequest) -> int:
    return request.arrival


def _add(table: dict[Node, _Requests], request: LockRequest, variables: Iterable[Node]) -> None:
    for variable in variables:
        table.setdefault(variable, _Requests())[request] = None


def _remove(table: dict[Node, _Requests], request: LockRequest) -> None:
    for variable in (*request.writes, *request.reads):
        requests = table.get(variable)
        if requests is not None and request in requests:
            del requests[request]
            if not requests:
                del table[variable]


def _refusal(request: LockRequest, ancestor: LockRequest) -> str:
    both = (request.writes & (ancestor.writes | ancestor.reads)) | (request.reads & ancestor.writes)
    names = ", ".join(sorted([repr(one.name) for one in both or request.writes]))
    why = "which a run that waits for it reads or assigns" if both else "for which runs wait that wait for each other"
    return (
        f"a nested run would assign {names}, {why}: none would ever end\n"
        "  give the value back to the outer run, and assign it there"
    )
