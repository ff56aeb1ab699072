"""Checkpoints: what a session's variables hold, saved to files and restored.

`await session.save(path)` and `await session.restore(path)` do it for one file; a `Saver` names files by step in a
folder, keeps the last ones, and finds the latest. The format is safetensors, so that other programs read it; its
tensors are the variables' values by name, in C order, and its texts have the step.

A file, and the index of a `Saver`, are replaced whole: whenever program or machine stop, the last good one is there.
What other programs wrote can be restored. Nothing is ever unpickled or run.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, final

from ._session.blocking import BlockingSession
from ._session.checkpoint_file import CheckpointHeader as CheckpointHeader
from ._session.checkpoint_file import CheckpointReader
from ._session.checkpoint_index import CheckpointIndex
from ._session.in_thread import in_thread
from ._session.saving import Chosen, FilePath, Saving, save, save_here
from ._session.session import Session
from .errors import CheckpointError, CheckpointFileError

__all__ = ["CheckpointHeader", "Saver", "latest_checkpoint", "read_header"]


def read_header(path: FilePath) -> CheckpointHeader:
    """What the checkpoint at `path` has, without its data. Blocks.

    Raises:
        CheckpointFileError: there is no such file, or it is corrupt.
    """
    with CheckpointReader(os.path.abspath(os.fsdecode(path))) as file:
        return file.header


def latest_checkpoint(directory: FilePath, name: str = "model") -> Path | None:
    """The file that a `Saver` of that folder and name has saved last; `None` if there is none. Blocks.

    Raises:
        CheckpointFileError: the saver's index is corrupt.
    """
    files = CheckpointIndex(directory, name).files()
    return files[-1] if files else None


@final
class Saver:
    """Saves checkpoints of one training to a folder, named by step, and keeps the last ones.

    The files are `<name>-<step>.safetensors`. `<name>-latest.json` lists them, in the order in which they were begun:
    the last one is the latest, also if its step is less than another's. Savers of one folder have different names.
    One program saves at a time; a later one, with another saver, goes on with the list. Files that are not in the
    list are never removed.

    Args:
        directory: the folder; made if need be.
        name: what names of files begin with.
        keep: how many files are kept; `None` for all.
        keep_every_steps: files of steps that are multiples of it are kept besides, for ever.
        variables: what is saved and restored, as in `Session.save`.

    Raises:
        CheckpointError: a setting means nothing.
    """

    # Fields:
    #   _index: the files, on the disk.
    #   _saves: numbers the saves.
    #   _begun: for files of this saver, the number of the save that wrote it.

    def __init__(
        self,
        directory: FilePath,
        name: str = "model",
        *,
        keep: int | None = 5,
        keep_every_steps: int | None = None,
        variables: Chosen | None = None,
    ) -> None:
        for setting, value in (("keep", keep), ("keep_every_steps", keep_every_steps)):
            if value is not None and (type(value) is not int or value < 1):
                raise CheckpointError(f"{setting}={value!r}: give an int of at least 1, or None")
        self._index: Final = CheckpointIndex(directory, name)
        self._keep: Final = keep
        self._every: Final = keep_every_steps
        self._variables: Final = variables
        self._saves: Final = count()
        self._begun: Final[dict[str, int]] = {}

    @property
    def checkpoints(self) -> list[Path]:
        """The files that there are, the latest last. Blocks.

        Raises:
            CheckpointFileError: the index is corrupt.
        """
        return self._index.files()

    async def save(self, session: Session, step: int | None = None) -> Path:
        """Saves a checkpoint, as `Session.save`, and removes what is too much; gives the path.

        Of saves that overlap, the latest is the one that was begun last.

        Args:
            session: whose variables are saved.
            step: names the file; by default what the graph's `global_step` holds in the state that is saved.

        Raises:
            CheckpointError: the step is not known.
            CheckpointTypeError, CheckpointFileError: as `Session.save`; or the index is corrupt.
        """
        return await save(session, self._saving(session, step))

    async def restore_latest(self, session: Session, *, strict: bool = True) -> CheckpointHeader | None:
        """Restores the latest checkpoint, as `Session.restore`; gives its header, or `None` if there is none.

        Raises:
            CheckpointFileError, CheckpointMismatchError: as `Session.restore`. An older one is not tried instead.
        """
        files = await in_thread(session, lambda go_on: self._index.files(), "the reading of an index of checkpoints")
        if not files:
            return None
        with _naming_the_one_before(files):
            return await session.restore(files[-1], variables=self._variables, strict=strict)

    def save_blocking(self, session: BlockingSession, step: int | None = None) -> Path:
        """As `save`. Blocks the calling thread."""
        return save_here(session, self._saving(session, step))

    def restore_latest_blocking(self, session: BlockingSession, *, strict: bool = True) -> CheckpointHeader | None:
        """As `restore_latest`. Blocks the calling thread."""
        files = self._index.files()
        if not files:
            return None
        with _naming_the_one_before(files):
            return session.restore(files[-1], variables=self._variables, strict=strict)

    def _saving(self, session: Session | BlockingSession, step: int | None) -> Saving:
        listed = partial(self._written, next(self._saves))
        return Saving(session.engine, self._index.path_of, self._variables, step, listed)

    def _written(self, number: int, path: Path) -> None:
        self._begun[path.name] = max(number, self._begun.get(path.name, 0))
        self._index.add(path, self._begun, self._keep, self._every)


@contextmanager
def _naming_the_one_before(files: list[Path]) -> Generator[None]:
    """Has an error about the last of `files` say how to go on: an older one is never taken without being asked for."""
    try:
        yield
    except CheckpointFileError as error:
        if len(files) < 2:
            raise
        raise CheckpointFileError(f"{error}\n  remove it, and {files[-2].name!r} is the latest") from error
