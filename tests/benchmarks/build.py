"""From nothing to the first result: graph built, plan made, run once."""

from __future__ import annotations

import gc
import pickle
import statistics
from collections.abc import Callable
from time import perf_counter

import numpy as np

import asyncgraph as ag

from .graphs import X, Y


async def rows() -> list[list[str]]:
    table = [["graph", "build", "first run", "total"]]
    short: list[tuple[float, float]] = []
    long: list[tuple[float, float]] = []
    for _ in range(9):  # By turns, so that a machine that slows down slows both.
        short += [await _chain(1000) for _ in range(3)]
        long.append(await _chain(10_000))
    totals = [statistics.median(sum(one) for one in samples) for samples in (short, long)]
    for name, samples, total in (("chain of 1,000", short, totals[0]), ("chain of 10,000", long, totals[1])):
        build, run = (statistics.median(one) for one in zip(*samples, strict=True))
        times = "" if total is totals[0] else f", {total / totals[0]:.1f} times the shorter"
        table.append([name, f"{build * 1e3:.1f} ms", f"{run * 1e3:.1f} ms", f"{total * 1e3:.1f} ms{times}"])
    for name, make in (("100,000 deep", _deep), ("100,000 wide", _wide)):
        table.append(await _large(name, make))
    return table


async def _chain(length: int) -> tuple[float, float]:
    gc.collect()
    start = perf_counter()
    graph, last, x, y = _deep(length)
    built = perf_counter()
    async with ag.Session(graph) as session:
        result = (await session.run(ag.RunArgs(last, {x: X, y: Y}))).results
        done = perf_counter()
    assert np.allclose(result, X + length * Y)
    return built - start, done - built


def _deep(length: int = 100_000) -> tuple[ag.Graph, ag.Node, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        x, y = ag.placeholder("float64", (8,), name="x"), ag.placeholder("float64", (8,), name="y")
        last = x
        for _ in range(length):
            last = ag.ops.add(last, y)
    return graph, last, x, y


def _wide(width: int = 100_000) -> tuple[ag.Graph, ag.Node, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        x, y = ag.placeholder("float64", (8,), name="x"), ag.placeholder("float64", (8,), name="y")
        level = [ag.ops.add(x, i) for i in range(width - 1)] + [y]
        while len(level) > 1:
            odd = level[-1:] if len(level) % 2 else []
            level = [ag.ops.add(a, b) for a, b in zip(level[::2], level[1::2], strict=False)] + odd
    return graph, level[0], x, y


async def _large(name: str, make: Callable[[], tuple[ag.Graph, ag.Node, ag.Node, ag.Node]]) -> list[str]:
    start = perf_counter()
    graph, last, x, y = make()
    built = perf_counter()
    async with ag.Session(graph) as session:
        await session.run(ag.RunArgs(last, {x: X, y: Y}))
        done = perf_counter()
        text = len(str(session.explain(last, {x: X, y: Y}).plan))
    printed = perf_counter()
    copy = pickle.loads(pickle.dumps(graph))
    pickled = perf_counter()
    assert len(copy) == len(graph)
    assert text > len(graph)
    return [
        name,
        f"{built - start:.2f} s",
        f"{done - built:.2f} s",
        f"{done - start:.2f} s; print {printed - done:.2f} s, pickle both ways {pickled - printed:.2f} s",
    ]
