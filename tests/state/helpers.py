"""Sessions of both kinds under one name, and ops that wait until a test lets them go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import numpy as np

import asyncgraph as ag

KINDS: Final = ("async", "blocking")


class Runner:
    """Runs a graph in a session of either kind."""

    def __init__(self, session: ag.Session | ag.BlockingSession) -> None:
        self.session = session

    async def run(self, fetches: Any, feeds: Any = None, **options: Any) -> Any:
        """The results of one run."""
        args = ag.RunArgs(fetches, feeds, ag.RunOptions(**options))
        if isinstance(self.session, ag.Session):
            return (await self.session.run(args)).results
        return (await asyncio.to_thread(self.session.run, args)).results

    async def replace(self, values: Any) -> None:
        if isinstance(self.session, ag.Session):
            await self.session.replace(values)
        else:
            await asyncio.to_thread(self.session.replace, values)

    async def initialize(self, variables: Any = None) -> None:
        if isinstance(self.session, ag.Session):
            await self.session.initialize(variables)
        else:
            await asyncio.to_thread(self.session.initialize, variables)

    def held(self) -> Mapping[ag.Variable, Any]:
        """What was committed last, without running anything."""
        return self.session.store.snapshot()


@asynccontextmanager
async def opened(kind: str, graph: ag.Graph, **config: Any) -> AsyncIterator[Runner]:
    """A session of that kind."""
    if kind == "async":
        async with ag.Session(graph, config=ag.SessionConfig(**config)) as session:
            yield Runner(session)
    else:
        with ag.BlockingSession(graph, config=ag.SessionConfig(**config)) as session:
            yield Runner(session)


class Gate:
    """An async op that tells when it has begun, and returns its argument when it is opened."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.release = asyncio.Event()
        self.calls = 0

    async def __call__(self, value: Any = 0.0) -> Any:
        self.calls += 1
        self.begun.set()
        await self.release.wait()
        return np.asarray(value)

    def node(self, *args: Any, spec: str = "float64[]") -> ag.Node:
        return ag.op(self, spec=spec).node(*args)

    async def has_begun(self) -> None:
        async with asyncio.timeout(10):
            await self.begun.wait()

    def open(self) -> None:
        self.release.set()


async def turns(count: int = 20) -> None:
    """Lets the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(holds: Callable[[], object]) -> None:
    """Lets the loop turn until something holds."""
    async with asyncio.timeout(10):
        while True:
            if holds():
                return
            await asyncio.sleep(0)
