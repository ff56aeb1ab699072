"""Plans of small graphs, and hosts to run them on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any

from asyncgraph import Graph, Node, SessionConfig
from asyncgraph._exec.host import Host
from asyncgraph._exec.run import Run
from asyncgraph._plan.plan import Plan
from asyncgraph._session.args import RunArgs
from asyncgraph._session.engine import Engine

PATIENCE_S = 20
"""How long a test waits for what should happen at once."""


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts how often threads wake it, and its tasks."""

    woken = 0
    tasks = 0

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, context=context)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        self.tasks += 1
        return super().create_task(coro, **options)


def on_a_counting_loop(main: Callable[[CountingLoop], Coroutine[Any, Any, None]]) -> None:
    """Runs `main`, which is given its loop."""
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, CountingLoop)
        runner.run(main(loop))


def plan_of(graph: Graph, fetches: Sequence[Node], feeds: Sequence[Node] = ()) -> Plan:
    engine = Engine(graph, SessionConfig())
    return engine.request(RunArgs(list(fetches), dict.fromkeys(feeds)), lambda: None).plan


@asynccontextmanager
async def open_host(budget_s: float = 500e-6, workers: int = 2, threads: int = 4) -> AsyncIterator[Host]:
    """A host whose threads are ended and joined at the end."""
    host = Host(asyncio.get_running_loop(), budget_s, workers, threads)
    try:
        yield host
    finally:
        await host.wait_until_idle()
        for pool in (host.kernels, host.calls):
            pool.close()
            pool.join()


class Watched:
    """A run of a plan, and the future of its end: its error, and the values of the fetched slots."""

    def __init__(self, host: Host, plan: Plan, feeds: Sequence[Any] = (), elements: int = 0) -> None:
        self.ended: asyncio.Future[tuple[BaseException | None, list[Any]]] = host.loop.create_future()
        self.ends = 0
        self.run = Run(host, plan, plan.frame(list(feeds)), copy_context(), elements, self._end)

    def _end(self, run: Run) -> None:
        self.ends += 1
        error = run.error()
        values = [] if error is not None else [run.frame[one.slot] for one in run.plan.fetches]
        self.ended.set_result((error, values))

    async def values(self) -> list[Any]:
        """Starts it, waits for its end, and gives the values."""
        self.run.start()
        error, values = await self.ended
        if error is not None:
            raise error
        return values

    async def error(self) -> BaseException:
        """Waits for its end, and gives what ended it."""
        error, _ = await self.ended
        assert error is not None
        return error
