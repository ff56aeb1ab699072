"""The end of a session: what is in flight is waited for, and named if that takes long."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from functools import partial
from typing import Final

from anyio import CancelScope

from .._exec.host import Host
from .inflight import RunsInFlight

_log: Final = logging.getLogger("asyncgraph")
_SLOW_S: Final = 5.0


async def drain(host: Host, runs: RunsInFlight) -> CancelledError | None:
    """Waits until nothing is in flight; gives the first cancellation that came meanwhile, which ends all runs."""
    cancelled: CancelledError | None = None
    late = host.loop.call_later(_SLOW_S, partial(_name_what_is_left, host, runs))
    try:
        while runs or host.abandoned:
            try:
                # An anyio scope cancels again in every turn of the loop, unless it is told to wait.
                with CancelScope(shield=cancelled is not None):
                    await runs.wait_until_none(host.loop)
                    await host.wait_for_abandoned()
            except CancelledError as error:
                if cancelled is None:
                    cancelled = error
                    runs.end_all()
    finally:
        late.cancel()
    return cancelled


def _name_what_is_left(host: Host, runs: RunsInFlight) -> None:
    names = [*host.abandoned.values(), *[repr(future) for future in runs.futures]]
    _log.warning("closing the session waits for: %s", ", ".join(names))
