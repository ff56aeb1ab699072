"""What a session costs on the device, and what it gives: the sections `ag-latency` and `ag-results`."""

from __future__ import annotations

import asyncio
import importlib
import statistics
from collections.abc import Iterator
from importlib.util import find_spec
from time import perf_counter
from typing import Any, Final

from ..._session.args import RunArgs, RunOptions
from ..._session.session import Session
from ._graphs import HostArray, by_hand, chain, is_right, numbers
from ._rows import Row, figure, holds, skipped
from ._subject import Subject
from ._timing import MICRO, LoopLag, seconds

_ON_DEVICE: Final = RunOptions(results="device")


def one_run(subject: Subject) -> Iterator[Row]:
    """How long one run of one node takes, from the call to its result."""
    yield from asyncio.run(_one_run(subject, runs=20 if subject.stand_in else 300))


async def _one_run(subject: Subject, runs: int) -> list[Row]:
    graph, x, y = chain(1)
    rows: list[Row] = []
    async with Session(graph, config=subject.config) as session:
        for where, options in (("host", RunOptions()), ("device", _ON_DEVICE)):
            args = RunArgs(y, {x: numbers(4)}, options)
            took: list[float] = []
            for _ in range(runs):
                start = perf_counter()
                await session.run(args)
                took.append(perf_counter() - start)
            last = took[runs // 3 :]
            name = f"await run() of one node, result on the {where}"
            rows.append(figure(f"{name}: median", statistics.median(last) * MICRO, "us", at_most=150))
            rows.append(figure(f"{name}: max", max(last) * MICRO, "us"))
    return rows


def against_cupy_by_hand(subject: Subject) -> Iterator[Row]:
    """A graph of 50 nodes against the same calls of CuPy on one stream, with one wait at the end."""
    for count in (4,) if subject.stand_in else (4096, 1 << 22):
        yield from asyncio.run(_against_by_hand(subject, count, 5 if subject.stand_in else 40))


async def _against_by_hand(subject: Subject, count: int, turns: int, length: int = 50) -> list[Row]:
    cupy, stream, fed = subject.cupy, subject.stream(), numbers(count)

    def written() -> object:
        with stream:
            # Blocks until the values are there.
            return by_hand(cupy, cupy.asarray(fed), length).get(stream=stream)

    graph, x, y = chain(length)
    ours: list[float] = []
    theirs: list[float] = []
    async with Session(graph, config=subject.config) as session:
        args = RunArgs(y, {x: fed})
        result: object = None
        for _ in range(turns):
            theirs.append(seconds(written))
            start = perf_counter()
            result = (await session.run(args)).results
            ours.append(perf_counter() - start)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)][turns // 3 :]
    name = f"{length} nodes of {count} float32"
    right = is_right(result, fed, length) and is_right(written(), fed, length)
    return [
        figure(f"{name}, by hand", statistics.median(theirs[turns // 3 :]) * MICRO, "us"),
        figure(f"{name}, await run()", statistics.median(ours[turns // 3 :]) * MICRO, "us"),
        figure(f"{name}, run / by hand", statistics.median(ratios), "x", at_most=1.15),
        holds(f"{name}, both", right, "right" if right else "wrong", "NumPy's values"),
    ]


def many_runs_at_once(subject: Subject) -> Iterator[Row]:
    """Runs that are all started before the first one ends."""
    yield from asyncio.run(_many_runs(subject, runs=50 if subject.stand_in else 1000))


async def _many_runs(subject: Subject, runs: int, length: int = 10) -> list[Row]:
    graph, x, y = chain(length)
    count = 16 if subject.stand_in else 4096
    feeds = [numbers(count, first) for first in range(runs)]
    async with Session(graph, config=subject.config) as session:
        for _ in range(3):
            await session.run(y, {x: feeds[0]})
        subject.cupy.get_default_memory_pool().free_all_blocks()
        reserved = subject.reserved_bytes()
        start = perf_counter()
        async with LoopLag() as lag:
            results = await asyncio.gather(*[session.run(y, {x: fed}) for fed in feeds])
            took = perf_counter() - start
        grown = subject.reserved_bytes() - reserved
    wrong = sum(not is_right(values.results, fed, length) for values, fed in zip(results, feeds, strict=True))
    name = f"{runs} runs at once, of {length} nodes"
    return [
        figure(name, runs / took, "runs/s"),
        figure(f"{name}: memory of the device", grown / (1 << 20), "MiB"),
        *lag.rows("meanwhile", p99_at_most_ms=5),
        holds(f"{name}: wrong results", wrong == 0, wrong, "0"),
    ]


def results_on_the_device(subject: Subject) -> Iterator[Row]:
    """Where results are, and that what is on the device may be fed."""
    yield from asyncio.run(_results(subject))


async def _results(subject: Subject, length: int = 3) -> list[Row]:
    cupy = subject.cupy
    graph, x, y = chain(length)
    fed, rows = numbers(1000), list[Row]()
    async with Session(graph, config=subject.config) as session:
        host = (await session.run(y, {x: fed})).results
        right = is_right(host, fed, length)
        rows.append(holds("result on the host", right, type(host).__name__, "NumPy's array with NumPy's values"))
        there = (await session.run(y, {x: fed}, options=_ON_DEVICE)).results
        kept = isinstance(there, cupy.ndarray) and int(there.device.id) == subject.device.index
        rows.append(holds("result on the device", kept, type(there).__name__, f"CuPy's array on {subject.device}"))
        equal = _bits(there.get()) == _bits(host)
        rows.append(holds("both", equal, "equal" if equal else "different", "equal"))
        twice = (await session.run(y, {x: there})).results
        rows.append(_fed("a result of the device", twice, host, length))
        own = cupy.asarray(fed)
        subject.synchronize()
        before = _bits(own.get())
        rows.append(_fed("an array of CuPy", (await session.run(y, {x: own})).results, fed, length))
        unchanged = _bits(own.get()) == before
        rows.append(holds("that array, afterwards", unchanged, "as it was" if unchanged else "changed", "as it was"))
    return rows


def _fed(what: str, result: object, fed: HostArray, length: int) -> Row:
    right = is_right(result, fed, length)
    return holds(f"{what} is fed", right, "right" if right else "wrong", "NumPy's values")


def _bits(array: HostArray) -> bytes:
    return array.tobytes()


def tensors_of_torch(subject: Subject) -> Iterator[Row]:
    """A tensor of torch on the same device is fed, over DLPack."""
    torch: Any = importlib.import_module("torch") if find_spec("torch") is not None and not subject.stand_in else None
    if torch is None or not torch.cuda.is_available():
        yield skipped("a tensor of torch is fed", "no torch that uses the card")
        return
    fed = numbers(1000)
    tensor = torch.from_numpy(fed).to(f"cuda:{subject.device.index}")
    torch.cuda.synchronize()
    yield asyncio.run(_tensor(subject, tensor, fed))


async def _tensor(subject: Subject, tensor: Any, fed: HostArray, length: int = 3) -> Row:
    graph, x, y = chain(length)
    async with Session(graph, config=subject.config) as session:
        return _fed("a tensor of torch", (await session.run(y, {x: tensor})).results, fed, length)
