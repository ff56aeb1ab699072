"""Every call of user code: one adapter, so that each case is decided once.

* The function runs in a copy of its caller's context: it sees the caller's ContextVars and `np.errstate`,
  and what it changes stays in it. A copy is made for each call.
* Arrays reach it as read-only views, NumPy scalars as arrays of rank 0.
* An awaitable that it returns is awaited, whatever made it: `inspect.iscoroutinefunction` is False for
  lambdas, partials and objects with an async `__call__`.
* StopIteration becomes a RuntimeError, since no future and no coroutine can carry it.
* CancelledError, although nobody cancelled the run, becomes a NodeCancelledError.
* KeyboardInterrupt and SystemExit end the run like any failure, and reach its caller unchanged.
* What it returns is checked against the op's spec, if that has one, and is otherwise left as it is.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio import CancelledError
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future as ThreadFuture
from contextvars import Context, ContextVar
from threading import Event
from time import perf_counter
from typing import Any, Final, final

import numpy as np

from .._graph.building import fits
from .._graph.convert import ConversionError, as_exact_array
from .._graph.node import Node
from .._graph.op import Call, Retry
from .._graph.spec import ANY, ArraySpec, intern_spec
from .._graph.template import Template
from ..errors import NodeCancelledError, NodeResultError, NodeTimeoutError


@final
class CallScope:
    """What a user op's call knows of its run.

    Fields:
        over: set when the run is over, or the call has used up its time.
        run: the run, by identity, that the call is part of; `None` for none.
    """

    __slots__ = ("over", "run")

    def __init__(self, run: object) -> None:
        self.over: Final = Event()
        self.run: Final = run


current_call: Final[ContextVar[CallScope | None]] = ContextVar("asyncgraph call", default=None)


def check_cancelled() -> None:
    """Inside a user op: raises if the op's run is over, since it was cancelled, failed or ran out of time.

    A thread cannot be interrupted. An op that loops for long calls this now and then, so that a run that
    is over does not wait for it. Outside a user op it does nothing.

    Raises:
        asyncio.CancelledError: the run is over. Let it pass.
    """
    scope = current_call.get()
    if scope is not None and scope.over.is_set():
        raise CancelledError("the run that this op belongs to is over")


@final
class CallSite:
    """One call of a user's function in a run.

    Fields:
        node: the node that it computes.
        scope: how it learns that its run is over.
        args: the values of the node's inputs.
    """

    __slots__ = ("_began", "_call", "_context", "_template", "args", "node", "scope")

    def __init__(self, node: Node, values: Sequence[Any], context: Context, run: object) -> None:
        assert node.op.call is not None
        template = node.params["template"]
        assert isinstance(template, Template)
        self.node: Final = node
        self.args: Final = [guarded(value) for value in values]
        self.scope: Final = CallScope(run)
        self._call: Final[Call] = node.op.call
        self._template: Final = template
        self._context: Final = context.copy()
        self._context.run(current_call.set, self.scope)
        self._began = perf_counter()

    @property
    def timeout_s(self) -> float | None:
        """Seconds that one call may take, or `None`."""
        return self._call.timeout_s

    @property
    def may_be_abandoned(self) -> bool:
        """Whether a run that is over does not wait for it."""
        return self._call.abandon_on_cancel

    def time_left_s(self) -> float:
        """Seconds that are left of the call that is being made."""
        assert self._call.timeout_s is not None
        return self._began + self._call.timeout_s - perf_counter()

    @property
    def context(self) -> Context:
        """The context that the function runs in."""
        return self._context

    def call(self) -> Any:
        """Calls the function here, again after failures if its op says so. May give an `Awaited`.

        Raises:
            BaseException: what the function raised, StopIteration and CancelledError translated.
        """
        retry, attempt = self._call.retry, 1
        while True:
            try:
                result = self._context.run(self._invoke)
            except StopIteration as error:
                raise _stopped(self.node, error) from error
            except CancelledError as error:
                if self.scope.over.is_set():
                    raise
                raise cancelled_by_itself(self.node) from error
            except Exception as error:
                wait_s = _wait_before(attempt, retry, error)
                if wait_s is None or self.scope.over.wait(wait_s) or self.scope.over.is_set():
                    raise
                attempt += 1
                continue
            if inspect.isawaitable(result) or isinstance(result, ThreadFuture):
                return Awaited(result)
            return checked(result, self._call.spec, self.node)

    async def wait(self, first: Awaited | None = None) -> Any:
        """Calls the function and awaits what it returns; `first` is what a call in a thread gave already.

        To be driven inside `context`. A cancellation is thrown into the function.
        """
        retry, attempt = self._call.retry, 1
        while True:
            try:
                result = await self._timed(first)
                return checked(result, self._call.spec, self.node)
            except Exception as error:
                wait_s = _wait_before(attempt, retry, error)
                if wait_s is None or self.scope.over.is_set():
                    raise
                first = None
                attempt += 1
                await asyncio.sleep(wait_s)

    async def _timed(self, first: Awaited | None) -> Any:
        if self._call.timeout_s is None:
            return await self._result(first)
        try:
            async with asyncio.timeout(self._call.timeout_s) as limit:
                return await self._result(first)
        except TimeoutError as error:
            if limit.expired():
                raise timed_out(self.node) from error
            raise

    async def _result(self, first: Awaited | None) -> Any:
        result = self._invoke() if first is None else first.awaitable
        while True:
            if isinstance(result, ThreadFuture):
                result = asyncio.wrap_future(result)
            if not inspect.isawaitable(result):
                return result
            result = await result

    def _invoke(self) -> Any:
        self._began = perf_counter()
        args, kwargs = self._template.fill(self.args)
        return self._call.function(*args, **kwargs)


@final
class Awaited:
    """What a function in a thread returned, to be awaited on the loop."""

    __slots__ = ("awaitable",)

    def __init__(self, awaitable: Awaitable[Any] | ThreadFuture[Any]) -> None:
        self.awaitable: Final = awaitable


def guarded(value: Any) -> Any:
    """`value` as user code may see it: arrays as read-only views, NumPy scalars as arrays of rank 0."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, np.generic):
        array = np.asarray(value)
        array.flags.writeable = False
        return array
    return value


