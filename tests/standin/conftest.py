from __future__ import annotations

from typing import Any

import pytest

from .world import World


@pytest.fixture(params=range(3))
def world(request: pytest.FixtureRequest) -> World:
    """Two devices, in three orders of what is open. Every thread of the host knows only what it was told."""
    return World(devices=2, seed=request.param, checked_threads="")


@pytest.fixture
def cupy(world: World) -> Any:
    return world.cupy


@pytest.fixture
def streams(cupy: Any) -> tuple[Any, Any]:
    """Two streams of device 0."""
    return cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
