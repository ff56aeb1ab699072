"""Launches what is submitted to one device: the only thread that computes there, so that handles are made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Final, final

from asyncgraph.abc import Device, Done

from ._errors import Health, forget_frames, is_out_of_memory
from ._lanes import Lane, Lanes
from ._reaper import Reaper
from ._submission import Shared, Submission, made_current

_kept: Final[list[object]] = []
"""What lost devices had. To destroy it would call CUDA for them, which fails; so it is never destroyed."""


@final
@dataclass(frozen=True, slots=True)
class _Job:
    """What was submitted."""

    work: Callable[[], None]
    done: Done


@final
class Dispatcher:
    """A thread that has the work of one device begun, in order. Its queue may be filled by any thread.

    Fields:
        _lanes: the device's lanes.
        _reapers: their threads.
        _visiting: lanes of other devices, as a submission has them.
    """

    def __init__(self, shared: Shared, device: Device, lanes: int) -> None:
        self._shared: Final = shared
        self._device: Final = device
        self._health: Final[Health] = shared.healths[device.index]
        self._lanes: Final = Lanes(shared.api, lanes)
        self._reapers: Final[dict[Lane, Reaper]] = {}
        self._visiting: Final[dict[int, Lane]] = {}
        self._jobs: Final[SimpleQueue[_Job | None]] = SimpleQueue()
        self._thread: Final = Thread(target=self._run, name=f"asyncgraph cupy {device} dispatcher", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], None], done: Done) -> None:
        """Has `work` called, and `done` once the device has done what that started. Returns at once."""
        self._jobs.put(_Job(work, done))

    def stop(self) -> None:
        """Ends the threads, after all that was submitted."""
        self._jobs.put(None)

    def join(self) -> None:
        """Waits until they have ended."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._shared.api.device(self._device.index).use()
        except Exception as error:
            self._health.lose(error)
        while True:
            job = self._jobs.get()
            if job is None:
                break
            self._begin(job)
            # Or what the job holds would live until the next one comes.
            del job
        self._end()

    def _begin(self, job: _Job) -> None:
        submission = self._admit(job)
        if submission is None:
            return
        error = self._launch(job.work, submission)
        if error is not None and is_out_of_memory(error):
            # Its frames have what the second call needs.
            forget_frames(error)
            error = self._make_room(submission) or self._launch(job.work, submission)
            if error is not None and is_out_of_memory(error):
                error.add_note(f"{self._device} has too little memory, {self._in_use()}, and nothing else ran")
        self._hand_over(submission, error, job.done)
        # The frames of an error lead back to this one, and so would keep it all, as long as the error is kept.
        del job, submission, error

    def _admit(self, job: _Job) -> Submission | None:
        """A submission with a lane; `None` if there is none, which the job's `done` is told."""
        try:
            if self._health.lost:
                raise self._health.error()
            lane = self._lanes.lease()
            self._have_reaped(lane)
        except Exception as error:
            forget_frames(error)
            job.done(self._health.judge(error))
            return None
        return Submission(self._shared, self._device, lane, self._visiting)

    def _have_reaped(self, lane: Lane) -> None:
        if lane in self._reapers:
            return
        name = f"asyncgraph cupy {self._device} lane {len(self._reapers)}"
        device = self._shared.api.device(self._device.index)
        try:
            self._reapers[lane] = Reaper(name, device, self._health, self._lanes.give_back)
        except Exception:
            # There may be no thread to be had: at the end of the process, or if there are too many.
            self._lanes.give_back(lane)
            raise

    def _launch(self, work: Callable[[], None], submission: Submission) -> BaseException | None:
        """Has `work` called on the submission's lane: what it raised."""
        device = self._shared.api.device(self._device.index)
        try:
            # The device, too: a user's function may leave another one current, which is undone here.
            with device, submission.lane.current(), made_current(submission):
                work()
        except BaseException as error:
            del work, submission  # as in `_begin`
            return error
        return None

    def _make_room(self, submission: Submission) -> BaseException | None:
        """Waits for all that is on the device, and gives back to it what nobody uses: what went wrong, if it did."""
        try:
            surfaced = self._health.settle(submission.lane.drain)
            submission.release()
            for one in self._reapers.values():
                one.flush()
            self._shared.api.memory().free_all_blocks()
        except Exception as error:
            return error
        return surfaced

    def _in_use(self) -> str:
        try:
            free, total = self._shared.api.runtime.memGetInfo()
            pool = self._shared.api.memory()
            limit = pool.get_limit()
            return (
                f"{free} of {total} bytes free, {pool.used_bytes()} in use by arrays"
                f"{f', of {limit} that they may have' if limit else ''}"
            )
        except Exception as error:
            return f"and does not say how much is in use ({type(error).__name__}: {error})"

    def _hand_over(self, submission: Submission, error: BaseException | None, done: Done) -> None:
        try:
            if error is not None:
                error = self._health.judge(error)
            surfaced = self._health.settle(submission.lane.record)
            error = error or surfaced
        except Exception as lost:
            error = lost
        self._reapers[submission.lane].reap(submission, error, done)

    def _end(self) -> None:
        for one in self._reapers.values():
            one.close()
        self._reapers.clear()
        _kept.extend(lane for index, lane in self._visiting.items() if self._shared.healths[index].lost)
        # In this thread, whose current device it is: to give back memory, or to destroy a stream, waits for a device.
        try:
            if not self._health.lost:
                self._shared.api.memory().free_all_blocks()
        except Exception as error:  # Nobody has noticed so far that it is lost.
            self._health.lose(error)
        if self._health.lost:
            _kept.extend([*self._lanes.made, *self._visiting.values()])
            return
        self._visiting.clear()
        self._lanes.destroy()
