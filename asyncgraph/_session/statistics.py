"""What a session has done and holds, at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """What a session has done and holds, at one moment.

    Fields:
        runs_started, runs_ended: since it was opened, however they ended.
        runs_executing, runs_waiting: now. Runs that finish where they are called are in neither.
        plans: compiled plans that are kept.
        inline_segments, offloaded_segments: segments of kernels that ran on the loop, and on workers.
        submitted_segments: those that devices of asynchronous backends have done.
        user_calls: calls of user ops that returned.
        worker_threads, op_threads: threads that are alive.
        abandoned: the nodes whose calls no run waits for, and that have not returned.
    """

    runs_started: int
    runs_ended: int
    runs_executing: int
    runs_waiting: int
    plans: int
    inline_segments: int
    offloaded_segments: int
    submitted_segments: int
    user_calls: int
    worker_threads: int
    op_threads: int
    abandoned: tuple[str, ...]
