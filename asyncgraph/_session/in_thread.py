"""Work that blocks, in a thread of a session for ops, for a coroutine that waits for it."""

from __future__ import annotations

from asyncio import CancelledError, Future, wait
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, TypeVar, final

from .._exec.calls import current_call
from .._exec.notes import trim_traceback
from .._exec.waiting import wait_shielded

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")
GoOn = Callable[[], None]
"""What blocks for long calls it now and then: it raises if nobody wants the outcome any more."""


async def in_thread(session: Session, work: Callable[[GoOn], T], name: str) -> T:
    """What `work` gives, in a thread of the session for ops. Closing the session waits for it, and calls it `name`.

    Cancelling ends `work` when it calls what it is given; it is waited for in any case.

    Raises:
        SessionError: the session cannot do anything, since it is closed, or another loop's.
        BaseException: what `work` raises.
    """
    session.turn()  # Opens it.
    host = session.host
    over: Future[None] = host.loop.create_future()
    outcome: ThreadFuture[T] = ThreadFuture()
    stopped = Event()

    call = partial(_do, work, partial(_check, stopped), outcome, partial(host.mailbox.post, partial(tell, over)))
    del work  # What is raised keeps this frame, and this a whole state.
    with host.errand(name):
        host.calls.submit(call, at_once=current_call.get() is not None)
        del call
        try:
            await wait([over])
        except CancelledError:
            stopped.set()
            await wait_shielded([over])
            raise
    return outcome.result()


@final
class _Stopped(Exception):
    """Nobody wants what is being done any more."""


def _check(stopped: Event) -> None:
    if stopped.is_set():
        raise _Stopped


def _do(work: Callable[[GoOn], T], go_on: GoOn, outcome: ThreadFuture[T], tell: Callable[[], None]) -> None:
    try:
        outcome.set_result(work(go_on))
    except BaseException as error:
        del work  # As before: frames of what is raised lead back to this one.
        trim_traceback(error)
        outcome.set_exception(error)
    tell()


def tell(waiter: Future[None]) -> None:
    """Has whoever awaits `waiter` go on, if that is still so. On its loop."""
    if not waiter.done():
        waiter.set_result(None)
