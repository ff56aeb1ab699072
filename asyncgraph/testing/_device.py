"""Asynchronous devices for simulations: what a device does is a step of a simulated thread, as all else is.

A device has a thread that begins what is submitted, in order, and one that ends it, some time later. Until then
nobody may read what it computes; whoever does gets an AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Final, cast, final

import numpy as np

from .._exec.submitted import SubmittedSegment
from .._exec.workers import Pool, make_pool
from ..abc import Array, Backend, Capabilities, Device, Done, Kernel, Spec, array_api_kernel
from ..errors import DeviceLostError

DEVICES: Final = (Device("simulated", 0), Device("simulated", 1))
_HostArray = np.ndarray[Any, Any]


@final
class _Submission:
    """Whether a device has done what it was given; and what it writes to the host when it has."""

    def __init__(self, device: Device) -> None:
        self.device: Final = device
        self.is_over = False
        self.copies: Final[list[tuple[_HostArray, _HostArray]]] = []

    def end(self) -> None:
        self.is_over = True
        for target, source in self.copies:
            target[...] = source
        self.copies.clear()


@final
class DeviceArray:
    """An array of a simulated device."""

    __slots__ = ("__weakref__", "_made_by", "_values", "dtype", "shape")

    def __init__(self, values: _HostArray, made_by: _Submission) -> None:
        self._values: Final = values
        self._made_by: Final = made_by
        self.dtype: Final = values.dtype
        self.shape: Final = values.shape

    def read(self, by: _Submission | None = None) -> _HostArray:
        """Its values, for a kernel of `by`, or for the host.

        Raises:
            AssertionError: they are not there yet, or on another device.
        """
        if by is None or by is not self._made_by:
            assert self._made_by.is_over, "an array was read before its device was done"
            assert by is None or by.device == self._made_by.device, "an array is on another device"
        return self._values


@final
class SimulatedBackend(Backend):
    """Two asynchronous devices, whose memory runs short now and then. To be made inside a simulation.

    Args:
        random: says what goes wrong.
        fails: whether a device may be lost for a submission, and be there again for the next.
    """

    name: ClassVar[str] = "simulated"
    capabilities: ClassVar[Capabilities] = Capabilities(asynchronous=True)

    def __init__(self, random: Random, fails: bool) -> None:
        self._random: Final = random
        self._fails: Final = fails
        self._current: _Submission | None = None
        self._begins: Final[dict[Device, Pool]] = {one: make_pool(f"{one} begins", 1) for one in DEVICES}
        self._ends: Final[dict[Device, Pool]] = {one: make_pool(f"{one} ends", 1) for one in DEVICES}

    def devices(self) -> Sequence[Device]:
        return DEVICES

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        function = array_api_kernel(np, op, params, operands)

        def kernel(*arrays: Array) -> Array:
            here = self._inside(device)
            values = [one.read(here) if isinstance(one, DeviceArray) else one for one in arrays]
            assert not any(isinstance(one, np.ndarray) for one in arrays), "a kernel was given an array of the host"
            return DeviceArray(np.asarray(function(*values)), here)

        return kernel

    def to_device(self, array: Array, device: Device) -> Array:
        return DeviceArray(cast("_HostArray", array).copy(), self._inside(device))

    def to_host(self, array: Array) -> _HostArray:
        here = self._inside(None)
        values = cast("DeviceArray", array).read(here)
        target = np.full_like(values, np.nan)
        here.copies.append((target, values))
        return target

    def submit(self, device: Device, work: Callable[[], None], done: Done) -> None:
        if not isinstance(work, SubmittedSegment):
            self._do_now(device, work, done)  # Somebody waits for it on the spot, and nobody else could go on.
            return
        self._begins[device].submit(lambda: self._begin(device, work, done))

    def close(self) -> None:
        for one in (*self._begins.values(), *self._ends.values()):
            one.close()
            one.join()

    def _inside(self, device: Device | None) -> _Submission:
        assert self._current is not None, "a kernel or a transfer was called outside of any work"
        assert device is None or self._current.device == device, "a kernel was called in another device's work"
        return self._current

    def _call(self, device: Device, work: Callable[[], None]) -> _Submission:
        submission = self._current = _Submission(device)
        try:
            work()
        finally:
            self._current = None
        return submission

    def _do_now(self, device: Device, work: Callable[[], None], done: Done) -> None:
        try:
            self._call(device, work).end()
        except BaseException as error:
            done(error)
        else:
            done(None)

    def _begin(self, device: Device, work: SubmittedSegment, done: Done) -> None:
        error: BaseException | None = None
        submission = _Submission(device)
        try:
            submission = self._call(device, work)
            if self._random.random() < 0.1:
                submission = self._call(device, work)  # As if it had lacked memory.
        except BaseException as failure:
            error = failure
        if error is None and self._fails and self._random.random() < 0.2:
            error = DeviceLostError(f"{device} is lost for once")
        self._ends[device].submit(lambda: self._end(submission, error, done))

    def _end(self, submission: _Submission, error: BaseException | None, done: Done) -> None:
        submission.end()
        done(error)
