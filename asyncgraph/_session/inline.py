"""The hot path: a run that is cheap enough to be done where it was called.

No await, no task, no future; and no lock, but of a run that assigns variables.
What is left costs about ten times one `np.square` of five numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import Any, Final, TypeVar, final

from .._exec.calls import current_call
from .._exec.inline import explain_failure
from .._exec.results import deliver
from .._exec.turn import Turn
from .._plan.chunk import Frame
from .._plan.plan import Plan
from .args import RunArgs, RunOptions, number_of
from .engine import Engine, Request
from .feeds import FedOnDevice
from .store import State, Store
from .transaction import Transaction, assign, given_of, parent_in
from .values import RunValues

T = TypeVar("T")


def run_inline(engine: Engine, args: RunArgs[T], began: float, turn: Turn) -> RunValues[T] | Unfinished | None:
    """The values of a cheap run; or what is left of it, when the turn has no time left for that.

    `None`, and nothing done, if the run is new, or not cheap.

    Raises:
        RunArgsError: a value does not fit. Nothing has run.
        BaseException: what a kernel raised, with a note that names the node.
    """
    request = engine.known(args)
    if request is None or not request.runs_inline:
        if request is not None and request.runs_with_state:
            fed = tuple(args.feeds.values())
            number = number_of(args) if request.plan.draws else None
            return run_with_state(engine.store, request, args.fetches, fed, args.options, number, began, turn)
        return None
    return run_request(request, args.fetches, tuple(args.feeds.values()), args.options, began, turn)


def run_request(
    request: Request,
    fetches: Any,
    fed: tuple[Any, ...],
    options: RunOptions,
    began: float,
    turn: Turn,
    state: Sequence[Any] = (),
    commit: Callable[[Plan, Frame], bool] | None = None,
    bound: list[Any] | None = None,
) -> RunValues[Any] | Unfinished | None:
    """As `run_inline`, for a request that runs inline, and the fed values in its order.

    If it has to do with variables, `state` is what the plan is given of them; and `commit`, if it assigns, commits
    when it has succeeded, or says that it cannot: then nothing was done. `bound` is what `Request.bind` gave, if it
    was asked before, and was not too much.
    """
    plan = request.plan
    if options.timeout_s is not None and len(plan.inline_chunks) > 1:
        return None  # It may have to wait, and nobody would look at the clock.
    try:
        feeds, largest = request.bind(fed, options.copy_feeds) if bound is None else (bound, 0)
    except FedOnDevice:
        return None
    if largest > request.most_elements:
        return None
    if options.timeout_s is not None and perf_counter() - began >= options.timeout_s:
        return None  # Its time is over already: a run in flight says so.
    frame = plan.frame(feeds) if not state else plan.frame([*feeds, *state])
    if plan.cold:
        plan.count_run()
    try:
        chunks = plan.inline_chunks
        if len(chunks) == 1:
            chunks[0].run(frame)
        elif (position := _compute(plan, frame, 0, turn)) < len(chunks):
            return Unfinished(request, fetches, options, began, frame, position)
        values = _values(request, fetches, options, began, frame)
        return values if commit is None or commit(plan, frame) else None
    except BaseException as error:
        explain_failure(plan, 0, error)
        # A kept exception keeps this frame: it shall keep no arrays.
        frame.clear()
        feeds.clear()
        del fed, state, commit, bound
        raise


def run_with_state(
    store: Store,
    request: Request,
    fetches: Any,
    fed: tuple[Any, ...],
    options: RunOptions,
    number: int | None,
    began: float,
    turn: Turn,
) -> RunValues[Any] | Unfinished | None:
    """As `run_request`, for a request with state. `None`, and nothing done, if it would have to wait for others.

    `number` is that of the run, if its random numbers are drawn from one.
    """
    parent = None if current_call.get() is None else parent_in(copy_context(), store)
    plan = request.plan
    if parent is None and (store.idle or not plan.writes):
        # Nearly always. Nothing is held: whether anybody has committed something meanwhile is seen at the end.
        old = store.values
        state = given_of(plan, old)
        if state is None:
            return None
        if plan.draws:
            state.append(store.key_of(options.seed, number))
        commit = partial(_replace, store, old) if plan.writes else None
        try:
            return run_request(request, fetches, fed, options, began, turn, state, commit)
        finally:
            del old, state, commit, fed  # What is raised keeps this frame.
    transaction = Transaction(store, parent, options.seed, number)
    try:
        if not transaction.enter(plan):
            return None
        return run_holding(transaction, request, fetches, fed, options, began, turn)
    finally:
        del fed  # What is raised keeps this frame.
        transaction.end()


def run_holding(
    transaction: Transaction,
    request: Request,
    fetches: Any,
    fed: tuple[Any, ...],
    options: RunOptions,
    began: float,
    turn: Turn,
    bound: list[Any] | None = None,
) -> RunValues[Any] | Unfinished | None:
    """As `run_with_state`, for who has what it assigns and reads in a transaction that has not begun."""
    plan = request.plan
    state = transaction.begin(plan)
    if state is None:
        return None
    commit = partial(_commit, transaction) if plan.writes else None
    try:
        return run_request(request, fetches, fed, options, began, turn, state, commit, bound)
    finally:
        del fed, state, bound  # What is raised keeps this frame.


def _replace(store: Store, old: State, plan: Plan, frame: Frame) -> bool:
    new = dict(old)
    try:
        assign(plan, frame, new)
        return store.replace(old, new)
    finally:
        del old, new, frame  # What is raised keeps this frame.


def _commit(transaction: Transaction, plan: Plan, frame: Frame) -> bool:
    transaction.succeed(plan, frame)
    transaction.commit()
    return True


def _compute(plan: Plan, frame: Frame, position: int, turn: Turn) -> int:
    """Runs chunks while the turn has time; gives the first that has not run."""
    chunks = plan.inline_chunks
    count = len(chunks)
    until = perf_counter() + turn.left_s
    while position < count:
        chunks[position].run(frame)
        position += 1
        if perf_counter() > until:
            break
    return position


def _values(request: Request, fetches: Any, options: RunOptions, began: float, frame: Frame) -> RunValues[Any]:
    plan = request.plan
    return RunValues(
        request.results(fetches, deliver(plan.fetches, frame)), options, plan, perf_counter() - began, None
    )


@final
class Unfinished:
    """A cheap run whose turn had no time left for all of its chunks."""

    __slots__ = ("_began", "_fetches", "_frame", "_options", "_position", "_request")

    def __init__(
        self, request: Request, fetches: Any, options: RunOptions, began: float, frame: Frame, position: int
    ) -> None:
        self._request: Final = request
        self._fetches: Final = fetches
        self._options: Final = options
        self._began: Final = began
        self._frame: Final = frame
        self._position = position

    def go_on(self, turn: Turn) -> RunValues[Any] | Unfinished:
        """The values, or itself if there is still more to do.

        Raises:
            BaseException: as `run_inline`.
        """
        plan = self._request.plan
        try:
            self._position = _compute(plan, self._frame, self._position, turn)
            if self._position < len(plan.inline_chunks):
                return self
            return _values(self._request, self._fetches, self._options, self._began, self._frame)
        except BaseException as error:
            explain_failure(plan, 0, error)
            self.forget()
            raise

    def forget(self) -> None:
        """It will not go on: whoever keeps it keeps no values."""
        self._frame.clear()
