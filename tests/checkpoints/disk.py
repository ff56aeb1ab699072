"""A disk that keeps what was not synced, or some of it, or nothing, and system calls that end with the program."""

from __future__ import annotations

import os
from collections.abc import Iterator


class Killed(BaseException):
    """The program is no more: nothing that it would do after this happens."""


class _File:
    """What was written, and how much of it is on the disk for certain."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self.synced = data


class Disk:
    """Files by name. Takes the place of `os` for `replace_file`; `ends_after` calls the program is killed.

    With `fails` instead, that call fails, as if the disk were full, and the others work.
    """

    def __init__(self, files: dict[str, bytes], ends_after: float = float("inf"), fails: int | None = None) -> None:
        self.names = {name: _File(data) for name, data in files.items()}
        self.synced_names = dict(self.names)
        self.calls: list[str] = []
        self._left = ends_after
        self._fails = fails
        self._opened: list[_File | None] = []

    def open(self, path: str, flags: int, mode: int = 0o777, /) -> int:
        self._call("open")
        if flags & os.O_CREAT:
            assert flags & os.O_EXCL
            assert path not in self.names
            self.names[path] = _File()
        self._opened.append(self.names.get(path))
        return len(self._opened) - 1

    def write(self, fd: int, data: memoryview, /) -> int:
        self._call("write")
        taken = bytes(data[: max(1, len(data) // 2)])
        file = self._opened[fd]
        assert file is not None
        file.data += taken
        return len(taken)

    def fsync(self, fd: int, /) -> None:
        self._call("fsync")
        file = self._opened[fd]
        if file is None:
            self.synced_names = dict(self.names)
        else:
            file.synced = file.data

    def close(self, fd: int, /) -> None:
        self._call("close")

    def replace(self, source: str, target: str, /) -> None:
        self._call("replace")
        self.names[target] = self.names.pop(source)

    def unlink(self, path: str, /) -> None:
        self._call("unlink")
        del self.names[path]

    def after_power_cut(self) -> Iterator[dict[str, bytes]]:
        """What may be found there, by how much of what was not synced was written all the same."""
        for names in (self.synced_names, self.names):
            yield {name: file.synced for name, file in names.items()}
            yield {name: file.data[: (len(file.synced) + len(file.data)) // 2] for name, file in names.items()}
            yield {name: file.data for name, file in names.items()}

    def _call(self, name: str) -> None:
        if len(self.calls) >= self._left:
            raise Killed
        self.calls.append(name)
        if len(self.calls) == self._fails:
            raise OSError(28, "No space left on device")


class EndingOs:
    """The system's own calls, `ends_after` of which the program is killed. Takes the place of `os`."""

    def __init__(self, ends_after: float = float("inf")) -> None:
        self.calls: list[str] = []
        self._left = ends_after

    def open(self, path: str, flags: int, mode: int = 0o777, /) -> int:
        self._call("open")
        return os.open(path, flags, mode)

    def write(self, fd: int, data: memoryview, /) -> int:
        self._call("write")
        return os.write(fd, data[: max(1, len(data) // 2)])

    def fsync(self, fd: int, /) -> None:
        self._call("fsync")

    def close(self, fd: int, /) -> None:
        os.close(fd)  # As the system does when a program ends.
        self._call("close")

    def replace(self, source: str, target: str, /) -> None:
        self._call("replace")
        os.replace(source, target)

    def unlink(self, path: str, /) -> None:
        self._call("unlink")
        os.unlink(path)

    def _call(self, name: str) -> None:
        if len(self.calls) >= self._left:
            raise Killed
        self.calls.append(name)
