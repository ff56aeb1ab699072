"""The session: runs a graph for any number of coroutines of one event loop."""

from __future__ import annotations

import asyncio
import logging
import warnings
from asyncio import AbstractEventLoop, CancelledError, get_running_loop
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from contextvars import copy_context
from time import perf_counter
from types import TracebackType
from typing import Any, Final, TypeVar, cast, final, overload

from anyio import CancelScope

from .._exec.blas import blas
from .._exec.calls import current_call
from .._exec.host import Host
from .._exec.turn import Turn
from .._graph.building import current_graph
from .._graph.graph import Graph
from .._graph.node import Node
from .._plan.compiler import no_checkpoint
from ..errors import RunArgsError, SessionClosedError, SessionLoopError, SessionOverloadedError
from .args import Feeds, Fetches, RunArgs, RunOptions
from .config import SessionConfig
from .engine import Engine
from .explain import Explanation
from .forks import generation
from .future import RunFuture
from .inline import QueuedRun, run_inline
from .prepared import PreparedRun
from .statistics import SessionStatistics
from .streams import RunMap, RunStream
from .values import RunValues

T = TypeVar("T")
_log: Final = logging.getLogger("asyncgraph")
_SLOW_CLOSE_S: Final = 5.0


@final
class Session:
    """Runs a graph. An async context manager; also opened by its first use, and closed by `aclose`.

    One session serves any number of tasks of one event loop (asyncio's or uvloop's), also from inside
    anyio's task groups and scopes. It owns its threads, plans and limits; nothing of it outlives `aclose`.

    Args:
        graph: what is run; the current graph if left out. May be extended while the session is open.
        config: limits and devices.

    Raises:
        GraphError: no graph was given, and there is no current one.
    """

    # Fields:
    #   engine: finds plans.
    #   _host: the loop and the threads; None until the session is opened.
    #   _generation: which process opened it.
    #   _futures: runs in flight, but those that finish where they are called. Kept here, or a run that
    #       nobody holds could be collected half-way.
    #   _executing: how many of them execute and count for the limit.
    #   _queue: those that wait until fewer execute.
    #   _planning: those whose plan a worker makes.
    #   _idle: who waits until nothing is in flight.
    #   _closing: done when the session is closed; None while it is open.

    def __init__(self, graph: Graph | None = None, *, config: SessionConfig | None = None) -> None:
        self._set_up(Engine(current_graph() if graph is None else graph, config or SessionConfig()))

    @classmethod
    def sharing(cls, engine: Engine) -> Session:
        """A session that finds its plans in `engine`, as others do."""
        session = cls.__new__(cls)
        session._set_up(engine)
        return session

    def _set_up(self, engine: Engine) -> None:
        self.engine = engine
        self.config = engine.config
        self._host: Host | None = None
        self._generation = 0
        self._futures: set[RunFuture[Any]] = set()
        self._executing = 0
        self._queue: dict[RunFuture[Any], None] = {}
        self._planning: set[RunFuture[Any]] = set()
        self._idle: list[asyncio.Future[None]] = []
        self._closing: asyncio.Future[None] | None = None
        self._closed = False
        self._started = 0
        self._ended = 0

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
            BaseException: what a kernel or an op raised, with a note that names the node.
        """
        began = perf_counter()
        asked = as_args(args, feeds, options)
        host = self._host
        if host is None or get_running_loop() is not host.loop or self._generation != generation.number or self._closed:
            host = self._open()
        turn = host.turn
        if asked.options.allow_inline and self._executing < self.config.max_concurrent_runs:
            if turn.has_time:
                try:
                    values = run_inline(self.engine, asked, began)
                finally:
                    # Also of runs that fail: who tries again and again must still let the loop go on.
                    turn.charge(perf_counter() - began)
            elif asked.options.timeout_s is None:
                self._check_load(turn.waiting)
                values = await QueuedRun(self.engine, asked, began, turn)
            else:
                values = None
            if values is not None:
                self.count_run()
                return values
        future = RunFuture(self, asked, copy_context(), began)
        self._enter(future)
        future.limit_time()
        turn.do(future.slice)
        try:
            return await future
        finally:
            # Exceptions keep this frame, and it keeps what was fed.
            del future, asked, args, feeds

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
            RunArgsError: as `run`; nothing has run. For graphs of more than 2,000 nodes that are run in this
                way for the first time, the future raises it, since a worker makes the plan.
            SessionClosedError, SessionOverloadedError, SessionLoopError: the session cannot take the run.
        """
        began = perf_counter()
        asked = as_args(args, feeds, options)
        host = self._open()
        future = RunFuture(self, asked, copy_context(), began)
        if not future.needs_worker_to_plan:
            future.prepare()
        self._enter(future)
        future.limit_time()
        host.turn.wait(future.slice)
        return future

    def run_blocking(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunValues[Any]:
        """As `run`, for threads other than the loop's, such as a sync op's. Blocks the calling thread.

        Raises:
            SessionLoopError: it is called where an event loop is running, or the session is not open.
        """
        asked = as_args(args, feeds, options)
        host = self._host
        if host is None:
            raise SessionLoopError("the session is not open yet\n  open it on its event loop: async with session")
        if running_loop() is not None:
            raise SessionLoopError("run_blocking would block a running event loop\n  write: await session.run(...)")
        context = copy_context()

        async def run() -> RunValues[Any]:
            return await self.run(asked)

        coroutine = run()
        try:
            done = context.run(asyncio.run_coroutine_threadsafe, coroutine, host.loop)
        except RuntimeError as error:
            coroutine.close()
            raise SessionLoopError("the session's event loop is closed") from error
        return cast("RunValues[Any]", done.result())

    def prepare(self, fetches: Fetches, feeds: Sequence[Node | str] = ()) -> PreparedRun:
        """A callable that takes the values of `feeds` by position, to be awaited: `await prepared(a, b)`.

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

    def explain(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> Explanation:
        """What a run of `args` does, and why: an object that prints. The values of the feeds do not matter.

        Raises:
            RunArgsError: the graph cannot give what is asked for.
        """
        asked = as_args(args, feeds, options)
        return Explanation(self.engine.request(asked, no_checkpoint).plan, self.graph, self.config)

    def statistics(self) -> SessionStatistics:
        """What it has done and holds, now."""
        host = self._host
        counters = None if host is None else host.counters
        return SessionStatistics(
            runs_started=self._started,
            runs_ended=self._ended,
            runs_executing=len(self._futures) - len(self._queue),
            runs_waiting=len(self._queue),
            plans=self.engine.plan_count,
            inline_segments=0 if counters is None else counters.inline_segments,
            offloaded_segments=0 if counters is None else counters.offloaded_segments,
            user_calls=0 if counters is None else counters.user_calls,
            worker_threads=0 if host is None else host.kernels.threads,
            op_threads=0 if host is None else host.calls.threads,
            abandoned=() if host is None else tuple(host.abandoned.values()),
        )

    def turn_with_time(self) -> Turn | None:
        """The loop's turn, if a run may be done in it here and now.

        Raises:
            SessionError: the session can take no run.
        """
        host = self._open()
        return host.turn if host.turn.has_time and self._executing < self.config.max_concurrent_runs else None

    def count_run(self) -> None:
        """Counts a run that was done where it was called."""
        self._started += 1
        self._ended += 1

    # -- runs in flight, for `RunFuture` ---------------------------------------------------------------

    @property
    def host(self) -> Host:
        """Where runs run."""
        assert self._host is not None
        return self._host

    @property
    def _loop(self) -> AbstractEventLoop:
        return self.host.loop

    def _check_load(self, more: int = 0) -> None:
        count = len(self._futures) + more
        limit = self.config.max_concurrent_runs + self.config.max_pending_runs
        if count >= limit and current_call.get() is None:
            raise SessionOverloadedError(
                f"{count} runs are in flight, and the session takes {limit}\n"
                "  wait for some of them, or raise SessionConfig(max_pending_runs=...)"
            )

    def _enter(self, future: RunFuture[Any]) -> None:
        self._check_load()
        self._futures.add(future)
        self._started += 1

    def start(self, future: RunFuture[Any]) -> None:
        """Starts a run, if no more execute than may; otherwise has it wait.

        Raises:
            RunArgsError: the graph cannot give what it asks for.
        """
        if future.needs_worker_to_plan:
            self._planning.add(future)
            future.plan_on_worker()
            return
        self._planning.discard(future)
        if not future.is_prepared:
            future.prepare()
        if not future.nested:
            if self._executing >= self.config.max_concurrent_runs:
                self._queue[future] = None
                return
            self._executing += 1
            future.counts = True
        future.start()

    def is_planning(self, future: RunFuture[Any]) -> bool:
        """Whether a worker makes the plan of a run, and will say so."""
        return future in self._planning

    def leave(self, future: RunFuture[Any]) -> None:
        """A run has ended; another may start."""
        self._futures.discard(future)
        self._planning.discard(future)
        self._queue.pop(future, None)
        self._ended += 1
        if future.counts:
            self._executing -= 1
            if self._queue:
                following = next(iter(self._queue))
                del self._queue[following]
                self.host.turn.wait(following.slice)
        if not self._futures:
            for waiter in self._idle:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle.clear()

    # -- opening and closing ---------------------------------------------------------------------------

    async def __aenter__(self) -> Session:
        self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._stop_all()
        await self.aclose()

    def _open(self) -> Host:
        """The host of an open session, on its own loop, in its own process."""
        if self._closed:
            raise SessionClosedError(
                "the session is closed\n  make a new Session; graphs can be run by any number of them"
            )
        loop = running_loop()
        if loop is None:
            raise SessionLoopError(
                "no asyncio event loop is running here\n"
                "  await session.run(...) inside asyncio.run(...) or uvloop; trio is not supported;\n"
                "  in plain threads use BlockingSession"
            )
        host = self._host
        if host is None:
            config = self.config
            host = self._host = Host(loop, config.inline_budget_s, config.worker_count, config.threads)
            self._generation = generation.number
            if config.blas_threads is not None:
                blas.claim(self, config.blas_threads)
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

    async def aclose(self) -> None:
        """Closes the session: takes no more runs, waits for those in flight, ends its threads. Idempotent.

        Runs that wait for others end with `SessionClosedError`. If this is cancelled, runs in flight are
        ended in the same way, and are still waited for. When it returns or raises, nothing is left.
        """
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        host = self._host
        if host is None or self._generation != generation.number:
            self._closed = True
            return
        host = self._open()
        self._closed = True
        self._closing = host.loop.create_future()
        for future in list(self._queue):
            future.end(SessionClosedError("the session was closed before the run could start"))
        cancelled = await self._drain(host)
        host.kernels.close()
        host.calls.close()
        # They have nothing left to do: this takes as long as it takes them to wake up.
        host.kernels.join()
        host.calls.join()
        blas.release(self)
        self._closing.set_result(None)
        if cancelled is not None:
            raise cancelled

    async def _drain(self, host: Host) -> CancelledError | None:
        """Waits until nothing is in flight; gives the cancellation that came meanwhile."""
        cancelled: CancelledError | None = None
        late = host.loop.call_later(_SLOW_CLOSE_S, self._name_what_is_left)
        try:
            while self._futures or host.abandoned or host.turn.waiting:
                try:
                    if cancelled is None:
                        await self._wait_until_idle(host)
                    else:
                        with CancelScope(shield=True):
                            await self._wait_until_idle(host)
                except CancelledError as error:
                    if cancelled is None:
                        cancelled = error
                        self._stop_all()
        finally:
            late.cancel()
        return cancelled

    async def _wait_until_idle(self, host: Host) -> None:
        while host.turn.waiting:
            await asyncio.sleep(0)
        if self._futures:
            waiter: asyncio.Future[None] = host.loop.create_future()
            self._idle.append(waiter)
            await waiter
        await host.wait_for_abandoned()

    def _stop_all(self) -> None:
        for future in list(self._futures):
            future.end(SessionClosedError("the session was closed before the run could end"))

    def _name_what_is_left(self) -> None:
        assert self._host is not None
        names = [*self._host.abandoned.values(), *[repr(future) for future in self._futures]]
        _log.warning("closing the session waits for: %s", ", ".join(names))

    def __del__(self) -> None:
        host = self._host
        if host is not None and not self._closed and self._generation == generation.number:
            warnings.warn(
                f"unclosed {self!r}: write `async with session`, or await session.aclose()",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )
            host.kernels.close()
            host.calls.close()
            blas.release(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "new" if self._host is None else f"open, {len(self._futures)} runs"
        return f"<Session of {self.graph!r}: {state}>"


def as_args(args: Any, feeds: Feeds | None, options: RunOptions | None) -> RunArgs[Any]:
    """`args` if it is a `RunArgs`, or one of bare fetches.

    Raises:
        RunArgsError: feeds or options are given twice.
    """
    if args.__class__ is RunArgs:
        if feeds is not None or options is not None:
            raise RunArgsError("feeds and options stand in the RunArgs, or beside bare fetches, but not in both")
        return cast("RunArgs[Any]", args)
    return RunArgs[Any](args, cast("Mapping[Any, Any] | None", feeds), options)


def running_loop() -> AbstractEventLoop | None:
    """The event loop that runs in this thread, or `None`."""
    try:
        return get_running_loop()
    except RuntimeError:
        return None
