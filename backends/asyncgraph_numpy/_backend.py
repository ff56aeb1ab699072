"""NumPy as a backend: its functions are the kernels, its arrays the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np

from asyncgraph.abc import Array, Backend, Capabilities, Device, Kernel, Spec, array_api_kernel

from ._kernels import KERNELS


@final
class NumpyBackend(Backend):
    """One device, `cpu:0`, on NumPy's arrays, which are the host's: nothing is ever transferred."""

    name: ClassVar[str] = "numpy"
    capabilities: ClassVar[Capabilities] = Capabilities(host_arrays=True)

    def devices(self) -> Sequence[Device]:
        """Always `cpu:0`."""
        return (Device("cpu", 0),)

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        """NumPy's function of the op's name, or what stands in for it where the two differ."""
        make = KERNELS.get(op)
        return array_api_kernel(np, op, params) if make is None else make(params)

    def to_device(self, array: np.ndarray[Any, Any], device: Device) -> Array:
        """The array itself."""
        return array

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """The array itself; a NumPy scalar becomes an array of rank 0."""
        return np.asarray(array)
