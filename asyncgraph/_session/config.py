"""What a session may be told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Final, final

_LEAST: Final = {
    "max_concurrent_runs": 1,
    "max_pending_runs": 0,
    "workers": 1,
    "worker_niceness": 0,
    "threads": 1,
    "blas_threads": 1,
    "plan_cache_size": 1,
    "seed": 0,
}
_MAY_BE_NONE: Final = ("workers", "blas_threads", "seed")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """How a session runs things. Every field has a default that serves.

    Fields:
        device: where nodes run that ask for no device.
        soft_placement: a node that asks for a device which there is not runs on `device` instead, and
            the log says why, once; otherwise it is a `DeviceNotFoundError`, as it always is for a GPU if the
            environment variable `ASYNCGRAPH_REQUIRE_GPU` is set to 1.
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
        seed: what random numbers are drawn from, together with the number of the run: with the same seed, the same
            runs, one after the other in the same order, draw the same numbers; and variables begin with the same,
            whichever run needs them first. `None` is another seed for each session, but for ops that have a seed of
            their own.

    Raises:
        ValueError: a number is none, or too small.
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
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value: object = getattr(self, name)
            may_be_none = name in _MAY_BE_NONE
            if (value is None and may_be_none) or (isinstance(value, Integral) and int(value) >= least):
                continue
            raise ValueError(f"{name}={value!r}: give an int of at least {least}{', or None' * may_be_none}")
        if not (isinstance(self.inline_budget_s, Real) and self.inline_budget_s >= 0):
            raise ValueError(f"inline_budget_s={self.inline_budget_s!r}: give seconds, at least 0")

    @property
    def worker_count(self) -> int:
        """How many threads there are for kernels."""
        if self.workers is not None:
            return self.workers
        # Not on all systems is the number of cores known that this process is bound to.
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
