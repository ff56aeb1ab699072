"""Runs of sessions of their own, and user ops that tell that they were called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import asyncgraph as ag

FLOAT = "float64[]"


def values(fetches: Any, feeds: Any = None, config: ag.SessionConfig | None = None, **options: Any) -> Any:
    """The results of one run, in this thread."""
    with ag.BlockingSession(graph_of(fetches), config=config or ag.SessionConfig()) as session:
        return session.run(ag.RunArgs(fetches, feeds, ag.RunOptions(**options))).results


async def values_async(fetches: Any, feeds: Any = None, **options: Any) -> Any:
    """The results of one run, on this loop."""
    async with ag.Session(graph_of(fetches)) as session:
        return (await session.run(ag.RunArgs(fetches, feeds, ag.RunOptions(**options)))).results


def graph_of(fetches: Any) -> ag.Graph:
    while not isinstance(fetches, ag.Node):
        parts = vars(fetches) if is_dataclass(fetches) else fetches
        fetches = next(iter(parts.values() if isinstance(parts, dict) else parts))
    return fetches.graph


class Calls(list[str]):
    """The names of what was called, in order."""

    def op(self, name: str, kind: str = "thread") -> Callable[..., ag.Node]:
        """Builds calls of a user op that gives what it is given, or 1."""

        def call(value: Any = 1.0) -> float:
            self.append(name)
            return float(value)

        async def call_async(value: Any = 1.0) -> float:
            self.append(name)
            await asyncio.sleep(0)
            return float(value)

        if kind == "async":
            return ag.op(call_async, spec=FLOAT).node
        return ag.op(call, spec=FLOAT, where="inline" if kind == "inline" else "thread").node

    def taken(self) -> list[str]:
        """What has been called since the last time."""
        taken = list(self)
        self.clear()
        return taken
