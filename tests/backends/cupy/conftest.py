from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph_cupy import CupyBackend, _backend, _dispatcher, _lanes, _reaper, _staging
from asyncgraph_cupy._staging import LEAST_BYTES

from ...standin.world import Call, World
from .sessions import Slow

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


@pytest.fixture
def gpus(world: World, backend: CupyBackend) -> Iterator[World]:
    """`gpu:0` and `gpu:1` for sessions, by that backend."""
    with ag.use_backend(backend):
        yield world


@pytest.fixture
def callers(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Call]]:
    """What is asked of the devices from now on, with the name of the thread that asks."""
    noted: list[tuple[str, Call]] = []
    note = world.note

    def noting(*call: Any, **more: Any) -> None:
        note(*call, **more)
        noted.append((threading.current_thread().name, world.log[-1]))

    monkeypatch.setattr(world, "note", noting)
    return noted


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    """The lane that is waited for first is slow, until it is opened."""
    slow, wait = Slow(), _lanes.Lane.wait

    def waiting(lane: _lanes.Lane) -> None:
        slow.hold(lane)
        wait(lane)

    monkeypatch.setattr(_lanes.Lane, "wait", waiting)
    yield slow
    slow.opened.set()
