"""The session: runs a graph for any number of coroutines of one event loop."""

from __future__ import annotations

import warnings
from asyncio import _get_running_loop as get_loop  # pyright: ignore[reportPrivateUsage]  # public, for loops: it gives None, where its sister raises
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, NoReturn, TypeVar, cast, final, overload

from .._exec.blas import blas
from .._exec.calls import calls_in_progress, current_call
from .._exec.host import Host
from .._exec.notes import forget_values
from .._exec.turn import Turn
from .._graph.building import current_graph
from .._graph.graph import Graph
from .._graph.node import Node
from .._graph.variable import Variable
from .._plan.compiler import no_checkpoint
from ..errors import SessionClosedError, SessionError, SessionLoopError
from .args import Feeds, Fetches, RunArgs, RunOptions, as_args, to_initialize
from .checkpoint_file import CheckpointHeader
from .closing import end_runs, end_threads
from .config import SessionConfig
from .delivery import RunFuture
from .engine import Engine
from .explain import Explanation
from .forks import generation
from .future import PlainRunFuture
from .hook import Hook
from .hooked import HookedRunFuture, calls_hooks
from .inflight import RunsInFlight
from .inline import Unfinished, run_inline
from .later import finish_later, run_later
from .lives import SessionHooks
from .prepared import PreparedRun
from .replacing import replace
from .saving import Chosen, FilePath, Restoring, Saving, restore, save
from .statistics import SessionStatistics, statistics_of
from .store import Store
from .streams import RunMap, RunStream
from .threads import LoopCall
from .values import RunValues

T = TypeVar("T")


