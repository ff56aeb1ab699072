"""All of CuPy that the backend uses, typed, in one place. No other module imports CuPy.

The surface is that of CuPy 14. A stand-in for CuPy has to have what is here, and no more. The functions that compute
ops are looked up in `CudaApi.xp` by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Protocol, Self, cast, final

import numpy as np

HostArray = np.ndarray[Any, Any]


class Flags(Protocol):
    """How an array lies in memory."""

    c_contiguous: bool
    f_contiguous: bool


class DeviceHandle(AbstractContextManager["DeviceHandle"], Protocol):
    """`cupy.cuda.Device`: the current device of this thread, inside `with` or from `use` on."""

    id: int

    def use(self) -> object: ...


class DeviceArray(Protocol):
    """`cupy.ndarray`. Whatever makes one, or computes with one, does so on the current device and stream."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def flags(self) -> Flags: ...
    @property
    def device(self) -> DeviceHandle: ...
    @property
    def T(self) -> DeviceArray: ...  # CuPy's name

    def get(
        self, stream: Stream | None = None, order: str = "C", out: HostArray | None = None, blocking: bool = True
    ) -> HostArray: ...
    def set(self, arr: HostArray, stream: Stream | None = None) -> None: ...
    def reshape(self, *shape: int) -> DeviceArray: ...
    def __getitem__(self, key: slice, /) -> DeviceArray: ...


class Event(Protocol):
    """`cupy.cuda.Event`. To be recorded on streams of the device that it was made on."""

    def record(self, stream: Stream | None = None) -> None: ...
    def synchronize(self) -> None: ...


class Stream(AbstractContextManager["Stream"], Protocol):
    """`cupy.cuda.Stream`: the current stream of this thread and its device, inside `with`."""

    def wait_event(self, event: Event) -> None: ...


class MemoryPool(Protocol):
    """CuPy's pool of device memory; each method speaks of the current device."""

    def used_bytes(self) -> int: ...
    def get_limit(self) -> int: ...
    def free_all_blocks(self) -> None: ...


class PinnedMemoryPool(Protocol):
    """CuPy's pool of pinned memory."""

    def free_all_blocks(self) -> None: ...


class Runtime(Protocol):
    """`cupy.cuda.runtime`: CUDA's own functions, by CUDA's names."""

    def getDeviceCount(self) -> int: ...
    def getDeviceProperties(self, device: int, /) -> Mapping[str, Any]: ...
    def memGetInfo(self) -> tuple[int, int]: ...
    def driverGetVersion(self) -> int: ...
    def runtimeGetVersion(self) -> int: ...


@final
class CudaApi:
    """CuPy.

    Fields:
        xp: the module itself: the functions of the Array API, under NumPy's names.
        cupyx: what CuPy has beside it.
        version: CuPy's.
        runtime: CUDA's own functions.
    """

    def __init__(self, cupy: object, cupyx: object) -> None:
        self.xp: Final = cast("ModuleType", cupy)
        self.cupyx: Final = cast("ModuleType", cupyx)
        self.version: Final = cast("str", self.xp.__version__)
        self.runtime: Final = cast("Runtime", self.xp.cuda.runtime)

    @classmethod
    def load(cls, cupy: object | None = None, cupyx: object | None = None) -> Self:
        """What was given in CuPy's place, or CuPy.

        Raises:
            Exception: whatever its import does.
        """
        return cls(import_module("cupy") if cupy is None else cupy, import_module("cupyx") if cupyx is None else cupyx)

    def device(self, index: int) -> DeviceHandle:
        """The handle of a device."""
        return self.xp.cuda.Device(index)

    def stream(self) -> Stream:
        """A new stream of the current device, that is not ordered with its null stream."""
        return self.xp.cuda.Stream(non_blocking=True)

    def null_stream(self) -> Stream:
        """The stream that work is on which asks for none."""
        return self.xp.cuda.Stream.null

    def event(self) -> Event:
        """A new event of the current device, which a thread can wait for without spinning."""
        return self.xp.cuda.Event(block=True, disable_timing=True)

    def memory(self) -> MemoryPool:
        """The pool that arrays are made in."""
        return self.xp.get_default_memory_pool()

    def pinned_memory(self) -> PinnedMemoryPool:
        """The pool that pinned memory is taken from."""
        return self.xp.get_default_pinned_memory_pool()

    def empty(self, size: int, dtype: np.dtype[Any]) -> DeviceArray:
        """A new array of one dimension, with whatever was in its memory."""
        return self.xp.empty((size,), dtype)

    def asarray(self, array: HostArray | DeviceArray) -> DeviceArray:
        """An array of the current device with these values; an array of that device as it is."""
        return self.xp.asarray(array)

    def ascontiguousarray(self, array: DeviceArray) -> DeviceArray:
        """The array with its elements in C order, itself if they are; of one dimension at least."""
        return self.xp.ascontiguousarray(array)

    def from_dlpack(self, array: object) -> DeviceArray:
        """The memory of another library's array."""
        return self.xp.from_dlpack(array)

    def empty_pinned(self, size: int) -> HostArray:
        """New pinned memory, as bytes."""
        return self.cupyx.empty_pinned((size,), np.uint8)
