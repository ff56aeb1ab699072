"""A backend of a third party: two devices whose arrays nothing but its own kernels can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from asyncgraph.abc import Array, Backend, Device, Kernel, Spec, array_api_kernel

__all__ = ["ToyBackend"]


@final
@dataclass(frozen=True, slots=True)
class _ToyArray:
    """Values on a device."""

    values: np.ndarray[Any, Any]
    device: Device


@final
class ToyBackend(Backend):
    """`toy:0` and `toy:1`. It computes what has one result, but no products of matrices."""

    name: ClassVar[str] = "toy"

    def devices(self) -> Sequence[Device]:
        return (Device("toy", 0), Device("toy", 1))

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        if op == "matmul":
            raise NotImplementedError("a toy multiplies no matrices")
        function = array_api_kernel(np, op, params)

        def kernel(*arrays: Array) -> Array:
            values = [one.values if isinstance(one, _ToyArray) else one for one in arrays]
            return _ToyArray(np.asarray(function(*values)), device)

        return kernel

    def to_device(self, array: np.ndarray[Any, Any], device: Device) -> Array:
        return _ToyArray(array.copy(), device)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        return array.values
