"""Replacing a file so that whenever the program or the machine stops, the old one stands there or the new one, whole.

What is new is written to a file beside it, synced, and renamed over it; then the folder is synced, so that
the rename stays. A rename replaces a name at once, but disks write it and the data in any order: hence the two syncs.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from time import time
from typing import Final, Protocol


class SystemCalls(Protocol):
    """The calls of the system by which a file is replaced: the module `os`. Tests give others, which end after any."""

    def open(self, path: str, flags: int, mode: int = ..., /) -> int: ...
    def write(self, fd: int, data: memoryview, /) -> int: ...
    def fsync(self, fd: int, /) -> None: ...
    def close(self, fd: int, /) -> None: ...
    def replace(self, source: str, target: str, /) -> None: ...
    def unlink(self, path: str, /) -> None: ...


def replace_file(path: str, pieces: Iterable[memoryview], calls: SystemCalls = os) -> None:
    """Makes `pieces`, one after the other, what the file at `path` holds. Blocks until it is on the disk.

    A link is followed. Who replaces one file at the same time does not meet: the last one wins. If this raises,
    the file is the old one, and nothing stands beside it; but if the folder cannot be synced, it is the new one.

    Args:
        path: of the file, which need not be there; its folder must.
        pieces: bytes; what making them raises ends the writing.
        calls: as for `SystemCalls`.

    Raises:
        OSError: the system cannot write it, or something other than a file is there.
    """
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it is no regular file")  # A rename replaces a device or a pipe, too.
    folder = os.path.dirname(path)
    beside = os.path.join(folder, f".asyncgraph-{os.urandom(8).hex()}.tmp")
    file = calls.open(beside, _NEW, 0o666)
    try:
        try:
            for piece in pieces:
                while piece:  # The system may take less than it is given.
                    piece = piece[calls.write(file, piece) :]
            calls.fsync(file)
        finally:
            calls.close(file)
        calls.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            calls.unlink(beside)
        raise
    _sync_folder(folder, calls)


def remove_leftovers(folder: str) -> None:
    """Removes what `replace_file` left in a folder when it was killed: what nobody has written to for an hour."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _BESIDE.fullmatch(entry.name) and time() - entry.stat().st_mtime > _DEAD_S:
                os.unlink(entry.path)


def make_folder(path: str) -> None:
    """Makes a folder, and those that it is in, unless they are there. Blocks until they are on the disk.

    Raises:
        OSError: the system cannot make one.
    """
    if not os.path.isdir(path):
        parent = os.path.dirname(path)
        make_folder(parent)
        with suppress(FileExistsError):  # Another thread may have made it.
            os.mkdir(path)
        _sync_folder(parent, os)


_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_BESIDE: Final = re.compile(r"\.asyncgraph-[0-9a-f]{16}\.tmp")
_DEAD_S: Final = 3600.0


def _sync_folder(folder: str, calls: SystemCalls) -> None:
    if os.name == "nt":
        return  # Windows opens no folders, and has a rename that is durable by itself.
    opened = calls.open(folder, os.O_RDONLY)
    try:
        calls.fsync(opened)
    except OSError as error:
        # Some file systems, of networks and in user space, sync no folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        calls.close(opened)
