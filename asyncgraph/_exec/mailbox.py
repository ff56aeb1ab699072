"""How other threads reach the loop: many messages, one wake-up."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from typing import Final, final


@final
class Mailbox:
    """Calls that other threads want made on the loop.

    Fields:
        _calls: those that have not been made.
        _woken: whether the loop knows that there are some. Set before it is woken and cleared before it
            looks, so that a call is never left behind; at worst the loop looks once too often.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop: Final = loop
        self._calls: Final[deque[Callable[[], None]]] = deque()
        self._woken = False

    def post(self, call: Callable[[], None]) -> None:
        """Has `call` made on the loop, soon. From any thread. Calls are made in order."""
        self._calls.append(call)
        if not self._woken:
            self._wake()

    def _wake(self) -> None:
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:
            # The loop is closed: there is nobody left to tell.
            self._calls.clear()

    def _deliver(self) -> None:
        self._woken = False
        calls = self._calls
        left = len(calls)
        try:
            while left:
                left -= 1
                calls.popleft()()
        finally:
            # A call that raises must not take with it those that came after it, in the same wake-up.
            if left and not self._woken:
                self._wake()
