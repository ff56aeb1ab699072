"""Timing in turns, and what else the machine did meanwhile."""

from __future__ import annotations

import os
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time


@dataclass(frozen=True)
class Ratio:
    """How two ways compare: the median of the turns' ratios, their quartiles, and both medians in seconds."""

    ratio: float
    low: float
    high: float
    ours_s: float
    theirs_s: float


async def compare(
    ours: Callable[[], Awaitable[object]], theirs: Callable[[], object], turns: int = 31, turn_s: float = 0.02
) -> Ratio:
    """Times `await ours()` and `theirs()` in turns of about `turn_s` seconds each; with 0, of one call each."""
    await ours()
    theirs()
    many_ours = max(1, int(turn_s / max(await _time_async(ours, 3), 1e-9))) if turn_s else 1
    many_theirs = max(1, int(turn_s / max(_time(theirs, 3), 1e-9))) if turn_s else 1
    pairs: list[tuple[float, float]] = []
    for turn in range(turns):
        if turn % 2:
            a, b = await _time_async(ours, many_ours), _time(theirs, many_theirs)
        else:
            b, a = _time(theirs, many_theirs), await _time_async(ours, many_ours)
        pairs.append((a, b))
    ratios = [a / b for a, b in pairs]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Ratio(middle, low, high, statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs))


async def _time_async(function: Callable[[], Awaitable[object]], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        await function()
    return (perf_counter() - start) / count


def _time(function: Callable[[], object], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        function()
    return (perf_counter() - start) / count


class ForeignLoad:
    """How many cores other processes kept busy, from `__enter__` to `__exit__`; NaN where that is not known."""

    cores = float("nan")

    def __enter__(self) -> ForeignLoad:
        self._start = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        wall, busy, own = (b - a for a, b in zip(self._start, self._now(), strict=True))
        self.cores = max(0.0, (busy - own) / wall) if wall else float("nan")

    @staticmethod
    def _now() -> tuple[float, float, float]:
        try:
            fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        except OSError:
            return perf_counter(), float("nan"), process_time()
        ticks = os.sysconf("SC_CLK_TCK")
        user, nice, system, _, _, irq, soft = map(int, fields[:7])
        return perf_counter(), (user + nice + system + irq + soft) / ticks, process_time()
