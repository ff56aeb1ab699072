"""What writes files about runs."""

from __future__ import annotations

import json
import os
from functools import partial
from math import isfinite
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, cast, final
from weakref import WeakKeyDictionary

import numpy as np

from .._graph.building import global_step
from .._session.args import RunArgs, RunOptions
from .._session.hook import Hook, RunContext
from .._session.in_thread import in_thread
from .._session.saving import FilePath
from .tensors import Tensors, labelled
from .timer import Clock, Timer

if TYPE_CHECKING:
    from .._session.values import RunValues


@final
class SummaryHook(Hook):
    """Appends values of runs to a file of JSON lines: `{"step": 100, "time": 1.7e9, "loss": 0.25}`.

    "step" is what `global_step` was when the run began, and "time" is in seconds since 1970. Arrays become lists; what
    JSON has no number for becomes null, or text. Each line is written whole, so that the file can be read at any time.
    Who goes on from a checkpoint appends: of two lines of a step, the later counts.

    Args:
        path: of the file, in a folder that there is.
        tensors: what is written.
        every_steps, every_s: how often: by runs, the first included, or by seconds; by default every 100 runs.
        clock: gives seconds.

    Raises:
        ValueError: both are given, or one is not more than 0.
    """

    def __init__(
        self,
        path: FilePath,
        tensors: Tensors,
        every_steps: int | None = None,
        *,
        every_s: float | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self._path: Final = Path(os.path.abspath(os.fsdecode(path)))
        self._wanted: Final = RunArgs(("global_step", labelled(tensors)))
        self._timer: Final = Timer(every_steps, every_s, 100, clock)
        self._runs = 0

    def begin(self) -> None:
        """As `Hook.begin`."""
        global_step()

    def before_run(self, context: RunContext) -> RunArgs[Any] | None:
        """As `Hook.before_run`."""
        self._runs += 1
        if not self._timer.is_due(self._runs):
            return None
        self._timer.mark(self._runs)
        return self._wanted

    async def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`."""
        if values.results is None:
            return
        step, tensors = values.results
        line = {"step": int(step), "time": time(), **{name: _plain(value) for name, value in tensors.items()}}
        write = partial(_append, self._path, json.dumps(line, default=str) + "\n")
        await in_thread(context.session, lambda go_on: write(), "the writing of a summary")


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    return _with_nulls(np.asarray(value).tolist())


def _with_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_nulls(one) for one in cast("list[Any]", value)]
    return None if isinstance(value, float) and not isfinite(value) else value


@final
class TraceHook(Hook):
    """Traces runs now and then, and writes each trace to a file for chrome://tracing or Perfetto.

    The files are `trace-<number of the run>.json`.

    Args:
        directory: a folder that there is.
        every_steps, every_s: how often: by runs, the first included, or by seconds; by default every 100 runs.
        clock: gives seconds.

    Raises:
        ValueError: both are given, or one is not more than 0.
    """

    def __init__(
        self,
        directory: FilePath,
        every_steps: int | None = None,
        *,
        every_s: float | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self._directory: Final = Path(os.path.abspath(os.fsdecode(directory)))
        self._timer: Final = Timer(every_steps, every_s, 100, clock)
        self._traced: Final[WeakKeyDictionary[RunContext, int]] = WeakKeyDictionary()
        self._runs = 0

    def before_run(self, context: RunContext) -> RunArgs[Any] | None:
        """As `Hook.before_run`."""
        self._runs += 1
        if not self._timer.is_due(self._runs):
            return None
        self._timer.mark(self._runs)
        self._traced[context] = self._runs
        return RunArgs(None, options=RunOptions(trace=True))

    async def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`."""
        number = self._traced.get(context)
        trace = values.metadata.trace
        if number is not None and trace is not None:
            write = partial(trace.save, self._directory / f"trace-{number}.json")
            await in_thread(context.session, lambda go_on: write(), "the writing of a trace")
