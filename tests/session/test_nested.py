"""Runs that nodes of other runs start: they pass every limit, and end with who started them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.errors import SessionClosedError

from .gates import AsyncGate, Gate, turns


@pytest.mark.parametrize("where", ["async", "thread"])
async def test_nested_runs_need_no_place(where: str) -> None:
    def nest(v: int) -> int:
        return session.run_blocking("inner", {"x": v}).results + 1

    async def nest_async(v: int) -> int:
        return (await session.run("inner", {"x": v})).results + 1

    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        ag.op(lambda v: v * 10)(x, name="inner")
        outer = ag.op(nest if where == "thread" else nest_async)(x)
    config = ag.SessionConfig(max_concurrent_runs=1, max_pending_runs=0, threads=1)
    async with asyncio.timeout(5), ag.Session(graph, config=config) as session:
        assert (await session.run(outer, {x: 2})).results == 21


async def test_nested_runs_take_no_place_from_others() -> None:
    gate = AsyncGate()

    async def nest() -> None:
        await asyncio.gather(*[session.run("inner") for _ in range(5)])

    with ag.Graph() as graph:
        ag.op(gate).node(name="inner")
        outer = ag.op(nest).node()
        other = ag.op(lambda: "other").node()
    config = ag.SessionConfig(max_concurrent_runs=2, max_pending_runs=0)
    async with asyncio.timeout(5), ag.Session(graph, config=config) as session:
        nesting = session.submit(outer)
        await gate.has_begun()
        assert (await session.run(other)).results == "other"
        gate.open()
        await nesting


async def test_a_nested_run_ends_when_the_run_of_its_op_does() -> None:
    inner = AsyncGate()

    def nest() -> None:
        session.run_blocking("inner")

    with ag.Graph() as graph:
        ag.op(inner).node(name="inner")
        outer = ag.op(nest).node()
    async with asyncio.timeout(5), ag.Session(graph) as session:
        run = session.submit(outer)
        await inner.has_begun()
        run.cancel()
        await asyncio.wait([run])

    assert run.cancelled()
    assert inner.ended == ["cancelled"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_run_that_closing_waits_for_may_still_run_what_its_nodes_need(is_async: bool) -> None:
    gate: Any = AsyncGate() if is_async else Gate()

    def nest() -> float:
        gate()
        return session.run_blocking("double", {"x": 2.0}).results

    async def nest_async() -> float:
        await gate()
        return (await session.run("double", {"x": 2.0})).results

    with ag.Graph() as graph:
        ag.ops.multiply(ag.placeholder("float64", (), name="x"), 2.0, name="double")
        node = ag.op(nest_async if is_async else nest).node()
    session = ag.Session(graph)
    run = session.submit(node)
    await gate.has_begun()
    closing = asyncio.create_task(session.aclose())
    await turns(3)
    with pytest.raises(SessionClosedError):
        await session.run("double", {"x": 2.0})
    gate.open()
    async with asyncio.timeout(5):
        await closing

    assert run.result().results == 4.0
