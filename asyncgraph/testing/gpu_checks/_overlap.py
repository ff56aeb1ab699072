"""What can go on at once: the sections `overlap` and `complete`."""

from __future__ import annotations

import asyncio
import statistics
from asyncio import Future
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any, Final, final

from ._rawkernels import spin
from ._rows import Row, figure, holds
from ._runner import on_a_card
from ._subject import Subject
from ._timing import MICRO, MILLI, LoopLag, median, seconds

_JOBS: Final = 12
_LANES: Final = 3
_KERNELS: Final = 40
"""Of a job: with 64 MiB, about as long as its copies."""
_STREAMS: Final = (1, 2, 4, 8, 16, 32)


def copies_and_kernels(subject: Subject) -> Iterator[Row]:
    """Jobs of a copy, kernels and a copy back, on one lane and on three."""
    count, kernels = (256, 4) if subject.stand_in else (1 << 24, _KERNELS)
    lanes = [_Lane(subject, count, fill) for fill in range(_LANES)]

    def all_jobs(used: int) -> float:
        subject.synchronize()

        def submit() -> None:
            kept = [lanes[job % used].submit(kernels) for job in range(_JOBS)]
            subject.synchronize()
            del kept

        return seconds(submit)

    one, three = (median(lambda used=used: all_jobs(used), count=3, warm_up=1) for used in (1, _LANES))
    yield figure(f"{_JOBS} jobs on 1 lane", one * MILLI, "ms")
    yield figure(f"{_JOBS} jobs on {_LANES} lanes", three * MILLI, "ms")
    yield figure(f"1 lane / {_LANES} lanes", one / three, "x", at_least=1.8)
    right = all(bool((lane.result == fill + kernels).all()) for fill, lane in enumerate(lanes))
    yield holds("results of the lanes", right, "right" if right else "wrong", "each lane's own")


@final
class _Lane:
    """A stream with memory of its own: jobs on it follow each other, those of others do not touch it."""

    def __init__(self, subject: Subject, count: int, fill: int) -> None:
        self._cupy: Final = subject.cupy
        self._stream: Final = subject.stream()
        self._fed: Final = subject.cupyx.empty_pinned((count,), dtype="float32")
        self.result: Final = subject.cupyx.empty_pinned((count,), dtype="float32")
        self._fed[:] = fill
        with self._stream:
            self._there: Final = subject.cupy.empty((count,), dtype="float32")

    def submit(self, kernels: int) -> Any:
        """Starts a job; what it gives is to be kept until it is done."""
        with self._stream:
            self._there.set(self._fed, stream=self._stream)
            for _ in range(kernels):
                self._cupy.add(self._there, 1, out=self._there)
            self._there.get(stream=self._stream, out=self.result, blocking=False)
        return self._there


@on_a_card
def small_kernels(subject: Subject) -> Iterator[Row]:
    """Kernels that fill one multiprocessor each, on more and more streams."""
    took: dict[int, float] = {}
    for count in _STREAMS:
        streams = [subject.stream() for _ in range(count)]

        def submit(streams: list[Any] = streams) -> None:
            for number in range(32):
                with streams[number % len(streams)]:
                    spin(subject, 0.5e-3)
            subject.synchronize()

        took[count] = median(lambda submit=submit: seconds(submit), count=3, warm_up=1)
        yield figure(f"32 kernels of 0.5 ms on {count} streams", took[count] * MILLI, "ms")
    yield figure("1 stream / 16 streams", took[1] / took[16], "x", at_least=8)


_Item = tuple[Any, "Future[None]"]
"""What a thread is to work on, and what is to be completed."""


@contextmanager
def _thread(work: Callable[[Any, Future[None]], None], subject: Subject) -> Generator[SimpleQueue[_Item | None]]:
    """Inside, a thread works on what is put into the queue, one thing after the other."""
    queue: SimpleQueue[_Item | None] = SimpleQueue()

    def serve() -> None:
        subject.cupy.cuda.Device(subject.device.index).use()
        while (item := queue.get()) is not None:
            try:
                work(*item)
            except Exception as error:  # Who waits for the future is told, or would wait for ever.
                item[1].get_loop().call_soon_threadsafe(item[1].set_exception, error)

    thread = Thread(target=serve, daemon=True, name="gpu_checks")
    thread.start()
    try:
        yield queue
    finally:
        queue.put(None)
        thread.join()


def _wait_for(event: Any, future: Future[None]) -> None:
    event.synchronize()
    future.get_loop().call_soon_threadsafe(future.set_result, None)


@on_a_card
def wake_up(subject: Subject) -> Iterator[Row]:
    """How long it takes to launch a kernel and to complete a future from the thread that waits; less the kernel."""
    for kernel_s in (50e-6, 2e-3):
        late = asyncio.run(_lateness(subject, kernel_s))
        yield figure(f"a kernel of {kernel_s * MICRO:.0f} us completes a future late by", late * MICRO, "us")


async def _lateness(subject: Subject, kernel_s: float, samples: int = 30) -> float:
    loop, stream = asyncio.get_running_loop(), subject.stream()
    late: list[float] = []
    with _thread(_wait_for, subject) as queue:
        for _ in range(samples + 2):
            event, future = subject.event(), loop.create_future()
            start = perf_counter()
            with stream:
                spin(subject, kernel_s)
                event.record(stream)
            queue.put((event, future))
            await future
            late.append(perf_counter() - start - kernel_s)
    return statistics.median(late[2:])


def beside_a_dispatcher(subject: Subject) -> Iterator[Row]:
    """How late the event loop is while a thread launches as fast as it can."""
    yield from asyncio.run(_dispatched(subject, runs=20 if subject.stand_in else 400))


async def _dispatched(subject: Subject, runs: int, kernels: int = 20, lanes: int = 8) -> list[Row]:
    loop = asyncio.get_running_loop()
    streams = [subject.stream() for _ in range(lanes)]
    async with LoopLag() as idle:
        await asyncio.sleep(0.1)
    with _thread(_wait_for, subject) as waiting:

        def launch(number: int, future: Future[None]) -> None:
            stream, event = streams[number % lanes], subject.event()
            with stream:
                y = subject.cupy.full((4096,), 1, dtype="float32")
                for _ in range(kernels):
                    y = subject.cupy.multiply(y, 1.01)
                event.record(stream)
            waiting.put((event, future))

        with _thread(launch, subject) as dispatching:
            start = perf_counter()
            async with LoopLag() as lag:
                futures = [loop.create_future() for _ in range(runs)]
                for item in enumerate(futures):
                    dispatching.put(item)
                await asyncio.gather(*futures)
                took = perf_counter() - start
    name = f"{runs} x {kernels} kernels by hand, on {lanes} lanes"
    return [
        *idle.rows("idle"),
        figure(name, runs / took, "runs/s"),
        *lag.rows("beside a thread that launches", p99_at_most_ms=5),
    ]
