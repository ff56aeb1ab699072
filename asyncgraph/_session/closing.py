"""The end of a session: what is in flight is waited for, and named if that takes long."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from anyio import CancelScope

from .._exec.blas import blas
from .._exec.host import Host
from .inflight import RunsInFlight

_log: Final = logging.getLogger("asyncgraph")
_SLOW_S: Final = 5.0


async def end_runs(
    host: Host, runs: RunsInFlight, end_hooks: Callable[[], Awaitable[None]] | None
) -> BaseException | None:
    """Waits until nothing is in flight, and has the lives of hooks end; gives what closing is to raise.

    Without `end_hooks` these do not end, nor if this is cancelled before.
    """
    runs.end_waiting()
    failure: BaseException | None = await _drain(host, runs)
    if failure is None and end_hooks is not None:
        try:
            await end_hooks()
        except BaseException as error:
            failure = error
        failure = failure or await _drain(host, runs)
    return failure


def end_threads(host: Host, wait: bool) -> None:
    """Ends the threads, which have nothing left to do."""
    host.kernels.close()
    host.calls.close()
    if wait:  # This takes as long as it takes them to wake up.
        host.kernels.join()
        host.calls.join()
    blas.release(host)


async def _drain(host: Host, runs: RunsInFlight) -> CancelledError | None:
    """Waits until nothing is in flight; gives the first cancellation that came meanwhile, which ends all runs."""
    cancelled: CancelledError | None = None
    late = host.loop.call_later(_SLOW_S, partial(_name_what_is_left, host, runs))
    try:
        while runs or host.is_busy:
            try:
                # An anyio scope cancels again in every turn of the loop, unless it is told to wait.
                with CancelScope(shield=cancelled is not None):
                    await runs.wait_until_none(host.loop)
                    await host.wait_until_idle()
            except CancelledError as error:
                if cancelled is None:
                    cancelled = error
                    runs.end_all()
    finally:
        late.cancel()
    return cancelled


def _name_what_is_left(host: Host, runs: RunsInFlight) -> None:
    names = [
        *host.abandoned.values(),
        *host.errands.values(),
        *[repr(future) for future in (*runs.hooked, *runs.futures)],
    ]
    _log.warning("closing the session waits for: %s", ", ".join(names))
