"""A hook that says when it is called, and does what a test wants done then."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import asyncgraph as ag

from ..session.gates import AsyncGate

Calls = list[tuple[Any, ...]]
"""Of each call the name of the hook, what was called, and what tells the call from others."""


class Recorder(ag.Hook):
    """Notes each call in `calls`; then does what `then` has for it, a plain function or a coroutine function.

    `asks` is what its `before_run` returns, if `then` has nothing for that.
    """

    def __init__(
        self, name: str, calls: Calls, asks: ag.RunArgs[Any] | None = None, **then: Callable[..., Any]
    ) -> None:
        self.name = name
        self.calls = calls
        self.asks = asks
        self.then = then

    async def _called(self, method: str, *told: Any, given: tuple[Any, ...] = ()) -> Any:
        self.calls.append((self.name, method, *told))
        result = self.then[method](*given) if method in self.then else None
        return await result if inspect.isawaitable(result) else result

    async def begin(self) -> None:
        await self._called("begin")

    async def after_create_session(self, session: ag.Session) -> None:
        await self._called("after_create_session", given=(session,))

    async def before_run(self, context: ag.RunContext) -> ag.RunArgs[Any] | None:
        result = await self._called("before_run", given=(context,))
        return self.asks if result is None else result

    async def after_run(self, context: ag.RunContext, values: ag.RunValues[Any]) -> None:
        await self._called("after_run", values.results, given=(context, values))

    async def on_error(self, context: ag.RunContext, error: BaseException) -> None:
        await self._called("on_error", error, given=(context, error))

    async def end(self, session: ag.Session) -> None:
        await self._called("end", given=(session,))


def of_runs(calls: Calls) -> Calls:
    """The calls that belong to runs."""
    return [call for call in calls if call[1] in ("before_run", "after_run", "on_error")]


def names(calls: Calls) -> list[str]:
    """What was called of whom: "A before_run"."""
    return [f"{call[0]} {call[1]}" for call in calls]


def square() -> tuple[ag.Graph, ag.Node, ag.Node]:
    """A graph of a placeholder and its square."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        return graph, x, ag.ops.square(x, name="y")


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


def at(gate: AsyncGate) -> Callable[..., Any]:
    """Waits at the gate, and gives nothing."""

    async def wait(*_: object) -> None:
        await gate()

    return wait
