"""A backend inside another that watches it: what is moved where, and that no two devices meet in a kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final, cast, final

import numpy as np

from ..abc import Array, Backend, Device, Kernel, Spec


@final
class WatchingBackend(Backend):
    """Does what the backend inside does, and keeps account.

    Fields:
        to_devices: the devices that values were moved to, one entry for each move.
        to_hosts: the devices that values were moved from.
        computed: the devices that kernels were called for.

    Raises:
        AssertionError: a kernel is called with an array of another device, or of none.
    """

    name = "watching"

    def __init__(self, inside: Backend) -> None:
        # It is what the backend inside declares, whose class says it of all its objects.
        self.capabilities = inside.capabilities  # pyright: ignore[reportAttributeAccessIssue]  # as said
        self.to_devices: Final[list[str]] = []
        self.to_hosts: Final[list[str]] = []
        self.computed: Final[list[str]] = []
        self._inside: Final = inside
        self._lock: Final = Lock()
        # Arrays are kept, or another could have the identity of one that is gone.
        self._seen: Final[dict[int, tuple[Array, Device]]] = {}

    def devices(self) -> Sequence[Device]:
        """Those of the backend inside."""
        return self._inside.devices()

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        """That of the backend inside, which looks at its operands first."""
        kernel = self._inside.kernel(op, params, operands, device)

        def watched(*arrays: Array) -> Array:
            for one in arrays:
                assert self._is_number(one) or self.device_of(one) == device, (
                    f"the kernel of {op!r} on {device} was given an array of {self.device_of(one)}"
                )
            result = kernel(*arrays)
            with self._lock:
                self.computed.append(str(device))
            self._saw(result, device)
            return result

        return watched

    def to_device(self, array: np.ndarray[Any, Any], device: Device) -> Array:
        """As the backend inside does it."""
        moved = self._inside.to_device(array, device)
        with self._lock:
            self.to_devices.append(str(device))
        self._saw(moved, device)
        return moved

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """As the backend inside does it."""
        with self._lock:
            self.to_hosts.append(str(self.device_of(array)))
        return self._inside.to_host(array)

    def device_of(self, array: Array) -> Device | None:
        """The device that an array of the backend came to be on; `None` if it is not one of its arrays."""
        seen = self._seen.get(id(array))
        # NumPy's arrays are on its one device, wherever they come from.
        return seen[1] if seen is not None else self.devices()[0] if self.capabilities.host_arrays else None

    def _saw(self, result: Array, device: Device) -> None:
        several = isinstance(result, (tuple, list))
        for one in cast("Sequence[Array]", result) if several else (result,):
            with self._lock:
                self._seen[id(one)] = one, device

    @staticmethod
    def _is_number(value: object) -> bool:
        return isinstance(value, (int, float, complex)) and not isinstance(value, np.generic)
