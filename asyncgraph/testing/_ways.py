"""Ways of asking for a run, and of giving it up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

import anyio
import numpy as np

from .._graph.node import Node
from .._session.args import RunOptions
from .._session.delivery import RunFuture
from .._session.session import Session
from ._device import DeviceArray
from ._faults import Script, current_script


class Asked(Protocol):
    """What is asked for.

    Fields:
        options: of the run.
        patience_s: when it is given up, if the way is one of giving up.
    """

    @property
    def options(self) -> RunOptions: ...
    @property
    def patience_s(self) -> float: ...


async def _awaited(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    return (await session.run(nodes, feeds, asked.options)).results


async def _submitted(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    future = session.submit(nodes, feeds, asked.options)
    try:
        early = await future.fetched(nodes[0])
        results = (await future).results
    finally:
        del future  # It keeps its exception, which keeps this frame.
    if not isinstance(early, DeviceArray):
        assert np.array_equal(early, results[0]), (early, results[0])
    return results


async def _given_up(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    script = current_script.get()
    future = session.submit(nodes, feeds, asked.options)
    timer = asyncio.get_running_loop().call_later(asked.patience_s, _give_up, future, script)
    try:
        results = (await future).results
    finally:
        timer.cancel()
        del future
    assert not script.over, "it was cancelled, and gave values"
    return results


def _give_up(future: RunFuture[Any], script: Script) -> None:
    script.over = future.cancel()


async def _cut_off(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    async with asyncio.timeout(asked.patience_s):
        return (await session.run(nodes, feeds, asked.options)).results


async def _left(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    with anyio.move_on_after(asked.patience_s):
        return (await session.run(nodes, feeds, asked.options)).results
    raise asyncio.CancelledError


async def _cancelled(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    loop.call_later(asked.patience_s, task.cancel)
    loop.call_later(asked.patience_s + 0.001, task.cancel)
    return (await session.run(nodes, feeds, asked.options)).results


async def _streamed(session: Session, asked: Asked, nodes: list[Node], feeds: dict[Node, Any]) -> Any:
    found: dict[Node, Any] = {}
    async with session.stream(nodes, feeds, asked.options) as stream:
        async for node, value in stream:
            assert isinstance(node, Node)
            found[node] = value
    return [found[node] for node in nodes]


Way = Callable[[Session, Asked, list[Node], dict[Node, Any]], Coroutine[Any, Any, Any]]
WAYS: Final[dict[Way, tuple[type[BaseException], ...]]] = {
    _awaited: (),
    _submitted: (),
    _given_up: (asyncio.CancelledError,),
    _cut_off: (TimeoutError,),
    _left: (asyncio.CancelledError,),
    _cancelled: (asyncio.CancelledError,),
    _streamed: (),
}
"""How a run is asked for and given up, and what that alone may raise."""
