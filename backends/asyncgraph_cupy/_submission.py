"""One call of a submission's `work`: what it has started, and what must live until the device has done it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import Final, final

import numpy as np

from asyncgraph.abc import Device

from ._cuda_api import CudaApi, DeviceArray, HostArray
from ._errors import Health
from ._lanes import Lane
from ._staging import ALIGNMENT, Staging

_MOST_CHUNKS: Final = 16
"""How many chunks of pinned memory one submission holds; 64 MiB. More would not make it faster."""


@final
@dataclass(frozen=True, slots=True)
class Shared:
    """What the devices of a backend share.

    Fields:
        api: CuPy.
        staging: pinned memory.
        healths: which devices are lost, by their indexes.
    """

    api: CudaApi
    staging: Staging
    healths: Mapping[int, Health]

    def give_back(self) -> None:
        """Gives back what pinned memory nobody has."""
        self.staging.clear()
        # For a process with a lost device it would fail.
        if not any(one.lost for one in self.healths.values()):
            self.api.pinned_memory().free_all_blocks()


@final
class Submission:
    """What was started on a lane. Its dispatcher's thread fills it; then its reaper's alone has it.

    Fields:
        device: where `work` runs.
        lane: the lane that it has.
        asked: what other devices had to do for this one: their healths, and the lanes on which they did it.
        visiting: lanes of other devices, for what has to be made there first, by the devices' indexes; they are the
            dispatcher's, and there is nothing on them that this lane does not wait for.
        _held: what the device reads, and nobody else may hold.
        _chunks: pinned memory; in the last chunk, what is behind `_used` is free.
        _landed: results that come to pinned memory, and the arrays that they are copied to from there.
        _waiting: results that do not fit there, to be fetched when all else is done.
    """

    def __init__(self, shared: Shared, device: Device, lane: Lane, visiting: dict[int, Lane]) -> None:
        self.shared: Final = shared
        self.device: Final = device
        self.lane: Final = lane
        self.asked: Final[list[tuple[Health, Lane]]] = []
        self.visiting: Final = visiting
        self._held: Final[list[object]] = []
        self._chunks: Final[list[HostArray]] = []
        self._used = shared.staging.chunk_bytes
        self._landed: Final[list[tuple[HostArray, HostArray]]] = []
        self._waiting: Final[list[tuple[DeviceArray, HostArray]]] = []

    # -- while `work` runs -----------------------------------------------------------------------------

    def hold(self, *values: object) -> None:
        """Keeps what the device reads, until it is done."""
        self._held.extend(values)

    def stage(self, nbytes: int) -> HostArray:
        """So many bytes of pinned memory, a chunk at most, until the device is done.

        Waits for the lane if there are no more: the submission's own are then used again.
        """
        room = self.stage_nowait(nbytes)
        if room is not None:
            return room
        if self._chunks:
            self._reuse()
        self._add(self.shared.staging.take())
        return self._cut(nbytes)

    def stage_nowait(self, nbytes: int) -> HostArray | None:
        """So many bytes of pinned memory; `None` if that is more than a chunk, or would mean to wait."""
        staging = self.shared.staging
        if self._used + nbytes > staging.chunk_bytes:
            most = nbytes > staging.chunk_bytes or len(self._chunks) == _MOST_CHUNKS
            chunk = None if most else staging.take_nowait()
            if chunk is None:
                return None
            self._add(chunk)
        return self._cut(nbytes)

    def land(self, room: HostArray, result: HostArray) -> None:
        """Has what comes to pinned memory copied to an array of the caller's, once it is there."""
        self._landed.append((room, result))

    def fetch_later(self, source: DeviceArray, result: HostArray) -> None:
        """Has a contiguous array of the device copied to one of the caller's, once all else is done."""
        self._waiting.append((source, result))

    def answers(self) -> bool:
        """Whether the device still does what it is told. Waits for it."""
        try:
            self.lane.drain()
        except Exception:
            return False
        return True

    # -- once the device is done -----------------------------------------------------------------------

    def deliver(self) -> None:
        """Copies what was fetched to where the caller expects it.

        Raises:
            Exception: what went wrong on the device meanwhile; nothing is being copied any more.
        """
        self._unload()
        if not self._waiting:
            return
        # Who waits for pinned memory has none.
        self.shared.staging.give_back(self._chunks)
        self._add(self.shared.staging.take())
        for source, result in self._waiting:
            self._fetch(source, result)

    def release(self) -> None:
        """Lets go of all that it has held; pinned memory can be used again, unless the device is lost."""
        self._held.clear()
        self._landed.clear()
        self._waiting.clear()
        if self._chunks:
            staging = self.shared.staging
            (staging.abandon if self._health.lost else staging.give_back)(self._chunks)
            self._used = staging.chunk_bytes

    @property
    def _health(self) -> Health:
        return self.shared.healths[self.device.index]

    def _unload(self) -> None:
        for room, result in self._landed:
            np.copyto(result, room)
        self._landed.clear()

    def _fetch(self, source: DeviceArray, result: HostArray) -> None:
        (chunk,) = self._chunks
        step = chunk.nbytes // result.itemsize
        for start in range(0, result.size, step):
            part = result[start : start + step]
            room = chunk[: part.nbytes].view(result.dtype)
            source[start : start + step].get(stream=self.lane.stream, out=room, blocking=False)
            self._drain()
            np.copyto(part, room)

    def _reuse(self) -> None:
        self._drain()
        self._unload()
        self.shared.staging.give_back(self._chunks)

    def _drain(self) -> None:
        surfaced = self._health.settle(self.lane.drain)
        if surfaced is not None:
            raise surfaced

    def _add(self, chunk: HostArray) -> None:
        self._chunks.append(chunk)
        self._used = 0

    def _cut(self, nbytes: int) -> HostArray:
        start = self._used
        self._used += -(-nbytes // ALIGNMENT) * ALIGNMENT
        return self._chunks[-1][start : start + nbytes]


_calling: Final = local()


@contextmanager
def made_current(submission: Submission) -> Generator[None]:
    """Inside, kernels and transfers of this thread are that submission's."""
    _calling.submission = submission
    try:
        yield
    finally:
        del _calling.submission


def current(what: str) -> Submission:
    """The submission whose `work` this thread is calling.

    Raises:
        RuntimeError: it is calling none. The message names what was called.
    """
    submission: Submission | None = getattr(_calling, "submission", None)
    if submission is None:
        raise RuntimeError(
            f"{what} was called outside of submit: a GPU does later what it is told now, and nobody would wait for it\n"
            f"  call it inside of what is submitted: backend.submit(device, lambda: ... {what}(...) ..., done)"
        )
    return submission