@final
class Session:
    """Runs a graph. An async context manager; also opened by its first use, and closed by `aclose`.

    One session serves any number of tasks of one event loop (asyncio's or uvloop's), also from inside
    anyio's task groups and scopes. It owns its threads, plans and limits; nothing of it outlives `aclose`.

    Args:
        graph: what is run; the current graph if left out. May be extended while the session is open.
        config: limits and devices.
        hooks: what watches its runs; see `Hook`. Their lives begin with the `async with`, or else the first run,
            and end with `aclose`, or the end of the `async with` if no error has led there.

    Raises:
        GraphError: no graph was given, and there is no current one.
        SessionError: what is no hook is among the hooks.
    """

    # Fields:
    #   engine: finds plans.
    #   hooks, hooked: what watches its runs, and whether anything does.
    #   _host: the loop and the threads; None until the session is opened.
    #   _generation: which process opened it.
    #   runs: those in flight.
    #   _closed: whether it takes no more runs, but for nested ones of runs that it waits for.
    #   _drained: whether it waits for nothing any more.

    _host: Host | None = None  # Also of a session that could not be made, and is finalized all the same.

    def __init__(
        self, graph: Graph | None = None, *, config: SessionConfig | None = None, hooks: Iterable[Hook] = ()
    ) -> None:
        self._set_up(Engine(current_graph() if graph is None else graph, config or SessionConfig()), hooks)

    @classmethod
    def sharing(cls, engine: Engine) -> Session:
        """A session that finds its plans in `engine`, as others do."""
        session = cls.__new__(cls)
        session._set_up(engine)
        return session

    def _set_up(self, engine: Engine, hooks: Iterable[Hook] = ()) -> None:
        self.engine = engine
        self.hooks = SessionHooks(hooks)
        self.hooked = bool(self.hooks.named)
        self.config = engine.config
        self._generation = 0
        self.runs = RunsInFlight(engine.config)
        self._closed = self._drained = False

    @property
    def graph(self) -> Graph:
        """What it runs."""
        return self.engine.graph

    # -- running ---------------------------------------------------------------------------------------

    @overload
    async def run(self, args: RunArgs[T], /) -> RunValues[T]: ...
    @overload
    async def run(
        self, args: Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunValues[Any]: ...
    async def run(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunValues[Any]:
        """The values of the fetches. `args` is a `RunArgs`, or bare fetches.

        Cancelling ends the run: coroutines of ops are cancelled, no further kernel starts, and one that
        runs in a thread is waited for. When this has returned or raised, nothing of the run is left.

        Raises:
            RunArgsError: the graph cannot give what is asked for, or a fed value does not fit. Nothing has run.
            SessionClosedError, SessionOverloadedError, SessionLoopError: the session cannot take the run.
            RunTimeoutError: `options.timeout_s` is over.
            BaseException: what a kernel, an op or a hook raised first, KeyboardInterrupt and SystemExit included,
                unchanged but for a note that names the node or the hook, with a line for each other failure. A
                CancelledError of an op's own is a `NodeCancelledError`, one of a hook's a `HookCancelledError`.
        """
        began = perf_counter()
        asked = as_args(args, feeds, options)
        if self.engine.graph.draws:
            asked = self.engine.numbered(asked)
        host = self._host
        if host is None or get_loop() is not host.loop or self._generation != generation.number or self._closed:
            host = self._open()
        turn, runs = host.turn, self.runs
        try:
            if (self.hooked or asked.options.hooks) and calls_hooks(asked):
                return await self.start_hooked(asked, began, self.hooks)
            if not asked.options.trace and runs.executing < self.config.max_concurrent_runs:
                values: RunValues[Any] | Unfinished | None = None
                tried = turn.has_time
                if tried:
                    try:
                        values = run_inline(self.engine, asked, began, turn)
                    except BaseException:
                        runs.count_inline()
                        raise
                    finally:
                        turn.charge(perf_counter() - began)  # Also if it fails: who tries again lets the loop go on.
                if values.__class__ is Unfinished:
                    values = await finish_later(runs, cast("Unfinished", values), turn)
                elif values is None and (later := run_later(self, asked, began, turn, tried)) is not None:
                    values = await later
                if values is not None:
                    runs.started += 1
                    runs.ended += 1
                    return cast("RunValues[Any]", values)
            return await self.run_since(began, asked, admitted=True)
        except BaseException as error:
            forget_values(error)
            # Exceptions keep this frame, and it keeps what was fed.
            del asked, args, feeds
            raise

    async def run_since(self, began: float, args: RunArgs[T], admitted: bool = False) -> RunValues[T]:
        """As `run`, for what was asked for at `began`, in `perf_counter`'s time; always as a run in flight."""
        try:
            taken = self.start_since(began, args, admitted).take()
        finally:
            del args  # What is raised keeps this frame.
        return await taken

    def start_since(self, began: float, args: RunArgs[T], admitted: bool = False) -> PlainRunFuture[T]:
        """The run in flight that `run_since` awaits, with its first slice done."""
        future = self._start(args, began, admitted=admitted)
        try:
            self.host.turn.do(future.slice)
            return future
        finally:
            del args, future  # A user's frame that is kept leads back to this one.

    def start_hooked(
        self, args: RunArgs[T], began: float, hooks: SessionHooks, early: bool = False
    ) -> HookedRunFuture[T]:
        """A run in flight, with hooks. `early` says whether somebody may ask for fetches before the end.

        Raises:
            RunArgsError, SessionClosedError, SessionOverloadedError, SessionLoopError: as `run`. No hook was called.
        """
        self._open()
        future = HookedRunFuture(self, self.engine.check(args), began, hooks, early)
        future.start()
        return future

    def _start(
        self, args: RunArgs[T], began: float, prepare: bool = False, admitted: bool = False
    ) -> PlainRunFuture[T]:
        """A run, in flight, whose first slice is still to be done. Closing waits for who was `admitted`."""
        if not admitted:
            self._open()
        future = PlainRunFuture(self, args, copy_context(), began)
        if prepare or args.options.copy_feeds:
            if future.needs_worker_to_plan:
                future.take_feeds()
            else:
                future.prepare()
        self.runs.enter(future)
        future.limit_time()
        return future

    @overload
    def submit(self, args: RunArgs[T], /) -> RunFuture[T]: ...
    @overload
    def submit(
        self, args: Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunFuture[Any]: ...
    def submit(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunFuture[Any]:
        """Starts a run in the next turn of the loop; gives the future of its values. To be called on the loop.

        Raises:
            RunArgsError: as `run`; nothing has run. That a feed is missing is for the future to raise if a worker
                makes the plan: for graphs of more than 2,000 nodes, or with nodes on devices that may have to be
                waited for, that are run in this way for the first time.
            SessionClosedError, SessionOverloadedError, SessionLoopError: the session cannot take the run.
        """
        began = perf_counter()
        asked = as_args(args, feeds, options)
        if self.engine.graph.draws:
            asked = self.engine.numbered(asked)
        if (self.hooked or asked.options.hooks) and calls_hooks(asked):
            return self.start_hooked(asked, began, self.hooks, early=True)
        future = self._start(asked, began, prepare=True)
        future.resume()
        return future

    def run_blocking(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunValues[Any]:
        """As `run`, for threads other than the loop's, such as a sync op's. Blocks the calling thread.

        Called by a sync op, the run ends when the op's own run does.

        Raises:
            SessionLoopError: it is called where an event loop is running, or the session is not open.
        """
        asked = as_args(args, feeds, options)
        host = self._host
        if host is None:
            raise SessionLoopError("the session is not open yet\n  open it on its event loop: async with session")
        if get_loop() is not None:
            raise SessionLoopError("run_blocking would block a running event loop\n  write: await session.run(...)")
        try:
            call = LoopCall(host.loop, partial(self.run, asked), copy_context())
        except RuntimeError as error:
            raise SessionLoopError("the session's event loop is closed") from error
        caller = current_call.get()
        if caller is not None:
            caller.when_over(call.cancel)
        return call.result()

    def prepare(self, fetches: Fetches, feeds: Sequence[Node | str] = ()) -> PreparedRun:
        """A callable that takes the values of `feeds` by position, to be awaited: `await prepared(a, b)`.

        Makes the plan at once, which holds the loop for as long as a device has to be looked for, or be given
        constants, if no run has had to before.

        Raises:
            RunArgsError: the graph cannot give `fetches` from `feeds`.
        """
        return PreparedRun(self, fetches, feeds)

    def stream(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunStream:
        """The fetches of one run, as pairs of fetch and value, in the order in which they are done.

        `async for fetch, value in session.stream(args)`; as an async context manager it ends its run on leaving.
        A value is provisional until the run has ended: what fails later is raised by the iteration.
        """
        return RunStream(self, as_args(args, feeds, options))

    def map(
        self, iterable: Iterable[RunArgs[T]] | AsyncIterable[RunArgs[T]], *, concurrency: int, ordered: bool = True
    ) -> RunMap[T]:
        """The `RunValues` of many runs, at most `concurrency` of them at a time.

        `async for values in session.map(args, concurrency=8)`; as an async context manager it ends its runs
        on leaving. Items are taken from `iterable` only as fast as runs are started, and runs are started
        only as fast as values are taken.

        Args:
            iterable: one `RunArgs` for each run; sync or async.
            concurrency: how many runs are in flight, or done and not taken, at most.
            ordered: in the order of `iterable`; otherwise in the order in which they are done.
        """
        return RunMap(self, iterable, concurrency, ordered)

    async def initialize(self, variables: Iterable[Variable] | None = None) -> None:
        """Gives variables that have no value their initial one; by default all. Runs do so for those that they need.

        Raises:
            FeedTypeError: one of them is no variable.
            BaseException: what computing an initial value raises. Then none of them has one.
        """
        wanted = self.graph.variables if variables is None else variables
        await self.run_since(perf_counter(), to_initialize(wanted))

    async def replace(self, values: Mapping[Variable, object] | Mapping[str, object]) -> None:
        """Assigns values to variables, by themselves or by name: all of them, or none. Cancelling changes nothing.

        Values are copied, in a thread; they are borrowed until this returns.

        Raises:
            FeedError: a value does not fit its variable.
        """
        await replace(self, values)

    async def save(self, path: FilePath, *, variables: Chosen | None = None, step: int | None = None) -> Path:
        """Writes what was committed last to a checkpoint; gives its path. Runs go on meanwhile. See `checkpoints`.

        Variables without a value get their initial one first. Whatever happens, the file at `path` is the old one or
        the new one, whole; when this returns, it is the new one, and on the disk. Cancelling ends the writing soon.

        Args:
            path: of the file, in a folder that there is.
            variables: what is saved, if not all; in a dict, by the names that they are to have in the file.
            step: noted in the file; by default what the graph's `global_step` holds.

        Raises:
            CheckpointTypeError, CheckpointFileError: a dtype cannot be saved, or the file cannot be written.
        """
        return await save(self, Saving(self.engine, path, variables, step))

    async def restore(
        self, path: FilePath, *, variables: Chosen | None = None, strict: bool = True
    ) -> CheckpointHeader:
        """Has variables hold what a checkpoint has, all at once or not at all; gives its header. See `checkpoints`.

        They need no initial value before. Cancelling changes nothing.

        Args:
            path: of the file: any of the safetensors format. Nothing in it is run.
            variables: what is restored; in a dict, by the names that the file has. By default all, and nothing else
                may be in the file.
            strict: whether the file must have all of it; otherwise what it has is restored.

        Raises:
            CheckpointFileError: there is no such file, or it is corrupt.
            CheckpointMismatchError: names, dtypes or shapes differ; the message has all that do.
        """
        return await restore(self, Restoring(self.engine, path, variables, strict))

    def explain(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> Explanation:
        """What a run of `args` does, and why: an object that prints. The values of the feeds do not matter.

        Makes the plan at once, as `prepare` does.

        Raises:
            RunArgsError: the graph cannot give what is asked for.
        """
        asked = as_args(args, feeds, options)
        return Explanation(self.engine.request(asked, no_checkpoint).plan, self.graph, self.config)

    def statistics(self) -> SessionStatistics:
        """What it has done and holds, now."""
        return statistics_of(self.engine, self.runs, self._host)

    def turn(self) -> Turn | None:
        """The loop's turn, if a run may be done in it, once it has time.

        Raises:
            SessionError: the session can take no run.
        """
        host = self._host
        if host is None or get_loop() is not host.loop or self._generation != generation.number or self._closed:
            host = self._open()
        return host.turn if self.runs.executing < self.config.max_concurrent_runs else None

    @property
    def store(self) -> Store:
        """What its variables hold."""
        return self.engine.store

    @property
    def host(self) -> Host:
        """Where runs run, while it is open."""
        assert self._host is not None
        return self._host

    # -- opening and closing ---------------------------------------------------------------------------

    async def __aenter__(self) -> Session:
        self._open()
        try:
            await self.hooks.open(self)
        except BaseException:
            await self._close(end_hooks=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.runs.end_all()
        await self._close(end_hooks=error is None)

    def _open(self) -> Host:
        """The host of an open session, on its own loop, in its own process."""
        if self._closed and not self._takes_nested():
            raise SessionClosedError(
                "the session is closed\n  make a new Session; graphs can be run by any number of them"
            )
        loop = get_loop()
        if loop is None:
            raise SessionLoopError(
                "no asyncio event loop is running here\n"
                "  await session.run(...) inside asyncio.run(...) or uvloop; trio is not supported;\n"
                "  in plain threads use BlockingSession"
            )
        host = self._host
        if host is None:
            config = self.config
            host = self._host = Host(
                loop, config.inline_budget_s, config.worker_count, config.threads, config.worker_niceness
            )
            self._generation = generation.number
            if config.blas_threads is not None:
                blas.claim(host, config.blas_threads)
        elif self._generation != generation.number:
            raise SessionLoopError(
                "the session was opened before this process was forked\n  make a new Session in the child"
            )
        elif host.loop is not loop:
            raise SessionLoopError(
                "the session was opened on another event loop\n"
                "  make a Session for each loop; or, from other threads, use BlockingSession"
            )
        return host

    def _takes_nested(self) -> bool:
        """Whether it waits for runs in flight, and a node of one of them asks: the node would never end."""
        call = current_call.get()
        return not self._drained and call is not None and not call.over

    async def aclose(self) -> None:
        """Closes the session: takes no more runs, waits for those in flight, ends its threads. Idempotent.

        Runs that wait for a place end with `SessionClosedError`. If this is cancelled, runs in flight are
        ended in the same way, and are still waited for. When it returns or raises, nothing is left.

        Raises:
            SessionError: an op or a hook awaits it, of a run that it would wait for.
            BaseException: what a hook's `end` raised; the session is closed all the same.
        """
        await self._close(end_hooks=True)

    async def _close(self, end_hooks: bool) -> None:
        host = self._host
        if host is None or self._drained or self._generation != generation.number:
            self._closed = self._drained = True
            return
        if get_loop() is not host.loop:
            raise SessionLoopError("the session was opened on another event loop\n  close it where it was opened")
        if any(call.run is self.hooks or self.runs.contains(call.run) for call in calls_in_progress()):
            raise SessionError(
                "an op closes the session that runs it, or a hook does\n  close it from outside: it would never end"
            )
        self._closed = True
        failure = await end_runs(host, self.runs, partial(self.hooks.end, self) if end_hooks else None)
        self._drained = True
        end_threads(host, wait=True)
        if failure is not None:
            raise failure

    def __del__(self) -> None:
        host = self._host
        if host is not None and not self._closed and self._generation == generation.number:
            warnings.warn(
                f"unclosed {self!r}: write `async with session`, or await session.aclose()",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )
            end_threads(host, wait=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Session cannot be pickled: pickle its graph, and make a Session in each process")

    def __repr__(self) -> str:
        state = "closed" if self._closed else "new" if self._host is None else f"open, {len(self.runs.futures)} runs"
        return f"<Session of {self.graph!r}: {state}>"
