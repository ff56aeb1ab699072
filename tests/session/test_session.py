"""A session's life: opened anywhere on its loop, closed once, and nothing left of it."""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import logging
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._session import closing
from asyncgraph.errors import (
    GraphError,
    RunArgsError,
    SessionClosedError,
    SessionError,
    SessionLoopError,
)

from .gates import AsyncGate, Gate, one_node, turns


def doubling() -> tuple[ag.Graph, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        return graph, x, x * 2.0


def of_asyncgraph() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("asyncgraph")]


@pytest.fixture
async def opened() -> AsyncIterator[tuple[ag.Session, ag.Node, ag.Node]]:
    graph, x, y = doubling()
    async with ag.Session(graph) as session:
        yield session, x, y


async def test_a_session_lives_in_a_yield_fixture(opened: tuple[ag.Session, ag.Node, ag.Node]) -> None:
    session, x, y = opened
    assert (await session.run(y, {x: 1.0})).results == 2.0


async def test_a_session_opens_at_its_first_use() -> None:
    graph, x, y = doubling()
    session = ag.Session(graph)
    assert repr(session).endswith(": new>")
    assert (await session.run(y, {x: 1.0})).results == 2.0
    assert repr(session).endswith(": open, 0 runs>")
    await session.aclose()
    assert repr(session).endswith(": closed>")


async def test_a_session_that_was_never_opened_closes_and_warns_of_nothing() -> None:
    graph, _, y = doubling()
    ag.Session(graph)
    session = ag.Session(graph)
    await session.aclose()
    with pytest.raises(SessionClosedError):
        await session.run(y)
    gc.collect()


async def test_a_session_opens_in_one_task_and_closes_in_another() -> None:
    gate = Gate()
    graph, node = one_node(gate)
    session = ag.Session(graph)
    await asyncio.create_task(session.__aenter__())
    run = asyncio.create_task(session.run(node))
    await gate.has_begun()
    gate.open()
    await asyncio.create_task(session.aclose())

    assert (await run).results == "late"
    assert of_asyncgraph() == []


async def test_nothing_outlives_aclose() -> None:
    graph, node = one_node(lambda: np.ones(3))
    async with ag.Session(graph) as session:
        await asyncio.gather(*[session.run(node) for _ in range(20)])
        assert of_asyncgraph() != []
    assert of_asyncgraph() == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_exception_that_leaves_the_block_ends_the_runs_in_flight() -> None:
    noise: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
    gate = AsyncGate()
    graph, node = one_node(gate)

    async def fail() -> None:
        async with ag.Session(graph) as session:
            session.submit(node)
            await gate.has_begun()
            raise ValueError("the body's")

    with pytest.raises(ValueError, match="the body's"):
        await fail()
    gc.collect()

    assert gate.ended == ["cancelled"]
    assert noise == []


async def test_two_tasks_may_close_a_session_and_both_wait_for_the_end() -> None:
    gate = Gate()
    graph, node = one_node(gate)
    session = ag.Session(graph)
    run = session.submit(node)
    await gate.has_begun()
    closing = [asyncio.create_task(session.aclose()) for _ in range(2)]
    await turns(5)
    before = [one.done() for one in closing]
    gate.open()
    await asyncio.gather(*closing)

    assert before == [False, False]
    assert run.done()
    assert of_asyncgraph() == []


async def test_closing_that_is_cancelled_ends_runs_but_waits_for_threads_and_is_cancelled_once() -> None:
    gate = Gate()
    graph, node = one_node(gate)
    session = ag.Session(graph)
    run = session.submit(node)
    await gate.has_begun()
    closing = asyncio.create_task(session.aclose())
    for _ in range(3):
        await turns(3)
        closing.cancel()
    await turns(3)
    waited = not closing.done()
    gate.open()
    await asyncio.wait([closing])

    assert waited
    assert closing.cancelled()
    assert isinstance(run.exception(), SessionClosedError)
    assert of_asyncgraph() == []


async def test_an_op_cannot_close_the_session_that_waits_for_it() -> None:
    async def close() -> None:
        await session.aclose()

    async def close_in_a_nested_run() -> None:
        await session.run("close")

    with ag.Graph() as graph:
        ag.op(close).node(name="close")
        nested = ag.op(close_in_a_nested_run).node()
    async with asyncio.timeout(5), ag.Session(graph) as session:
        for fetch in ("close", nested):
            with pytest.raises(SessionError, match="an op closes the session that runs it"):
                await session.run(fetch)
        assert (await session.run("close", {"close": 1})).results == 1


async def test_a_session_names_what_it_waits_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closing, "_SLOW_S", 0.01)
    gate = Gate()
    with ag.Graph() as graph:
        node = ag.op(abandon_on_cancel=True)(gate).node(name="left behind")
    session = ag.Session(graph)
    run = session.submit(node)
    await gate.has_begun()
    run.cancel()
    asyncio.get_running_loop().call_later(0.05, gate.open)
    with caplog.at_level(logging.WARNING, "asyncgraph"):
        await session.aclose()

    assert [one.getMessage() for one in caplog.records] == ["closing the session waits for: left behind"]
    assert session.statistics().abandoned == ()


