"""How time is measured: on the host and until the device is done, and how late an event loop is."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, final

from ._rows import Row, figure
from ._subject import Subject

MICRO: Final = 1e6
MILLI: Final = 1e3


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    start = perf_counter()
    call()
    return perf_counter() - start


def median(sample: Callable[[], float], count: int = 7, warm_up: int = 2) -> float:
    """The median of `count` samples, after some that do not count."""
    for _ in range(warm_up):
        sample()
    return statistics.median(sample() for _ in range(count))


def per_call(subject: Subject, call: Callable[[], object], loops: int, samples: int = 5) -> tuple[float, float]:
    """Median seconds that a call takes of the host; and until the device is done, over `loops` calls in a row."""

    def sample() -> tuple[float, float]:
        subject.synchronize()
        start = perf_counter()
        for _ in range(loops):
            call()
        submitted = perf_counter()
        subject.synchronize()
        return (submitted - start) / loops, (perf_counter() - start) / loops

    sample()
    host, total = zip(*[sample() for _ in range(samples)], strict=True)
    return statistics.median(host), statistics.median(total)


def quantile(sample: Sequence[float], part: float) -> float:
    """The value below which that part of a sample is."""
    ordered = sorted(sample)
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


@final
class LoopLag:
    """How late a timer of 1 ms is, again and again, on the loop that enters this, until it leaves."""

    def __init__(self) -> None:
        self._late: Final[list[float]] = []
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LoopLag:
        self._ticking = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._ticking is not None
        # Once more to the end: a loop that was held until now is late for this one.
        await asyncio.sleep(2e-3)
        self._ticking.cancel()
        await asyncio.wait([self._ticking])

    async def _tick(self) -> None:
        while True:
            start = perf_counter()
            await asyncio.sleep(1e-3)
            self._late.append(perf_counter() - start - 1e-3)

    def rows(self, beside: str, p99_at_most_ms: float | None = None) -> list[Row]:
        """What was seen."""
        name = f"loop lag {beside}"
        return [
            figure(f"{name}: p50", quantile(self._late, 0.5) * MILLI, "ms"),
            figure(f"{name}: p99", quantile(self._late, 0.99) * MILLI, "ms", at_most=p99_at_most_ms),
            figure(f"{name}: max", max(self._late) * MILLI, "ms"),
        ]
