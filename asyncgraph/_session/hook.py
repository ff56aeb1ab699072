"""What watches the runs of a session, and what it is shown of one."""

from __future__ import annotations

from abc import ABC
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, final

if TYPE_CHECKING:
    from .args import RunArgs
    from .session import Session
    from .values import RunValues


@final
class StopSwitch:
    """Whether somebody has asked a session to stop."""

    __slots__ = ("on",)

    def __init__(self) -> None:
        self.on = False


@final
class RunContext:
    """One run, as its hooks see it: the same object for all of them, from `before_run` on.

    Fields:
        original_args: what the caller asked for, its options included. After the run, without the feeds.
        session: what runs it. Runs of it that a hook starts trigger no hooks.
    """

    __slots__ = ("__weakref__", "_stop", "original_args", "session")

    def __init__(self, original_args: RunArgs[Any], session: Session, stop: StopSwitch) -> None:
        self.original_args = original_args
        self.session: Final = session
        self._stop: Final = stop

    @property
    def stop_requested(self) -> bool:
        """Whether a hook of any run of the session has called `request_stop`."""
        return self._stop.on

    def request_stop(self) -> None:
        """Says that the run should be the last: `MonitoredSession.should_stop()` is true from now on.

        Runs in flight go on. To a plain `Session` nothing happens but that `stop_requested` is true from now on.
        """
        self._stop.on = True

    def __repr__(self) -> str:
        return f"<RunContext of {self.original_args!r}>"


class Hook(ABC):  # noqa: B024  # all methods may be left out, and none has to be there
    """Watches the runs of a session, and may add to them. To be subclassed; all methods may be left out.

    The life of a session's hooks: `begin`, `after_create_session`, then runs, then `end`. Of each run:
    `before_run`, and then, if that returned, either `after_run` or `on_error`, whatever happens. `before_run` is
    called in the order of the hooks, a session's before a run's; `after_run`, `on_error` and `end` in the reverse.
    Of a hook that is given to one run only these three are called: `before_run`, `after_run`, `on_error`.

    A method may be a coroutine function or a plain one. All are called on the event loop, so a plain one is to be
    short. The ContextVars that `before_run` sets are seen by the nodes of its run and by what is called after it,
    and by nobody else. Runs that are started inside a hook, and inside a node, have no hooks.

    Runs overlap: between `before_run` and `after_run` of one run may come those of others. What a hook keeps for
    one run it keeps by its context, which is the same object in both.
    """

    def begin(self) -> Awaitable[None] | None:
        """Before the first run, with the session's graph as the current one: nodes can be built."""
        return None

    def after_create_session(self, session: Session) -> Awaitable[None] | None:
        """Before the first run; of a `MonitoredSession` also after a recovery. The variables have their values."""
        return None

    def before_run(self, context: RunContext) -> Awaitable[RunArgs[Any] | None] | RunArgs[Any] | None:
        """Before a run. What it returns is added to what is run: fetches, or `None` for none; feeds; and options.

        The deadline of the run covers it. What it raises ends the run before anything is computed.
        """
        return None

    def after_run(self, context: RunContext, values: RunValues[Any]) -> Awaitable[None] | None:
        """After a run that succeeded, and has committed what it assigned.

        The deadline of the run covers it: once that is over it is cancelled as soon as it waits for something. What it
        raises is raised by the run, with a note that the run itself had succeeded: what it assigned is committed, and
        to run it again is to do it twice. The other hooks are called all the same.

        Args:
            context: of the run.
            values: results in the structure of what this hook asked for, `None` if it asked for none; the arrays are
                its own.
        """
        return None

    def on_error(self, context: RunContext, error: BaseException) -> Awaitable[None] | None:
        """After a run that failed, ran out of time or was cancelled, also if that was in another hook's `before_run`.

        It has no deadline, so that it can clean up. What it raises is noted on `error`, which is still what the run
        raises; only a KeyboardInterrupt or SystemExit takes its place.
        """
        return None

    def end(self, session: Session) -> Awaitable[None] | None:
        """Before the session closes, unless it is left by an error. It can still run."""
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
