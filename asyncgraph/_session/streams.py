"""Many results, one after the other: the fetches of a run, and the runs of a sequence.

Iterator classes with `aclose`, not generators: they hold no scope open between two items, so that they
may be left anywhere, in any task.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast, final

from .._graph.node import Node
from ..errors import RunArgsError
from .args import RunArgs
from .fetches import Leaf, leaves_of, resolve
from .future import RunFuture
from .values import RunValues

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")
_Item = TypeVar("_Item")


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

    def __init__(self, session: Session, args: RunArgs[Any]) -> None:
        self._session: Final = session
        self._args: Final = args
        self._run: RunFuture[Any] | None = None
        self._waiting: dict[asyncio.Future[Any], Leaf] = {}

    async def __anext__(self) -> tuple[Leaf, Any]:
        """The next fetch and its value.

        Raises:
            StopAsyncIteration: there is none, and the run has succeeded.
            BaseException: what ended the run.
        """
        if self._run is None:
            self._begin()
        assert self._run is not None
        if not self._waiting:
            await self._run  # All values were given; whether they are committed is known at the end.
            raise StopAsyncIteration
        try:
            done, _ = await asyncio.wait(self._waiting, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        # Of those that are done, the first that was asked for.
        future = next(one for one in self._waiting if one in done)
        if future.cancelled() or future.exception() is not None:
            self._waiting.clear()
            await self._run
        return self._waiting.pop(future), future.result()

    async def aclose(self) -> None:
        """As `_Stream.aclose`."""
        self._waiting.clear()
        if self._run is not None:
            await _ended(self._run)

    def _begin(self) -> None:
        distinct: dict[Node, Leaf] = {}
        for leaf in leaves_of(self._args.fetches):
            distinct.setdefault(resolve(leaf, self._session.graph), leaf)
        self._run = self._session.submit(self._args)
        for node, leaf in distinct.items():
            self._waiting[asyncio.ensure_future(self._run.fetched(node))] = leaf


@final
class RunMap(_Stream[RunValues[T]], Generic[T]):
    """The values of many runs, with back-pressure. Made by `Session.map`."""

    # Fields:
    #   _source: where the args come from; None when it is exhausted.
    #   _runs: in flight, or done and not taken; in the order of the source.

    def __init__(
        self,
        session: Session,
        iterable: Iterable[RunArgs[T]] | AsyncIterable[RunArgs[T]],
        concurrency: int,
        ordered: bool,
    ) -> None:
        if concurrency < 1:
            raise RunArgsError(f"concurrency={concurrency}: at least one run is in flight")
        self._session: Final = session
        self._concurrency: Final = concurrency
        self._ordered: Final = ordered
        self._source: Iterator[RunArgs[T]] | AsyncIterator[RunArgs[T]] | None = (
            aiter(cast("AsyncIterable[RunArgs[T]]", iterable))
            if isinstance(iterable, AsyncIterable)
            else iter(iterable)
        )
        self._runs: Final[deque[RunFuture[T]]] = deque()

    async def __anext__(self) -> RunValues[T]:
        """The values of the next run.

        Raises:
            StopAsyncIteration: all runs are done and taken.
            BaseException: what ended a run, or what the source raised. The runs in flight have been ended.
        """
        try:
            await self._fill()
            if not self._runs:
                raise StopAsyncIteration
            if self._ordered:
                run = self._runs[0]
                await asyncio.wait([run])
            else:
                done, _ = await asyncio.wait(self._runs, return_when=asyncio.FIRST_COMPLETED)
                run = next(one for one in self._runs if one in done)
            self._runs.remove(run)
            return run.result()
        except StopAsyncIteration:
            raise
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """As `_Stream.aclose`."""
        self._source = None
        runs = list(self._runs)
        self._runs.clear()
        for run in runs:
            run.cancel()
        for run in runs:
            await _ended(run)

    async def _fill(self) -> None:
        while self._source is not None and len(self._runs) < self._concurrency:
            try:
                if isinstance(self._source, Iterator):
                    args = next(self._source)
                else:
                    args = await anext(self._source)
            except (StopIteration, StopAsyncIteration):
                self._source = None
                return
            self._runs.append(self._session.submit(args))


async def _ended(run: RunFuture[Any]) -> None:
    """Ends a run, waits for it, and looks at how it ended, so that nobody is told that nobody did."""
    run.cancel()
    try:
        await run
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
    except BaseException:
        return
