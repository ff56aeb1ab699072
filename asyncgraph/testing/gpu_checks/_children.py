"""What needs a process of its own: the first of everything, the end of a process, and a context that is lost.

`python -m asyncgraph.testing.gpu_checks._children NAME DEVICE` prints what was found as one line of JSON, the last.
"""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, Final, cast

import numpy as np

from ... import ops
from ..._graph.building import placeholder
from ..._graph.graph import Graph
from ..._graph.scopes import device as on_device
from ..._session.args import RunOptions
from ..._session.session import Session
from ...abc import Device
from ._rawkernels import spin, wild_write
from ._subject import Subject, eventually, find
from ._timing import seconds

Found = dict[str, object]
_MOST_S: Final = 60.0
"""A child that takes longer hangs."""
_RUNS: Final = 8
UFUNCS: Final = ("sin", "cos", "tan", "exp", "log1p", "sinh", "cosh", "expm1", "cbrt", "log2")


def call_child(subject: Subject, name: str) -> Found:
    """What a child found on the subject's device. Raises what `run_child` does."""
    return cast("Found", json.loads(run_child(subject, name).stdout.splitlines()[-1]))


def run_child(subject: Subject, name: str) -> subprocess.CompletedProcess[str]:
    """A child that is over, with what it printed.

    Raises:
        RuntimeError: it failed; the text has the end of what it printed.
        TimeoutExpired: it took longer than is left of the section, or than a minute.
    """
    command = [sys.executable, "-m", __name__, name, str(subject.device)]
    limit_s = min(_MOST_S, max(subject.seconds_left, 1.0))
    with tempfile.TemporaryDirectory(prefix="gpu_checks") as cache:
        environment = {**os.environ, "CUPY_CACHE_DIR": cache} if name == "cold_start" else None
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=limit_s, check=False)
    if done.returncode or not done.stdout:
        raise RuntimeError(f"the child {name!r} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


def cold_start(device: Device) -> Found:
    """Seconds that the first of everything takes."""
    start = perf_counter()
    cupy: Any = importlib.import_module("cupy")
    found: Found = {"import cupy, after numpy": perf_counter() - start}
    current = cupy.cuda.Device(device.index)
    # Whichever of the two it is that makes it.
    found["context"] = seconds(lambda: (current.use(), cupy.cuda.runtime.memGetInfo()))

    def done(call: Callable[[], object]) -> float:
        def both() -> None:
            call()
            current.synchronize()

        return seconds(both)

    found["first kernel, not compiled"] = done(lambda: cupy.full((16,), 1, dtype="float32"))
    x = cupy.full((16,), 0.5, dtype="float32")
    kernels = [getattr(cupy, name) for name in UFUNCS]
    took = sum(done(lambda kernel=kernel: kernel(x)) for kernel in kernels)
    found["ten further kernels, not compiled, each"] = took / len(kernels)
    matrix = cupy.full((64, 64), 1, dtype="float32")
    found["first matmul"] = done(lambda: cupy.matmul(matrix, matrix))
    return found


def sticky(subject: Subject, poison: Callable[[], None]) -> Found:
    """What CuPy says after the context is lost: of an event that was recorded behind it, and of what comes then."""
    cupy, stream, event = subject.cupy, subject.stream(), subject.event()
    with stream:
        # So that the event is recorded before the device gets there.
        spin(subject, 20e-3)
        poison()
        event.record(stream)
    eventually(lambda: cupy.cuda.runtime.eventQuery(event.ptr) != _NOT_READY, 5.0)
    found: Found = {"eventQuery": int(cupy.cuda.runtime.eventQuery(event.ptr)), "event.done": bool(event.done)}
    calls: dict[str, Callable[[], object]] = {
        "event.synchronize": event.synchronize,
        "allocation": lambda: cupy.empty((1 << 24,), dtype="float32"),
        "kernel": lambda: cupy.full((3,), 1, dtype="float32"),
        "new stream": subject.stream,
    }
    return found | {name: _outcome(call) for name, call in calls.items()}


_NOT_READY: Final = 600
"""cudaErrorNotReady."""


def _outcome(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:  # Which one is what is asked.
        return f"{type(error).__name__} {getattr(error, 'status', '')}".strip()
    return "no error"


def lost(subject: Subject, poison: Callable[[], None]) -> Found:
    """How runs of a session end when its device is lost under them, and those after; and runs of the host."""
    return asyncio.run(_lost(subject, poison))


async def _lost(subject: Subject, poison: Callable[[], None]) -> Found:
    with Graph() as graph:
        x = placeholder("float32", ("n",))
        with on_device(str(subject.device)):
            on_card = ops.square(x)
        with on_device("cpu:0"):
            on_host = ops.square(x)
    fed = {x: np.arange(4, dtype=np.float32)}
    async with Session(graph, config=subject.config) as session:
        before = await _end_of(session.run([on_card, on_host], fed))
        runs = [asyncio.ensure_future(_end_of(session.run(on_card, fed))) for _ in range(_RUNS)]
        await asyncio.sleep(0)
        poison()
        in_flight = sorted(await asyncio.gather(*runs))
        # Until the device has got there.
        _outcome(subject.synchronize)
        found: Found = {
            "before": before,
            "in flight": in_flight,
            "after": [await _end_of(session.run(on_card, fed)) for _ in range(2)],
            "on the host": await _end_of(session.run(on_host, fed)),
        }
    return found | {"closed": True}


async def _end_of(run: Awaitable[object]) -> str:
    """How a run ends: "done", or by which error."""
    try:
        async with asyncio.timeout(20):
            await run
    except Exception as error:  # Which one is what is asked.
        return type(error).__name__
    return "done"


def ends(subject: Subject) -> Found:
    """A product of matrices, which stays on the device until the process ends; nothing but the session is closed."""
    with Graph() as graph:
        x = placeholder("float32", ("n", "n"))
        y = ops.matmul(x, x)

    async def run() -> object:
        async with Session(graph, config=subject.config) as session:
            return (await session.run(y, {x: np.eye(64, dtype=np.float32)}, options=_ON_DEVICE)).results

    _kept.append(asyncio.run(run()))
    return {"kept": type(_kept[0]).__name__}


_ON_DEVICE: Final = RunOptions(results="device")
_kept: Final[list[object]] = []


def _lose(device: Device, look: Callable[[Subject, Callable[[], None]], Found]) -> Found:
    subject = find(device)
    return look(subject, wild_write(subject))


_CHILDREN: Final[Mapping[str, Callable[[Device], Found]]] = {
    "cold_start": cold_start,
    "ends": lambda device: ends(find(device)),
    "sticky": lambda device: _lose(device, sticky),
    "lost": lambda device: _lose(device, lost),
}


_LOSE: Final = frozenset({"sticky", "lost"})


def main(name: str, device: str) -> None:
    """Prints what a child finds. Where the device was lost, the process ends at once: not much works in it any more."""
    faulthandler.dump_traceback_later(_MOST_S, exit=True)
    kind, _, index = device.partition(":")
    print(json.dumps(_CHILDREN[name](Device(kind, int(index)))), flush=True)
    if name in _LOSE:
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