async def test_an_unclosed_session_warns() -> None:
    graph, x, y = doubling()
    session = ag.Session(graph)
    await session.run(y, {x: 1.0})
    gc.collect()
    with pytest.warns(ResourceWarning, match=r"unclosed <Session .*: write `async with session`"):
        del session


def test_a_session_that_could_not_be_made_is_finalized_in_silence() -> None:
    for kind in (ag.Session, ag.BlockingSession):
        with pytest.raises(GraphError, match="no current graph"):
            kind()
    gc.collect()


@pytest.mark.parametrize("kind", [ag.Session, ag.BlockingSession])
def test_a_session_of_no_graph_or_no_configuration_is_refused(kind: Any) -> None:
    with ag.Graph() as graph:
        node = ag.constant(1.0)
    with pytest.raises(GraphError, match="a session runs a Graph, not <constant"):
        kind(node)
    with pytest.raises(SessionError, match="expected a SessionConfig"):
        kind(graph, config={"workers": 1})
    gc.collect()


def step(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Drives a coroutine as a loop would that is not asyncio's."""
    try:
        coroutine.send(None)
    finally:
        coroutine.close()


def test_without_an_asyncio_loop_a_session_says_what_runs_it() -> None:
    graph, x, y = doubling()
    session = ag.Session(graph)
    kept: list[ag.Session] = []

    async def leave_open() -> None:
        kept.append(ag.Session(graph))
        await kept[0].run(y, {x: 1.0})

    for use in (lambda: session.run(y, {x: 1.0}), session.__aenter__):
        with pytest.raises(SessionLoopError, match=r"(?s)no asyncio event loop is running here.*trio is not supported"):
            step(use())
    with pytest.raises(SessionLoopError, match="no asyncio event loop"):
        session.submit(y, {x: 1.0})
    asyncio.run(leave_open())
    with pytest.raises(SessionLoopError, match="no asyncio event loop"):
        step(kept[0].run(y, {x: 1.0}))
    with pytest.raises(SessionLoopError, match="another event loop"):
        asyncio.run(kept[0].aclose())
    with pytest.raises(SessionLoopError, match="event loop is closed"):
        kept[0].run_blocking(y, {x: 1.0})
    kept.clear()
    with pytest.warns(ResourceWarning, match="unclosed"):
        gc.collect()


@pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed")
def test_a_session_runs_on_uvloop() -> None:
    uvloop = importlib.import_module("uvloop")

    graph, x, y = doubling()

    async def main() -> Any:
        async with ag.Session(graph) as session:
            return (await session.run(y, {x: 1.0})).results

    assert uvloop.run(main()) == 2.0


async def test_run_blocking_serves_other_threads_and_refuses_a_session_that_is_not_open() -> None:
    graph, x, y = doubling()
    session = ag.Session(graph)
    with pytest.raises(SessionLoopError, match="not open yet"):
        session.run_blocking(y, {x: 1.0})
    async with session:
        values = await asyncio.gather(*[asyncio.to_thread(session.run_blocking, y, {x: i}) for i in range(10)])
        with pytest.raises(RunArgsError):
            await asyncio.to_thread(session.run_blocking, "nothing")

    assert [one.results for one in values] == [2.0 * i for i in range(10)]


async def test_a_run_that_waited_for_its_turn_while_the_session_closed_leaves_nothing() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        y = ag.ops.sin(x)
        for _ in range(30):
            y = ag.ops.sin(y)
    config = ag.SessionConfig(inline_budget_s=0.0)  # nothing is cheap, and every run waits for its turn
    session = ag.Session(graph, config=config)
    await session.run(y, {x: np.ones(3)})
    runs = [asyncio.create_task(session.run(y, {x: np.ones(100_000)})) for _ in range(5)]
    await asyncio.sleep(0)
    await session.aclose()
    outcomes = await asyncio.gather(*runs, return_exceptions=True)

    assert {type(one) for one in outcomes} <= {ag.RunValues, SessionClosedError}
    assert of_asyncgraph() == []


async def test_statistics_are_a_snapshot_of_what_was_done_and_is_held() -> None:
    gate = AsyncGate()
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        y = x * 2.0
        slow = ag.op(gate).node()
    async with ag.Session(graph, config=ag.SessionConfig(max_concurrent_runs=1)) as session:
        await session.run(y, {x: 1.0})
        runs = [session.submit(slow), session.submit(y, {x: 1.0})]
        await gate.has_begun()
        during = session.statistics()
        gate.open()
        await asyncio.gather(*runs)
        after = session.statistics()

    assert (during.runs_started, during.runs_ended, during.runs_executing, during.runs_waiting) == (3, 1, 1, 1)
    assert (after.runs_started, after.runs_ended, after.runs_executing, after.runs_waiting) == (3, 3, 0, 0)
    assert (after.plans, after.user_calls) == (2, 1)
