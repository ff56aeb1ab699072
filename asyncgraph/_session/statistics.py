"""What a session has done and holds, at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from .._exec.host import Host
from .engine import Engine
from .inflight import RunsInFlight


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
        errands: what is done in threads besides runs, such as the writing of a checkpoint.
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
    errands: tuple[str, ...]


def statistics_of(engine: Engine, runs: RunsInFlight, host: Host | None) -> SessionStatistics:
    """Those of the session that has these; without a host, of one that is not open yet."""
    counters = None if host is None else host.counters
    executing, waiting = runs.counts()
    return SessionStatistics(
        runs_started=runs.started,
        runs_ended=runs.ended,
        runs_executing=executing,
        runs_waiting=waiting,
        plans=engine.plan_count,
        inline_segments=0 if counters is None else counters.inline_segments,
        offloaded_segments=0 if counters is None else counters.offloaded_segments,
        submitted_segments=0 if counters is None else counters.submitted_segments,
        user_calls=0 if counters is None else counters.user_calls,
        worker_threads=0 if host is None else host.kernels.threads,
        op_threads=0 if host is None else host.calls.threads,
        abandoned=() if host is None else tuple(host.abandoned.values()),
        errands=() if host is None else tuple(host.errands.values()),
    )
