"""What a run costs."""

from __future__ import annotations

import numpy as np

import asyncgraph as ag

from .measure import Ratio, compare


async def rows() -> list[list[str]]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (5,), name="x")
        y = ag.ops.square(x)
    a = np.arange(5.0)
    table = [["call", "ratio", "quartiles", "ours", "np.square"]]
    async with ag.Session(graph) as session:
        for _ in range(200):
            await session.run(ag.RunArgs(y, {x: a}))
        prepared = session.prepare(y, [x])
        run = await compare(lambda: session.run(ag.RunArgs(y, {x: a})), lambda: np.square(a))
        table.append(_row("await session.run(RunArgs(y, {x: a}))", run))
        table.append(_row("await prepared(a)", await compare(lambda: prepared(a), lambda: np.square(a))))
    return table


def _row(name: str, found: Ratio) -> list[str]:
    return [
        name,
        f"{found.ratio:.1f}",
        f"{found.low:.1f}..{found.high:.1f}",
        f"{found.ours_s * 1e6:.2f} µs",
        f"{found.theirs_s * 1e6:.3f} µs",
    ]
