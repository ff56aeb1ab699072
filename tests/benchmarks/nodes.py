"""What a node costs in a warm plan."""

from __future__ import annotations

import asyncgraph as ag

from .graphs import Sum, X, Y, as_function, as_graph, chain, layered, wide
from .measure import Ratio, compare


async def rows() -> list[list[str]]:
    table = [["graph", "nodes", "ratio", "quartiles", "ours", "NumPy"]]
    for name, sums in (("chain", chain()), ("wide", wide()), ("layered", layered())):
        found = await _compared(sums)
        table.append(
            [
                name,
                str(len(sums)),
                f"{found.ratio:.2f}",
                f"{found.low:.2f}..{found.high:.2f}",
                f"{found.ours_s / len(sums) * 1e6:.3f} µs/node",
                f"{found.theirs_s / len(sums) * 1e6:.3f} µs/node",
            ]
        )
    return table


async def _compared(sums: list[Sum]) -> Ratio:
    graph, last, feeds = as_graph(sums)
    function = as_function(sums)
    args = ag.RunArgs(last, feeds)
    async with ag.Session(graph) as session:
        for _ in range(100):  # Until the plan is hot, and all of it is emitted.
            await session.run(args)
        return await compare(lambda: session.run(args), lambda: function(X, Y))
