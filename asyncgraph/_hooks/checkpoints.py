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

    A run whose turn it is returns when its checkpoint is written; other runs go on meanwhile. What was saved already
    is not saved again.

    Args:
        where: the folder, or a `Saver`, which says more of what is saved and kept.
        every_steps, every_s: how often: by steps of `global_step`, or by seconds; by default every 600 s.
        clock: gives seconds.

    Raises:
        ValueError: both are given, or one is not more than 0.
    """

    # Fields:
    #   _by_steps: whether the timer goes by steps.
    #   _saved: how many commits there had been when it saved last.

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
        self._by_steps: Final = every_steps is not None
        self._saved: int | None = None

    def begin(self) -> None:
        """As `Hook.begin`."""
        global_step()

    async def after_create_session(self, session: Session) -> None:
        """As `Hook.after_create_session`."""
        await self._save(session, await self._moment(session))

    async def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`."""
        moment = await self._moment(context.session)
        if self._timer.is_due(moment):
            await self._save(context.session, moment)

    async def end(self, session: Session) -> None:
        """As `Hook.end`."""
        if session.store.commits != self._saved:
            await self._save(session, await self._moment(session))

    async def _moment(self, session: Session) -> int:
        # Not the step, if it goes by seconds: who counts none assigns something all the same.
        return await steps_done(session) if self._by_steps else session.store.commits

    async def _save(self, session: Session, moment: int) -> None:
        # Before it is done: runs that end meanwhile shall not save, too.
        self._timer.mark(moment)
        commits = session.store.commits
        await self.saver.save(session)
        self._saved = commits
