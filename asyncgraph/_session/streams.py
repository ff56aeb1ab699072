"""Many results, one after the other: the fetches of a run, and the runs of a sequence.

Iterator classes with `aclose`, not generators: they hold no scope open between two items, so that they
may be left anywhere, in any task. After `aclose` they are exhausted.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Collection, Iterable, Iterator
from contextvars import Context, copy_context
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, final

from .._exec.waiting import wait_shielded
from .._graph.node import Node
from ..errors import RunArgsError
from .args import RunArgs
from .delivery import RunFuture
from .fetches import Leaf, leaves_of, resolve
from .values import RunValues

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")
_Item = TypeVar("_Item")


class _Source(Enum):
    EXHAUSTED = "no more items"


class _Stream(ABC, Generic[_Item]):
    """An async iterator and context manager; leaving it ends what it started, and waits for that."""

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> _Item:
        """The next item."""

    @abstractmethod
    async def aclose(self) -> None:
        """Ends the runs that are in flight, and waits until nothing of them is left. Idempotent."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


@final
class RunStream(_Stream[tuple[Leaf, Any]]):
    """The fetches of one run, as they are done. Made by `Session.stream`."""

    # Fields:
    #   _waiting: what was asked for and has not been given: the future of its value, and the fetch as it
    #       was written.
    #   _run: the run; None until the first item is asked for.
    #   _closed: whether there are no more items, whatever the run does.

    def __init__(self, session: Session, args: RunArgs[Any]) -> None:
        self._session: Final = session
        self._args: Final = args
        self._run: RunFuture[Any] | None = None
        self._waiting: Final[dict[asyncio.Future[Any], Leaf]] = {}
        self._closed = False

    async def __anext__(self) -> tuple[Leaf, Any]:
        """The next fetch and its value.

        Raises:
            StopAsyncIteration: there is none, and the run has succeeded; or the stream is closed.
            BaseException: what ended the run.
        """
        if self._closed:
            raise StopAsyncIteration
        if self._run is None:
            self._begin()
        if not self._waiting:
            await self._end_of_run()  # All values were given; whether they are committed is known at the end.
            raise StopAsyncIteration
        try:
            done, _ = await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        # Of those that are done, the first that was asked for.
        future = next(one for one in self._waiting if one in done)
        leaf = self._waiting.pop(future)
        if future.cancelled() or future.exception() is not None:
            del done, future  # As in `_end_of_run`.
            await self._end_of_run()
            raise StopAsyncIteration
        return leaf, future.result()

    async def aclose(self) -> None:
        """As `_Stream.aclose`."""
        self._closed = True
        self._waiting.clear()
        if self._run is not None:
            await _end([self._run])

    async def _end_of_run(self) -> None:
        self._closed = True
        run, self._run = self._run, None
        assert run is not None
        try:
            await run
        finally:
            del run  # It keeps what it raises, which keeps this frame, and whoever holds the stream.

    def _begin(self) -> None:
        distinct: dict[Node, Leaf] = {}
        for leaf in leaves_of(self._args.fetches):
            distinct.setdefault(resolve(leaf, self._session.graph), leaf)
        run = self._run = self._session.submit(self._args)
        for node, leaf in distinct.items():
            self._waiting[run.fetched(node)] = leaf


@final
class RunMap(_Stream[RunValues[T]], Generic[T]):
    """The values of many runs, with back-pressure. Made by `Session.map`."""

    # Fields:
    #   _source: where the args come from; None when it is exhausted.
    #   _next: takes the next args from an async source; None while nothing is asked of it.
    #   _context: the caller's; an async source runs in it from one item to the next.
    #   _runs: in flight, or done and not taken; in the order of the source.

    def __init__(
        self,
        session: Session,
        iterable: Iterable[RunArgs[T]] | AsyncIterable[RunArgs[T]],
        concurrency: int,
        ordered: bool,
    ) -> None:
        if not isinstance(concurrency, int) or concurrency < 1:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise RunArgsError(f"concurrency={concurrency!r}: give an int of at least 1: how many runs are in flight")
        self._session: Final = session
        self._concurrency: Final = concurrency
        self._ordered: Final = ordered
        self._source: Iterator[RunArgs[T]] | AsyncIterator[RunArgs[T]] | None = (
            aiter(iterable) if isinstance(iterable, AsyncIterable) else iter(iterable)
        )
        self._next: asyncio.Task[RunArgs[T] | _Source] | None = None
        self._context: Final[Context] = copy_context()
        self._runs: Final[deque[RunFuture[T]]] = deque()

    async def __anext__(self) -> RunValues[T]:
        """The values of the next run.

        Raises:
            StopAsyncIteration: all runs are done and taken, or the map is closed.
            BaseException: what ended a run, or what the source raised, at once. The runs in flight have been ended.
        """
        run: RunFuture[T] | None = None
        waits_for: list[asyncio.Future[Any]] = []
        try:
            while True:
                self._fill()
                run = self._finished()
                if run is not None:
                    self._runs.remove(run)
                    return run.result()
                waits_for = [*self._runs]
                if self._next is not None:
                    waits_for.append(self._next)
                if not waits_for:
                    break
                await asyncio.wait(waits_for, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.aclose()
            raise
        finally:
            del run, waits_for  # As in `RunStream`.
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """As `_Stream.aclose`. An item that an async source is making is given up; the source is not closed."""
        self._source = None
        ended: list[asyncio.Future[Any]] = [*self._runs]
        self._runs.clear()
        if self._next is not None:
            ended.append(self._next)
            self._next = None
        await _end(ended)

    def _finished(self) -> RunFuture[T] | None:
        """The run whose values are given next, if it is done."""
        candidates = list(self._runs)[:1] if self._ordered else self._runs
        return next((run for run in candidates if run.done()), None)

    def _fill(self) -> None:
        """Starts as many runs as may be in flight, as far as the source has args for them by now."""
        while self._source is not None and len(self._runs) < self._concurrency:
            if not isinstance(self._source, AsyncIterator):
                args = next(self._source, _Source.EXHAUSTED)
            elif self._next is None:
                self._next = asyncio.get_running_loop().create_task(
                    _next_of(self._source), name="asyncgraph: the next args of a map", context=self._context
                )
                return
            elif self._next.done():
                taken, self._next = self._next, None
                args = taken.result()
            else:
                return
            if args is _Source.EXHAUSTED:
                self._source = None
            else:
                self._runs.append(self._session.submit(args))


async def _next_of(source: AsyncIterator[RunArgs[T]]) -> RunArgs[T] | _Source:
    try:
        return await anext(source)
    except StopAsyncIteration:
        return _Source.EXHAUSTED


async def _end(futures: Collection[asyncio.Future[Any]]) -> None:
    """Cancels all, waits until they are done, and looks at how they ended, so that nobody is told that nobody did."""
    for future in futures:
        future.cancel()
    cancelled = await wait_shielded(futures)
    for future in futures:
        if not future.cancelled():
            future.exception()
    if cancelled is not None:
        raise cancelled
