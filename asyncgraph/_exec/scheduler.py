"""What may start next, what failed, what is left: the state of one run, and nothing else.

A synchronous state machine without threads, loops or clocks. Whoever runs segments calls it, one call at
a time (a run has a lock for that), and does what it answers:

    ready = scheduler.start()           segments that may begin
    scheduler.begin(s)                  False: the run is over, drop it
    ready = scheduler.finish(s, frame)  s is done; what it made possible, nearest first
    scheduler.fail(s, error)            s raised; nothing begins any more
    scheduler.stop(error)               the run is to end: cancelled, or out of time
    scheduler.abandon(s)                s goes on, but the run does not wait for it
    scheduler.over                      nothing of the run is left

Values are freed here as well: a slot that crosses segments is emptied when its last reader is done.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from .._plan.plan import Plan


class _State(Enum):
    WAITING = "waits for others"
    READY = "may begin"
    RUNNING = "has begun"
    ENDED = "done, failed, or abandoned"


@final
class Scheduler:
    """The state of one run.

    Fields:
        failures: what ended the run, first, and what failed while it was ending.
        stopped: whether nothing begins any more.
        _states: of each segment.
        _waits: for each segment, how many others must be done before it may begin.
        _unread: for each slot that crosses segments, how many readers it still has.
        _running: how many segments have begun and not ended.
        _left: how many segments are not done.
    """

    __slots__ = ("_left", "_plan", "_running", "_states", "_unread", "_waits", "failures", "stopped")

    def __init__(self, plan: Plan) -> None:
        self.failures: Final[list[BaseException]] = []
        self.stopped = False
        self._plan = plan
        self._states = [_State.WAITING] * len(plan.segments)
        self._waits = [segment.waits_for for segment in plan.segments]
        self._unread = dict(plan.readers)
        self._running = 0
        self._left = len(plan.segments)

    @property
    def over(self) -> bool:
        """Whether nothing of the run is left: all is done, or what had begun before it stopped has ended."""
        return not self._running and (self.stopped or not self._left)

    @property
    def succeeded(self) -> bool:
        """Whether every segment is done."""
        return not self._left and not self.failures

    def is_done(self, segment: int) -> bool:
        """Whether a segment has ended."""
        return self._states[segment] is _State.ENDED

    def start(self) -> list[int]:
        """The segments that wait for nothing, in the plan's order."""
        ready = [one for one, waits in enumerate(self._waits) if not waits]
        for one in ready:
            self._states[one] = _State.READY
        return ready

    def begin(self, segment: int) -> bool:
        """Marks a ready segment as running; False if the run is over, so that it must not begin."""
        if self.stopped:
            return False
        assert self._states[segment] is _State.READY, (segment, self._states[segment])
        self._states[segment] = _State.RUNNING
        self._running += 1
        return True

    def finish(self, segment: int, frame: list[Any]) -> list[int]:
        """Marks a running segment as done; frees what nobody reads any more; gives what may begin now.

        What comes first in the plan's order comes first: it is nearest to what was just computed, and
        finishing it frees memory soonest.
        """
        if not self._end(segment):
            return []
        self._left -= 1
        this = self._plan.segments[segment]
        for slot in this.reads:
            self._unread[slot] -= 1
            if not self._unread[slot]:
                frame[slot] = None
        ready: list[int] = []
        for one in this.successors:
            self._waits[one] -= 1
            if not self._waits[one]:
                self._states[one] = _State.READY
                ready.append(one)
        return [] if self.stopped else ready

    def fail(self, segment: int, error: BaseException) -> bool:
        """Marks a running segment as failed. The first failure ends the run. False if it was abandoned."""
        if not self._end(segment):
            return False
        self.failures.append(error)
        self.stopped = True
        return True

    def drop(self, segment: int) -> None:
        """Marks a running segment as ended without a result: it was cancelled, as the run was over."""
        self._end(segment)

    def stop(self, error: BaseException) -> bool:
        """Ends the run: nothing begins any more. False if it was ended before.

        A run whose segments are all done can still be stopped, as long as nobody was given its values.
        """
        if self.stopped:
            return False
        self.failures.append(error)
        self.stopped = True
        return True

    def abandon(self, segment: int) -> None:
        """The run does not wait for a running segment any more; what it gives is dropped."""
        self._end(segment)

    def running(self) -> list[int]:
        """The segments that have begun and not ended."""
        return [one for one, state in enumerate(self._states) if state is _State.RUNNING]

    def _end(self, segment: int) -> bool:
        if self._states[segment] is not _State.RUNNING:
            return False  # It was abandoned: its end is nobody's business.
        self._states[segment] = _State.ENDED
        self._running -= 1
        return True
