"""The hot path: a run that is cheap enough to be done where it was called.

No lock, no await, no task, no future. What is left costs about ten times one `np.square` of five numbers.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Generator
from contextvars import copy_context
from time import perf_counter
from typing import Any, Generic, TypeVar, final

from .._exec.inline import explain_failure
from .._exec.results import deliver
from .._exec.turn import Turn
from .args import RunArgs, RunOptions
from .engine import Engine, Request
from .values import RunValues

T = TypeVar("T")


def run_inline(engine: Engine, args: RunArgs[T], began: float) -> RunValues[T] | None:
    """The values of a run of one chunk of kernels; `None`, and nothing done, if it is more, or new, or too large.

    Raises:
        RunArgsError: a value does not fit. Nothing has run.
        BaseException: what a kernel raised, with a note that names the node.
    """
    request = engine.known(args)
    if request is None or not request.runs_inline:
        return None
    return run_request(request, args.fetches, tuple(args.feeds.values()), args.options, began)


def run_request(
    request: Request, fetches: Any, fed: tuple[Any, ...], options: RunOptions, began: float
) -> RunValues[Any] | None:
    """As `run_inline`, for a request that runs inline, and the fed values in its order."""
    feeds, largest = request.bind(fed, options.copy_feeds)
    if largest > request.most_elements:
        return None
    plan = request.plan
    frame = plan.frame(feeds)
    plan.count_run()
    try:
        for chunk in plan.inline_chunks:
            chunk.run(frame)
        on_host = options.results == "host"
        values = [deliver(one, frame, on_host) for one in plan.fetches]
    except BaseException as error:
        explain_failure(plan, 0, error)
        # A kept exception keeps this frame: it shall keep no arrays.
        frame.clear()
        feeds.clear()
        del fed
        raise
    return RunValues(request.results(fetches, values), options, plan, perf_counter() - began, None)


@final
class QueuedRun(Generic[T]):
    """Such a run, done in a later turn of the loop, since this one has no time left. To be awaited, once.

    What it is, is looked up when its turn comes: thousands that are started together must not spend the
    turn on being put into the queue.
    """

    __slots__ = ("_args", "_began", "_context", "_engine", "_turn", "_values")

    def __init__(self, engine: Engine, args: RunArgs[T], began: float, turn: Turn) -> None:
        self._engine = engine
        self._args = args
        self._began = began
        self._turn = turn
        self._context = copy_context()
        self._values: Future[RunValues[T] | None] = turn.create_future()

    def __await__(self) -> Generator[Any, None, RunValues[T] | None]:
        self._turn.wait(self._slice)
        try:
            return (yield from self._values)
        finally:
            del self  # A kept exception keeps this frame: it shall keep no arrays.

    def _slice(self) -> bool:
        if not self._values.done():  # Nobody waits for it any more, if it is.
            try:
                values = self._context.run(run_inline, self._engine, self._args, self._began)
            except BaseException as error:
                self._values.set_exception(error)
            else:
                self._values.set_result(values)
        return False
