"""What is saved and restored while others run, close or cancel."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import asyncgraph as ag
from asyncgraph._session.saving import Saving, save
from asyncgraph.errors import SessionClosedError, StateConflictError

from ..session.gates import AsyncGate, Gate, turns
from .models import Model, files_in, versions


async def test_runs_go_on_while_a_checkpoint_is_written_and_it_has_what_was_there_before(tmp_path: Path) -> None:
    model, gate = Model(), Gate()
    with model.graph:
        blocked = ag.op()(gate).node("held")
    async with ag.Session(model.graph, config=ag.SessionConfig(threads=1)) as session:
        await session.run(model.update)
        held = session.submit(blocked)
        await gate.has_begun()
        saved = asyncio.create_task(session.save(tmp_path / "model"))
        await turns(3)
        await session.run(model.update)
        assert versions((await session.run(model.all)).results) == {2.0}
        assert not saved.done()
        gate.open()
        await held
        assert versions(load_file(await saved).values()) == {1.0}


async def test_a_checkpoint_is_of_one_version_whatever_is_committed_meanwhile(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        stop = asyncio.Event()

        async def train() -> None:
            for _ in range(30_000):  # An int16 goes no further.
                if stop.is_set():
                    break
                await session.run(model.update)
                await asyncio.sleep(0)

        training = asyncio.create_task(train())
        seen = [versions(load_file(await session.save(tmp_path / "model")).values()) for _ in range(20)]
        stop.set()
        await training
    assert all(len(found) == 1 for found in seen)
    assert len(set[float]().union(*seen)) > 1


async def test_nobody_sees_half_of_what_is_restored(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        paths = [await session.save(tmp_path / "0")]
        await session.run(model.update)
        paths.append(await session.save(tmp_path / "1"))

        async def restore() -> None:
            for number in range(20):
                await session.restore(paths[number % 2])

        restoring = asyncio.create_task(restore())
        seen = set[float]()
        while not restoring.done():
            found = versions((await session.run(model.all)).results)
            assert len(found) == 1
            seen |= found
            await asyncio.sleep(0)
        await restoring
    assert seen == {0.0, 1.0}


async def test_a_restore_waits_for_its_turn_among_those_that_assign(tmp_path: Path) -> None:
    model, gate = Model(), AsyncGate()
    with model.graph:
        late = model.b.assign(ag.op(spec="int16[]")(gate).node(np.int16(50)))
    async with ag.Session(model.graph) as session:
        await session.save(tmp_path / "model")
        assigning = session.submit(late)
        await gate.has_begun()
        restoring = asyncio.create_task(session.restore(tmp_path / "model"))
        await asyncio.wait([restoring], timeout=0.1)
        assert not restoring.done()
        assert int((await session.run(model.b)).results) == 0
        gate.open()
        await assigning
        await restoring
        assert int((await session.run(model.b)).results) == 0


async def test_a_restore_that_is_cancelled_while_it_waits_changes_nothing(tmp_path: Path) -> None:
    model, gate = Model(), AsyncGate()
    with model.graph:
        late = model.b.assign(ag.op(spec="int16[]")(gate).node(np.int16(50)))
    async with ag.Session(model.graph) as session:
        await session.save(tmp_path / "model")
        await session.run(model.update)
        assigning = session.submit(late)
        await gate.has_begun()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await session.restore(tmp_path / "model")
        gate.open()
        await assigning
        assert [versions([one]) for one in (await session.run(model.all)).results] == [{1.0}, {50.0}, {1.0}]


@pytest.mark.parametrize("times", [1, 3])
async def test_a_save_that_is_cancelled_is_waited_for_and_leaves_the_old_file_alone(times: int, tmp_path: Path) -> None:
    model, gate = Model(), Gate()
    with model.graph:
        blocked = ag.op()(gate).node("held")
    async with ag.Session(model.graph, config=ag.SessionConfig(threads=1)) as session:
        await session.save(tmp_path / "model")
        before = (tmp_path / "model").read_bytes()
        await session.run(model.update)
        held = session.submit(blocked)
        await gate.has_begun()
        saving = asyncio.create_task(session.save(tmp_path / "model"))
        await turns(3)
        for _ in range(times):
            saving.cancel()
            await turns(3)
        assert not saving.done()
        gate.open()
        await held
        with pytest.raises(asyncio.CancelledError):
            await saving
        assert saving.cancelling() == times
    assert (tmp_path / "model").read_bytes() == before
    assert files_in(tmp_path) == ["model"]


async def test_saves_to_one_path_at_the_same_time_leave_one_of_them(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        tasks: list[asyncio.Task[Path]] = []
        for _ in range(20):
            await session.run(model.update)
            tasks.append(asyncio.create_task(session.save(tmp_path / "model")))
        await asyncio.gather(*tasks)
    assert len(versions(load_file(tmp_path / "model").values())) == 1
    assert files_in(tmp_path) == ["model"]


async def test_closing_a_session_waits_for_a_checkpoint(tmp_path: Path) -> None:
    model, gate = Model(), Gate()
    session = ag.Session(model.graph)
    saving = asyncio.create_task(save(session, Saving(session.engine, tmp_path / "model", None, None, then=gate)))
    await gate.has_begun()
    closing = asyncio.create_task(session.aclose())
    await turns(3)
    assert not closing.done()
    assert (session.statistics().errands, session.statistics().abandoned) == (("the writing of a checkpoint",), ())
    gate.open()
    await closing
    assert session.statistics().errands == ()
    assert versions(load_file(await saving).values()) == {0.0}
    for call in (session.save, session.restore):
        with pytest.raises(SessionClosedError):
            await call(tmp_path / "model")


async def test_a_save_that_is_cancelled_once_the_file_is_there_leaves_the_new_one(tmp_path: Path) -> None:
    model, gate = Model(), Gate()
    async with ag.Session(model.graph) as session:
        saving = asyncio.create_task(save(session, Saving(session.engine, tmp_path / "model", None, None, then=gate)))
        await gate.has_begun()
        saving.cancel()
        await turns(3)
        assert not saving.done()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await saving
    assert versions(load_file(tmp_path / "model").values()) == {0.0}


async def test_an_op_saves_also_if_no_thread_is_free(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph, config=ag.SessionConfig(threads=1)) as session:

        async def save(_: Any) -> str:
            return str(await session.save(tmp_path / "model"))

        gate = Gate()
        with model.graph:
            inner = ag.op()(save).node(0)
            blocked = ag.op()(gate).node("held")
        held = session.submit(blocked)
        await gate.has_begun()
        assert (await session.run(inner)).results == str(tmp_path / "model")
        gate.open()
        await held


async def test_an_op_that_restores_sees_what_it_has_restored(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        await session.save(tmp_path / "model")
        await session.run(model.update)

        async def restore(before: Any) -> tuple[int, int]:
            await session.restore(tmp_path / "model")
            return int(before), int((await session.run(model.b)).results)

        with model.graph:
            inner = ag.op()(restore).node(model.b)
        assert (await session.run(inner)).results == (1, 0)


async def test_an_op_cannot_restore_what_its_own_run_assigns(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        await session.save(tmp_path / "model")

        async def restore(_: Any) -> None:
            await session.restore(tmp_path / "model")

        with model.graph:
            inner = ag.op()(restore).node(0)
            both = ag.group(inner, model.update)
        with pytest.raises(StateConflictError):
            await session.run(both)
        assert versions((await session.run(model.all)).results) == {0.0}
