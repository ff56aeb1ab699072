"""Waiting that no cancellation cuts short."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Collection
from typing import Any

from anyio import CancelScope


async def wait_shielded(futures: Collection[asyncio.Future[Any]]) -> CancelledError | None:
    """Waits until all of `futures` are done, whatever comes; gives the first cancellation that came meanwhile."""
    cancelled: CancelledError | None = None
    # An anyio scope cancels again in every turn of the loop, unless it is told to wait.
    with CancelScope(shield=True):
        while not all(future.done() for future in futures):
            try:
                await asyncio.wait(futures)
            except CancelledError as error:
                cancelled = cancelled or error.with_traceback(None)  # Which would hold this frame, and that it.
    return cancelled
