"""How long the event loop is held: a 1 ms ticker beside kernels, deadlines in tight loops, many runs at once."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

import numpy as np

import asyncgraph as ag

from .measure import ForeignLoad


async def rows() -> list[list[str]]:
    table = [["what", "figure", "best of three, with foreign load in cores"]]
    for name, samples in (
        ("1 ms ticker beside two 200 ms kernels: p99 / max lag", [await _ticker() for _ in range(3)]),
        ("asyncio.timeout(0.05) in a tight loop of inline runs: late by", [await _deadline() for _ in range(3)]),
        ("2,000 inline runs of 50 µs at once: a timer is late by", [await _crowd() for _ in range(3)]),
    ):
        best = min(samples, key=lambda sample: sample[0][-1])
        table.append([name, _ms(best[0]), "; ".join(f"{_ms(figures)} ({load:.2f})" for figures, load in samples)])
    return table


def _ms(figures: tuple[float, ...]) -> str:
    return " / ".join(f"{figure * 1e3:.2f}" for figure in figures) + " ms"


async def _ticker() -> tuple[tuple[float, ...], float]:
    with ag.Graph() as graph:
        a = ag.placeholder("float64", ("n",), name="a")
        m = ag.placeholder("float64", ("k", "k"), name="m")
        kernels: list[tuple[ag.Node, dict[Any, Any]]] = [
            (ag.ops.sin(a), {a: np.linspace(0, 1e3, 20_000_000)}),
            (m @ m, {m: np.random.default_rng(0).random((1800, 1800))}),
        ]
    lags: list[float] = []
    async with ag.Session(graph, config=ag.SessionConfig(workers=2, blas_threads=1)) as session:
        for node, feeds in kernels:
            await session.run(node, feeds)
        with ForeignLoad() as load:
            running = [asyncio.ensure_future(_repeat(session, *one)) for one in kernels]
            while not all(one.done() for one in running):
                start = perf_counter()
                await asyncio.sleep(1e-3)
                lags.append(perf_counter() - start - 1e-3)
            await asyncio.gather(*running)
    lags.sort()
    return (lags[int(len(lags) * 0.99)], lags[-1]), load.cores


async def _repeat(session: ag.Session, node: ag.Node, feeds: dict[Any, Any]) -> None:
    end = perf_counter() + 2.0
    while perf_counter() < end:
        await session.run(node, feeds)


async def _deadline() -> tuple[tuple[float, ...], float]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (5,), name="x")
        y = ag.ops.square(x)
    args = ag.RunArgs(y, {x: np.arange(5.0)})
    async with ag.Session(graph) as session:
        with ForeignLoad() as load:
            start = perf_counter()
            try:
                async with asyncio.timeout(0.05):
                    while True:
                        await session.run(args)
            except TimeoutError:
                late = perf_counter() - start - 0.05
    return (late,), load.cores


async def _crowd() -> tuple[tuple[float, ...], float]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (5,), name="x")
        y = x
        for _ in range(110):
            y = ag.ops.add(y, 1.0)
    args = ag.RunArgs(y, {x: np.arange(5.0)})
    late: list[float] = []
    async with ag.Session(graph) as session:
        for _ in range(200):
            await session.run(args)
        loop = asyncio.get_running_loop()
        with ForeignLoad() as load:
            tasks = [asyncio.ensure_future(session.run(args)) for _ in range(2000)]
            due = loop.time() + 1e-3
            loop.call_at(due, lambda: late.append(loop.time() - due))
            await asyncio.gather(*tasks)
    return (late[0],), load.cores
