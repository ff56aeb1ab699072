"""What callers hold of a run that they do not await yet."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Generator
from typing import Any, NoReturn, TypeVar

from .._exec.waiting import wait_shielded
from .._graph.node import Node
from .values import RunMetadata, RunValues

T = TypeVar("T")


class RunFuture(asyncio.Future[RunValues[T]], ABC):
    """Delivers the `RunValues` of one run. An `asyncio.Future`, made by `Session.submit`.

    It is done when nothing of the run is left, hooks included: `cancel()` asks the run to end, and the future
    is cancelled once it has. Cancelling a task that awaits it cancels the run, as with any future.
    """

    # -- what callers use ------------------------------------------------------------------------------

    def cancel(self, msg: Any | None = None) -> bool:
        """Asks the run to end; False if it has. The future is cancelled when nothing of the run is left."""
        if self.done():
            return False
        self._stop(CancelledError() if msg is None else CancelledError(msg))
        return True

    def __await__(self) -> Generator[Any, None, RunValues[T]]:
        try:
            if not self.done():
                yield from self._wait().__await__()
            return self.result()
        finally:
            del self  # What is raised keeps this frame, and this future keeps what is raised.

    __iter__ = __await__

    def set_result(self, result: object, /) -> NoReturn:
        """The run does that, and nobody else. As for tasks, a RuntimeError."""
        raise RuntimeError("RunFuture does not support set_result: its run sets the result")

    def set_exception(self, exception: object, /) -> NoReturn:
        """The run does that, and nobody else. As for tasks, a RuntimeError."""
        raise RuntimeError("RunFuture does not support set_exception: its run sets it")

    @property
    @abstractmethod
    def metadata(self) -> RunMetadata:
        """How the run went, so far; of a run that failed, too."""

    @abstractmethod
    def fetched(self, fetch: Node | str) -> asyncio.Future[Any]:
        """The value of one of the run's fetches, as soon as it is there: before the run ends, as a rule.

        If the run fails later, the value was never committed. Not waiting any longer does not cancel the run.
        If the run ends before the value is there, the future raises what ended it.

        Raises:
            FetchError: the run does not fetch it.
        """

    # -- for what runs it ------------------------------------------------------------------------------

    def end(self, error: BaseException) -> None:
        """As `cancel`, but the run ends with `error`, of which nobody needs to be told who does not ask."""
        if not self.done():
            self.add_done_callback(look_at)
            self._stop(error)

    @abstractmethod
    def _stop(self, error: BaseException) -> None:
        """Has the run end with `error`, unless it ends already. It is not done yet."""

    def _deliver(self, values: RunValues[T] | None, error: BaseException | None) -> None:
        """Nothing of the run is left: these are its values, or what ended it."""
        if values is not None:
            super().set_result(values)
        elif isinstance(error, CancelledError):
            super().cancel(*error.args[:1])
        else:
            assert error is not None
            super().set_exception(_carried(error))

    # -- waiting ---------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Waits for the end. A cancellation ends the run, is waited for until nothing is left, and then passes on."""
        try:
            await self._next_end()
        except CancelledError as error:
            self.cancel(*error.args[:1])
            await wait_shielded([self])  # One cancellation is enough: it is raised below.
            look_at(self)  # Nobody else will: the caller is cancelled.
            raise

    def _next_end(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = self.get_loop().create_future()

        def wake(_: object) -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.add_done_callback(wake)
        return waiter


def look_at(future: asyncio.Future[Any]) -> None:
    """Looks at how a future has ended, so that nobody is told that nobody did."""
    if not future.cancelled():
        future.exception()


def _carried(error: BaseException) -> BaseException:
    """`error`, or one that a future can carry."""
    if not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError("a run ended with StopIteration, which no future can carry")
    wrapped.__cause__ = error
    return wrapped
