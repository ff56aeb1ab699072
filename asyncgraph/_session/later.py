"""Cheap runs that cannot be done at once: this turn of the loop has no time left, or others hold what they assign.

What only reads is done by the turn that it waits for. What assigns is done by the task that awaits it: nothing comes
between its commit and its caller, so that who is cancelled has changed nothing.
"""

from __future__ import annotations

from asyncio import Future
from asyncio import _get_running_loop as get_loop  # pyright: ignore[reportPrivateUsage]  # as in `session`
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast, final

from .._exec.calls import current_call
from .._exec.host import Host
from .._exec.turn import Turn
from .._plan.sizes import largest
from .args import RunArgs, RunOptions, number_of
from .engine import Engine, Request
from .feeds import FedOnDevice
from .inflight import RunsInFlight
from .inline import Unfinished, run_holding, run_inline, run_with_state
from .transaction import Transaction, given_of
from .values import RunValues

if TYPE_CHECKING:
    from .session import Session


async def finish_later(runs: RunsInFlight, begun: Unfinished, turn: Turn) -> RunValues[Any]:
    """The values of a run that `run_inline` has only begun.

    Raises:
        BaseException: as `run_inline`.
    """
    runs.inline += 1
    try:
        return cast("RunValues[Any]", await QueuedRun(begun, turn))
    except BaseException:
        begun.forget()
        runs.count_inline()
        raise
    finally:
        del begun  # What is raised keeps this frame.
        runs.leave_inline()


def run_later(
    session: Session, args: RunArgs[Any], began: float, turn: Turn, tried: bool
) -> Coroutine[Any, Any, RunValues[Any] | None] | None:
    """Gives, awaited, the values of a cheap run that `run_inline` was not asked for or, `tried`, has not done.

    `None`, and nothing done, if it is not cheap, or must be seen to while it waits.

    Raises:
        SessionOverloadedError: as many runs are in flight as may be.
        BaseException: as `run_inline`.
    """
    request = session.engine.known(args)
    if request is not None and request.plan.writes:
        fed, number = tuple(args.feeds.values()), number_of(args) if request.plan.draws else None
        return assign_later(session, request, args.fetches, fed, args.options, number, began, turn, tried)
    return None if tried else _compute_later(session, request, args, began, turn)


async def assign_later(
    session: Session,
    request: Request,
    fetches: Any,
    fed: tuple[Any, ...],
    options: RunOptions,
    number: int | None,
    began: float,
    turn: Turn,
    tried: bool,
) -> RunValues[Any] | None:
    """As `run_later`, of a request that assigns, for the fed values in its order."""
    size = largest(fed)
    if _is_seen_to(options) or not request.runs_with_state or size > request.most_elements:
        return None
    runs, seconds = session.runs, partial(_seconds, request, size)
    runs.check_load()
    runs.inline += 1
    ends = runs.ends
    try:
        if not tried:
            await turn.comes(seconds)
            runs.check_not_ended(ends)
            start = perf_counter()
            values = run_with_state(session.store, request, fetches, fed, options, number, began, turn)
            if values is not None:
                request.took_s = perf_counter() - start
                assert not isinstance(values, Unfinished)  # It has one chunk.
                return values
        if current_call.get() is not None:
            return None  # It is nested: those that it would wait for may wait for it.
        return await _assign_when_granted(session, request, fetches, fed, options, number, began, turn, seconds, ends)
    except BaseException:
        runs.count_inline()
        raise
    finally:
        del fed  # What is raised keeps this frame.
        runs.leave_inline()


async def _assign_when_granted(
    session: Session,
    request: Request,
    fetches: Any,
    fed: tuple[Any, ...],
    options: RunOptions,
    number: int | None,
    began: float,
    turn: Turn,
    seconds: Callable[[], float],
    ends: int,
) -> RunValues[Any] | None:
    """Waits for those who hold what a run assigns, in the order of arrival, and then for a turn of the loop."""
    runs, start = session.runs, perf_counter()
    bound: list[Any] = []
    try:
        if given_of(request.plan, session.store.values) is None:
            return None  # A variable has no value yet: that is nothing to be done in the line.
        # Who feeds something wrong, or too much, need not wait to be told.
        bound, size = request.bind(fed, False)
        if size > request.most_elements:
            return None
        took_s = perf_counter() - start
        turn.charge(took_s)
        # So does each of those whose turn comes next, if it has to wait here, too.
        request.took_s = max(request.took_s, took_s)
        with _in_line(session, request, options, number, seconds) as (transaction, come):
            # Those who are granted have their places in the loop's turns from then on: nobody overtakes them.
            await turn.told(come)
            runs.check_not_ended(ends)
            start = perf_counter()
            values = run_holding(transaction, request, fetches, fed, options, began, turn, bound)
            request.took_s = perf_counter() - start
            assert not isinstance(values, Unfinished)  # It has one chunk.
            return values
    except FedOnDevice:
        return None
    finally:
        del fed, bound  # What is raised keeps this frame.


