"""What a run asks of a device, beside what is asked by code that is written by hand for the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest

import asyncgraph as ag

from ...standin.world import World
from .conftest import MakeBackend

NODES: Final = 50

EXTRA: Final = Counter(
    # A user's function, launched before, may have left another device current.
    setDevice=1,
)
"""What a run asks for beyond what is written by hand, by kind of call."""

Host = np.ndarray[Any, Any]


def fifty(xp: Any, x: Any, weights: Any) -> Any:
    """A kernel for each of 50 nodes, of CuPy's functions or of asyncgraph's."""
    for i in range(NODES // 5):
        x = xp.tanh(xp.matmul(x, weights)) + i
        x = x - xp.max(x, axis=0)
    return x


@pytest.fixture
def gpu(world: World, make_backend: MakeBackend) -> Iterator[World]:
    with ag.use_backend(make_backend()):
        yield world


@pytest.fixture
def device_changes(gpu: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Each call of `setDevice`, which the stand-in does not write down."""
    changes: list[int] = []
    runtime = gpu.cupy.cuda.runtime
    set_device = runtime.setDevice
    monkeypatch.setattr(runtime, "setDevice", lambda device: changes.append(device) or set_device(device))
    return changes


class ByHand:
    """The same on one stream, with pinned memory that is used again; waits once."""

    def __init__(self, world: World, shape: tuple[int, int]) -> None:
        self.cupy = world.cupy
        cuda = world.cupy.cuda
        self.stream, self.event = cuda.Stream(non_blocking=True), cuda.Event(block=True, disable_timing=True)
        self.result = world.cupyx.empty_pinned(shape, np.float64)
        self.staging = [world.cupyx.empty_pinned(shape, np.float64) for _ in range(2)]

    def __call__(self, *feeds: Host) -> Host:
        with self.stream:
            there = [self._moved(one, room) for one, room in zip(feeds, self.staging, strict=True)]
            fifty(self.cupy, *there).get(stream=self.stream, out=self.result, blocking=False)
            self.event.record(self.stream)
        self.event.synchronize()
        return self.result.copy()

    def _moved(self, array: Host, room: Any) -> Any:
        # CuPy's own way from memory that is not pinned would copy it to new pinned memory, each time.
        np.copyto(room, array)
        there = self.cupy.empty(array.shape, array.dtype)
        there.set(room, stream=self.stream)
        return there


@pytest.mark.parametrize("size", [8, 128])
async def test_a_warm_run_makes_the_calls_that_are_made_by_hand_and_no_other(
    gpu: World, device_changes: list[int], size: int
) -> None:
    """cupy/cupy#8191, cupy/cupy#3298, cupy/cupy#9672, numpy/numpy#13150: each call takes 10 µs and more of a thread's
    time, which is what a graph of small arrays costs.
    """
    values = np.random.default_rng(0)
    feeds = values.normal(size=(size, size)), values.normal(size=(size, size))
    with ag.Graph() as graph, ag.device("gpu:0"):
        x, weights = ag.placeholder("float64", (size, size)), ag.placeholder("float64", (size, size))
        y = fifty(ag.ops, x, weights)
    assert len(graph.nodes) == NODES + 2
    by_hand = ByHand(gpu, (size, size))

    async with ag.Session(graph) as session:
        args = ag.RunArgs(y, dict(zip((x, weights), feeds, strict=True)))
        await session.run(args)  # makes streams and memory
        del gpu.log[:], device_changes[:]
        result = (await session.run(args)).results
        session_s = [(call.kind, call.what) for call in gpu.log]
        counted = gpu.counts + Counter(setDevice=len(device_changes))
    by_hand(*feeds)
    del gpu.log[:], device_changes[:]
    expected = by_hand(*feeds)
    written = [(call.kind, call.what) for call in gpu.log]
    expected_counts = gpu.counts + Counter(setDevice=len(device_changes))

    np.testing.assert_array_equal(result, expected)
    assert counted == expected_counts + EXTRA
    assert counted["launch"] == NODES
    # In the same order, too. What is said of events is which.
    assert _without_events(session_s) == _without_events(written)


def _without_events(calls: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(kind, "" if kind in ("record", "synchronize") else what) for kind, what in calls]
