"""The kit on a backend that is asynchronous, and lets nothing be used too early nor be dropped too early.

Without its tests of values, which are NumPy's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from asyncgraph.abc import Backend
from asyncgraph.testing._kit.asynchronous import Asynchronous
from asyncgraph.testing._kit.faults import Faults
from asyncgraph.testing._kit.lifetime import Lifetime
from asyncgraph.testing._kit.placement import Placement
from asyncgraph.testing._kit.transfers import Transfers

from .late_backend import LateBackend


class Late(Transfers, Placement, Lifetime, Asynchronous, Faults):
    @pytest.fixture(autouse=True)
    def _nothing_to_complain_of(self, backend: Backend) -> Iterator[None]:
        yield
        assert isinstance(backend, LateBackend)
        assert backend.complaints == []


class TestLateBackend(Late):
    backend_class = LateBackend


class TestLateBackendThatSharesMemory(Late):
    backend_class = partial(LateBackend, between_devices=True, dlpack=True)