@contextmanager
def _in_line(
    session: Session, request: Request, options: RunOptions, number: int | None, seconds: Callable[[], float]
) -> Generator[tuple[Transaction, Future[None]]]:
    """Stands in the line for variables: gives what is to be awaited, and the transaction, which has them then."""
    turn, waiting = session.host.turn, session.runs.in_line
    transaction = Transaction(session.store, None, options.seed, number)
    come: Future[None] = turn.create_future()
    waiting.add(come)
    try:
        if transaction.enter(request.plan, partial(_on_loop, session.host, turn.line_up, come, seconds), brief=True):
            turn.line_up(come, seconds)
        yield transaction, come
    finally:
        waiting.discard(come)
        transaction.end()


async def _compute_later(
    session: Session, request: Request | None, args: RunArgs[Any], began: float, turn: Turn
) -> RunValues[Any] | None:
    """As `run_later`, of a request that assigns nothing, or is not known yet."""
    runs = session.runs
    if _is_seen_to(args.options) or (request is not None and not _is_cheap(request, args)):
        return None
    runs.check_load()
    runs.inline += 1
    try:
        ends = runs.ends
        values = await QueuedRun(partial(_run_queued, session.engine, args, began), turn)
        if values is None:
            runs.check_not_ended(ends)
        return values
    except BaseException:
        runs.count_inline()
        raise
    finally:
        del args  # What is raised keeps this frame.
        runs.leave_inline()


def _is_cheap(request: Request, args: RunArgs[Any]) -> bool:
    if not (request.runs_inline or request.runs_with_state):
        return False
    return largest(args.feeds.values()) <= request.most_elements


def _is_seen_to(options: RunOptions) -> bool:
    """Whether a run may not just wait: somebody has to look at the clock, or to copy what is fed."""
    return options.timeout_s is not None or options.copy_feeds


def _seconds(request: Request, size: int) -> float:
    """What a run takes that assigns: at least what one took before, as estimates know nothing of how it is fed."""
    return max(_ASSIGNING_S + request.plan.work.seconds(size), request.took_s)


_ASSIGNING_S: Final = 20e-6
"""What it takes besides its kernels."""


def _on_loop(host: Host, call: Callable[..., None], *args: Any) -> None:
    """Calls something on the loop: at once if this is its thread."""
    if get_loop() is host.loop:
        call(*args)
    else:
        host.mailbox.post(partial(call, *args))


def _run_queued(engine: Engine, args: RunArgs[Any], began: float, turn: Turn) -> RunValues[Any] | Unfinished | None:
    request = engine.known(args)
    # What assigns, and was planned meanwhile, must not commit here: who awaits it may be cancelled before it knows.
    if request is None or request.plan.writes:
        return None
    return run_inline(engine, args, began, turn)


@final
class QueuedRun:
    """A cheap run, or the rest of one, done in later turns of the loop. To be awaited, once.

    Fields:
        _next: what is to be done when its turn comes. Only then is it looked up: thousands that are started together
            must not spend the turn on being put into the queue.
        _values: resolved with its values, or with `None` if it is not cheap.
    """

    __slots__ = ("_context", "_next", "_turn", "_values")

    def __init__(self, begun: Unfinished | Callable[[Turn], RunValues[Any] | Unfinished | None], turn: Turn) -> None:
        self._turn: Final = turn
        self._next = begun.go_on if isinstance(begun, Unfinished) else begun
        self._context: Final = copy_context()
        self._values: Final[Future[RunValues[Any] | None]] = turn.create_future()

    def __await__(self) -> Generator[Any, None, RunValues[Any] | None]:
        self._turn.wait(self._slice)
        try:
            return (yield from self._values)
        finally:
            self._values.cancel()
            del self  # A kept exception keeps this frame: it shall keep no arrays.

    def _slice(self) -> bool:
        if self._values.done():
            return False  # Nobody waits for it any more.
        try:
            values = self._context.run(self._next, self._turn)
        except BaseException as error:
            self._values.set_exception(error)
            return False
        if isinstance(values, Unfinished):
            self._next = values.go_on
            return True
        self._values.set_result(values)
        return False
