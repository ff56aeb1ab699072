"""The stand-in in NumPy's place: for tests that know nothing of devices, so that each of them is one of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, final

import numpy as np

from asyncgraph import use_backend
from asyncgraph.abc import Array, Backend, Capabilities, Device, Done, Kernel, Spec
from asyncgraph_cupy import CupyBackend

from .world import World

CPU = Device("cpu", 0)
GPU = Device("gpu", 0)


@final
class AsHost(Backend):
    """A backend's `gpu:0` under the name of `cpu:0`, where everything runs that asks for nothing else."""

    name: ClassVar[str] = "stand-in"
    capabilities: ClassVar[Capabilities] = Capabilities(asynchronous=True)

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def devices(self) -> Sequence[Device]:
        return (CPU,) if GPU in self._backend.devices() else ()

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        return self._backend.kernel(op, params, operands, GPU)

    def to_device(self, array: Array, device: Device) -> Array:
        return self._backend.to_device(array, GPU)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        return self._backend.to_host(array)

    def submit(self, device: Device, work: Callable[[], None], done: Done) -> None:
        self._backend.submit(GPU, work, done)


@contextmanager
def in_numpy_s_place(seed: int = 0, *, logged: bool = False) -> Generator[World]:
    """Inside, `cpu:0` is a GPU that there is not. At the end it has no threads, and nothing has raced on it."""
    world = World(devices=1, seed=seed, checked_threads=None, logged=logged)
    backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx)
    with use_backend(AsHost(backend)):
        yield world
    backend.close()
    assert world.races == [], world.races
