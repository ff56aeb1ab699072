"""What feeds runs, and what fetches at the end."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, final

from .._session.args import Feeds, Fetches, RunArgs
from .._session.hook import Hook, RunContext

if TYPE_CHECKING:
    from .._session.session import Session


@final
class FeedHook(Hook):
    """Feeds every run.

    Args:
        feeds: called before each run; a plain function or a coroutine function. Gives values by node or name.
    """

    def __init__(self, feeds: Callable[[], Feeds | Awaitable[Feeds]]) -> None:
        self._feeds: Final = feeds

    async def before_run(self, context: RunContext) -> RunArgs[Any]:
        """As `Hook.before_run`."""
        feeds = self._feeds()
        if inspect.isawaitable(feeds):
            feeds = await feeds
        return RunArgs[Any](None, feeds)


@final
class FinalOpsHook(Hook):
    """Runs something before the session closes, if it closes without an error.

    Args:
        fetches, feeds: what is run.

    Fields:
        results: what it gave; `None` before.
    """

    def __init__(self, fetches: Fetches, feeds: Feeds | None = None) -> None:
        self.results: Any = None
        self._wanted: Final = RunArgs[Any](fetches, feeds)

    async def end(self, session: Session) -> None:
        """As `Hook.end`."""
        self.results = (await session.run(self._wanted)).results
