"""array-api-strict as a backend: what its devices hold cannot be mixed, nor be taken for NumPy's arrays.

It refuses whatever the Array API standard leaves open, and so shows what a plan takes for granted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import array_api_strict as strict
import numpy as np

from asyncgraph.abc import Array, Backend, Device, Kernel, Spec, array_api_kernel

_DEVICES = {
    Device("strict", index): strict.Device(name) for index, name in enumerate(("CPU_DEVICE", "device1", "device2"))
}


@final
class StrictBackend(Backend):
    """Three devices, `strict:0` to `strict:2`, whose arrays raise when they meet."""

    name: ClassVar[str] = "strict"

    def devices(self) -> Sequence[Device]:
        return tuple(_DEVICES)

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        return array_api_kernel(strict, op, params, operands, _DEVICES[device])

    def to_device(self, array: np.ndarray[Any, Any], device: Device) -> Array:
        return strict.asarray(array, device=_DEVICES[device], copy=False)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        # Only arrays of its first device become NumPy's.
        return np.asarray(array.to_device(_DEVICES[Device("strict", 0)]))
