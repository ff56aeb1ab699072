"""Every call of user code: one adapter, so that each case is decided once.

* The function runs in a copy of its caller's context: it sees the caller's ContextVars and `np.errstate`,
  and what it changes stays in it. A copy is made for each call.
* Arrays reach it as read-only views, NumPy scalars as arrays of rank 0.
* An awaitable that it returns is awaited, whatever made it: `inspect.iscoroutinefunction` is False for
  lambdas, partials and objects with an async `__call__`.
* StopIteration becomes a RuntimeError, since no future and no coroutine can carry it.
* CancelledError, although nobody cancelled the run, becomes a NodeCancelledError.
* KeyboardInterrupt and SystemExit end the run like any failure, and reach its caller unchanged.
* What it returns is checked against the op's spec, if that has one, and is otherwise left as it is; but
  a node is no value.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future as ThreadFuture
from contextvars import Context, ContextVar
from math import inf
from threading import Event
from time import perf_counter
from typing import Any, Final, cast, final

import numpy as np

from .._graph.node import Node
from .._graph.op import Call
from .._graph.template import Slot, Template
from .._plan.program import Placement
from ..abc import Done
from ..errors import NodeCancelledError, NodeTimeoutError
from .checks import checked, checked_on_device

Launcher = Callable[[Callable[[], None], Done], None]
"""Has work done on a device, and tells when that is over. As `abc.Backend.submit`, for one device."""


@final
class CallScope:
    """What a call of user code knows of its run: that of a user op, or all those of a run's hooks together.

    Fields:
        over: whether the run is over, or the call has used up its time.
        run: what runs it, by identity.
        outer: the call that started its run, if that is nested.
        deadline: when the call has used up its time, where no loop looks at the clock; in `perf_counter`'s time.
        launcher: of an op that is given arrays of a device: what starts work there.
        of_hooks: whether it is hooks that are called, for which no thread waits, and which hold no place in a session.
    """

    __slots__ = ("_then", "deadline", "launcher", "of_hooks", "outer", "over", "run")

    def __init__(
        self, run: object, outer: CallScope | None = None, launcher: Launcher | None = None, of_hooks: bool = False
    ) -> None:
        self.over = False  # A flag: an event takes microseconds to make, and few calls wait for it.
        self.run: Final = run
        self.outer: Final = outer
        self.deadline = inf
        self.launcher: Final = launcher
        self.of_hooks: Final = of_hooks
        self._then: Final[list[Callable[[], None]]] = []

    @property
    def is_over(self) -> bool:
        """Whether the call should end."""
        return self.over or perf_counter() > self.deadline

    def end(self) -> None:
        """The run is over."""
        self.over = True
        for call in self._then:
            call()

    def when_over(self, call: Callable[[], None]) -> None:
        """Has `call` made when the run is over; at once if it is. It may be made twice. From any thread."""
        self._then.append(call)
        if self.over:  # Looked at after `call` is there: `end`, which sets it first, or this makes the call.
            call()

    def wait(self, seconds: float) -> bool:
        """Blocks until the run is over, but no longer than that; whether it is over."""
        event = Event()
        self.when_over(event.set)
        return event.wait(seconds)


current_call: Final[ContextVar[CallScope | None]] = ContextVar("asyncgraph call", default=None)


def calls_in_progress() -> Iterator[CallScope]:
    """The call that this code is part of, the one that started its run, and so on outwards."""
    call = current_call.get()
    while call is not None:
        yield call
        call = call.outer


def check_cancelled() -> None:
    """Inside a user op: raises if the op's run is over, since it was cancelled, failed or ran out of time.

    A thread cannot be interrupted. An op that loops for long calls this now and then, so that a run that
    is over does not wait for it. Outside a user op it does nothing.

    Raises:
        asyncio.CancelledError: the run is over. Let it pass.
    """
    call = current_call.get()
    if call is not None and call.is_over:
        raise CancelledError("the run that this op belongs to is over")


@final
class CallSite:
    """One call of a user's function in a run, and its further attempts.

    Fields:
        node: the node that it computes.
        scope: how it learns that its run is over.
        args: the values of the node's inputs.
        home: the device whose arrays it is given, and gives; `None` for the host.
        _attempts: how many attempts are left.
        _began: when the attempt began that is being made, or is waited for.
    """

    __slots__ = ("_attempts", "_began", "_call", "_context", "_template", "args", "home", "node", "scope")

    def __init__(
        self,
        node: Node,
        values: Sequence[Any],
        context: Context,
        run: object,
        where: Placement | None = None,
        launcher: Launcher | None = None,
        call: Call | None = None,
    ) -> None:
        if call is None:
            call = node.op.call
            template = node.params["template"]
        else:
            template = Template(tuple([Slot(index, str(index)) for index in range(len(values))]), {})
        assert call is not None
        assert isinstance(template, Template)
        self.node: Final = node
        self.args: Final = [guarded(value) for value in values]
        self._call: Final[Call] = call
        self.home: Final = None if where is None or where.on_host else where
        self._template: Final = template
        self._context: Final = context.copy()
        self.scope: Final = CallScope(run, self._context.get(current_call), launcher)
        self._context.run(current_call.set, self.scope)
        self._attempts = 1 if self._call.retry is None else self._call.retry.attempts
        self._began = perf_counter()

    @property
    def timeout_s(self) -> float | None:
        """Seconds that one attempt may take, or `None`."""
        return self._call.timeout_s

    @property
    def may_be_abandoned(self) -> bool:
        """Whether a run that is over does not wait for it."""
        return self._call.abandon_on_cancel

    @property
    def context(self) -> Context:
        """The context that the function runs in."""
        return self._context

    def time_left_s(self) -> float:
        """Seconds that are left of the attempt."""
        assert self._call.timeout_s is not None
        return self._began + self._call.timeout_s - perf_counter()

    def call(self) -> Any:
        """Calls the function here, again after failures if its op says so. May give an `Awaited`.

        Raises:
            BaseException: what the function raised, StopIteration and CancelledError translated.
        """
        while True:
            try:
                result = self._context.run(self._invoke)
            except CancelledError as error:
                if self.scope.is_over:
                    raise
                raise cancelled_by_itself(self.node) from error
            except Exception as error:
                wait_s = self._wait_before_next(error)
                if wait_s is None or self.scope.wait(wait_s):
                    raise
                continue
            if isinstance(result, ThreadFuture) or inspect.isawaitable(result):
                return Awaited(cast("Awaitable[Any]", result))
            # If its run is over, what is said of that is enough.
            if self._call.timeout_s is not None and self.time_left_s() < 0 and not self.scope.over:
                raise timed_out(self.node)
            return self._checked(result)

    async def wait(self, first: Awaited | None = None) -> Any:
        """Calls the function and awaits what it returns; `first` is what a call in a thread gave already.

        To be driven inside `context`. A cancellation is thrown into the function.
        """
        while True:
            try:
                result = await self._timed(first)
            except Exception as error:
                first = None
                wait_s = self._wait_before_next(error)
                if wait_s is None or self.scope.over:
                    raise
                await asyncio.sleep(wait_s)
            else:
                return self._checked(result)

    async def _timed(self, first: Awaited | None) -> Any:
        if self._call.timeout_s is None:
            return await self._result(first)
        limit = asyncio.timeout(self._call.timeout_s if first is None else self.time_left_s())
        try:
            async with limit:
                return await self._result(first)
        except TimeoutError as error:
            if limit.expired():
                raise timed_out(self.node) from error
            raise

    async def _result(self, first: Awaited | None) -> Any:
        result = self._invoke() if first is None else first.awaitable
        while True:
            if isinstance(result, ThreadFuture):
                result = asyncio.wrap_future(cast("ThreadFuture[Any]", result))
            if not inspect.isawaitable(result):
                return result
            result = await result

    def _invoke(self) -> Any:
        self._began = perf_counter()
        args, kwargs = self._template.fill(self.args)
        try:
            return self._call.function(*args, **kwargs)
        except StopIteration as error:
            raise RuntimeError(f"{self.node.name!r} raised StopIteration, which no awaited call can pass on") from error

    def _checked(self, result: object) -> Any:
        check = checked if self.home is None else checked_on_device
        return check(result, self._call.spec, self.node, self.args)

    def _wait_before_next(self, error: Exception) -> float | None:
        """Seconds before the next attempt, or `None` if there is none. Its clock starts after them."""
        retry = self._call.retry
        self._attempts -= 1
        if retry is None or self._attempts < 1 or not isinstance(error, retry.on):
            return None
        wait_s = retry.backoff_s * 2 ** (retry.attempts - self._attempts - 1)
        self._began = perf_counter() + wait_s
        return wait_s


@final
class Awaited:
    """What a function in a thread returned, to be awaited on the loop."""

    __slots__ = ("awaitable",)

    def __init__(self, awaitable: Awaitable[Any] | ThreadFuture[Any]) -> None:
        self.awaitable: Final = awaitable


def guarded(value: Any) -> Any:
    """`value` as user code may see it: arrays as read-only views, NumPy scalars as arrays of rank 0."""
    if isinstance(value, np.ndarray):
        view = cast("np.ndarray[Any, Any]", value).view()
        view.flags.writeable = False
        return view
    if isinstance(value, np.generic):
        array: np.ndarray[Any, Any] = np.asarray(cast("Any", value))
        array.flags.writeable = False
        return array
    return value


def cancelled_by_itself(node: Node) -> NodeCancelledError:
    """The error of a function that ended with a CancelledError that nobody sent."""
    return NodeCancelledError(f"{node.name!r} raised CancelledError, but its run was not cancelled")


def timed_out(node: Node) -> NodeTimeoutError:
    """The error of a call that took longer than its op allows."""
    assert node.op.call is not None
    return NodeTimeoutError(f"{node.name!r} took longer than its timeout_s={node.op.call.timeout_s}")


@final
class _Drive:
    """Awaits a coroutine inside a context, in whatever task awaits this."""

    __slots__ = ("_context", "_coroutine")

    def __init__(self, coroutine: Any, context: Context) -> None:
        self._coroutine = coroutine
        self._context = context

    def __await__(self) -> Generator[Any, Any, Any]:
        run, coroutine = self._context.run, self._coroutine
        step: Callable[[Any], Any] = coroutine.send
        argument: Any = None
        try:
            while True:
                yielded = run(step, argument)
                try:
                    argument = yield yielded
                    step = coroutine.send
                except GeneratorExit:
                    run(coroutine.close)
                    raise
                except BaseException as error:
                    step, argument = coroutine.throw, error
        except StopIteration as stop:
            return stop.value
        finally:
            del argument  # An error that was thrown in keeps this frame, and this frame would keep it.


async def drive(coroutine: Any, context: Context) -> Any:
    """Awaits `coroutine` so that every step of it runs inside `context`.

    The task is the caller's: `asyncio.timeout`, `current_task` and anyio's scopes work inside. So one task
    may await many coroutines, one after the other, each in a context of its own.
    """
    return await _Drive(coroutine, context)
