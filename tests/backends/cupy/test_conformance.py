"""The conformance kit on CuPy's backend and the stand-in: no promise is broken, nothing races, and nothing is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from asyncgraph.testing import BackendConformance
from asyncgraph_cupy import CupyBackend, _backend, _dispatcher, _lanes, _reaper, _staging

from ...standin.world import World

_worlds: list[World] = []


@pytest.fixture(autouse=True)
def nothing_is_left() -> None:
    """Threads of a lane are started when it is first needed: they are asked for when the module is over."""


@pytest.fixture(scope="module", autouse=True)
def world() -> Iterator[World]:
    """Two GPUs that there are not, for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        world = World(devices=2, seed=1, logged=False)
        world.watch(patch, _backend, _dispatcher, _lanes, _reaper, _staging)
        _worlds.append(world)
        yield world
        _worlds.clear()
        world.check()
    assert [one for one in threading.enumerate() if one.name.startswith("asyncgraph")] == []


def make_backend() -> CupyBackend:
    (world,) = _worlds
    return CupyBackend(cupy=world.cupy, cupyx=world.cupyx)


class TestCupyBackendOnTheStandIn(BackendConformance):
    backend_class = make_backend
