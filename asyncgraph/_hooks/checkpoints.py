"""What saves checkpoints."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final, final

from .._graph.building import global_step
from .._session.hook import Hook, RunContext
from .._session.saving import FilePath
from ..checkpoints import Saver
from .steps import steps_done
from .timer import Clock, Timer

if TYPE_CHECKING:
    from .._session.session import Session
    from .._session.values import RunValues


@final
class CheckpointSaverHook(Hook):
    """Saves checkpoints: when there is a session, then now and then after runs, and before the session closes.

    A run whose turn it is returns when its checkpoint is written; other runs go on meanwhile.

    Args:
        where: the folder, or a `Saver`, which says more of what is saved and kept.
        every_steps, every_s: how often: by steps of `global_step`, or by seconds; by default every 600 s.
        clock: gives seconds.

    Raises:
        ValueError: both are given, or one is not more than 0.
    """

    def __init__(
        self,
        where: FilePath | Saver,
        every_steps: int | None = None,
        *,
        every_s: float | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self.saver: Final = where if isinstance(where, Saver) else Saver(where)
        self._timer: Final = Timer(every_steps, 600.0 if every_steps is every_s is None else every_s, clock=clock)
        self._saved: int | None = None

    def begin(self) -> None:
        """As `Hook.begin`."""
        global_step()

    async def after_create_session(self, session: Session) -> None:
        """As `Hook.after_create_session`."""
        await self._save(session, await steps_done(session))

    async def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`."""
        step = await steps_done(context.session)
        if self._timer.is_due(step):
            await self._save(context.session, step)

    async def end(self, session: Session) -> None:
        """As `Hook.end`."""
        step = await steps_done(session)
        if step != self._saved:
            await self._save(session, step)

    async def _save(self, session: Session, step: int) -> None:
        # Before it is done: runs that end meanwhile shall not save, too.
        self._timer.mark(step)
        await self.saver.save(session)
        self._saved = step
