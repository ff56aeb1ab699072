"""CuPy as a backend: its functions are the kernels, its arrays the values."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import ClassVar, Final, cast, final

import numpy as np

from asyncgraph.abc import Array, Backend, Capabilities, Device, Done, Kernel, Spec
from asyncgraph.errors import DeviceLostError, DeviceNotFoundError

from . import _detect, _transfers
from ._cuda_api import CudaApi, HostArray
from ._dispatcher import Dispatcher
from ._errors import Health
from ._kernels import make_kernel
from ._staging import Staging, limit_bytes
from ._submission import Shared, current


@final
class CupyBackend(Backend):
    """The machine's CUDA GPUs, `gpu:0` and so on, on CuPy's arrays, if there are any.

    Nothing is imported or asked of a GPU before `devices` is called, and no thread is there before the first `submit`.
    After `close`, a `submit` begins anew; what is lost stays lost.

    CuPy compiles a kernel when it is first called with such dtypes, which takes about 0.1 s and keeps the device's
    other submissions waiting. It keeps kernels on disk, for later processes.

    Memory of results that are left on a device is CuPy's, given out on the lane that computed them. Use them on any
    stream; but before you drop one that a kernel of yours still reads, wait for that kernel.

    Args:
        cupy, cupyx: modules to be used in the place of CuPy's.
        lanes: how many submissions may be on a device at once.
        staging_bytes: how much memory may be pinned for transfers, of all devices; otherwise what the environment says
            by ASYNCGRAPH_CUPY_STAGING_BYTES, or else 5 % of the machine's memory, but 1 GiB at most.

    Raises:
        ValueError: `lanes` or `staging_bytes` is too small.
    """

    name: ClassVar[str] = "cupy"
    capabilities: ClassVar[Capabilities] = Capabilities(asynchronous=True, between_devices=True, dlpack=2)

    def __init__(
        self,
        *,
        cupy: object | None = None,
        cupyx: object | None = None,
        lanes: int = 8,
        staging_bytes: int | None = None,
    ) -> None:
        if lanes < 1:
            raise ValueError(f"lanes: at least 1, got {lanes!r}")
        self._lanes: Final = lanes
        self._staging_bytes: Final = limit_bytes(staging_bytes)
        self._load: Final = partial(CudaApi.load, cupy, cupyx)
        self._installed: Final = _detect.distributions() if cupy is None else ()
        self._lock: Final = Lock()
        # The process in which CUDA was initialised, if it was.
        self._pid: int | None = None
        self._status: _detect.CudaStatus | None = None
        self._shared: Shared | None = None
        self._dispatchers: dict[Device, Dispatcher] = {}
        atexit.register(_close, weakref.ref(self))

    def devices(self) -> Sequence[Device]:
        """The GPUs that work, which a kernel on each shows: when it is called first, which takes about a second.

        Raises:
            ModuleNotFoundError: CuPy is not installed; the text says what to install.
            DeviceNotFoundError: no GPU can be used; the text is the reason, and what to do.
        """
        return tuple([one.device for one in self._ready().healths.values()])

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        """CuPy's function of the op's name, or what stands in for it where the two differ."""
        return make_kernel(self._ready().api, op, params, operands, device)

    def to_device(self, array: Array, device: Device) -> Array:
        """As `Backend.to_device` says, in C order, or in Fortran's; the array is not read later than in this call.

        Raises:
            TypeError: CuPy has no such dtype.
            RuntimeError: it is called outside of `work`, or for another device than that of the submission.
        """
        submission = current("to_device")
        if device != submission.device:
            raise RuntimeError(f"a transfer to {device} was asked for in a submission to {submission.device}")
        if isinstance(array, np.ndarray):
            return _transfers.from_host(submission, cast("HostArray", array))
        return _transfers.from_device(submission, array)

    def to_host(self, array: Array) -> HostArray:
        """As `Backend.to_host` says: a new array, which the caller owns, in C order or in Fortran's.

        Raises:
            RuntimeError: it is called outside of `work`.
        """
        return _transfers.to_host(current("to_host"), array)

    def from_dlpack(self, array: Array, device: Device) -> Array:
        """As `Backend.from_dlpack` says. It waits for the device's null stream, and no other.

        Raises:
            TypeError: CuPy has no such dtype.
            ValueError: the array is not on that device.
            RuntimeError: it is called outside of `work`.
        """
        return _transfers.from_dlpack(current("from_dlpack"), array)

    def submit(self, device: Device, work: Callable[[], None], done: Done) -> None:
        """As `Backend.submit` says. Whatever is wrong with the device, or with all of CUDA, `done` is told."""
        try:
            shared = self._ready()
            self._check(device, shared)
        except Exception as error:
            done(error)
            return
        with self._lock:
            dispatcher = self._dispatchers.get(device)
            if dispatcher is None:
                dispatcher = self._dispatchers[device] = Dispatcher(shared, device, self._lanes)
            dispatcher.submit(work, done)

    def details(self) -> Mapping[str, object]:
        """What is installed; and what was found, if `devices` was called: this looks for nothing by itself."""
        return _detect.details(self._status)

    def close(self) -> None:
        """As `Backend.close` says. What CuPy keeps for nobody, on the devices and pinned, is given back."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            dispatchers, self._dispatchers = self._dispatchers, {}
        for one in dispatchers.values():
            one.stop()
        for one in dispatchers.values():
            one.join()
        if self._shared is not None:
            self._shared.give_back()

    def _ready(self) -> Shared:
        """What there is after a probe that found a device. The first call makes it."""
        if self._shared is None:
            with self._lock:
                if self._status is None:
                    # To count the devices initialises CUDA.
                    self._pid = os.getpid()
                    self._status = _detect.probe(self._load, self._installed)
                if not self._status.ok:
                    raise self._status.error()
                if self._shared is None:
                    self._shared = self._shared_of(self._status)
        return self._shared

    def _shared_of(self, status: _detect.CudaStatus) -> Shared:
        api = self._load()
        healths = {one.index: Health(Device("gpu", one.index)) for one in status.usable}
        return Shared(api, Staging(api, self._staging_bytes), healths)

    def _check(self, device: Device, shared: Shared) -> None:
        """Raises what is to be said if the device cannot be used by this process."""
        if device not in [one.device for one in shared.healths.values()]:
            raise DeviceNotFoundError(f"the backend {self.name!r} has no device {str(device)!r} that can be used")
        if os.getpid() != self._pid:
            raise DeviceLostError(
                f"{device} cannot be used in this process: it was forked from process {self._pid}, which had "
                "initialised CUDA before\n"
                "  start processes by the methods 'spawn' or 'forkserver' of multiprocessing, or fork before a GPU is "
                "looked for"
            )


def _close(reference: weakref.ref[CupyBackend]) -> None:
    backend = reference()
    if backend is not None:
        backend.close()
