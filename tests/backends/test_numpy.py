from __future__ import annotations

from asyncgraph.testing import BackendConformance
from asyncgraph_numpy import NumpyBackend


class TestNumpyBackend(BackendConformance):
    backend_class = NumpyBackend
    exact = True
