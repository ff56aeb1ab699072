"""What goes by the steps that a graph counts in `global_step`."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, final

from .._graph.building import global_step
from .._session.hook import Hook, RunContext
from ..errors import SessionError
from .timer import Clock, Timer

if TYPE_CHECKING:
    from .._session.session import Session
    from .._session.values import RunValues

_log: Final = logging.getLogger("asyncgraph")


async def steps_done(session: Session) -> int:
    """What `global_step` holds, as it was committed last.

    Raises:
        FetchError: the graph counts no steps.
    """
    return int((await session.run("global_step")).results)


@final
class StopAtStepHook(Hook):
    """Asks the session to stop at a step of `global_step`.

    Runs that are in flight then go on, so that several at a time may pass it. A `MonitoredSession` that is restored
    at that step, or behind it, runs nothing.

    Args:
        steps: how many steps from the first session on; or
        last_step: the step itself.

    Raises:
        ValueError: both are given, or neither.
    """

    def __init__(self, steps: int | None = None, *, last_step: int | None = None) -> None:
        if (steps is None) == (last_step is None):
            raise ValueError(f"steps={steps!r} and last_step={last_step!r}: give one of them")
        self._steps: Final = steps
        self._last_step = last_step

    def begin(self) -> None:
        """As `Hook.begin`."""
        global_step()

    async def after_create_session(self, session: Session) -> None:
        """As `Hook.after_create_session`."""
        step = await steps_done(session)
        if self._last_step is None:
            assert self._steps is not None
            self._last_step = step + self._steps
        session.hooks.stop.on |= step >= self._last_step

    def before_run(self, context: RunContext) -> None:
        """As `Hook.before_run`.

        Raises:
            SessionError: it counts from a session on, and was given to a run alone.
        """
        if self._last_step is None:
            raise SessionError(
                f"StopAtStepHook({self._steps}) counts steps from the beginning of a session, and was given to a run\n"
                "  give it to the session, by hooks=[...], or give last_step"
            )

    async def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`."""
        assert self._last_step is not None
        if await steps_done(context.session) >= self._last_step:
            context.request_stop()


@final
class StepCounterHook(Hook):
    """Logs how many steps of `global_step` there are a second; warns, a few times, if it stands still.

    Args:
        every_steps, every_s: how often; by default every 100 steps.
        clock: gives seconds.

    Fields:
        steps_per_s: what was logged last; `None` before.

    Raises:
        ValueError: both are given, or one is not more than 0.
    """

    def __init__(
        self, every_steps: int | None = None, *, every_s: float | None = None, clock: Clock = monotonic
    ) -> None:
        self.steps_per_s: float | None = None
        self._timer: Final = Timer(every_steps, every_s, 100, clock)
        self._last_step = -1
        self._warnings_left = 5

    def begin(self) -> None:
        """As `Hook.begin`."""
        global_step()

    async def after_create_session(self, session: Session) -> None:
        """As `Hook.after_create_session`."""
        self._timer.mark(await steps_done(session))

    async def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`."""
        step = await steps_done(context.session)
        if step == self._last_step and self._warnings_left:
            self._warnings_left -= 1
            _log.warning("global_step is still %d after a run\n  count steps: ag.global_step().assign_add(1)", step)
        self._last_step = step
        if self._timer.is_due(step):
            elapsed = self._timer.mark(step)
            if elapsed is not None and elapsed[0] > 0 and elapsed[1] > 0:
                self.steps_per_s = elapsed[0] / elapsed[1]
                _log.info("step %d: %.6g steps/s", step, self.steps_per_s)
