"""A session for long jobs: it goes on where the last one stopped, and stops when it is asked to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum
from time import perf_counter
from types import TracebackType
from typing import Any, Final, NoReturn, TypeVar, final, overload

from .._exec.calls import current_call
from .._exec.waiting import wait_shielded
from .._graph.building import current_graph
from .._graph.graph import Graph
from .._graph.op import Retry
from ..checkpoints import Saver
from ..errors import DeviceLostError, SessionClosedError, SessionError, SessionStoppedError
from ..hooks import CheckpointSaverHook
from .args import Feeds, Fetches, RunArgs, RunOptions, as_args, out_of_time
from .config import SessionConfig
from .delivery import look_at
from .engine import Engine
from .hook import Hook
from .lives import SessionHooks
from .saving import FilePath
from .session import Session
from .values import RunValues

T = TypeVar("T")
_ENDS: Final = (StopIteration, StopAsyncIteration)
DEFAULT_RECOVERY: Final = Retry(attempts=4, backoff_s=1.0, on=(DeviceLostError,))


class _Again(Enum):
    """Why a run is tried once more, and whether that counts as a further attempt."""

    COUNTED = "it has failed by what is recovered from"
    UNCOUNTED = "its session was closed before it could begin"


@final
class MonitoredSession:
    """Runs a graph for as long as nobody asks it to stop: with its variables restored, its hooks, and recovery.

    ```
    async with MonitoredSession(graph, hooks=[StopAtStepHook(last_step=1000)], checkpoint_dir="checkpoints") as session:
        while not session.should_stop():
            await session.run(train)
    ```

    An async context manager, to be entered once. Entering it calls `begin` of the hooks, finalizes the graph, makes a
    session, restores the latest checkpoint, or else initializes all variables, and calls `after_create_session`.
    Leaving it without an error calls `end`. To leave it by StopIteration or StopAsyncIteration, by which iterators
    say that there is no more, is to leave it without an error: none comes out.

    If a run fails by one of `recover.on`, there is a new session, after what is in flight has ended: with the latest
    checkpoint restored, or without a `checkpoint_dir` with what was committed last; `after_create_session` is
    called again; and the run is tried again, hooks included. Others that fail so meanwhile wait for the same session.
    What a hook raises when its run has committed is raised: nothing is done twice. The numbers of runs, which random
    numbers are drawn by, go on: the first steps after a recovery do not draw what the first steps of all have drawn.
    In a program that is started again they begin anew: to draw something else there, give another seed.

    Args:
        graph: what is run; the current graph if left out.
        config: of the session.
        hooks: what watches its runs.
        checkpoint_dir: where checkpoints are, and are to be saved; or a `Saver`, which says more of it.
        save_every_steps, save_every_s: how often, as of `CheckpointSaverHook`; by default every 600 s.
        recover: how often a run is tried, and after which errors; the wait before the first further attempt, and
            twice as long before each one after it. By default, four times, if a device is lost; `None` for once.

    Raises:
        GraphError: no graph was given, and there is no current one.
        SessionError: a setting means nothing without another one.
    """

    # Fields:
    #   _hooks: with that which saves checkpoints as the last.
    #   _session: what runs; None before, and after it has failed by what is recovered from.
    #   _failed: that which has failed so, until it is closed.
    #   _engine: of the last session that was opened, with what its variables hold; None before.
    #   _recovery: makes the next one, while it does.
    #   _entered, _left: how far the `async with` is.

    def __init__(
        self,
        graph: Graph | None = None,
        *,
        config: SessionConfig | None = None,
        hooks: Iterable[Hook] = (),
        checkpoint_dir: FilePath | Saver | None = None,
        save_every_steps: int | None = None,
        save_every_s: float | None = None,
        recover: Retry | None = DEFAULT_RECOVERY,
    ) -> None:
        self._graph: Final = current_graph() if graph is None else graph
        self._config: Final = config
        self._recover: Final = recover or Retry(attempts=1)
        self._saver: Saver | None = None
        all_hooks = [*hooks]
        if checkpoint_dir is not None:
            saving = CheckpointSaverHook(checkpoint_dir, save_every_steps, every_s=save_every_s)
            self._saver = saving.saver
            all_hooks.append(saving)
        elif save_every_steps is not None or save_every_s is not None:
            raise SessionError("save_every_steps and save_every_s say when to save, but not where: give checkpoint_dir")
        self._hooks: Final = SessionHooks(all_hooks)
        self._engine: Engine | None = None
        self._session: Session | None = None
        self._failed: Session | None = None
        self._recovery: asyncio.Task[Session] | None = None
        self._entered = False
        self._left = False

    @property
    def graph(self) -> Graph:
        """What it runs."""
        return self._graph

    @property
    def session(self) -> Session:
        """The session that it runs with now, without hooks: its runs trigger none, and are not tried again.

        Raises:
            SessionError: there is none, before it is entered, or after a failure.
            SessionClosedError: it was left.
        """
        if self._left:
            raise SessionClosedError("the session is closed\n  a MonitoredSession can be entered once: make a new one")
        if self._session is None:
            raise SessionError("there is no session now\n  write: async with MonitoredSession(...) as session")
        return self._session

    def should_stop(self) -> bool:
        """Whether a hook has asked it to stop. No more runs are taken then."""
        return self._hooks.stop.on

    @overload
    async def run(self, args: RunArgs[T], /) -> RunValues[T]: ...
    @overload
    async def run(
        self, args: Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunValues[Any]: ...
    async def run(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunValues[Any]:
        """As `Session.run`, with hooks, and tried again after what is recovered from. One deadline covers it all.

        Raises:
            SessionStoppedError: it was asked to stop.
            BaseException: as `Session.run`; what is recovered from, when it was tried often enough.
        """
        began = perf_counter()
        asked = as_args(args, feeds, options)
        try:
            if current_call.get() is not None:
                return await self.session.run(asked)  # Its run has hooks, and is tried again.
            attempt = 1
            while True:
                values = await self._try(asked, began, attempt)
                if isinstance(values, RunValues):
                    return values
                attempt += values is _Again.COUNTED
        except BaseException:
            del asked, args, feeds  # Exceptions keep this frame, and it keeps what was fed.
            raise

    async def _try(self, args: RunArgs[T], began: float, attempt: int) -> RunValues[T] | _Again:
        """One attempt at a run; `_Again` if there is to be another one."""
        if self._hooks.stop.on:
            raise SessionStoppedError("the session was asked to stop\n  write: while not session.should_stop()")
        session, run = self._session, None
        try:
            if session is None:
                session = await self._next_session(args.options, began, attempt)
            if args.options.hooks is None:
                return await session.run_since(began, args)
            run = session.start_hooked(args, began, self._hooks)
            return await run
        except SessionClosedError:
            # Another run may have failed before this one could begin.
            is_last = self._left or session is None or session is self._session
            if is_last or (run is not None and run.has_committed):
                raise
            return _Again.UNCOUNTED
        except self._recover.on:
            is_last = self._left or attempt >= self._recover.attempts
            if is_last or (run is not None and run.has_committed):
                raise
            self._give_up(session)
            return _Again.COUNTED
        finally:
            del args, run  # As above; and it keeps what it raises.

    # -- recovery --------------------------------------------------------------------------------------

    def _give_up(self, session: Session | None) -> None:
        """Says that no more runs are for `session`."""
        if session is not None and session is self._session:
            self._session, self._failed = None, session

    async def _next_session(self, options: RunOptions, began: float, attempt: int) -> Session:
        """The session that comes after one that has failed, for a run that is tried for that time."""
        if self._engine is None or self._left:
            return self.session
        if self._recovery is None:
            wait_s = self._recover.backoff_s * 2 ** max(0, attempt - 2)
            self._recovery = asyncio.get_running_loop().create_task(
                self._recovered(wait_s), name="asyncgraph: a recovery"
            )
            self._recovery.add_done_callback(self._recovery_ended)
        limit = asyncio.timeout(None if options.timeout_s is None else began + options.timeout_s - perf_counter())
        recovery = self._recovery
        try:
            async with limit:
                await asyncio.wait([recovery])  # Not the task itself: others wait for it, too.
        except TimeoutError:
            raise out_of_time(options) from None
        return self.session if recovery.cancelled() else recovery.result()

    async def _recovered(self, wait_s: float) -> Session:
        failed = self._failed
        if failed is not None:
            failed.hooks = SessionHooks(())  # Their lives go on.
            await failed.aclose()
            self._failed = None
        await asyncio.sleep(wait_s)
        return await self._opened()

    def _recovery_ended(self, task: asyncio.Task[Session]) -> None:
        self._recovery = None
        look_at(task)

    # -- entering and leaving --------------------------------------------------------------------------

    async def __aenter__(self) -> MonitoredSession:
        if self._entered:
            raise SessionError("a MonitoredSession can be entered once\n  make a new one")
        self._entered = True
        await self._hooks.begin(self._graph)
        self._graph.finalize()
        await self._opened()
        return self

    async def _opened(self) -> Session:
        """A session with its variables in place, which the hooks have been told of. It is the one from now on."""
        if self._engine is None or self._saver is not None:
            session = Session(self._graph, config=self._config)
            if self._engine is not None:
                session.store.number_on_from(self._engine.store)
        else:
            session = Session.sharing(self._engine)
        try:
            if self._saver is not None:
                await self._saver.restore_latest(session)
            await session.initialize()
            self._hooks.forget_session()
            # Not those that it calls for runs: runs through it have none.
            session.hooks = self._hooks
            await self._hooks.open(session)
        except BaseException:
            session.hooks = SessionHooks(())
            await session.aclose()
            raise
        self._engine = session.engine
        self._session = session
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._left = True
        interrupted: BaseException | None = None
        if self._recovery is not None:
            self._recovery.cancel()
            interrupted = await wait_shielded([self._recovery])
        session, self._session = self._session or self._failed, None
        is_end = isinstance(error, _ENDS)
        if session is not None:
            if session is self._failed:
                session.hooks = SessionHooks(())
            await session.__aexit__(None if is_end else kind, None if is_end else error, traceback)
        if interrupted is not None:
            raise interrupted
        return is_end

    def __reduce__(self) -> NoReturn:
        raise TypeError("a MonitoredSession cannot be pickled: pickle its graph, and make one in each process")

    def __repr__(self) -> str:
        return f"<MonitoredSession of {self._graph!r}{': to stop' if self.should_stop() else ''}>"
