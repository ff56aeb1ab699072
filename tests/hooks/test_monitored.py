"""The session for long jobs: its beginning, its end, and how it stops."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph import checkpoints
from asyncgraph.errors import GraphFinalizedError, SessionClosedError, SessionError, SessionStoppedError
from asyncgraph.hooks import StopAtStepHook

from .recorder import Calls, Recorder, names, of_runs, raising


def counting() -> tuple[ag.Graph, ag.Node]:
    """A graph whose node counts a step."""
    with ag.Graph() as graph:
        return graph, ag.global_step().assign_add(1, name="train")


async def step_of(session: ag.Session) -> int:
    return int((await session.run("global_step")).results)


async def test_a_job_begins_with_its_hooks_and_variables_and_ends_with_its_hooks() -> None:
    graph, train = counting()
    calls: Calls = []
    built: list[ag.Node] = []
    steps: list[Any] = []

    async def look(session: ag.Session) -> None:
        steps.append((graph.finalized, dict(session.store.snapshot())))

    hook = Recorder("A", calls, begin=lambda: built.append(ag.constant(1.0)), after_create_session=look)
    async with ag.MonitoredSession(graph, hooks=[hook, Recorder("B", calls)]) as session:
        with pytest.raises(GraphFinalizedError), graph:
            ag.constant(2.0)
        assert (await session.run(train)).results == 1

    assert names(calls) == [
        *["A begin", "B begin", "A after_create_session", "B after_create_session"],
        *["A before_run", "B before_run", "B after_run", "A after_run", "B end", "A end"],
    ]
    assert built[0].graph is graph
    assert steps == [(True, {graph["global_step"]: 0})]


async def test_a_job_stops_when_it_is_asked_to_and_takes_no_more_runs() -> None:
    graph, train = counting()

    async with ag.MonitoredSession(graph, hooks=[StopAtStepHook(last_step=3)]) as session:
        count = 0
        while not session.should_stop():
            await session.run(train)
            count += 1
        assert count == 3
        with pytest.raises(SessionStoppedError, match="the session was asked to stop\n  write: while not"):
            await session.run(train)
        assert await step_of(session.session) == 3


async def test_runs_in_flight_go_on_when_a_stop_is_asked_for() -> None:
    graph, train = counting()
    async with ag.MonitoredSession(graph, hooks=[StopAtStepHook(2)]) as session:
        await asyncio.gather(*[session.run(train) for _ in range(5)])
        assert session.should_stop()
        assert await step_of(session.session) == 5


async def test_a_later_job_goes_on_where_the_last_one_stopped(tmp_path: Path) -> None:
    graph, train = counting()
    steps: list[int] = []
    for last in (3, 5):
        stop = StopAtStepHook(last_step=last)
        async with ag.MonitoredSession(graph, hooks=[stop], checkpoint_dir=tmp_path) as session:
            steps.append(await step_of(session.session))
            while not session.should_stop():
                await session.run(train)

    async with ag.MonitoredSession(graph, hooks=[StopAtStepHook(last_step=5)], checkpoint_dir=tmp_path) as session:
        assert session.should_stop()  # It had been done before.

    assert steps == [0, 3]
    latest = checkpoints.latest_checkpoint(tmp_path)
    assert latest is not None
    assert checkpoints.read_header(latest).step == 5


async def test_checkpoints_are_saved_as_often_as_is_said_and_by_the_saver_that_is_given(tmp_path: Path) -> None:
    graph, train = counting()
    saver = checkpoints.Saver(tmp_path, "job", keep=None)

    async with ag.MonitoredSession(graph, checkpoint_dir=saver, save_every_steps=2) as session:
        for _ in range(5):
            await session.run(train)

    assert [path.name for path in saver.checkpoints] == [f"job-{step}.safetensors" for step in (0, 2, 4, 5)]


@pytest.mark.parametrize("error", [StopIteration(), StopAsyncIteration()])
async def test_an_iterator_that_has_no_more_is_an_ordinary_end(error: Exception) -> None:
    graph, train = counting()
    calls: Calls = []

    async with ag.MonitoredSession(graph, hooks=[Recorder("A", calls)]) as session:
        await session.run(train)
        raise error

    assert names(calls)[-1] == "A end"


async def test_an_op_whose_data_have_an_end_ends_the_job() -> None:
    async def numbers() -> AsyncIterator[int]:
        yield 1
        yield 2

    source = numbers()
    with ag.Graph() as graph:
        node = ag.op(lambda: anext(source)).node()
    calls: Calls = []

    async with ag.MonitoredSession(graph, hooks=[Recorder("A", calls)]) as session:
        while not session.should_stop():
            await session.run(node)

    assert names(of_runs(calls)) == ["A before_run", "A after_run"] * 2 + ["A before_run", "A on_error"]
    assert names(calls)[-1] == "A end"


async def test_a_job_that_is_left_by_an_error_does_not_call_end_and_saves_nothing(tmp_path: Path) -> None:
    graph, train = counting()
    calls: Calls = []

    async def leave_by_error() -> None:
        async with ag.MonitoredSession(graph, hooks=[Recorder("A", calls)], checkpoint_dir=tmp_path) as session:
            await session.run(train)
            raise KeyError

    with pytest.raises(KeyError):
        await leave_by_error()

    assert "A end" not in names(calls)
    assert [path.name for path in checkpoints.Saver(tmp_path).checkpoints] == ["model-0.safetensors"]


async def test_the_session_inside_runs_without_hooks_and_nested_runs_have_none_either() -> None:
    calls: Calls = []
    with ag.Graph() as graph:
        inner = ag.constant(1.0)

        async def nested() -> float:
            return float((await session.run(inner)).results)

        outer = ag.op(nested).node()

    async with ag.MonitoredSession(graph, hooks=[Recorder("A", calls)]) as session:
        await session.session.run(outer)
        assert of_runs(calls) == []
        await session.run(outer)
        assert names(of_runs(calls)) == ["A before_run", "A after_run"]
        await session.run(inner, None, ag.RunOptions(hooks=None))
        assert names(of_runs(calls)) == ["A before_run", "A after_run"]
        await session.run(inner, None, ag.RunOptions(hooks=(Recorder("R", calls),)))

    assert names(of_runs(calls))[2:] == ["A before_run", "R before_run", "R after_run", "A after_run"]


@pytest.mark.parametrize("method", ["begin", "after_create_session"])
async def test_a_job_that_cannot_begin_says_why_and_leaves_nothing(method: str) -> None:
    graph, _ = counting()
    failing = Recorder("A", [], None, **{method: raising(ValueError("no"))})

    with pytest.raises(ValueError, match="no"):
        await ag.MonitoredSession(graph, hooks=[failing]).__aenter__()


async def test_misuse_is_an_error_that_says_what_to_write() -> None:
    graph, train = counting()
    session = ag.MonitoredSession(graph)
    with pytest.raises(SessionError, match="there is no session now\n  write: async with MonitoredSession"):
        await session.run(train)
    async with session:
        with pytest.raises(SessionError, match="can be entered once\n  make a new one"):
            await session.__aenter__()
    with pytest.raises(SessionClosedError, match="a MonitoredSession can be entered once: make a new one"):
        await session.run(train)
    with pytest.raises(SessionError, match="but not where: give checkpoint_dir"):
        ag.MonitoredSession(graph, save_every_steps=5)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(session)
    assert repr(session) == f"<MonitoredSession of {graph!r}>"
