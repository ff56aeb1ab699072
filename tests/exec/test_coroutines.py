"""The coroutines of a run share tasks, and none is taken for what another did to its task."""

from __future__ import annotations

import asyncio

import pytest

import asyncgraph as ag
from asyncgraph.errors import NodeCancelledError


async def test_an_op_that_cancels_its_task_and_swallows_it_does_not_make_another_ops_cancellation_the_runs() -> None:
    @ag.op
    async def careless() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return 1
        return 0

    @ag.op
    async def cancelled(value: int) -> int:
        raise asyncio.CancelledError

    with ag.Graph() as graph:
        first = careless.node()
        second = cancelled(first)
    async with ag.Session(graph) as session:
        with pytest.raises(NodeCancelledError, match="cancelled"):
            await session.run(second)
        assert (await session.run(first)).results == 1
