from __future__ import annotations

from collections.abc import Iterator

import pytest

from asyncgraph._registry import registry

from .strict_backend import StrictBackend


@pytest.fixture
def lent() -> Iterator[StrictBackend]:
    """array-api-strict, which sessions find as if it were installed."""
    backend = StrictBackend()
    with registry.lend(backend):
        yield backend
