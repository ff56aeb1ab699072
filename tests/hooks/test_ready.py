"""The hooks that are there already."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import checkpoints, hooks
from asyncgraph.errors import CheckpointError, MissingFeedError, NanLossError, SessionError

from .test_timer import Clock


def training() -> tuple[ag.Graph, ag.Node, ag.Node]:
    """A graph that counts a step, and a loss that depends on it and on a placeholder with a default."""
    with ag.Graph() as graph:
        step = ag.global_step()
        x = ag.placeholder("float64", (), name="x", default=0.5)
        loss = ag.ops.multiply(ag.ops.astype(step, "float64"), x, name="loss")
        return graph, step.assign_add(1, name="train"), loss


async def train(graph: ag.Graph, count: int, *given: ag.Hook, **feeds: Any) -> None:
    """Runs so many steps with these hooks."""
    async with ag.Session(graph, hooks=given) as session:
        for _ in range(count):
            await session.run("train", feeds or None)


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "asyncgraph"]


# -- steps -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("of_steps", "expected"), [((3, None), 7), ((None, 5), 5), ((None, 4), 4)])
async def test_stop_at_step_counts_from_the_first_session_or_names_the_step(of_steps: Any, expected: int) -> None:
    graph, train, _ = training()
    steps, last_step = of_steps
    async with ag.Session(graph) as session:
        for _ in range(4):
            await session.run(train)
        state = session.store.snapshot()
    async with ag.MonitoredSession(
        graph, hooks=[_Replacing(state), hooks.StopAtStepHook(steps, last_step=last_step)]
    ) as s:
        while not s.should_stop():
            await s.run(train)
        assert (await s.session.run("global_step")).results == expected


class _Replacing(ag.Hook):
    """Has a session begin with these values."""

    def __init__(self, state: Any) -> None:
        self.state = state

    async def after_create_session(self, session: ag.Session) -> None:
        await session.replace(self.state)


async def test_stop_at_step_of_one_run_needs_the_step_itself() -> None:
    graph, train, _ = training()
    async with ag.Session(graph) as session:
        with pytest.raises(SessionError, match="hooks=.*or give last_step"):
            await session.run(train, None, ag.RunOptions(hooks=(hooks.StopAtStepHook(3),)))
        assert session.store.snapshot() == {}
        await session.run(train, None, ag.RunOptions(hooks=(hooks.StopAtStepHook(last_step=1),)))
        assert session.hooks.stop.on


@pytest.mark.parametrize("given", [{}, {"steps": 1, "last_step": 2}])
def test_stop_at_step_takes_one_of_two_settings(given: Any) -> None:
    with pytest.raises(ValueError, match="steps=.* and last_step=.*: give one of them"):
        hooks.StopAtStepHook(**given)


async def test_the_step_counter_logs_steps_per_second(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "asyncgraph")
    graph, _, _ = training()
    clock = Clock()
    counter = hooks.StepCounterHook(10, clock=clock)

    class Slow(ag.Hook):
        def before_run(self, context: ag.RunContext) -> None:
            clock.now += 0.5

    await train(graph, 25, counter, Slow())

    assert logged(caplog) == ["step 10: 2 steps/s", "step 20: 2 steps/s"]
    assert counter.steps_per_s == 2.0


async def test_the_step_counter_warns_a_few_times_if_steps_stand_still(caplog: pytest.LogCaptureFixture) -> None:
    graph, _, loss = training()
    async with ag.Session(graph, hooks=[hooks.StepCounterHook()]) as session:
        for _ in range(9):
            await session.run(loss)

    told = "global_step is still 0 after a run\n  count steps: ag.global_step().assign_add(1)"
    assert logged(caplog) == [told] * 5


# -- values ----------------------------------------------------------------------------------------------


async def test_values_are_logged_in_the_first_run_then_every_so_many_and_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "asyncgraph")
    graph, _, loss = training()

    await train(graph, 7, hooks.LoggingTensorHook({"l": loss, "step": "global_step"}, 3, at_end=True))
    await train(graph, 1, hooks.LoggingTensorHook([loss, "global_step"], text=repr))

    assert logged(caplog) == [
        *[f"l = {step / 2}, step = {step}" for step in (0, 3, 6, 7)],
        "{'loss': array(0.), 'global_step': array(0)}",
    ]


async def test_runs_that_overlap_are_told_apart_by_what_they_gave(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "asyncgraph")
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        loss = ag.ops.square(x, name="loss")
    args = [ag.RunArgs(loss, {x: float(number)}) for number in range(6)]

    async with ag.Session(graph, hooks=[hooks.LoggingTensorHook(loss, 2)]) as session:
        async for _ in session.map(args, concurrency=6):
            pass

    assert sorted(logged(caplog)) == ["loss = 0.0", "loss = 16.0", "loss = 4.0"]


async def test_runs_between_two_logs_need_no_feeds_for_them() -> None:
    with ag.Graph() as graph:
        loss = ag.ops.square(ag.placeholder("float64", (), name="x"))
        other = ag.constant(1.0)
    async with ag.Session(graph, hooks=[hooks.LoggingTensorHook({"loss": loss}, 2)]) as session:
        await session.run(other, {"x": 1.0})
        await session.run(other)
        with pytest.raises(
            MissingFeedError, match=r"^LoggingTensorHook, hooks\[0\] of the session: no value was fed for 'x'"
        ):
            await session.run(other)


@pytest.mark.parametrize("value", [np.nan, [[1.0, np.nan]]])
async def test_a_loss_that_is_no_number_ends_the_run_or_the_job(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", name="x")
        loss = ag.ops.negative(x, name="loss")

    async with ag.Session(graph, hooks=[hooks.NanTensorHook(loss)]) as session:
        await session.run(x, {x: np.inf})
        with pytest.raises(NanLossError, match="the loss 'loss' is .*nan"):
            await session.run(x, {x: value})
    async with ag.MonitoredSession(graph, hooks=[hooks.NanTensorHook("loss", fail=False)]) as job:
        await job.run(x, {x: value})
        assert job.should_stop()
    assert "the session is asked to stop" in logged(caplog)[0]
    assert issubclass(NanLossError, ArithmeticError)


# -- files -----------------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def events_in(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {path.name: json.loads(path.read_text())["traceEvents"] for path in sorted(folder.iterdir())}


async def test_summaries_are_lines_of_json_that_are_appended(tmp_path: Path) -> None:
    graph, _, loss = training()
    path = tmp_path / "summary.jsonl"
    with graph:
        both = ag.ops.stack([loss, loss])

    await train(graph, 5, hooks.SummaryHook(path, {"both": both, "loss": loss}, 2))
    await train(graph, 1, hooks.SummaryHook(path, loss), x=np.nan)

    lines = lines_of(path)
    assert [line.pop("time") > 1e9 for line in lines] == [True] * 4
    assert lines == [
        *[{"step": step, "both": [step / 2] * 2, "loss": step / 2} for step in (0, 2, 4)],
        {"step": 0, "loss": None},
    ]


async def test_traces_are_written_for_the_runs_whose_turn_it_is(tmp_path: Path) -> None:
    graph, train_step, _ = training()
    hook = hooks.TraceHook(tmp_path, 2)
    async with ag.Session(graph, hooks=[hook]) as session:
        traced = [(await session.run(train_step)).metadata.trace is not None for _ in range(3)]
        await session.run(train_step, None, ag.RunOptions(trace=True))

    assert traced == [True, False, True]
    events = events_in(tmp_path)
    assert [*events] == ["trace-1.json", "trace-3.json"]
    assert any(event["name"] == "train" for event in events["trace-1.json"])


async def test_checkpoints_are_saved_at_the_beginning_when_it_is_time_and_at_the_end(tmp_path: Path) -> None:
    graph, _, _ = training()
    clock = Clock()
    saver = checkpoints.Saver(tmp_path, keep=None)

    class Slow(ag.Hook):
        def before_run(self, context: ag.RunContext) -> None:
            clock.now += 200.0

    await train(graph, 7, hooks.CheckpointSaverHook(saver, clock=clock), Slow())
    await train(graph, 2, hooks.CheckpointSaverHook(tmp_path / "other", 2))

    assert [checkpoints.read_header(path).step for path in saver.checkpoints] == [0, 3, 6, 7]
    other = checkpoints.Saver(tmp_path / "other").checkpoints
    assert [checkpoints.read_header(path).step for path in other] == [0, 2]


async def test_runs_that_overlap_save_one_checkpoint_for_one_time(tmp_path: Path) -> None:
    graph, train_step, _ = training()
    saver = checkpoints.Saver(tmp_path, keep=None)
    async with ag.Session(graph, hooks=[hooks.CheckpointSaverHook(saver, 8)]) as session:
        await asyncio.gather(*[session.run(train_step) for _ in range(20)])

    steps = [checkpoints.read_header(path).step for path in saver.checkpoints]
    assert steps[0] == 0
    assert steps[-1] == 20
    assert len(steps) <= 4


async def test_what_was_saved_last_is_not_saved_again_at_the_end(tmp_path: Path) -> None:
    graph, train_step, _ = training()
    saver = checkpoints.Saver(tmp_path)
    async with ag.Session(graph, hooks=[hooks.CheckpointSaverHook(saver, 2)]) as session:
        for _ in range(4):
            await session.run(train_step)
        before = saver.checkpoints[-1].stat().st_ino
        assert checkpoints.read_header(saver.checkpoints[-1]).step == 4

    assert saver.checkpoints[-1].stat().st_ino == before  # Files are replaced, not written to.


async def test_what_was_assigned_without_a_step_is_saved_in_its_time_and_at_the_end(tmp_path: Path) -> None:
    with ag.Graph() as graph:
        v = ag.variable(0.0, "v")
        add = v.assign_add(1.0)
    clock, inodes = Clock(), set[int]()
    saver = checkpoints.Saver(tmp_path)

    async def saved() -> Any:
        async with ag.Session(graph) as session:
            await saver.restore_latest(session)
            return (await session.run(v)).results

    async with ag.Session(graph, hooks=[hooks.CheckpointSaverHook(saver, every_s=10.0, clock=clock)]) as session:
        for expected in (0.0, 2.0):
            clock.now += 6.0
            await session.run(add)
            assert await saved() == expected
        clock.now += 60.0
        for _ in range(2):
            await session.run(v)  # Nothing is new.
            inodes.add(saver.checkpoints[-1].stat().st_ino)
        assert len(inodes) == 1
        await session.run(add)
        await session.run(add)
    assert await saved() == 4.0


def test_a_folder_that_means_nothing_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        hooks.CheckpointSaverHook(checkpoints.Saver(tmp_path, keep=0))
    with pytest.raises(ValueError, match="give one of them"):
        hooks.CheckpointSaverHook(tmp_path, 5, every_s=5.0)


# -- feeds and ends --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_feed_hook_feeds_each_run_anew(is_async: bool) -> None:
    with ag.Graph() as graph:
        y = ag.ops.square(ag.placeholder("float64", (), name="x"))
    numbers = iter([2.0, 3.0])

    async def feed_later() -> dict[str, float]:
        return {"x": next(numbers)}

    feed = hooks.FeedHook(feed_later if is_async else lambda: {"x": next(numbers)})
    async with ag.Session(graph, hooks=[feed]) as session:
        assert [(await session.run(y)).results, (await session.run(y)).results] == [4.0, 9.0]


async def test_final_ops_are_run_before_the_session_closes() -> None:
    graph, _, loss = training()
    final = hooks.FinalOpsHook({"loss": loss, "step": "global_step"}, {"x": 3.0})

    assert final.results is None
    await train(graph, 4, final)

    assert final.results == {"loss": 12.0, "step": 4}


# -- progress --------------------------------------------------------------------------------------------


class Drawn:
    """Takes the place of a progress bar of tqdm's or of rich's: says what is done with it."""

    calls: list[tuple[Any, ...]]

    def __init__(self, *columns: object, total: int | None = None, desc: str | None = None) -> None:
        self.n = 0
        Drawn.calls = [("new", total, desc)]

    @staticmethod
    def get_default_columns() -> tuple[object, ...]:
        return ()

    def add_task(self, description: str, total: int, note: str) -> int:
        Drawn.calls.append(("task", total, description))
        return 7

    def start(self) -> None:
        Drawn.calls.append(("start",))

    def set_postfix_str(self, note: str, refresh: bool) -> None:
        assert note == ""

    def update(self, what: int, completed: int | None = None, note: str = "") -> None:
        self.n += what
        Drawn.calls.append(("update", self.n if completed is None else (what, completed)))

    def close(self) -> None:
        Drawn.calls.append(("close",))

    stop = close


@pytest.mark.parametrize(
    ("installed", "fetch", "calls"),
    [
        (
            "tqdm",
            lambda: ag.global_step().assign_add(2),
            [("new", 3, "training"), *[("update", done) for done in (0, 2, 4, 6)], ("close",)],
        ),
        (
            "rich",
            lambda: ag.constant(1.0),
            [
                *[("new", None, None), ("task", 3, "training"), ("start",)],
                *[("update", (7, done)) for done in (0, 1, 2, 3)],
                ("close",),
            ],
        ),
    ],
)
async def test_progress_goes_by_steps_or_else_by_runs(
    installed: str, fetch: Any, calls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = SimpleNamespace(tqdm=Drawn, Progress=Drawn, TextColumn=str)
    for name in ("tqdm", "rich", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, module if name.startswith(installed) else None)
    with ag.Graph() as graph:
        train = fetch()
    async with ag.Session(graph, hooks=[hooks.ProgressHook(3, "training")]) as session:
        for _ in range(3):
            await session.run(train)

    assert Drawn.calls == calls


async def test_without_a_library_for_progress_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tqdm", "rich", "rich.progress"):
        monkeypatch.setitem(sys.modules, name, None)
    graph, _, _ = training()

    with pytest.raises(ModuleNotFoundError, match="tqdm or rich, and neither is installed\n  pip install tqdm"):
        await train(graph, 1, hooks.ProgressHook())
