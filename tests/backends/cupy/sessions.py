"""Graphs on GPUs, and their runs, for tests through a session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, final

import asyncgraph as ag
from asyncgraph_cupy._lanes import Lane

from .submitting import SECONDS


@final
class Slow:
    """A lane whose kernels take long: `reached` is set when it is waited for first, and `opened` ends them."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self._lane: Lane | None = None

    def hold(self, lane: Lane) -> None:
        self._lane = self._lane or lane
        self.reached.set()
        if lane is self._lane:
            assert self.opened.wait(SECONDS)


def on(device: str, build: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    with ag.device(device):
        return build(*operands, **options)


def scaled(*devices: str) -> tuple[ag.Graph, ag.Node, ag.Node]:
    """`x * 2 + 1` once on each device."""
    with ag.Graph() as graph:
        x = y = ag.placeholder("float64", None, name="x")
        for one in devices or ("gpu:0",):
            with ag.device(one):
                y = y * 2 + 1
    return graph, x, y


async def results(graph: ag.Graph, fetches: Any, feeds: Any = None, **options: Any) -> Any:
    async with ag.Session(graph) as session:
        return (await session.run(fetches, feeds, ag.RunOptions(**options))).results
