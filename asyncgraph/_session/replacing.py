"""Having variables hold values that no run has computed.

What takes long, conversions, copies and transfers, is done in a thread. What it gives is then committed as a run's
assignments are, in its turn among those that assign.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping
from contextvars import copy_context
from functools import partial
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .._exec.calls import current_call
from .._graph.exchange import dlpack_device
from .._graph.variable import Variable
from ..abc import Array
from .args import RunArgs, to_store
from .engine import Engine
from .in_thread import GoOn, in_thread, tell
from .store import State, Store
from .transaction import Transaction, parent_in

if TYPE_CHECKING:
    from .session import Session


async def replace(session: Session, values: Mapping[Any, object]) -> None:
    """Has variables of a session hold copies of `values`, all of them at once or none.

    Raises:
        FetchError, FeedError: a key is no variable, or a value does not fit.
    """
    args = to_store(values)
    if any(map(dlpack_device, args.feeds.values())):
        await session.run_since(perf_counter(), args)  # Kernels copy what is on devices.
        return
    state = await in_thread(session, partial(_copied, session.engine, args), "the copying of values")
    await commit(session, state, "the replacing of values")


def _copied(engine: Engine, args: RunArgs[Any], _: GoOn) -> State:
    return {one: placed(engine, one, copy) for one, copy in engine.copies(args).items()}


def placed(engine: Engine, variable: Variable, array: np.ndarray[tuple[int, ...], np.dtype[Any]]) -> Array:
    """An array of the host, which is nobody else's, as what a variable holds, on its device. May block."""
    home = engine.placer(variable.requested_device)
    if home.on_host:
        array.flags.writeable = False
        return array
    return home.now(partial(home.backend.to_device, array, home.device))


async def commit(session: Session, state: State, name: str) -> None:
    """Commits `state`, which nobody else can write to, when nobody else uses its variables any more.

    Closing the session waits for it, and calls it `name`. Cancelling changes nothing.

    Raises:
        StateConflictError: it is nested, and would wait for a run that waits for it.
    """
    host = session.host
    granted: Future[None] = host.loop.create_future()
    transaction = _transaction(session.store)
    try:
        if not transaction.enter_to_replace(state, partial(host.mailbox.post, partial(tell, granted))):
            with host.errand(name):
                await granted
        transaction.commit()
    finally:
        transaction.end()


def commit_here(store: Store, state: State) -> None:
    """As `commit`, in this thread."""
    granted, transaction = Event(), _transaction(store)
    try:
        if not transaction.enter_to_replace(state, granted.set):
            granted.wait()
        transaction.commit()
    finally:
        transaction.end()


def _transaction(store: Store) -> Transaction:
    nested = current_call.get() is not None
    return Transaction(store, parent_in(copy_context(), store), blocks=nested)
