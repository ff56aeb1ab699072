"""A progress bar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from .._progress import Bar, new_bar
from .._session.hook import Hook, RunContext
from .steps import steps_done

if TYPE_CHECKING:
    from .._session.session import Session
    from .._session.values import RunValues


@final
class ProgressHook(Hook):
    """Shows a progress bar, of tqdm or else of rich, whichever is installed.

    It goes by `global_step`, if the graph has that, or else by runs.

    Args:
        total: the last step, or how many runs there are; `None` if that is not known.
        description: stands before the bar.

    Raises:
        ModuleNotFoundError: when there is a session, and neither is installed.
    """

    def __init__(self, total: int | None = None, description: str = "") -> None:
        self._total: Final = total
        self._description: Final = description
        self._bar: Bar | None = None
        self._counts_steps = False
        self._runs = 0

    async def after_create_session(self, session: Session) -> None:
        """As `Hook.after_create_session`."""
        self._counts_steps = "global_step" in session.graph
        if self._bar is None:
            self._bar = new_bar(self._total, self._description)
        if self._bar is None:
            raise ModuleNotFoundError("a ProgressHook needs tqdm or rich, and neither is installed\n  pip install tqdm")
        self._bar.show(await self._done(session))

    async def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`."""
        self._runs += 1
        if self._bar is not None:
            self._bar.show(await self._done(context.session))

    def end(self, session: Session) -> None:
        """As `Hook.end`."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    async def _done(self, session: Session) -> int:
        return await steps_done(session) if self._counts_steps else self._runs
