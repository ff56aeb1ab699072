"""The same session for plain threads."""

from __future__ import annotations

import warnings
from asyncio import _get_running_loop as get_loop  # pyright: ignore[reportPrivateUsage]  # see `session`
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Condition, Lock
from time import perf_counter
from types import TracebackType
from typing import Any, Final, NoReturn, TypeVar, cast, final, overload

from .._exec.blas import blas
from .._exec.calls import calls_in_progress, current_call
from .._exec.notes import forget_values, trim_traceback
from .._exec.workers import Pool, Work, make_pool
from .._graph.building import current_graph
from .._graph.graph import Graph
from .._graph.variable import Variable
from .._plan.compiler import no_checkpoint
from ..errors import SessionClosedError, SessionError, SessionLoopError
from .args import Feeds, Fetches, RunArgs, RunOptions, as_args, to_initialize, to_store
from .checkpoint_file import CheckpointHeader
from .config import SessionConfig
from .engine import Engine
from .explain import Explanation
from .forks import generation
from .here import RunHere
from .loop_thread import LoopThread
from .saving import Chosen, FilePath, Restoring, Saving, restore_here, save_here
from .store import Store
from .values import RunValues

T = TypeVar("T")


@final
class BlockingSession:
    """Runs a graph for plain threads: any number of them, each with its own feeds.

    Plans without async ops run in the calling thread, one node after the other, without a hop. Async ops
    run on one private event loop, in a thread that is started when it is first needed. A context manager;
    one that is never closed warns. It has `run`, `submit`, `explain` and `close`; `prepare`, `stream`, `map` and
    `statistics` are of `Session` alone. It calls no hooks: to give it any is an error.

    Args:
        graph: what is run; the current graph if left out.
        config: limits and devices.

    Raises:
        GraphError: no graph was given, and there is no current one.
    """

    # Fields:
    #   engine: finds plans.
    #   _pool: threads for `submit`.
    #   _state: guards what follows, and tells `close` when a run ends.
    #   _loop_thread: the private loop with its session; None until it is needed.
    #   _closed: whether it takes no more runs, but for nested ones of runs that `close` waits for.
    #   _running: how many runs are in flight.
    #   _closing: held by who closes it, so that who closes it as well waits.

    _closed = True  # Of a session that could not be made, and is finalized all the same.

    def __init__(self, graph: Graph | None = None, *, config: SessionConfig | None = None) -> None:
        self.config: Final = SessionConfig() if config is None else config
        self.engine: Final = Engine(current_graph() if graph is None else graph, self.config)
        self._pool: Final[Pool] = make_pool("run", self.config.threads)
        self._state: Final = Condition()
        self._loop_thread: LoopThread | None = None
        self._running = 0
        self._closing: Final = Lock()
        self._generation: Final = generation.number
        if self.config.blas_threads is not None:
            blas.claim(self.engine, self.config.blas_threads)
        self._closed = False

    @property
    def graph(self) -> Graph:
        """What it runs."""
        return self.engine.graph

    def __enter__(self) -> BlockingSession:
        with self._state:
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

        A deadline is seen between two nodes: what is running in this thread is not interrupted. When this
        has returned or raised, KeyboardInterrupt included, nothing of the run is left.

        Raises:
            SessionLoopError: an event loop is running in this thread: use `Session` and await.
            RunArgsError, SessionClosedError, RunTimeoutError: as `Session.run`.
            BaseException: what a kernel or an op raised, with a note that names the node.
        """
        began = perf_counter()
        asked = as_args(args, feeds, options)
        if self.graph.draws:
            asked = self.engine.numbered(asked)
        _refuse_loop()
        self._begin()
        try:
            return RunHere(self, asked, began).values()
        except BaseException as error:
            forget_values(error)
            del asked, args, feeds  # Exceptions keep this frame, and it keeps what was fed.
            raise
        finally:
            self._end()

    def submit(
        self, args: RunArgs[T] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> Future[RunValues[T]]:
        """Starts a run in a thread of the session; gives a future, as `concurrent.futures` does.

        `cancel()` succeeds until the run has started. Closing the session waits for it.

        Raises:
            RunArgsError, SessionClosedError: as `run`; nothing has run.
        """
        began = perf_counter()
        asked = cast("RunArgs[T]", as_args(args, feeds, options))
        if self.graph.draws:
            asked = self.engine.numbered(asked)
        self._begin()
        try:
            self.engine.request(asked, no_checkpoint)
            # Copied now, if that is asked for; what fits is not converted again.
            bound = self.engine.check(asked)
            future: Future[RunValues[T]] = Future()
            work = partial(self._work, future, partial(copy_context().run, RunHere(self, bound, began).values))
            self._pool.submit(work, at_once=current_call.get() is not None)
        except BaseException:
            self._end()
            raise
        return future

    def _work(self, future: Future[RunValues[T]], run: partial[RunValues[T]]) -> Work | None:
        try:
            if future.set_running_or_notify_cancel():
                future.set_result(run())
        except BaseException as error:
            trim_traceback(error)
            forget_values(error)
            future.set_exception(error)
        finally:
            self._end()
        return None

    def initialize(self, variables: Iterable[Variable] | None = None) -> None:
        """As `Session.initialize`."""
        wanted = self.graph.variables if variables is None else variables
        self.run(to_initialize(wanted))

    def replace(self, values: Mapping[Variable, object] | Mapping[str, object]) -> None:
        """As `Session.replace`."""
        self.run(to_store(values))

    def save(self, path: FilePath, *, variables: Chosen | None = None, step: int | None = None) -> Path:
        """As `Session.save`. Blocks the calling thread."""
        return save_here(self, Saving(self.engine, path, variables, step))

    def restore(self, path: FilePath, *, variables: Chosen | None = None, strict: bool = True) -> CheckpointHeader:
        """As `Session.restore`. Blocks the calling thread."""
        return restore_here(self, Restoring(self.engine, path, variables, strict))

    @contextmanager
    def in_use(self) -> Generator[None]:
        """While this thread is in it, closing the session waits. To be called before what blocks.

        Raises:
            SessionLoopError: an event loop is running in this thread.
            SessionClosedError: the session is closed.
        """
        _refuse_loop()
        self._begin()
        try:
            yield
        finally:
            self._end()

    @property
    def store(self) -> Store:
        """What its variables hold."""
        return self.engine.store

    def explain(
        self, args: RunArgs[Any] | Fetches, /, feeds: Feeds | None = None, options: RunOptions | None = None
    ) -> Explanation:
        """As `Session.explain`."""
        asked = as_args(args, feeds, options)
        return Explanation(self.engine.request(asked, no_checkpoint).plan, self.graph, self.config)

    def close(self) -> None:
        """Closes the session: takes no more runs, waits for those in flight, ends its threads. Idempotent.

        Raises:
            SessionError: an op calls it, of a run that it would wait for.
        """
        if self._generation != generation.number:
            self._closed = True  # The parent's threads are not here.
            return
        if any(self._runs(call.run) for call in calls_in_progress()):
            raise SessionError(
                "an op closes the session that runs it\n  close it from outside: the run would never end"
            )
        with self._closing:
            with self._state:
                self._closed = True
                self._state.wait_for(lambda: not self._running)
                loop_thread, self._loop_thread = self._loop_thread, None
            self._pool.close()
            self._pool.join()
            if loop_thread is not None:
                loop_thread.close()
            blas.release(self.engine)

    def on_loop(self) -> LoopThread:
        """The private loop. For runs in flight."""
        with self._state:
            if self._loop_thread is None:
                self._loop_thread = LoopThread(self.engine)
            return self._loop_thread

    def urge(self) -> None:
        """Has ops on the private loop go on, if it has ops: threads may be waiting for what their runs hold."""
        if self._loop_thread is not None:
            self._loop_thread.urge()

    def _runs(self, run: object) -> bool:
        loop_thread = self._loop_thread
        return (isinstance(run, RunHere) and run.session is self) or (loop_thread is not None and loop_thread.runs(run))

    def _check_open(self) -> None:
        if self._generation != generation.number:
            raise SessionLoopError("the session was made before this process was forked\n  make a new one in the child")
        if self._closed:
            # A run that is waited for would never end if its nodes could not run what they need.
            call = current_call.get()
            if not self._running or call is None or call.over:
                raise SessionClosedError("the session is closed\n  make a new BlockingSession")

    def _begin(self) -> None:
        with self._state:
            self._check_open()
            self._running += 1

    def _end(self) -> None:
        with self._state:
            self._running -= 1
            self._state.notify_all()

    def __del__(self) -> None:
        if self._closed or self._generation != generation.number:
            return
        warnings.warn(
            f"unclosed {self!r}: write `with BlockingSession(...)`, or session.close()",
            ResourceWarning,
            source=self,
            stacklevel=2,
        )
        self._pool.close()
        if self._loop_thread is not None:
            self._loop_thread.stop()
        blas.release(self.engine)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a BlockingSession cannot be pickled: pickle its graph, and make one in each process")

    def __repr__(self) -> str:
        return f"<BlockingSession of {self.graph!r}{': closed' if self._closed else ''}>"


def _refuse_loop() -> None:
    if get_loop() is not None:
        raise SessionLoopError(
            "a BlockingSession would block the event loop that runs in this thread\n"
            "  write: async with Session(graph) as session: await session.run(...)"
        )
