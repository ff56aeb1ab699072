"""Ops that wait until a test lets them go on, and graphs of one of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import asyncgraph as ag


class Gate:
    """A sync op that tells when it has begun, and returns its argument when it is opened."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()

    def __call__(self, value: Any = "late") -> Any:
        self.begun.set()
        assert self.release.wait(10)
        return value

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 10)

    def open(self) -> None:
        self.release.set()


class AsyncGate:
    """An async op that tells when it has begun, returns when it is opened, and says how it ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.release = asyncio.Event()
        self.ended: list[str] = []

    async def __call__(self, value: Any = "late") -> Any:
        self.begun.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        self.ended.append("returned")
        return value

    async def has_begun(self) -> None:
        async with asyncio.timeout(10):
            await self.begun.wait()

    def open(self) -> None:
        self.release.set()


def one_node(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[ag.Graph, ag.Node]:
    """A graph of one call."""
    with ag.Graph() as graph:
        return graph, ag.op(**options)(function).node(*args, name="n")


async def turns(count: int) -> None:
    """Lets the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)
