from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from asyncgraph_cupy import CupyBackend, _backend, _dispatcher, _lanes, _reaper, _staging
from asyncgraph_cupy._staging import LEAST_BYTES

from ...standin.world import World

MakeBackend = Callable[..., CupyBackend]


@pytest.fixture
def world() -> World:
    """Two GPUs that there are not, without a check at the end, for tests that break something."""
    return World(devices=2, seed=1)


@pytest.fixture
def make_backend(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeBackend]:
    """Makes backends on that world, whose threads know of each other only what they tell each other."""
    world.watch(monkeypatch, _backend, _dispatcher, _lanes, _reaper, _staging)
    made: list[CupyBackend] = []

    def make(**options: int) -> CupyBackend:
        backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx, **options)
        made.append(backend)
        return backend

    yield make
    for one in made:
        one.close()


@pytest.fixture
def backend(world: World, make_backend: MakeBackend) -> Iterator[CupyBackend]:
    """A backend with the smallest pinned memory there may be; when it is closed nothing has raced, or is left."""
    backend = make_backend(staging_bytes=LEAST_BYTES)
    yield backend
    backend.close()
    world.check()
