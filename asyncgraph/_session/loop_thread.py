"""The event loop that a blocking session has for itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from threading import Event, Thread
from typing import Any, Final, final

from .._exec.calls import Awaited, CallSite, drive
from .args import RunArgs
from .engine import Engine
from .session import Session
from .threads import LoopCall
from .values import RunValues


@final
class LoopThread:
    """An event loop in a thread of its own, with a session on it that finds its plans in `engine`."""

    # Fields:
    #   _stop: told to end; made on the loop.
    #   _started: set once the loop runs.

    def __init__(self, engine: Engine) -> None:
        self._session: Final = Session.sharing(engine)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started: Final = Event()
        # A daemon: a session that nobody closed must not keep the process from ending.
        self._thread: Final = Thread(target=asyncio.run, args=(self._serve(),), name="asyncgraph loop", daemon=True)
        self._thread.start()
        self._started.wait()

    def run(self, began: float, args: RunArgs[Any]) -> RunValues[Any]:
        """As `Session.run_since`, for another thread."""
        values: RunValues[Any] = self._do(partial(self._session.run_since, began, args))
        return values

    def wait(self, awaited: Awaited, site: CallSite, left_s: float | None) -> Any:
        """The result of what a function returned.

        Raises:
            TimeoutError: `left_s` seconds are over.
        """

        async def wait() -> Any:
            async with asyncio.timeout(left_s):
                return await drive(site.wait(awaited), site.context)

        return self._do(wait)

    def runs(self, run: object) -> bool:
        """Whether `run` is what runs one of its session's runs in flight."""
        return self._session.runs.contains(run)

    def urge(self) -> None:
        """Has its session's ops go on; see `Pool.urge`. From any thread."""
        if self._session.runs:
            self._session.host.calls.urge()

    def stop(self) -> None:
        """Has the session closed, and the loop and the thread end, without waiting for that."""
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)

    def close(self) -> None:
        """As `stop`, and waits."""
        self.stop()
        self._thread.join()

    def _do(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        assert self._loop is not None
        return LoopCall(self._loop, function, copy_context()).result()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._started.set()
        await self._stop.wait()
        await self._session.aclose()
