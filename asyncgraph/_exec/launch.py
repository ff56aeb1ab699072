"""Work that an async op starts on the device of its arrays."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from .._plan.program import Placement
from ..abc import Done
from ..errors import SessionError
from .calls import current_call
from .host import Host
from .waiting import wait_shielded

T = TypeVar("T")


def start_on(where: Placement, host: Host, work: Callable[[], None], done: Done, *, at_once: bool) -> None:
    """Has a device do `work`: its backend, or a worker if that is the host. `done` is called on the loop."""

    def over(error: BaseException | None) -> None:
        host.mailbox.post(partial(done, error))

    submit = partial(where.backend.submit, where.device, work, over)
    if where.is_asynchronous:
        submit()
    else:
        host.kernels.submit(submit, at_once=at_once)


async def launch(function: Callable[..., T], *args: Any) -> T:
    """What `function(*args)` gives, once the device has done it.

    Inside an async op that says `on_device=True`: its arrays are on the device where its node was placed, and what
    computes with them must not hold the event loop, nor may it be called on the loop's thread. `function` is called
    where the device's kernels are: by the backend, with the device the current one, or in a worker if the device is
    the host. It may be called a second time if the device was short of memory.

    A cancellation is raised when the device is done, so that nothing it uses is freed too early.

    Raises:
        SessionError: it is called anywhere else, or after the op's run is over.
        BaseException: what `function` raised, or the device.
    """
    call = current_call.get()
    if call is None or call.launcher is None:
        raise SessionError(
            "launch starts work on the device of an op's arrays, but this is no such op\n"
            "  await ag.launch(function, *arrays) inside an async function that is an @ag.op(on_device=True)"
        )
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    context = copy_context()
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        results[:] = [context.run(function, *args)]

    def done(error: BaseException | None) -> None:
        if error is not None:
            errors.append(error)
        over.set_result(None)

    call.launcher(work, done)
    try:
        cancelled = await wait_shielded([over])
        if cancelled is not None:
            raise CancelledError(*cancelled.args)
        if errors:
            raise errors[0]
        return results[0]
    finally:
        # What is raised keeps this frame.
        errors.clear()
        results.clear()
