"""The NumPy backend of asyncgraph: kernels on the CPU, on NumPy's own arrays."""

from __future__ import annotations

from ._backend import NumpyBackend as NumpyBackend

__all__ = ["NumpyBackend"]
