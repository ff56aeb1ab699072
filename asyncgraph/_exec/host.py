"""What a run needs of where it runs: a loop, its inline budget, and two pools of threads."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Semaphore
from typing import Final, final

from .mailbox import Mailbox
from .turn import Turn
from .workers import Pool, make_pool


@final
class Host:
    """A session's loop, and what runs beside it.

    Fields:
        loop: everything that is not said to be called by other threads is called on it.
        mailbox: how other threads reach it.
        turn: how much inline work it may still do in this turn.
        kernels: threads for kernels, one a core.
        calls: threads for user ops.
        cores: held by any of these threads while it runs a kernel that is not cheap; as many as workers.
        counters: what has happened, for `statistics()`.
        abandoned: calls that no run waits for any more, with the name of their node.
        errands: what is done in threads besides runs, with what it is called.
    """

    def __init__(
        self, loop: AbstractEventLoop, inline_budget_s: float, workers: int, threads: int, worker_niceness: int = 0
    ) -> None:
        self.loop: Final = loop
        self.mailbox: Final = Mailbox(loop)
        self.turn: Final = Turn(loop, inline_budget_s)
        self.kernels: Final[Pool] = make_pool("worker", workers, worker_niceness)
        self.calls: Final[Pool] = make_pool("op", threads)
        self.cores: Final = Semaphore(workers)
        self.counters: Final = Counters()
        self.abandoned: Final[dict[object, str]] = {}
        self.errands: Final[dict[object, str]] = {}
        self._waiters: Final[list[asyncio.Future[None]]] = []

    def abandon(self, call: object, name: str) -> None:
        """Notes that nobody waits for a call any more. On the loop."""
        self.abandoned[call] = name

    def returned(self, call: object) -> None:
        """Notes that an abandoned call has returned. On the loop."""
        self.abandoned.pop(call, None)
        self._tell_waiters()

    @contextmanager
    def errand(self, name: str) -> Generator[None]:
        """While the caller is in it, closing waits for it, and calls it `name`. On the loop."""
        key = object()
        self.errands[key] = name
        try:
            yield
        finally:
            del self.errands[key]
            self._tell_waiters()

    @property
    def is_busy(self) -> bool:
        """Whether there is something to be waited for that is no run."""
        return bool(self.abandoned or self.errands)

    async def wait_until_idle(self) -> None:
        """Waits until every abandoned call has returned, and no errand is left."""
        while self.is_busy:
            waiter = self.loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _tell_waiters(self) -> None:
        if self._waiters and not self.is_busy:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()


@final
@dataclass(slots=True)
class Counters:
    """What has happened, so far. Changed on the loop alone: a run counts for itself, and reports when it ends."""

    inline_segments: int = 0
    offloaded_segments: int = 0
    submitted_segments: int = 0
    user_calls: int = 0

    def add(self, other: Counters) -> None:
        """Counts what a run has counted."""
        self.inline_segments += other.inline_segments
        self.offloaded_segments += other.offloaded_segments
        self.submitted_segments += other.submitted_segments
        self.user_calls += other.user_calls