def checked(result: Any, spec: ArraySpec | tuple[ArraySpec, ...] | None, node: Node) -> Any:
    """`result`, if it fits what the op said that it returns.

    Raises:
        NodeResultError: it does not.
    """
    if spec is None:
        return result
    if isinstance(spec, ArraySpec):
        return _checked_one(result, spec, node)
    if not isinstance(result, (tuple, list)) or len(result) != len(spec):  # pyright: ignore[reportUnknownArgumentType]  # any sequence
        raise NodeResultError(
            f"{node.name!r} returned {_described(result)}\n  expected: a tuple of {len(spec)}: {', '.join(map(repr, spec))}"
        )
    return tuple(_checked_one(one, each, node) for one, each in zip(result, spec, strict=True))  # pyright: ignore[reportUnknownArgumentType]  # any elements


def _checked_one(result: Any, spec: ArraySpec, node: Node) -> Any:
    if spec is ANY:
        return result
    try:
        array = as_exact_array(result, spec.dtype)
    except ConversionError as error:
        raise NodeResultError(f"{node.name!r} returned {_described(result)}: {error}\n  expected: {spec!r}") from error
    strong = isinstance(result, (np.ndarray, np.generic))
    if (strong and spec.dtype is not None and result.dtype != spec.dtype) or not fits(array.shape, spec.shape):
        raise NodeResultError(f"{node.name!r} returned {_described(result)}\n  expected: {spec!r}")
    return array


def _described(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return repr(intern_spec(value.dtype, value.shape))
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _wait_before(attempt: int, retry: Retry | None, error: Exception) -> float | None:
    """Seconds before the next attempt, or `None` if there is none."""
    if retry is None or attempt >= retry.attempts or not isinstance(error, retry.on):
        return None
    return retry.backoff_s * 2 ** (attempt - 1)


def _stopped(node: Node, error: StopIteration) -> RuntimeError:
    return RuntimeError(f"{node.name!r} raised StopIteration, which no awaited call can pass on")


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

    def __await__(self) -> Any:
        run, coroutine = self._context.run, self._coroutine
        step, argument = coroutine.send, None
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


async def drive(coroutine: Any, context: Context) -> Any:
    """Awaits `coroutine` so that every step of it runs inside `context`.

    The task is the caller's: `asyncio.timeout`, `current_task` and anyio's scopes work inside. So one task
    may await many coroutines, one after the other, each in a context of its own.
    """
    return await _Drive(coroutine, context)
