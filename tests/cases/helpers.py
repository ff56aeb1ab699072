"""A run of its own session, for tests that are about values."""

from __future__ import annotations

from typing import Any

import asyncgraph as ag


async def run(graph: ag.Graph, fetches: Any, feeds: Any = None, **options: Any) -> Any:
    """The results of one run."""
    async with ag.Session(graph) as session:
        return (await session.run(ag.RunArgs(fetches, feeds, ag.RunOptions(**options)))).results
