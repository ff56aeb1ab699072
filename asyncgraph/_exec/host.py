"""What a run needs of where it runs: a loop, its inline budget, and two pools of threads."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
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
        abandoned: calls that no run waits for any more, by the name of their node.
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
        self._drained: list[asyncio.Future[None]] = []

    def abandon(self, call: object, name: str) -> None:
        """Notes that nobody waits for a call any more. On the loop."""
        self.abandoned[call] = name

    def returned(self, call: object) -> None:
        """Notes that an abandoned call has returned. On the loop."""
        self.abandoned.pop(call, None)
        if not self.abandoned:
            for waiter in self._drained:
                if not waiter.done():
                    waiter.set_result(None)
            self._drained.clear()

    async def wait_for_abandoned(self) -> None:
        """Waits until every abandoned call has returned."""
        while self.abandoned:
            waiter = self.loop.create_future()
            self._drained.append(waiter)
            await waiter


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
