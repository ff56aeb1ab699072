"""`Session.replace` converts and copies beside the loop, and then commits as a run does."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FeedError, SessionClosedError, StateConflictError

from ..session.gates import AsyncGate, Gate, turns


class Slow:
    """What becomes an array when a gate is opened."""

    def __init__(self, *values: float) -> None:
        self.gate = Gate()
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        self.gate()
        return np.array(self.values, dtype)


def pair() -> tuple[ag.Graph, ag.Variable, ag.Variable]:
    with ag.Graph() as graph:
        return graph, ag.variable(np.zeros(2), "v"), ag.variable(0.0, "w")


async def held(session: ag.Session) -> list[Any]:
    return [value.tolist() for value in (await session.run(["v", "w"])).results]


async def test_the_loop_goes_on_while_values_are_copied_and_nobody_sees_them_before() -> None:
    graph, v, w = pair()
    slow = Slow(1.0, 2.0)
    async with ag.Session(graph) as session:
        replacing = asyncio.ensure_future(session.replace({w: 3.0, v: slow}))
        await slow.gate.has_begun()
        assert await held(session) == [[0.0, 0.0], 0.0]
        statistics = session.statistics()
        assert (statistics.errands, statistics.abandoned) == (("the copying of values",), ())
        slow.gate.open()
        await replacing
        assert await held(session) == [[1.0, 2.0], 3.0]
        assert session.statistics().errands == ()


async def test_who_is_cancelled_while_values_are_copied_has_changed_nothing() -> None:
    graph, v, _ = pair()
    slow = Slow(1.0, 2.0)
    async with ag.Session(graph) as session:
        replacing = asyncio.ensure_future(session.replace({v: slow}))
        await slow.gate.has_begun()
        replacing.cancel()
        await turns(3)
        assert not replacing.done()
        slow.gate.open()
        await asyncio.wait([replacing])
        assert replacing.cancelled()
        assert await held(session) == [[0.0, 0.0], 0.0]


async def test_an_error_says_what_was_expected_and_nothing_changes() -> None:
    graph, v, w = pair()
    async with ag.Session(graph) as session:
        with pytest.raises(
            FeedError, match=r"(?s)the value fed for 'v' does not fit it: its axis 0 differs.*float64\[2\]"
        ):
            await session.replace({w: 1.0, v: np.ones(3)})
        assert await held(session) == [[0.0, 0.0], 0.0]


async def test_it_waits_for_its_turn_and_closing_waits_for_it() -> None:
    gate = AsyncGate()
    with ag.Graph() as graph:
        v = ag.variable(np.zeros(2), "v")
        with ag.control_dependencies([ag.op(gate).node()]):
            add = v.assign_add(np.ones(2))
    session = ag.Session(graph)
    adding = asyncio.ensure_future(session.run(add))
    await gate.has_begun()
    replacing = asyncio.ensure_future(session.replace({v: [5.0, 5.0]}))
    while session.statistics().errands != ("the replacing of values",):
        await turns(1)
    closing = asyncio.ensure_future(session.aclose())
    await turns(3)
    assert not closing.done()
    gate.open()
    await closing
    assert replacing.done()
    await asyncio.gather(adding, replacing)
    assert session.store.snapshot()[v].tolist() == [5.0, 5.0]
    with pytest.raises(SessionClosedError):
        await session.replace({v: [6.0, 6.0]})


async def test_an_op_cannot_replace_what_its_own_run_assigns() -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0, "v")
        with ag.control_dependencies([ag.op(lambda: session.replace({v: 1.0})).node()]):
            add = v.assign_add(1.0)
    async with ag.Session(graph) as session:
        with pytest.raises(StateConflictError):
            await session.run(add)
