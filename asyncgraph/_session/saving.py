"""What a session's variables hold, to a file and back.

Saving takes what was committed last, which never changes, and writes it in a thread for ops: nobody waits for it.
Restoring reads in such a thread, and then commits as a run does, in its turn among those that assign. What was read
is what the variables hold from then on: a copy would be one more of the whole state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

import numpy as np

from .._exec.notes import forget_values
from .._graph.graph import Graph
from .._graph.variable import Variable, may_be
from .._plan.compiler import no_checkpoint
from .._safetensors import CODES, RESERVED
from ..abc import Array
from ..errors import CheckpointError, CheckpointMismatchError, CheckpointTypeError
from .checkpoint_file import CheckpointHeader, CheckpointReader, Source, write_checkpoint
from .engine import Engine
from .in_thread import GoOn, in_thread
from .replacing import commit, commit_here, placed
from .store import State

if TYPE_CHECKING:
    from .blocking import BlockingSession
    from .session import Session

FilePath = str | os.PathLike[str]
Target = FilePath | Callable[[int | None], str]
"""The path of a file; or what gives it, made absolute, once the step is known."""
Chosen = Collection[Variable | str] | Mapping[str, Variable | str]
"""Some variables, by themselves or by name; or, in a mapping, by the names that a file has for them."""


@final
class Saving:
    """A checkpoint that is to be written. What cannot be is refused when this is made.

    Fields:
        variables: those that are saved, by their names in the file.
        _then: called with the file when it is written, by who wrote it.

    Raises:
        CheckpointError: there are no variables, or what was given are none of the graph.
        CheckpointTypeError: the format has not the dtype of a variable.
    """

    def __init__(
        self,
        engine: Engine,
        target: Target,
        variables: Chosen | None,
        step: int | None,
        then: Callable[[Path], None] | None = None,
    ) -> None:
        self._engine: Final = engine
        self._target: Final = target if callable(target) else os.path.abspath(os.fsdecode(target))
        self._step: Final = None if step is None else index(step)
        self._then: Final = then
        self.variables: Final = chosen(engine.graph, variables)
        if not self.variables:
            raise CheckpointError("there are no variables to be saved")
        if RESERVED in self.variables:
            raise CheckpointError(
                f"a variable cannot be saved as {RESERVED!r}\n  give variables={{'another name': it}}"
            )
        others = [f"  {name!r} is {one.spec!r}" for name, one in self.variables.items() if one.dtype not in CODES]
        if others:
            lines = ["a checkpoint cannot hold the dtype of:", *others, f"  it can hold {', '.join(map(str, CODES))}"]
            raise CheckpointTypeError("\n".join(lines))

    def write(self, state: State, go_on: GoOn) -> Path:
        """Writes what `state` has of them, which is all; gives the file. Blocks.

        Raises:
            CheckpointError: the step is negative, or is not known and has to be.
            CheckpointFileError: the system cannot write it. The file at that path is the one that it was.
        """
        sources = {name: self._source(one, state[one]) for name, one in self.variables.items()}
        step = self._step
        counter = _global_step(self._engine.graph)
        if step is None and counter is not None and counter in state:
            step = int(self._source(counter, state[counter]).read())
        if step is not None and step < 0:
            raise CheckpointError(f"the step is {step}: steps are counted from 0")
        path = self._target(step) if callable(self._target) else self._target
        write_checkpoint(path, sources, step, go_on)
        if self._then is not None:
            self._then(Path(path))
        return Path(path)

    def _source(self, variable: Variable, value: Array) -> Source:
        if isinstance(value, np.ndarray):
            return Source.of(cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", value))
        home = self._engine.placer(variable.requested_device)
        read = partial(home.now, partial(home.backend.to_host, value))
        assert variable.dtype is not None
        return Source(variable.dtype, tuple(value.shape), False, read)


@final
class Restoring:
    """A checkpoint that is to be read.

    Raises:
        CheckpointError: what was given as variables are none of the graph, or one is there under two names.
    """

    def __init__(self, engine: Engine, path: FilePath, variables: Chosen | None, strict: bool) -> None:
        self._engine: Final = engine
        self._path: Final = os.path.abspath(os.fsdecode(path))
        self._all: Final = variables is None
        self._strict: Final = strict
        self._wanted: Final = chosen(engine.graph, variables)
        if len({*self._wanted.values()}) < len(self._wanted):
            raise CheckpointError(f"a variable cannot be restored from two names of a checkpoint: {[*self._wanted]}")

    def read(self, go_on: GoOn) -> tuple[CheckpointHeader, State]:
        """What the checkpoint says of itself, and what the variables are to hold, where they do. Blocks.

        Raises:
            CheckpointFileError: there is no such file, or it is corrupt.
            CheckpointMismatchError: it does not fit. Nothing but its header was read.
        """
        with CheckpointReader(self._path) as file:
            self._check(file.header)
            wanted = [pair for pair in self._wanted.items() if pair[0] in file.header.tensors]
            return file.header, {one: placed(self._engine, one, file.read(name, go_on)) for name, one in wanted}

    def _check(self, header: CheckpointHeader) -> None:
        """Raises if the checkpoint does not fit the variables, with all that does not."""
        tensors, wanted = header.tensors, self._wanted
        missing = [name for name in wanted if name not in tensors]
        unknown = [name for name in tensors if name not in wanted]
        differ = [
            f"{name!r} is {tensors[name]!r}, and the variable {one.spec!r}"
            for name, one in wanted.items()
            if name in tensors and not _fits(one, tensors[name].dtype, tensors[name].shape)
        ]
        lines = [f"  {line}" for line in _shown(differ)]
        if missing and (self._strict or len(missing) == len(wanted)):
            lines.append(f"  it has not: {', '.join(_shown(map(repr, missing)))}")
        if unknown and self._strict and self._all:
            lines.append(f"  the graph has not: {', '.join(_shown(map(repr, unknown)))}")
        if lines:
            hint = "  restore some by variables=[...], or those that it has by strict=False"
            raise CheckpointMismatchError(
                "\n".join([f"the checkpoint {self._path!r} does not fit the variables of the graph:", *lines, hint])
            )


def chosen(graph: Graph, variables: Chosen | None) -> dict[str, Variable]:
    """Variables of a graph by the names that a checkpoint has for them; by default all.

    Raises:
        CheckpointError: something is no variable of the graph, nor the name of one.
    """
    if variables is None:
        return {one.name: one for one in graph.variables}
    if isinstance(variables, Mapping):
        named = cast("Mapping[str, Variable | str]", variables)
        return {name: _variable(graph, one) for name, one in named.items()}
    return {one.name: one for one in [_variable(graph, one) for one in variables]}


def _variable(graph: Graph, one: Variable | str) -> Variable:
    found = graph[one] if isinstance(one, str) and one in graph else one
    if not isinstance(found, Variable) or found.graph is not graph:
        raise CheckpointError(f"{one!r} is no variable of {graph!r}\n  expected variables, or names of variables")
    return found


def _global_step(graph: Graph) -> Variable | None:
    """The variable of the graph that counts steps, if it has one."""
    named = [one for one in graph.variables if one.name == "global_step"]
    return next((one for one in named if one.dtype == np.int64 and one.shape == ()), None)


def _fits(variable: Variable, dtype: object, shape: tuple[int, ...]) -> bool:
    return dtype is not None and dtype == variable.dtype and may_be(shape, variable.shape)


_MOST: Final = 100
"""Lines of a message. A file may have millions of names."""


def _shown(names: Iterable[str]) -> list[str]:
    shown = [*names]
    return shown if len(shown) <= _MOST else [*shown[:_MOST], f"and {len(shown) - _MOST} more"]


# -- in a session --------------------------------------------------------------------------------------


async def save(session: Session, saving: Saving) -> Path:
    """As `Saving.write`, of what `session` has committed; variables that have no value yet get their initial one."""
    store, variables = session.store, saving.variables.values()
    if not store.uninitialized.isdisjoint(variables):
        await session.initialize(variables)
    return await in_thread(session, partial(saving.write, store.snapshot()), "the writing of a checkpoint")


async def restore(session: Session, restoring: Restoring) -> CheckpointHeader:
    """As `Restoring.read`, and then has the variables hold it, all of them at once or none."""
    header, state = await in_thread(session, restoring.read, "the reading of a checkpoint")
    await commit(session, state, "the restoring of a checkpoint")
    return header


def save_here(session: BlockingSession, saving: Saving) -> Path:
    """As `save`, in this thread."""
    store, variables = session.store, saving.variables.values()
    with session.in_use():
        if not store.uninitialized.isdisjoint(variables):
            session.initialize(variables)
        try:
            return saving.write(store.snapshot(), no_checkpoint)
        except BaseException as error:
            forget_values(error)
            raise


def restore_here(session: BlockingSession, restoring: Restoring) -> CheckpointHeader:
    """As `restore`, in this thread."""
    with session.in_use():
        header, state = restoring.read(no_checkpoint)
        commit_here(session.store, state)
        return header
