"""What is left when runs, or a process, end: the sections `ag-cancel`, `ag-oom`, `ag-end` and `ag-lost`."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from ... import ops
from ..._graph.building import placeholder
from ..._graph.graph import Graph
from ..._session.session import Session
from ._children import call_child, run_child
from ._graphs import chain, is_right, numbers
from ._rows import Row, fact, figure, holds
from ._runner import on_a_card
from ._subject import Subject

_MIB: Final = 1 << 20
_LATEST_S: Final = 0.02


def cancellations(subject: Subject) -> Iterator[Row]:
    """Runs that are cancelled at any time; then the session is as it was."""
    yield from asyncio.run(_cancellations(subject, runs=40 if subject.stand_in else 400))


async def _cancellations(subject: Subject, runs: int, length: int = 20) -> list[Row]:
    graph, x, y = chain(length)
    fed = numbers(64 if subject.stand_in else 1 << 20)
    drawn, loop = random.Random(0), asyncio.get_running_loop()
    async with Session(graph, config=subject.config) as session:
        await session.run(y, {x: fed})
        gc.collect()
        used = subject.used_bytes()
        tasks = [asyncio.ensure_future(session.run(y, {x: fed})) for _ in range(runs)]
        for task in tasks:
            loop.call_later(drawn.random() * _LATEST_S, task.cancel)
        ends = Counter(_end(one) for one in await asyncio.gather(*tasks, return_exceptions=True))
        del tasks
        gc.collect()
        back = subject.comes_back(used)
        left = session.statistics().runs_executing
        right = is_right((await session.run(y, {x: fed})).results, fed, length)
    other = sorted({*ends} - {"done", "CancelledError"})
    return [
        figure(f"{runs} runs, cancelled within {_LATEST_S * 1e3:g} ms: cancelled", ends["CancelledError"], "runs"),
        holds("other ends than done and cancelled", not other, ", ".join(other) or "none", "none"),
        holds("runs that still execute", left == 0, left, "0"),
        holds("memory of the device", back, "back" if back else f"{subject.used_bytes()} bytes", f"{used} bytes"),
        holds("a run after that", right, "right" if right else "wrong", "NumPy's values"),
    ]


def _end(result: object) -> str:
    return type(result).__name__ if isinstance(result, BaseException) else "done"


def too_much_memory(subject: Subject) -> Iterator[Row]:
    """A run that needs more memory than there is, small ones beside it, and one after it."""
    yield from asyncio.run(_too_much(subject))


async def _too_much(subject: Subject, beside: int = 8) -> list[Row]:
    with Graph() as graph:
        x = placeholder("float32", ("n",))
        small = x + 1
        large = ops.sum(ops.multiply(ops.expand_dims(x, axis=0), ops.expand_dims(x, axis=1)))
    # Its square is 64 MiB.
    fed, few = np.ones(4096, np.float32), np.ones(4, np.float32)
    async with Session(graph, config=subject.config) as session:
        # Plans, kernels and constants are there before memory is short.
        await session.run([small, large], {x: few})
        gc.collect()
        used = subject.used_bytes()
        with subject.memory_limited_to(16 * _MIB):
            runs = [session.run(large, {x: fed}), *[session.run(small, {x: few}) for _ in range(beside)]]
            results = await asyncio.gather(*runs, return_exceptions=True)
        first, ends = results[0], Counter(map(_end, results[1:]))
        kind, is_memory = _end(first), isinstance(first, MemoryError)
        # Held on purpose while memory is counted: an error holds no arrays.
        back = subject.comes_back(used)
        after = float((await session.run(large, {x: few})).results)
    return [
        holds("a run that needs too much", is_memory, kind, "a MemoryError"),
        holds("runs beside it", ends["done"] == beside, dict_text(ends), f"{beside} done"),
        holds("memory of the device", back, "back" if back else f"{subject.used_bytes()} bytes", f"{used} bytes"),
        holds("a run after that", after == few.size**2, after, str(few.size**2)),
    ]


def dict_text(counts: Counter[str]) -> str:
    """Counts, for a row."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


@on_a_card
def end_of_a_process(subject: Subject) -> Iterator[Row]:
    """A process that has used the device, and leaves a result there, ends by itself and without a word."""
    yield from end_of_a_process_rows(run_child(subject, "ends").stderr)


def end_of_a_process_rows(said: str) -> Iterator[Row]:
    """What is to be thought of what `ends` said on its way, such as that an exception was ignored."""
    yield holds("what a process says that ends", not said, " ".join(said.split())[-400:] or "nothing", "nothing")


@on_a_card
def lost_device(subject: Subject) -> Iterator[Row]:
    """A device that is lost under a session, in a process of its own."""
    yield from lost_device_rows(call_child(subject, "lost"))


def lost_device_rows(found: dict[str, object]) -> Iterator[Row]:
    """What is to be thought of what `lost` found."""
    yield holds("a run before", found["before"] == "done", str(found["before"]), "done")
    in_flight = Counter(_texts(found["in flight"]))
    yield holds(
        "runs in flight",
        {*in_flight} <= {"done", "DeviceLostError"},
        dict_text(in_flight),
        "done, or a DeviceLostError",
    )
    after = Counter(_texts(found["after"]))
    yield holds("runs after that", {*after} == {"DeviceLostError"}, dict_text(after), "a DeviceLostError")
    yield holds("a run on the host", found["on the host"] == "done", str(found["on the host"]), "done")
    yield fact("the session closed", bool(found["closed"]), "True")


def _texts(value: object) -> list[str]:
    assert isinstance(value, list), f"a child found {value!r}, which is no list"
    return [str(one) for one in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # it was JSON
