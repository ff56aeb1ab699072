"""Runs of one session, one after the other, for tests that are about values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import asyncgraph as ag


async def runs(graph: ag.Graph, fetches: Any, feeds: Iterable[Mapping[Any, Any] | None], seed: int = 0) -> list[Any]:
    """The results of a run for each of `feeds`."""
    async with ag.Session(graph, config=ag.SessionConfig(seed=seed)) as session:
        return [(await session.run(ag.RunArgs(fetches, one))).results for one in feeds]


async def run(graph: ag.Graph, fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
    """The results of one run."""
    return (await runs(graph, fetches, [feeds]))[0]
