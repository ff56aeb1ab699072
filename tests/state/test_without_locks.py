"""A cheap run that assigns holds nothing: it sees at its end who has committed something, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph._session.transaction import Transaction

from .helpers import turns

Ask = Callable[[ag.Session, Any], Awaitable[Any]]


async def by_run(session: ag.Session, fetches: Any) -> Any:
    return (await session.run(fetches)).results


async def by_prepared(session: ag.Session, fetches: Any) -> Any:
    return (await session.prepare(fetches)()).results


ASKS: list[Ask] = [by_run, by_prepared]


def during(session: ag.Session, fetches: Any, *acts: Callable[[], object]) -> list[int]:
    """Has `acts` done when the kernels of the next runs of `fetches` are done, before these end; counts the runs."""
    request = session.engine.known(ag.RunArgs(fetches))
    assert request is not None
    (chunk,) = request.plan.inline_chunks
    compute, left, computed = chunk.run, list(acts), [0]

    def run(frame: list[Any]) -> None:
        compute(frame)
        computed[0] += 1
        if left:
            left.pop(0)()

    chunk.run = run
    return computed


def assigning(session: ag.Session, variable: ag.Variable, value: float) -> Transaction:
    """Somebody else, who holds a variable and is about to assign it."""
    array = np.array(value)
    array.flags.writeable = False
    other = Transaction(session.store, None)
    assert other.enter_to_replace({variable: array}, lambda: None)
    return other


def commits(session: ag.Session, variable: ag.Variable, value: float) -> Callable[[], None]:
    return lambda: assigning(session, variable, value).commit()


@pytest.mark.parametrize("ask", ASKS)
async def test_a_run_in_whose_middle_another_commits_is_computed_again(ask: Ask) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        new = v.assign_add(1.0)
    async with ag.Session(graph) as session:
        await session.initialize()
        assert (await session.run([new])).results == [1.0]
        before = session.store.commits
        during(session, [new], commits(session, v, 10.0))
        assert await ask(session, [new]) == [11.0]
        assert (await session.run(v)).results == 11.0
        assert session.store.commits == before + 2


@pytest.mark.parametrize("ask", ASKS)
async def test_it_ends_however_often_others_commit(ask: Ask) -> None:
    with ag.Graph() as graph:
        v, other = ag.variable(0.0), ag.variable(0.0)
        new = v.assign_add(1.0)
    async with ag.Session(graph) as session:
        await session.initialize()
        await session.run([new])
        computed = during(session, [new], *[commits(session, other, float(one)) for one in range(100)])
        assert await ask(session, [new]) == [2.0]
        assert computed[0] <= 3
        assert (await session.run([v, other])).results == [2.0, computed[0] - 1.0]


@pytest.mark.parametrize("ask", ASKS)
async def test_a_run_in_whose_middle_another_begins_to_assign_waits_for_that(ask: Ask) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        new = v.assign_add(1.0)
    async with ag.Session(graph) as session:
        await session.initialize()
        await session.run([new])
        others = list[Transaction]()
        during(session, [new], lambda: others.append(assigning(session, v, 10.0)))
        task = asyncio.ensure_future(ask(session, [new]))
        await turns()
        assert not task.done()
        assert session.store.snapshot()[v] == 1.0
        others[0].commit()
        assert await task == [11.0]


@pytest.mark.parametrize("ask", ASKS)
async def test_a_run_that_is_computed_again_draws_the_same_numbers(ask: Ask) -> None:
    with ag.Graph() as graph:
        v, other = ag.variable(np.zeros(3)), ag.variable(0.0)
        new = v.assign(ops.random.normal((3,)))
    drawn = list[list[float]]()
    for disturbed in (False, True):
        async with ag.Session(graph, config=ag.SessionConfig(seed=5)) as session:
            await session.initialize()
            await session.run([new])
            computed = during(session, [new], *[commits(session, other, 1.0)] * disturbed)
            drawn.append((await ask(session, [new]))[0].tolist())
            assert computed[0] == 1 + disturbed
    assert drawn[0] == drawn[1]


async def test_a_run_that_fails_changes_nothing_though_another_has_committed_meanwhile() -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        new = v.assign_add(1.0)
    async with ag.Session(graph) as session:
        await session.initialize()
        await session.run([new])

        def fail() -> None:
            commits(session, v, 10.0)()
            raise KeyError("boom")

        during(session, [new], fail)
        with pytest.raises(KeyError, match="boom"):
            await session.run([new])
        assert (await session.run(v)).results == 10.0


async def test_a_run_that_waits_for_its_turn_and_is_planned_meanwhile_has_committed_nothing_when_it_is_cancelled() -> (
    None
):
    with ag.Graph() as graph:
        v = ag.variable(0.0)
        new = v.assign_add(1.0)
    loop = asyncio.get_running_loop()
    async with ag.Session(graph) as session:
        await session.initialize()

        async def ask() -> Any:
            session.host.turn.charge(1.0)
            return await session.run([new])

        task = asyncio.ensure_future(ask())
        await asyncio.sleep(0)
        session.prepare([new])

        def cancel_once_committed() -> None:
            if session.store.snapshot()[v] == 0.0:
                loop.call_soon(cancel_once_committed)
            else:
                task.cancel()

        cancel_once_committed()
        assert (await task).results == [1.0]
        assert session.store.snapshot()[v] == 1.0
