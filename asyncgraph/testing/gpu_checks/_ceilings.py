"""What CuPy and the card can do at best: the sections `env`, `launch` and `copy`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ._children import call_child
from ._rows import Row, fact, figure
from ._runner import on_a_card
from ._subject import Subject
from ._timing import MICRO, MILLI, median, per_call, seconds

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20


@on_a_card
def device(subject: Subject) -> Iterator[Row]:
    """What the card is."""
    runtime = subject.cupy.cuda.runtime
    properties = runtime.getDeviceProperties(subject.device.index)
    free, total = runtime.memGetInfo()
    yield fact("compute capability", f"{properties['major']}.{properties['minor']}")
    yield fact("multiprocessors", int(properties["multiProcessorCount"]))
    yield figure("memory", total / (1 << 30), "GiB")
    yield figure("memory that is free", free / (1 << 30), "GiB")
    yield fact("NVRTC", str(subject.cupy.cuda.nvrtc.getVersion()))


@on_a_card
def cold_start(subject: Subject) -> Iterator[Row]:
    """What the first of everything costs, in a process of its own whose cache of kernels is empty."""
    for name, took in call_child(subject, "cold_start").items():
        yield figure(name, float(str(took)) * MILLI, "ms")


def calls(subject: Subject) -> Iterator[Row]:
    """What a call of CuPy costs."""
    cupy = subject.cupy
    with subject.stream():
        a, b = (cupy.full((1024,), value, dtype="float32") for value in (1, 2))
        out, matrix = cupy.empty_like(a), cupy.full((128, 128), 1, dtype="float32")
        product = cupy.empty_like(matrix)
        cases: dict[str, Callable[[], object]] = {
            "add(a, b)": lambda: cupy.add(a, b),
            "add(a, b, out)": lambda: cupy.add(a, b, out=out),
            "a + b": lambda: a + b,
            "sum(a)": lambda: cupy.sum(a),
            "empty": lambda: cupy.empty((1024,), dtype="float32"),
            "matmul(128, out)": lambda: cupy.matmul(matrix, matrix, out=product),
        }
        for name, call in cases.items():
            host, total = per_call(subject, call, loops=2 if subject.stand_in else 500)
            yield figure(f"{name}: host", host * MICRO, "us")
            yield figure(f"{name}: until done", total * MICRO, "us")


def streams_and_events(subject: Subject) -> Iterator[Row]:
    """What it costs to order streams."""
    cupy, stream, other, event = subject.cupy, subject.stream(), subject.stream(), subject.event()
    current = cupy.cuda.Device(subject.device.index)

    def enter(scope: Any) -> None:
        with scope:
            pass

    cases: dict[str, Callable[[], object]] = {
        "event.record": lambda: event.record(stream),
        "stream.wait_event": lambda: other.wait_event(event),
        "eventQuery": lambda: cupy.cuda.runtime.eventQuery(event.ptr),
        "with stream": lambda: enter(stream),
        "with Device": lambda: enter(current),
        "new Event": subject.event,
    }
    for name, call in cases.items():
        yield figure(f"{name}: host", per_call(subject, call, loops=2 if subject.stand_in else 500)[0] * MICRO, "us")


def copies(subject: Subject) -> Iterator[Row]:
    """Copies between the host and the device."""
    for size in (64 * _KIB,) if subject.stand_in else (64 * _KIB, 4 * _MIB, 256 * _MIB):
        yield from _copies_of(subject, size)


def _copies_of(subject: Subject, size: int) -> Iterator[Row]:
    cupy, stream = subject.cupy, subject.stream()
    pinned, pageable = subject.cupyx.empty_pinned((size,), dtype="uint8"), np.ones(size, np.uint8)
    pinned[:] = 1
    with stream:
        there = cupy.empty((size,), dtype="uint8")

    def timed(copy: Callable[[], object]) -> Callable[[], float]:
        def both() -> None:
            copy()
            stream.synchronize()

        return lambda: seconds(both)

    def asarray() -> None:
        with stream:
            cupy.asarray(pageable)

    cases: dict[str, Callable[[], object]] = {
        "to the device, pinned": lambda: there.set(pinned, stream=stream),
        "to the device, pageable": lambda: there.set(pageable, stream=stream),
        "to the device, asarray": asarray,
        "to the host, pinned": lambda: there.get(stream=stream, out=pinned, blocking=False),
        "to the host, pageable": lambda: there.get(stream=stream, out=pageable),
        "to the host, get()": lambda: there.get(stream=stream),
    }
    text = f"{size // _KIB} KiB" if size < _MIB else f"{size // _MIB} MiB"
    for name, copy in cases.items():
        took = median(timed(copy), count=5)
        yield figure(f"{text} {name}", took * MICRO, "us")
        yield figure(f"{text} {name}", size / took / 1e9, "GB/s")


def on_the_device(subject: Subject) -> Iterator[Row]:
    """A copy on the device: what its memory can do."""
    cupy, count = subject.cupy, _KIB if subject.stand_in else 256 * _MIB
    source = cupy.full((count,), 1, dtype="float32")
    target = cupy.empty_like(source)
    _, took = per_call(subject, lambda: cupy.copyto(target, source), loops=5, samples=3)
    yield figure("on the device, read and written", 2 * source.nbytes / took / 1e9, "GB/s")


@on_a_card
def pinned_memory(subject: Subject) -> Iterator[Row]:
    """Host memory that is pinned takes long to get."""
    took = seconds(lambda: subject.cupy.cuda.PinnedMemory(256 * _MIB))
    yield figure("256 MiB of pinned memory", took * MILLI, "ms")
