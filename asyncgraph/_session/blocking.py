"""The same session for plain threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from threading import Event, Lock, Thread
from time import perf_counter
from types import TracebackType
from typing import Any, Final, TypeVar, cast, final, overload

from .._exec.blas import blas
from .._exec.calls import Awaited, CallSite, timed_out
from .._exec.inline import explain_failure
from .._exec.notes import add_node_note, trim_traceback
from .._exec.recorder import Recorder
from .._exec.results import deliver
from .._exec.workers import Pool, Work, make_pool
from .._graph.building import current_graph
from .._graph.graph import Graph
from .._plan.chunk import Frame
from .._plan.compiler import no_checkpoint
from .._plan.lower import Kind
from .._plan.plan import Plan
from .._plan.segment import Segment
from ..errors import RunTimeoutError, SessionClosedError, SessionLoopError
from .args import Feeds, Fetches, RunArgs, RunOptions
from .config import SessionConfig
from .engine import Engine, Request
from .explain import Explanation
from .forks import generation
from .future import results_of
from .session import Session, as_args, running_loop
from .values import RunValues

T = TypeVar("T")


@final
class BlockingSession:
    """Runs a graph for plain threads: any number of them, each with its own feeds.

    Plans without async ops run in the calling thread, one node after the other, without a hop. Async ops
    run on one private event loop, in a thread that is started when it is first needed. A context manager.

    Args:
        graph: what is run; the current graph if left out.
        config: limits and devices.

    Raises:
        GraphError: no graph was given, and there is no current one.
    """

    # Fields:
    #   engine: finds plans.
    #   _pool: threads for `submit`.
    #   _lock: guards what follows.
    #   _loop_thread: the private loop with its session; None until it is needed.
    #   _closed: whether it takes no more runs.
    #   _running: how many runs are being made in threads of callers; `_idle` is set while there is none.

    def __init__(self, graph: Graph | None = None, *, config: SessionConfig | None = None) -> None:
        self.config: Final = SessionConfig() if config is None else config
        self.engine: Final = Engine(current_graph() if graph is None else graph, self.config)
        self._pool: Final[Pool] = make_pool("run", self.config.threads)
        self._lock: Final = Lock()
        self._loop_thread: _LoopThread | None = None
        self._closed = False
        self._running = 0
        self._idle: Final = Event()
        self._idle.set()
        self._generation: Final = generation.number
        if self.config.blas_threads is not None:
            blas.claim(self, self.config.blas_threads)

    @property
    def graph(self) -> Graph:
        """What it runs."""
        return self.engine.graph

    def __enter__(self) -> BlockingSession:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @overload
    def run(self, args: RunArgs[T], /) -> RunValues[T]: ...
    @overload
    def run(
        self, args: Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunValues[Any]: ...
    def run(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> RunValues[Any]:
        """The values of the fetches; see `Session.run`. Blocks the calling thread.

        A deadline is seen between two nodes: what is running in this thread is not interrupted.

        Raises:
            SessionLoopError: an event loop is running in this thread: use `Session` and await.
            RunArgsError, SessionClosedError, RunTimeoutError: as `Session.run`.
            BaseException: what a kernel or an op raised, with a note that names the node.
        """
        began = perf_counter()
        asked = as_args(args, feeds, options)
        if running_loop() is not None:
            raise SessionLoopError(
                "BlockingSession.run would block the event loop that runs in this thread\n"
                "  write: async with Session(graph) as session: await session.run(...)"
            )
        self._check_open()
        request = self.engine.request(asked, no_checkpoint)
        if request.plan.needs_loop:
            return self._on_loop().run(asked)
        self._begin()
        try:
            return _Here(self, request, asked, began, copy_context()).values()
        finally:
            self._end()

    def submit(
        self, args: RunArgs[T] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> Future[RunValues[T]]:
        """Starts a run in a thread of the session; gives a future, as `concurrent.futures` does.

        `cancel()` succeeds until the run has started.

        Raises:
            RunArgsError, SessionClosedError: as `run`; nothing has run.
        """
        asked = cast("RunArgs[T]", as_args(args, feeds, options))
        self._check_open()
        self.engine.request(asked, no_checkpoint).bind(tuple(asked.feeds.values()), False)
        future: Future[RunValues[T]] = Future()
        context = copy_context()

        def work() -> Work | None:
            if future.set_running_or_notify_cancel():
                try:
                    values = context.run(self.run, asked)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(values)
            return None

        self._pool.submit(work)
        return future

    def explain(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> Explanation:
        """As `Session.explain`."""
        asked = as_args(args, feeds, options)
        return Explanation(self.engine.request(asked, no_checkpoint).plan, self.graph, self.config)

    def close(self) -> None:
        """Closes the session: takes no more runs, waits for those in flight, ends its threads. Idempotent."""
        with self._lock:
            self._closed = True
            loop_thread, self._loop_thread = self._loop_thread, None
        self._pool.close()
        self._pool.join()
        self._idle.wait()
        if loop_thread is not None:
            loop_thread.close()
        blas.release(self)

    def await_here(self, awaited: Awaited, site: CallSite, deadline: float | None) -> Any:
        """The result of what a function returned, awaited on the private loop."""
        return self._on_loop().wait(awaited, site, deadline)

    def _on_loop(self) -> _LoopThread:
        with self._lock:
            if self._loop_thread is None:
                self._loop_thread = _LoopThread(self.engine)
            return self._loop_thread

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosedError("the session is closed\n  make a new BlockingSession")
        if self._generation != generation.number:
            raise SessionLoopError("the session was made before this process was forked\n  make a new one in the child")

    def _begin(self) -> None:
        with self._lock:
            self._running += 1
            self._idle.clear()

    def _end(self) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                self._idle.set()

    def __repr__(self) -> str:
        return f"<BlockingSession of {self.graph!r}{': closed' if self._closed else ''}>"


@final
class _Here:
    """One run in the calling thread: the segments in the plan's order, in which inputs come first."""

    def __init__(
        self, session: BlockingSession, request: Request, args: RunArgs[Any], began: float, context: Context
    ) -> None:
        timeout_s = args.options.timeout_s
        self._session: Final = session
        self._request: Final = request
        self._args: Final = args
        self._began: Final = began
        self._deadline: Final = None if timeout_s is None else began + timeout_s
        self._context: Final = context
        self._recorder: Final = Recorder() if args.options.trace else None

    def values(self) -> RunValues[Any]:
        """Runs it."""
        options, plan = self._args.options, self._request.plan
        feeds, _ = self._request.bind(tuple(self._args.feeds.values()), options.copy_feeds)
        frame = plan.frame(feeds)
        plan.count_run()
        try:
            self._run(plan, frame)
            on_host = options.results == "host"
            delivered = [deliver(one, frame, on_host) for one in plan.fetches]
        except BaseException:
            frame.clear()
            feeds.clear()
            raise
        results = results_of(self._request, self._args, delivered)
        return RunValues(results, options, plan, perf_counter() - self._began, self._recorder)

    def _run(self, plan: Plan, frame: Frame) -> None:
        unread = dict(plan.readers)
        for segment in plan.segments:
            self._check_time()
            if segment.kind is Kind.KERNEL:
                self._compute(plan, segment.index, frame)
            else:
                self._call(segment, frame)
            for slot in segment.reads:
                unread[slot] -= 1
                if not unread[slot]:
                    frame[slot] = None

    def _compute(self, plan: Plan, segment: int, frame: Frame) -> None:
        try:
            for chunk in plan.chunks[segment]:
                self._check_time()
                if self._recorder is None:
                    chunk.run(frame)
                else:
                    chunk.run_traced(frame, self._recorder.add)
        except RunTimeoutError:
            raise
        except BaseException as error:
            explain_failure(plan, segment, error)
            raise

    def _call(self, segment: Segment, frame: Frame) -> None:
        instruction = segment.instructions[0]
        site = CallSite(instruction.node, [frame[slot] for slot in instruction.operands], self._context, self)
        start = perf_counter()
        try:
            value = site.call()
            if isinstance(value, Awaited):
                value = self._session.await_here(value, site, self._deadline)
            elif site.timeout_s is not None and site.time_left_s() < 0:
                raise timed_out(site.node)
        except BaseException as error:
            add_node_note(error, site.node, None, site.args)
            trim_traceback(error)
            raise
        if self._recorder is not None:
            self._recorder.add(site.node, start, perf_counter())
        frame[instruction.out] = value

    def _check_time(self) -> None:
        if self._deadline is not None and perf_counter() > self._deadline:
            raise RunTimeoutError(f"the run took longer than its timeout_s={self._args.options.timeout_s}")


