"""`copy_feeds=True` copies at the call, whoever makes the plan, and however long the run waits for its turn."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import asyncgraph as ag

COPIED = ag.RunOptions(copy_feeds=True)


def summed(further_nodes: int) -> tuple[ag.Graph, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        x = y = ag.placeholder("float64", ("n",), name="x")
        total = ag.ops.sum(x)
        for _ in range(further_nodes):
            y = y + 1
    return graph, x, total


@pytest.mark.parametrize("further_nodes", [0, 2100], ids=["planned on the loop", "planned on a worker"])
async def test_what_is_fed_may_be_written_after_submit(further_nodes: int) -> None:
    graph, x, total = summed(further_nodes)
    fed = np.ones(100)
    async with ag.Session(graph) as session:
        future = session.submit(total, {x: fed}, COPIED)
        fed[...] = 0
        assert (await future).results == 100


async def test_runs_that_wait_for_their_turn_have_copied_before() -> None:
    graph, x, total = summed(0)
    fed = np.ones(100)
    async with ag.Session(graph, config=ag.SessionConfig(inline_budget_s=1e-9)) as session:
        await session.run(total, {x: fed})
        runs = [asyncio.create_task(session.run(total, {x: fed}, COPIED)) for _ in range(20)]
        await asyncio.sleep(0)  # Each has been called by now.
        fed[...] = 0
        assert {float(values.results) for values in await asyncio.gather(*runs)} == {100}
