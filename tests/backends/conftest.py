from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

import pytest

from asyncgraph._registry import PREFERRED, registry

from .strict_backend import StrictBackend


@pytest.fixture
def lent() -> Iterator[StrictBackend]:
    """array-api-strict, which sessions find as if it were installed."""
    backend = StrictBackend()
    with registry.lend(backend):
        yield backend


@pytest.fixture
def numpy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of asyncgraph's own backends NumPy's alone is installed, so that all machines say the same of devices."""

    def without_others(*, group: str) -> list[EntryPoint]:
        return [
            one
            for one in entry_points(group=group)
            if one.name == PREFERRED or one.dist is None or one.dist.name != "asyncgraph"
        ]

    monkeypatch.setattr(importlib.metadata, "entry_points", without_others)
    monkeypatch.setattr(registry, "_entries", None)