@final
class _LoopThread:
    """A private event loop in a thread, with a session on it that shares the plans."""

    def __init__(self, engine: Engine) -> None:
        self._loop: Final = asyncio.new_event_loop()
        self._thread: Final = Thread(target=self._serve, name="asyncgraph loop", daemon=True)
        self._session: Final = Session.sharing(engine)
        self._thread.start()

    def run(self, args: RunArgs[Any]) -> RunValues[Any]:
        """As `Session.run`, for another thread."""

        async def run() -> RunValues[Any]:
            return await self._session.run(args)

        return self._do(run)

    def wait(self, awaited: Awaited, site: CallSite, deadline: float | None) -> Any:
        """The result of what a function returned."""

        async def wait() -> Any:
            try:
                async with asyncio.timeout(None if deadline is None else max(0.0, deadline - perf_counter())):
                    return await site.wait(awaited)
            except TimeoutError as error:
                if deadline is not None and perf_counter() >= deadline:
                    raise RunTimeoutError("the run took longer than its timeout_s") from error
                raise

        return self._do(wait)

    def close(self) -> None:
        """Closes the session, and ends the loop and the thread."""
        self._do(self._session.aclose)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _do(self, function: Callable[[], Any]) -> Any:
        # The caller's context goes along: `run_coroutine_threadsafe` makes its task from inside it.
        future = asyncio.run_coroutine_threadsafe(function(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
