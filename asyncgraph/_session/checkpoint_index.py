"""The checkpoints of one training: files of a folder that are named by step, and a list of them.

A list, since neither steps nor times of files tell which is the latest: who goes back to an older checkpoint saves
smaller steps than before, and who copies files changes their times. It is replaced whole, after the file that is new in
it and before those are removed that are too many: so whenever this ends, what it says is there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, cast, final

from ..errors import CheckpointError, CheckpointFileError
from .replace_file import SystemCalls, make_folder, replace_file

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_lock: Final = Lock()
"""Held while a list is changed. Only threads that may block take it."""


@final
class CheckpointIndex:
    """The checkpoints of a folder whose names begin with `name`. Everything blocks; any thread may call it.

    Raises:
        CheckpointError: `name` is not of letters, digits, '_', '-' and '.'.
    """

    def __init__(self, directory: str | os.PathLike[str], name: str) -> None:
        if not _NAME.fullmatch(name):
            raise CheckpointError(f"{name!r} cannot name files\n  use letters, digits, '_', '-' and '.'")
        self._directory: Final = os.path.abspath(os.fsdecode(directory))
        self._name: Final = name
        self._path: Final = os.path.join(self._directory, f"{name}-latest.json")
        self._pattern: Final = re.compile(rf"{re.escape(name)}-([0-9]+)\.safetensors")

    def path_of(self, step: int | None) -> str:
        """The file for a step, in a folder that there is from now on.

        Raises:
            CheckpointError: the step is not known.
            CheckpointFileError: the folder cannot be made.
        """
        if step is None:
            raise CheckpointError("the step is not known\n  give it, or count it in a variable: ag.global_step()")
        try:
            make_folder(self._directory)
        except OSError as error:
            raise CheckpointFileError(f"cannot make the folder {self._directory!r}: {error.strerror}") from error
        return os.path.join(self._directory, f"{self._name}-{step}.safetensors")

    def files(self) -> list[Path]:
        """Those that are listed and there, the latest last. Without a list: all, the one of the last step last.

        Raises:
            CheckpointFileError: the list cannot be read.
        """
        names = self._listed()
        if names is None:
            with suppress(OSError):
                names = [name for name in os.listdir(self._directory) if self._is_checkpoint(name)]
                names.sort(key=self._step)
        return [Path(self._directory, name) for name in names or () if self._is_there(name)]

    def add(
        self, path: Path, begun: Mapping[str, int], keep: int | None, every: int | None, calls: SystemCalls = os
    ) -> None:
        """Lists a file that was written, and removes those that are too many.

        Args:
            path: the file.
            begun: numbers files by when their writing began. What is not in it was there before.
            keep: how many are kept: the last ones. `None` for all.
            every: what is of a step that is a multiple of it is kept besides.
            calls: see `replace_file`.

        Raises:
            CheckpointFileError: the list cannot be read or written.
        """
        with _lock:
            names = [name for name in self._listed() or () if name != path.name and self._is_there(name)]
            names = sorted([*names, path.name], key=lambda name: begun.get(name, -1))
            text = json.dumps({"asyncgraph": "1", "checkpoints": names}, indent=1).encode()
            try:
                replace_file(self._path, [memoryview(text)], calls)
            except OSError as error:
                raise CheckpointFileError(f"cannot write {self._path!r}: {error.strerror}") from error
            for name in () if keep is None else names[:-keep]:
                if every is None or self._step(name) % every:
                    with suppress(OSError):  # It stays in the list, and the next one tries again.
                        calls.unlink(os.path.join(self._directory, name))

    def _listed(self) -> list[str] | None:
        """What the list says; `None` if there is none."""
        try:
            with open(self._path, "rb") as file:
                content: Any = json.load(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CheckpointFileError(f"cannot read {self._path!r}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise self._corrupt(f"{error}") from error
        # Files are removed by their names here: no name leads out of the folder, or to what is no checkpoint.
        match content:
            case {"checkpoints": [*names]} if all(map(self._is_checkpoint, names)):
                return cast("list[str]", names)
            case _:
                raise self._corrupt(f"it is no list of checkpoints of {self._name!r}")

    def _corrupt(self, what: str) -> CheckpointFileError:
        hint = "  remove it, and the file of the last step is the latest"
        return CheckpointFileError(f"cannot read {self._path!r}: {what}\n{hint}")

    def _is_checkpoint(self, name: object) -> bool:
        return isinstance(name, str) and self._pattern.fullmatch(name) is not None

    def _is_there(self, name: str) -> bool:
        return os.path.isfile(os.path.join(self._directory, name))

    def _step(self, name: str) -> int:
        found = self._pattern.fullmatch(name)
        assert found is not None
        return int(found[1])
