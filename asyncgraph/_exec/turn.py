"""The inline budget: how long kernels may hold the loop, in each of its turns, over all runs.

Work that finds the budget spent waits for the next turn, in order of arrival. So the loop gets to its
timers, its I/O and everybody else at least once a budget, however many cheap runs are started together.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, final

Slice = Callable[[], bool]
"""A part of some inline work; whether there is more of it. Never raises."""


@final
class Turn:
    """One turn of the loop after the other.

    Fields:
        spent_s: seconds of inline work in this turn.
        budget_s: seconds of it that a turn may have.
        _waiting: work for the next turns.
        _marked: whether the loop will tell us when the next turn begins.
    """

    __slots__ = ("_loop", "_marked", "_waiting", "budget_s", "spent_s")

    def __init__(self, loop: AbstractEventLoop, budget_s: float) -> None:
        self.budget_s: Final = budget_s
        self.spent_s = 0.0
        self._loop: Final = loop
        self._waiting: Final[deque[Slice]] = deque()
        self._marked = False

    def create_future(self) -> Future[Any]:
        """A future of the loop."""
        return self._loop.create_future()

    @property
    def waiting(self) -> int:
        """How much work waits for its turn."""
        return len(self._waiting)

    @property
    def has_time(self) -> bool:
        """Whether inline work may be done now, without overtaking what waits."""
        return self.spent_s < self.budget_s and not self._waiting

    def charge(self, seconds: float) -> None:
        """Counts inline work that was done in this turn."""
        self.spent_s += seconds
        if not self._marked:
            self._marked = True
            self._loop.call_soon(self._begin)

    def wait(self, work: Slice) -> None:
        """Has work done in the next turns, a slice at a time, until it says that there is no more."""
        self._waiting.append(work)
        if not self._marked:
            self._marked = True
            self._loop.call_soon(self._begin)

    def do(self, work: Slice) -> None:
        """Has work done now, as far as the budget goes, and the rest in the next turns."""
        if self.spent_s >= self.budget_s or self._waiting:
            self.wait(work)
            return
        self._slices(work)

    def _slices(self, work: Slice) -> None:
        start = perf_counter()
        while True:
            more = work()
            now = perf_counter()
            self.charge(now - start)
            start = now
            if not more:
                return
            if self.spent_s >= self.budget_s:
                self._waiting.append(work)
                return

    def _begin(self) -> None:
        self._marked = False
        self.spent_s = 0.0
        waiting = self._waiting
        while waiting and self.spent_s < self.budget_s:
            self._slices(waiting.popleft())
        if waiting and not self._marked:
            self._marked = True
            self._loop.call_soon(self._begin)
