"""A thread that waits for what an event loop does for it."""

from __future__ import annotations

from asyncio import AbstractEventLoop, CancelledError, Task
from collections.abc import Callable, Coroutine
from concurrent.futures import Future as ThreadFuture
from concurrent.futures import wait
from contextvars import Context
from typing import Any, Final, final


@final
class LoopCall:
    """A coroutine that runs on a loop in another thread, in `context`, for the thread that made this.

    Unlike the future of `asyncio.run_coroutine_threadsafe` it is over when the coroutine is, also after it
    was cancelled. What the coroutine raises is the caller's, KeyboardInterrupt and SystemExit included:
    the loop serves others, and goes on.

    Raises:
        RuntimeError: the loop is closed.
    """

    def __init__(
        self, loop: AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, Any]], context: Context
    ) -> None:
        self._loop: Final = loop
        self._function: Final = function
        self._outcome: Final[ThreadFuture[Any]] = ThreadFuture()
        self._task: Task[None] | None = None
        loop.call_soon_threadsafe(self._begin, context=context)

    def cancel(self) -> None:
        """Cancels the coroutine. From any thread."""
        self._loop.call_soon_threadsafe(self._cancel)

    def result(self) -> Any:
        """What the coroutine returned. Blocks; an interrupt of the waiting thread ends the coroutine first.

        Raises:
            BaseException: what the coroutine raised.
        """
        try:
            return self._outcome.result()
        except BaseException:
            if not self._outcome.done():
                self.cancel()
                wait([self._outcome])
            raise

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run(), name="asyncgraph: a call from another thread")
        self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            value = await self._function()
        except BaseException as error:
            self._outcome.set_exception(error)
        else:
            self._outcome.set_result(value)
        finally:
            del self  # What is raised keeps this frame, and the outcome keeps what is raised.

    def _end(self, task: Task[None]) -> None:
        if not self._outcome.done():  # It was cancelled before its first step.
            self._outcome.set_exception(CancelledError())
