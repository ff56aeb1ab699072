"""What a session may be told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """How a session runs things. Every field has a default that serves.

    Fields:
        device: where nodes run that ask for no device.
        soft_placement: a node that asks for a device which there is not runs on `device` instead, and
            the log says why, once; otherwise it is a `DeviceNotFoundError`.
        max_concurrent_runs: how many runs execute at once; more wait, first come, first served.
        max_pending_runs: how many wait; beyond, `SessionOverloadedError` at once.
        inline_budget_s: seconds of each turn of the event loop that kernels may take, over all runs.
        workers: threads for kernels; `None` is one for each core that this process may use.
        worker_niceness: how far the priority of these threads is below the loop's, on Linux, so that the
            loop is woken in time while all cores compute; 0 for none.
        threads: threads for sync user ops, at most.
        blas_threads: threads that one matrix product may use, in the whole process while the session is
            open; `None` leaves the process as it is. Never chosen by load: NumPy rounds by it.
        plan_cache_size: plans that are kept; the oldest go first.
    """

    device: str = "cpu:0"
    soft_placement: bool = True
    max_concurrent_runs: int = 10_000
    max_pending_runs: int = 10_000
    inline_budget_s: float = 500e-6
    workers: int | None = None
    worker_niceness: int = 10
    threads: int = 40
    blas_threads: int | None = 1
    plan_cache_size: int = 512

    def __post_init__(self) -> None:
        for name in ("max_concurrent_runs", "threads", "plan_cache_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: give at least 1")
        for name in ("max_pending_runs", "inline_budget_s", "worker_niceness"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}={getattr(self, name)!r} cannot be negative")
        for name in ("workers", "blas_threads"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r}: give at least 1, or None")

    @property
    def worker_count(self) -> int:
        """How many threads there are for kernels."""
        if self.workers is not None:
            return self.workers
        # Not on all systems is the number of cores known that this process is bound to.
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
