"""A `Saver` names checkpoints by step, keeps the last ones and finds the latest, whatever ends it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import asyncgraph as ag
from asyncgraph._session.checkpoint_file import Source, write_checkpoint
from asyncgraph._session.checkpoint_index import CheckpointIndex
from asyncgraph.checkpoints import Saver, latest_checkpoint, read_header
from asyncgraph.errors import CheckpointError, CheckpointFileError

from ..session.gates import Gate, turns
from .disk import EndingOs, Killed

with ag.Graph() as GRAPH:
    V = ag.variable(0.0, name="v")
    STEP = ag.global_step()
    UPDATE = ag.group(V.assign_add(1.0), STEP.assign_add(1))


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def model(*steps: int) -> list[str]:
    return [f"model-{step}.safetensors" for step in steps]


async def saved(saver: Saver, *steps: int) -> None:
    async with ag.Session(GRAPH) as session:
        for step in steps:
            await session.replace({V: float(step), STEP: step})
            await saver.save(session)


async def test_files_are_named_by_the_step_of_the_state_in_them(tmp_path: Path) -> None:
    saver = Saver(tmp_path / "run" / "a")
    async with ag.Session(GRAPH) as session:
        await session.run(UPDATE)
        path = await saver.save(session)
        assert path == tmp_path / "run" / "a" / "model-1.safetensors"
        assert await saver.save(session, 70) == tmp_path / "run" / "a" / "model-70.safetensors"
    assert read_header(path).step == 1
    assert load_file(path)["v"] == 1.0
    assert latest_checkpoint(tmp_path / "run" / "a") == tmp_path / "run" / "a" / "model-70.safetensors"


async def test_the_step_in_the_name_is_that_in_the_file_also_while_others_train(tmp_path: Path) -> None:
    saver = Saver(tmp_path, keep=None)
    async with ag.Session(GRAPH) as session:

        async def train() -> None:
            while True:
                await session.run(UPDATE)
                await asyncio.sleep(0)

        training = asyncio.create_task(train())
        for _ in range(10):
            await saver.save(session)
        training.cancel()
        await asyncio.wait([training])
    for path in saver.checkpoints:
        found = load_file(path)
        assert path.name == f"model-{found['global_step']}.safetensors"
        assert found["v"] == float(found["global_step"])


async def test_a_step_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    with ag.Graph() as graph:
        ag.variable(0.0, name="v")
    async with ag.Session(graph) as session:
        with pytest.raises(CheckpointError, match=r"the step is not known\n  give it, or count it in a variable"):
            await Saver(tmp_path).save(session)


async def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    saver = Saver(tmp_path, keep=2)
    await saved(saver, 1, 2, 3, 4)
    assert names(saver.checkpoints) == model(3, 4)
    assert files_in(tmp_path) == [*model(3, 4), "model-latest.json"]


async def test_a_saver_of_a_later_program_goes_on(tmp_path: Path) -> None:
    await saved(Saver(tmp_path, keep=2), 1, 2)
    await saved(Saver(tmp_path, keep=2), 3)
    assert files_in(tmp_path) == [*model(2, 3), "model-latest.json"]


async def test_the_latest_is_the_one_that_was_saved_last_not_that_of_the_last_step(tmp_path: Path) -> None:
    await saved(Saver(tmp_path, keep=3), 10, 20, 30, 15)
    assert names(Saver(tmp_path).checkpoints) == model(20, 30, 15)
    await saved(Saver(tmp_path, keep=3), 20)
    assert names(Saver(tmp_path).checkpoints) == model(30, 15, 20)


async def test_those_of_every_so_many_steps_are_kept_for_ever(tmp_path: Path) -> None:
    saver = Saver(tmp_path, keep=1, keep_every_steps=10)
    await saved(saver, *range(8, 32, 2))
    assert names(saver.checkpoints) == model(10, 20, 30)
    await saved(saver, 31, 32)
    assert names(saver.checkpoints) == model(10, 20, 30, 32)


async def test_with_keep_none_all_are_kept(tmp_path: Path) -> None:
    saver = Saver(tmp_path, keep=None)
    await saved(saver, *range(10))
    assert names(saver.checkpoints) == model(*range(10))


async def test_savers_of_one_folder_do_not_touch_each_other_s_files(tmp_path: Path) -> None:
    (tmp_path / "model-1.safetensors").write_text("not in a list")
    (tmp_path / "model-x.safetensors").write_text("not of a saver")
    await saved(Saver(tmp_path, "best", keep=1), 1, 2)
    await saved(Saver(tmp_path, keep=1), 3, 4)
    assert files_in(tmp_path) == [
        "best-2.safetensors", "best-latest.json", *model(1, 4), "model-latest.json", "model-x.safetensors",
    ]  # fmt: skip
    assert latest_checkpoint(tmp_path, "best") == tmp_path / "best-2.safetensors"


async def test_the_latest_is_restored_or_nothing_if_there_is_none(tmp_path: Path) -> None:
    saver = Saver(tmp_path / "run")
    async with ag.Session(GRAPH) as session:
        assert await saver.restore_latest(session) is None
        assert session.store.uninitialized == {V, STEP}
    assert not (tmp_path / "run").exists()
    await saved(saver, 3, 5)
    async with ag.Session(GRAPH) as session:
        header = await saver.restore_latest(session)
        assert header is not None
        assert (header.path, header.step) == (tmp_path / "run" / "model-5.safetensors", 5)
        assert (await session.run([V, STEP])).results == [5.0, 5]


def test_a_blocking_session_has_it_all(tmp_path: Path) -> None:
    saver = Saver(tmp_path, keep=1)
    with ag.BlockingSession(GRAPH) as session:
        assert saver.restore_latest_blocking(session) is None
        session.run(UPDATE)
        saver.save_blocking(session)
        session.run(UPDATE)
        assert saver.save_blocking(session) == tmp_path / "model-2.safetensors"
    assert files_in(tmp_path) == [*model(2), "model-latest.json"]
    with ag.BlockingSession(GRAPH) as session:
        header = saver.restore_latest_blocking(session)
        assert header is not None
        assert session.run(V).results == 2.0


async def test_a_saver_of_some_variables_saves_and_restores_those(tmp_path: Path) -> None:
    saver = Saver(tmp_path, variables=["v"])
    await saved(saver, 3)
    assert {*load_file(saver.checkpoints[0])} == {"v"}
    async with ag.Session(GRAPH) as session:
        await saver.restore_latest(session)
        assert (await session.run([V, STEP])).results == [3.0, 0]


async def test_a_file_that_somebody_removed_is_passed_over_and_not_counted(tmp_path: Path) -> None:
    saver = Saver(tmp_path, keep=3)
    await saved(saver, 1, 2, 3)
    (tmp_path / "model-3.safetensors").unlink()
    assert latest_checkpoint(tmp_path) == tmp_path / "model-2.safetensors"
    await saved(saver, 4)
    assert names(saver.checkpoints) == model(1, 2, 4)


async def test_without_an_index_the_file_of_the_last_step_is_the_latest(tmp_path: Path) -> None:
    await saved(Saver(tmp_path), 9, 10)
    (tmp_path / "model-latest.json").unlink()
    assert latest_checkpoint(tmp_path) == tmp_path / "model-10.safetensors"
    assert latest_checkpoint(tmp_path / "none") is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "\xff",
        "[" * 100_000,
        "[]",
        "{}",
        '{"checkpoints": 3}',
        '{"checkpoints": [3]}',
        '{"checkpoints": ["../model-1.safetensors"]}',
        '{"checkpoints": ["other-1.safetensors"]}',
        '{"checkpoints": ["model-1.safetensors\\n"]}',
    ],
    ids=lambda content: repr(content[:40]),
)
async def test_a_corrupt_index_is_an_error_and_removes_nothing(content: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    await saved(Saver(folder), 1)
    (tmp_path / "model-1.safetensors").touch()
    (folder / "model-latest.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(CheckpointFileError, match="(?s)cannot read '.*model-latest.json'.*\n  remove it, and"):
        latest_checkpoint(folder)
    with pytest.raises(CheckpointFileError, match="cannot read '.*model-latest.json'"):
        await saved(Saver(folder, keep=1), 2)
    assert files_in(tmp_path) == ["model-1.safetensors", "run"]
    assert {*model(1)} < {*files_in(folder)}


async def test_a_corrupt_checkpoint_is_an_error_that_says_how_to_go_on_from_the_one_before(tmp_path: Path) -> None:
    saver = Saver(tmp_path)
    await saved(saver, 1, 2)
    (tmp_path / "model-2.safetensors").write_bytes(b"")
    told = "is truncated.*\n  remove it, and 'model-1.safetensors' is the latest"
    async with ag.Session(GRAPH) as session:
        with pytest.raises(CheckpointFileError, match=told):
            await saver.restore_latest(session)
    with ag.BlockingSession(GRAPH) as blocking, pytest.raises(CheckpointFileError, match=told):
        await asyncio.to_thread(saver.restore_latest_blocking, blocking)

    (tmp_path / "model-2.safetensors").unlink()
    async with ag.Session(GRAPH) as session:
        header = await saver.restore_latest(session)
    assert header is not None
    assert header.step == 1


async def test_of_saves_that_overlap_the_latest_is_the_one_that_was_begun_last(tmp_path: Path) -> None:
    saver, index = Saver(tmp_path, keep=1), CheckpointIndex(tmp_path, "model")
    gate = Gate()
    with ag.Graph() as graph:
        v = ag.variable(0.0, name="v")
        blocked = ag.op()(gate).node("held")
    async with ag.Session(graph, config=ag.SessionConfig(threads=1)) as session:
        await session.initialize([v])
        held = session.submit(blocked)
        await gate.has_begun()
        first = asyncio.create_task(saver.save(session, 1))
        await turns(3)
        async with ag.Session(graph) as other:
            await saver.save(other, 2)
        gate.open()
        await held
        await first
    assert names(index.files()) == model(2)


async def test_saves_at_the_same_time_keep_what_they_should(tmp_path: Path) -> None:
    saver = Saver(tmp_path, keep=3)
    async with ag.Session(GRAPH) as session:
        await asyncio.gather(*[saver.save(session, step) for step in range(20)])
    assert files_in(tmp_path) == [*model(17, 18, 19), "model-latest.json"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"keep": 0}, "keep=0: give an int of at least 1, or None"),
        ({"keep": True}, "keep=True"),
        ({"keep_every_steps": 0}, "keep_every_steps=0"),
        ({"name": ""}, "'' cannot name files"),
        ({"name": "a/b"}, "'a/b' cannot name files"),
        ({"name": "../b"}, "cannot name files"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=told):
        Saver(tmp_path, **settings)


async def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointFileError, match="cannot make the folder '.*': Not a directory"):
        await saved(Saver(tmp_path / "file" / "run"), 1)


def save_as_a_saver(folder: Path, step: int, keep: int, calls: EndingOs) -> None:
    index = CheckpointIndex(folder, "model")
    path = index.path_of(step)
    write_checkpoint(path, {"v": Source.of(np.full(10, float(step)))}, step, lambda: None, calls)
    index.add(Path(path), {}, keep, None, calls)


def calls_of_a_save(folder: Path) -> list[str]:
    calls = EndingOs()
    for step in (1, 2):
        calls = EndingOs()
        save_as_a_saver(folder, step, 1, calls)
    return calls.calls


@pytest.mark.parametrize("keep", [1, 2])
def test_a_program_that_ends_after_any_call_leaves_a_good_latest_and_nothing_that_is_never_removed(
    keep: int, tmp_path: Path
) -> None:
    count = len(calls_of_a_save(tmp_path / "counted"))
    for ends_after in range(count):
        folder = tmp_path / str(ends_after)
        save_as_a_saver(folder, 1, keep, EndingOs())
        save_as_a_saver(folder, 2, keep, EndingOs())
        with pytest.raises(Killed):
            save_as_a_saver(folder, 3, keep, EndingOs(ends_after))
        latest = latest_checkpoint(folder)
        assert latest is not None
        assert latest.name in model(2, 3)
        assert load_file(latest)["v"].tolist() == [float(read_header(latest).step or 0)] * 10
        for step in (3, 4):
            save_as_a_saver(folder, step, keep, EndingOs())
        whole = [name for name in files_in(folder) if not name.startswith(".asyncgraph-")]
        assert whole == [*model(*range(5 - keep, 5)), "model-latest.json"]
        assert json.loads((folder / "model-latest.json").read_text())["checkpoints"][-1] == model(4)[0]
