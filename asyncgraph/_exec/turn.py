"""The inline budget: how long kernels may hold the loop, in each of its turns, over all runs.

Work that finds the budget spent waits for the next turn, in order of arrival. So the loop gets to its
timers, its I/O and everybody else at least once a budget, however many cheap runs are started together.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from time import perf_counter
from types import coroutine
from typing import Any, Final, final

Slice = Callable[[], bool]
"""A part of some inline work; whether there is more of it. Never raises."""


@final
class Turn:
    """One turn of the loop after the other.

    Fields:
        spent_s: seconds of inline work in this turn.
        budget_s: seconds of it that a turn may have; at least one slice is done in each, whatever it takes.
        _waiting: work for the next turns.
        _following: work that the slice being done has asked for; `None` while none is being done.
        _next: whether there is somebody who has yielded to the loop, and goes on when the next turn has begun.
        _told: how many have been told that their turn has come, and have not gone on yet.
        _marked: whether the loop will tell us when the next turn begins.
    """

    __slots__ = ("_following", "_loop", "_marked", "_next", "_told", "_waiting", "budget_s", "spent_s")

    def __init__(self, loop: AbstractEventLoop, budget_s: float) -> None:
        self.budget_s: Final = budget_s
        self.spent_s = 0.0
        self._loop: Final = loop
        self._waiting: Final[deque[Slice]] = deque()
        self._following: deque[Slice] | None = None
        self._next = False
        self._told = 0
        self._marked = False

    def create_future(self) -> Future[Any]:
        """A future of the loop."""
        return self._loop.create_future()

    @property
    def waiting(self) -> int:
        """How much work waits for its turn."""
        return len(self._waiting)

    @property
    def left_s(self) -> float:
        """Seconds of inline work that this turn still has."""
        return self.budget_s - self.spent_s

    @property
    def has_time(self) -> bool:
        """Whether inline work may be done now, without overtaking what waits."""
        return self.spent_s < self.budget_s and not (self._waiting or self._next or self._told)

    def charge(self, seconds: float) -> None:
        """Counts inline work that was done in this turn."""
        self.spent_s += seconds
        if not self._marked:
            self._mark()

    def wait(self, work: Slice) -> None:
        """Has work done in the next turns, a slice at a time, until it says that there is no more."""
        self._waiting.append(work)
        self._mark()

    @coroutine
    def comes(self, seconds: Callable[[], float]) -> Generator[Any]:
        """Waits until a turn has time for work, and counts the `seconds` that it takes. Who awaits this does it then.

        What it takes is asked for when its turn has come.
        """
        if self._waiting or self._next or self._told:
            come = self.create_future()
            self.line_up(come, seconds)
            yield from self.told(come).__await__()
            return
        # Who is next needs no future: the loop begins the next turn, and then goes on with whoever has yielded to it.
        self._next = True
        self._mark()
        try:
            yield
        finally:
            self._next = False
        self.charge(seconds())

    def line_up(self, come: Future[Any], seconds: Callable[[], float]) -> None:
        """As `comes`, of who awaits `told`, and may do so before this is called: it has its place from now on."""
        self.wait(partial(self._tell, come, seconds))

    async def told(self, come: Future[Any]) -> None:
        """Waits until a turn has come for who has lined up, or is to do so."""
        try:
            await come
        finally:
            if not come.done():
                come.cancel()  # Who awaited it was closed.
            elif not come.cancelled() and come.exception() is None:
                self._told -= 1

    def _tell(self, come: Future[Any], seconds: Callable[[], float]) -> bool:
        if not come.done():
            self.charge(seconds())
            self._told += 1
            come.set_result(None)
        return False

    def do(self, work: Slice) -> None:
        """Has work done now, as far as the budget goes, and the rest in the next turns.

        What a slice asks for is done after it, never inside it: work that leads to more, and that to more,
        needs no recursion.
        """
        if self._following is not None:
            self._following.append(work)
        elif self.has_time:
            self._following = deque((work,))
            del work  # What it calls may fail, and what fails there keeps the frames that called it.
            self._spend()
        else:
            self.wait(work)

    def _spend(self) -> None:
        """Does at least one slice of the work at hand, and goes on, also with what it leads to, while there is time."""
        following = self._following
        assert following is not None
        work: Slice | None = None
        try:
            start = perf_counter()
            while following:
                work = following.popleft()
                if work():
                    following.append(work)
                now = perf_counter()
                self.charge(now - start)
                start = now
                if self.spent_s >= self.budget_s:
                    break
        finally:
            del work
            self._following = None
            if following:
                self._waiting.extend(following)
                self._mark()

    def _mark(self) -> None:
        if not self._marked:
            self._marked = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._marked = False
        self.spent_s = 0.0
        # What comes to wait from now on waits for the next turn: this one has an end, budget or not.
        for _ in range(0 if self._next else len(self._waiting)):
            self._following = deque((self._waiting.popleft(),))
            self._spend()
            if self.spent_s >= self.budget_s:
                break
        if self._waiting:
            self._mark()
