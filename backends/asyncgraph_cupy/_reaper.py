"""Waits for what a lane does: one thread a lane, so that what is over early does not wait for what takes long.

CUDA can wait for one event at a time, and for no "any of these". One thread for all lanes would have to poll, or let
a run of a millisecond wait behind one of a second. A thread that waits costs nothing: it is blocked in the driver, and
has no handles of libraries, as it computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Final, final

from asyncgraph.abc import Done

from ._cuda_api import DeviceHandle
from ._errors import Health, forget_frames
from ._lanes import Lane
from ._submission import Submission


@final
class Reaper:
    """A thread that sees to the end of one submission after another. Its queue may be filled by any thread."""

    def __init__(self, name: str, device: DeviceHandle, health: Health, give_back: Callable[[Lane], None]) -> None:
        self._device: Final = device
        self._health: Final = health
        self._give_back: Final = give_back
        self._tasks: Final[SimpleQueue[Callable[[], object] | None]] = SimpleQueue()
        self._thread: Final = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def reap(self, submission: Submission, error: BaseException | None, done: Done) -> None:
        """Waits for the device, then lets go of what was held, gives the lane back and calls `done`, in this order.

        Args:
            submission: whose lane has its mark at the end of it.
            error: what `work` raised.
            done: is called with that; or with what went wrong later, if anything did.
        """
        self._tasks.put(partial(self._reap, submission, error, done))

    def flush(self) -> None:
        """Waits until `done` was called for all that it was given so far."""
        flushed = Event()
        self._tasks.put(flushed.set)
        flushed.wait()

    def close(self) -> None:
        """Ends the thread, after all that it was given. Blocks."""
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            # After a copy, CuPy makes the thread's own device current again, which is else device 0, lost or not.
            self._device.use()
        except Exception as error:
            self._health.lose(error)
        while True:
            task = self._tasks.get()
            if task is None:
                return
            task()
            # Or what the task holds would live until the next one comes.
            del task

    def _reap(self, submission: Submission, error: BaseException | None, done: Done) -> None:
        error = self._outcome(submission, error)
        submission.release()
        self._give_back(submission.lane)
        done(error)

    def _outcome(self, submission: Submission, error: BaseException | None) -> BaseException | None:
        try:
            surfaced = self._health.settle(submission.lane.wait)
            for health, lane in submission.asked:
                # A device that is lost does not hold up who waits for it: what came of it is no values.
                surfaced = surfaced or health.settle(lane.wait)
            if error is None and surfaced is None:
                submission.deliver()
        except Exception as raised:
            # They hold the lane.
            forget_frames(raised)
            return self._health.judge(raised)
        return error or surfaced
