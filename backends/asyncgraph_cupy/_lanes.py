"""Lanes: the long-lived streams of a device, one of which each submission has for itself."""

from __future__ import annotations

from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Final, final

from ._cuda_api import CudaApi, Stream


@final
class Lane:
    """A stream and its event, of the device that is current when it is made.

    One event is enough: a lane has one submission at a time, and what a stream was told to wait for is what the event
    was last recorded for when it was told.

    A lane is never destroyed as long as the backend is open. CuPy keeps what was freed apart by streams: another
    stream could get the same address, and with it memory that is still used.
    """

    def __init__(self, api: CudaApi) -> None:
        self.stream: Final = api.stream()
        self.event: Final = api.event()

    def current(self) -> AbstractContextManager[Stream]:
        """Inside, what this thread makes and computes is on this lane. Never across an `await`: it is a stack."""
        return self.stream

    def record(self) -> None:
        """Marks where the stream is now."""
        self.event.record(self.stream)

    def wait(self) -> None:
        """Waits, without the GIL, until the device has come to the mark."""
        self.event.synchronize()

    def drain(self) -> None:
        """Waits until the device has done all that is on the lane."""
        self.record()
        self.wait()

    def follow(self, other: Stream) -> None:
        """Has what is put on this lane from now on done after what is on the other stream now."""
        self.event.record(other)
        self.stream.wait_event(self.event)


@final
class Lanes:
    """The lanes of a device. Used by its dispatcher's thread alone, but for `give_back`.

    Fields:
        made: all of them, in the order in which they were made.
        _idle: those that nobody has, the one that was given back last at the end.
        _returned: those that were given back since the dispatcher looked.
    """

    def __init__(self, api: CudaApi, most: int) -> None:
        self.made: Final[list[Lane]] = []
        self._idle: Final[list[Lane]] = []
        self._returned: Final[SimpleQueue[Lane]] = SimpleQueue()
        self._api: Final = api
        self._most: Final = most

    def lease(self) -> Lane:
        """A lane that nobody else has, until it is given back. Waits for one if there may be no more.

        The one that was given back last: what it has used is what CuPy gives out on it again.
        """
        while not self._returned.empty():
            self._idle.append(self._returned.get())
        if self._idle:
            return self._idle.pop()
        if len(self.made) == self._most:
            return self._returned.get()
        lane = Lane(self._api)
        self.made.append(lane)
        return lane

    def give_back(self, lane: Lane) -> None:
        """Takes a lane on which nothing is going on any more. Any thread may call it."""
        self._returned.put(lane)

    def destroy(self) -> None:
        """Lets go of all lanes, of which none is in use."""
        while not self._returned.empty():
            self._returned.get()
        self._idle.clear()
        self.made.clear()
