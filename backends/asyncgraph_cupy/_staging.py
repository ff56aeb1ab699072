"""Pinned memory through which arrays go to a device and come back: in chunks of one size, up to a limit.

A device copies from and to pinned memory without holding anybody up. But to pin takes 0.3 ms a MiB, and what is pinned
the machine cannot use otherwise: hence chunks that are used again, and few of them. Of one size, as a pool
of several strands memory in the sizes that nobody asks for. 4 MiB take the device 80 µs, ten times what starting the
copy does.

No deadlock: who waits here for a chunk has none.
"""

from __future__ import annotations

import os
from threading import Condition
from typing import Final, final

from ._cuda_api import CudaApi, HostArray

CHUNK_BYTES: Final = 4 << 20
LEAST_BYTES: Final = 16 << 10
ALIGNMENT: Final = 64
LIMIT: Final = "ASYNCGRAPH_CUPY_STAGING_BYTES"
"""The variable of the environment with the limit of a process, in bytes."""


def limit_bytes(given: int | None) -> int:
    """How much may be pinned: what was given, or the environment says, or 5 % of the machine's memory, 1 GiB at most.

    Raises:
        ValueError: it is no number of bytes, or too small to be of use.
    """
    said = os.environ.get(LIMIT) if given is None else str(given)
    if said is None:
        return max(LEAST_BYTES, min(1 << 30, _memory_bytes() // 20))
    if not said.isdecimal() or int(said) < LEAST_BYTES:
        raise ValueError(f"pinned memory for transfers ({LIMIT}): at least {LEAST_BYTES} bytes, got {said!r}")
    return int(said)


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 8 << 30


@final
class Staging:
    """The chunks of a process, for all its devices. Any thread may take and give back.

    Fields:
        chunk_bytes: the size of each.
        made: how many there are. Those of a lost device count no more.
    """

    def __init__(self, api: CudaApi, limit: int) -> None:
        # Four at least, so that devices do not wait for each other where little may be pinned.
        self.chunk_bytes: Final = min(CHUNK_BYTES, limit // 4 // ALIGNMENT * ALIGNMENT)
        self.made = 0
        self._most: Final = limit // self.chunk_bytes
        self._api: Final = api
        self._free: Final[list[HostArray]] = []
        self._abandoned: Final[list[HostArray]] = []
        self._changed: Final = Condition()

    def take_nowait(self) -> HostArray | None:
        """A chunk, as bytes; `None` if all that there may be are taken."""
        with self._changed:
            return self._take()

    def take(self) -> HostArray:
        """A chunk, as bytes; waits for one. Only for callers that have none."""
        with self._changed:
            while (chunk := self._take()) is None:
                self._changed.wait()
            return chunk

    def give_back(self, chunks: list[HostArray]) -> None:
        """Takes chunks that nothing reads or writes any more, and empties the list."""
        with self._changed:
            self._free.extend(chunks)
            chunks.clear()
            self._changed.notify_all()

    def abandon(self, chunks: list[HostArray]) -> None:
        """Takes chunks that a lost device may still hold, and empties the list. Nobody gets them; others are made."""
        with self._changed:
            self.made -= len(chunks)
            self._abandoned.extend(chunks)
            chunks.clear()
            self._changed.notify_all()

    def clear(self) -> None:
        """Lets go of the chunks that are not taken."""
        with self._changed:
            self.made -= len(self._free)
            self._free.clear()

    def _take(self) -> HostArray | None:
        if self._free:
            return self._free.pop()
        if self.made == self._most:
            return None
        chunk = self._api.empty_pinned(self.chunk_bytes)
        self.made += 1
        return chunk
