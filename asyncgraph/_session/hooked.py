"""Runs with hooks: who is called when, and what is told to whom.

The hooks of a run, and the run proper, share a task, a context and a deadline. The run proper is an ordinary run
inside of that, of what all ask for together: so it waits for its place and for variables like any other, and holds
neither while hooks are called. To what is started inside it is a call of user code, so all of that is nested, and has
no hooks.
"""

from __future__ import annotations

import asyncio
import dataclasses
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from .._exec.calls import CallScope, current_call
from .._exec.notes import explain_hook, trim_traceback
from .._graph.node import Node
from ..errors import FetchError, RunArgsError
from .args import RunArgs, out_of_time, untyped_args
from .delivery import RunFuture
from .fetches import leaves_of, resolve
from .future import PlainRunFuture
from .hook import RunContext
from .lives import Named, SessionHooks, named, not_cancelled, settled, worse
from .merging import CALLER, Merging
from .values import RunMetadata, RunValues

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")
_COMMITTED: Final = "\n  the run itself had succeeded: what it assigned is committed"


def calls_hooks(args: RunArgs[Any]) -> bool:
    """Whether hooks are called for a run of `args`, if there are any: not inside of a node or a hook."""
    return args.options.hooks is not None and current_call.get() is None


@final
class HookedRunFuture(RunFuture[T]):
    """A run in flight, with hooks."""

    # Fields:
    #   _session, _began: what runs it, since when.
    #   _context: what hooks see of it; has what is run.
    #   _hooks: those of the session.
    #   _all: those, and the run's own.
    #   _entered: those whose before_run has returned.
    #   _early: whether somebody may ask for fetches before the end.
    #   _scope: what is started inside belongs to it.
    #   _task: calls the hooks and awaits the run proper; None once it has ended.
    #   _stopping: why it ends, if it was told to.
    #   _leaving: whether hooks are told of an error, which nothing cuts short.
    #   _inner: the run proper, if that is a run in flight; also when it has ended.
    #   _watchers: who waits for a fetch, until the run proper knows of them.
    #   has_committed: whether the run proper has succeeded.
    #   _failures: what failed after something else had.

    def __init__(
        self, session: Session, args: RunArgs[T], began: float, hooks: SessionHooks, early: bool = False
    ) -> None:
        super().__init__(loop=session.host.loop)
        self._session: Final = session
        self._began: Final = began
        self._context: Final = RunContext(args, session, hooks.stop)
        self._hooks: Final = hooks
        self._all: Final = (*hooks.named, *named(args.options.hooks or (), "the run"))
        self._entered: Final[list[Named]] = []
        self._early: Final = early
        # Not by itself, which has the values: what hooks leave running would keep them.
        self._scope: Final = CallScope(self._context, of_hooks=True)
        self._task: asyncio.Task[None] | None = None
        self._stopping: BaseException | None = None
        self._leaving = False
        self._inner: PlainRunFuture[Any] | None = None
        self._watchers: list[tuple[Node, asyncio.Future[Any]]] = []
        self.has_committed = False
        self._failures: Final[list[BaseException]] = []

    # -- what callers use ------------------------------------------------------------------------------

    @property
    def metadata(self) -> RunMetadata:
        """As `RunFuture.metadata`."""
        if self._inner is None:
            return RunMetadata(perf_counter() - self._began, 0, tuple(self._failures))
        told = self._inner.metadata
        return dataclasses.replace(told, failures=(*told.failures, *self._failures))

    def fetched(self, fetch: Node | str) -> asyncio.Future[Any]:
        """As `RunFuture.fetched`."""
        graph = self._session.graph
        node = resolve(fetch, graph)
        if not any(resolve(leaf, graph) is node for leaf in leaves_of(self._context.original_args.fetches)):
            raise FetchError(f"{node!r} is not among the fetches of this run")
        waiter: asyncio.Future[Any] = self.get_loop().create_future()
        self._watchers.append((node, waiter))
        self._hand_on_watchers()
        return waiter

    # -- the way of a run ------------------------------------------------------------------------------

    def is_run_by(self, run: object) -> bool:
        """Whether that is what its hooks are called for."""
        return run is self._context

    def start(self) -> None:
        """Starts it, in a later turn of the loop. Once.

        Raises:
            SessionOverloadedError: as many runs are in flight as may be.
        """
        self._session.runs.enter_hooks(self)
        context = copy_context()
        context.run(current_call.set, self._scope)
        self._task = self.get_loop().create_task(self._run(), name="asyncgraph: a run with hooks", context=context)
        self._task.add_done_callback(self._task_ended)

    async def _run(self) -> None:
        merging = Merging(self._session.engine, self._context.original_args)
        shares: Mapping[str, RunValues[Any]] = {}
        error: BaseException | None = None
        try:
            await self._enter(merging)
            shares = await self._run_proper(merging)
        except BaseException as failure:
            error = await self._tell_error(self._cause_of(failure))
        else:
            error = await self._tell_values(shares, merging)
        merging.forget()
        self._finish(None if error is not None else shares[CALLER], error)
        del self, merging, shares, error  # What failed keeps this frame, and it would keep what was fed.

    async def _enter(self, merging: Merging) -> None:
        if not self._hooks.are_open:
            await self._in_time(merging, partial(self._hooks.open, self._session))
        for who, hook in self._all:
            left_s = self._left_s(merging)
            if left_s is not None and left_s <= 0:
                raise out_of_time(merging.options)
            asked = await self._call(who, "before_run", merging, partial(hook.before_run, self._context))
            self._entered.append((who, hook))
            if self._stopping is not None:
                raise self._stopping  # The hook has caught it.
            merging.add(who, asked)

    async def _run_proper(self, merging: Merging) -> Mapping[str, RunValues[Any]]:
        session, runs = self._session, self._session.runs
        runs.in_hooks -= 1
        try:
            if self._early or merging.options.timeout_s is not None:
                self._inner = session.start_since(self._began, merging.args)
                self._hand_on_watchers()
                values = await self._inner.take()
            else:
                values = await session.run(merging.args)
        except RunArgsError as error:
            blamed = merging.blamed(error)
            if blamed is error:
                raise
            raise blamed from None
        finally:
            runs.in_hooks += 1
        self.has_committed = True
        return merging.shared_out(values)

    async def _tell_values(self, shares: Mapping[str, RunValues[Any]], merging: Merging) -> BaseException | None:
        """Calls `after_run`; gives what the run raises, if a hook has failed."""
        error: BaseException | None = None
        for who, hook in reversed(self._entered):
            try:
                await self._call(who, "after_run", merging, partial(hook.after_run, self._context, shares[who]))
            except BaseException as failure:
                error = self._worse(error, self._cause_of(failure), f"{who}, in after_run")
        return error

    async def _tell_error(self, cause: BaseException) -> BaseException:
        """Calls `on_error`; gives what the run raises."""
        self._leaving = True
        error = cause
        for who, hook in reversed(self._entered):
            try:
                await settled(partial(hook.on_error, self._context, cause))
            except BaseException as failure:
                explain_hook(failure, f"{who} failed in on_error")
                error = self._worse(error, failure, f"{who}, in on_error")
        return error

    def _worse(self, error: BaseException | None, failure: BaseException, where: str) -> BaseException:
        told = worse(error, failure, where)
        if error is not None:
            self._failures.append(failure if told is error else error)
        return told

    async def _call(self, who: str, method: str, merging: Merging, call: Callable[[], Any]) -> Any:
        """What a hook's method gives, if it does while the run has time."""
        try:
            return await self._in_time(merging, call)
        except CancelledError as error:
            if self._is_told_to_end():
                raise
            failure = not_cancelled(who, method, "its run was not cancelled")
            if self.has_committed:
                explain_hook(failure, f"{who} failed in {method}{_COMMITTED}")
            raise failure from error
        except BaseException as error:
            explain_hook(error, f"{who} failed in {method}{_COMMITTED if self.has_committed else ''}")
            raise

    async def _in_time(self, merging: Merging, call: Callable[[], Any]) -> Any:
        left_s = self._left_s(merging)
        if left_s is None:
            return await settled(call)
        limit = asyncio.timeout(left_s)
        try:
            async with limit:
                return await settled(call)
        except TimeoutError:
            if limit.expired():
                raise out_of_time(merging.options) from None
            raise

    def _left_s(self, merging: Merging) -> float | None:
        timeout_s = merging.options.timeout_s
        return None if timeout_s is None else self._began + timeout_s - perf_counter()

    # -- its end ---------------------------------------------------------------------------------------

    def _stop(self, error: BaseException) -> None:
        if self._stopping is None and not self._leaving and self._task is not None:
            self._stopping = error
            self._task.cancel()

    def _is_told_to_end(self) -> bool:
        return self._stopping is not None or (self._task is not None and self._task.cancelling() > 0)

    def _cause_of(self, error: BaseException) -> BaseException:
        """What the run ends with, if it ends with `error`: a cancellation may be what it was told to end by."""
        if isinstance(error, CancelledError) and self._stopping is not None:
            return self._stopping
        return error

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not self.done():  # It was cancelled before its first step; or this class has a bug.
            self._finish(None, (self._stopping or CancelledError()) if task.cancelled() else task.exception())

    def _finish(self, values: RunValues[T] | None, error: BaseException | None) -> None:
        """Nothing of the run is left; tells everybody."""
        self._scope.end()
        self._session.runs.leave_hooks(self)
        # A future may be kept for long, and a context, by a hook's frame in an error: they keep nothing of the feeds.
        args = self._context.original_args
        self._context.original_args = untyped_args(args.fetches, None, args.options)
        self._task = self._stopping = None
        self._entered.clear()
        if error is not None:
            trim_traceback(error)
        self._deliver(values, error)
        self._hand_on_watchers()

    # -- values before the end -------------------------------------------------------------------------

    def _hand_on_watchers(self) -> None:
        if self._inner is None and not self.done():
            return
        watchers, self._watchers = self._watchers, []
        for node, waiter in watchers:
            # Without a run proper it has failed, and this tells how.
            _follow(self if self._inner is None else self._inner.fetched(node), waiter)


def _follow(source: asyncio.Future[Any], waiter: asyncio.Future[Any]) -> None:
    """Has `waiter` end as `source` does, which nobody else need look at."""

    def tell(_: object) -> None:
        error = None if source.cancelled() else source.exception()
        if waiter.done():
            return
        if source.cancelled():
            waiter.cancel()
        elif error is not None:
            waiter.set_exception(error)
            waiter.exception()  # Who does not look at it any more need not be told.
        else:
            waiter.set_result(source.result())

    source.add_done_callback(tell)
