"""A backend that breaks one promise at a time, and is right in all else."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Final, final

import numpy as np

from asyncgraph.abc import Array, Backend, Capabilities, Device, Done, Kernel, Spec
from asyncgraph.errors import DeviceLostError

from .late_backend import DLPACK, LateArray, LateBackend

Work = Callable[[], None]
Submit = Callable[[Device, Work, Done], None]


@final
class WrongBackend(Backend):
    """An asynchronous backend with one of the faults below.

    Fields:
        fault: what is called instead of `submit`, or what else is wrong.
        inside: what is right.
    """

    name = "wrong"
    capabilities = Capabilities(asynchronous=True, between_devices=True, dlpack=DLPACK)

    def __init__(self, fault: Callable[[WrongBackend, Device, Work, Done], None] | str | None = None) -> None:
        self.fault: Final = fault
        self.inside: Final = LateBackend(between_devices=True, dlpack=True)
        self.kept: Final[list[Any]] = []
        self.error: BaseException | None = None
        self.closed = 0

    def devices(self) -> Sequence[Device]:
        devices = self.inside.devices()
        return (*devices, *devices) if self.fault == "devices are named twice" else devices

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        return self.inside.kernel(op, params, operands, device)

    def to_device(self, array: Array, device: Device) -> Array:
        if self.fault == "to_device gives another device zeros" and isinstance(array, LateArray):
            array = np.zeros(array.shape)
        moved = self.inside.to_device(array, device)
        if self.fault == "to_device reads what work has dropped":
            weakref.finalize(array, moved.planned.fill, 0)
        if self.fault == "to_device keeps what it was given":
            self.kept.append(array)
        if self.fault == "to_device says where it is not":
            return ElsewhereArray(moved)
        return moved

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        back = self.inside.to_host(array.inside if isinstance(array, ElsewhereArray) else array)
        if self.fault == "to_host gives a class of its own":
            return back.view(OwnArray)
        return back.copy() if self.fault == "to_host reads too early" else back

    def submit(self, device: Device, work: Work, done: Done) -> None:
        if callable(self.fault):
            self.fault(self, device, work, done)
        else:
            self.inside.submit(device, work, done)

    def from_dlpack(self, array: Array, device: Device) -> Array:
        taken = self.inside.from_dlpack(array, device)
        return self.inside.to_device(np.zeros(2), device) if self.fault == "from_dlpack gives another" else taken

    def details(self) -> Mapping[str, object]:
        return {"dtype": np.dtype("f8")} if self.fault == "details that JSON has not" else {}

    def close(self) -> None:
        self.closed += 1
        if self.fault == "close may not be repeated":
            assert self.closed == 1, "closed twice"
        if self.fault != "close ends nothing":
            self.inside.close()


@final
class OwnArray(np.ndarray[Any, Any]):
    pass


@final
class ElsewhereArray:
    def __init__(self, inside: LateArray) -> None:
        self.inside: Final = inside

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK, 7


# -- what may be wrong with submit -----------------------------------------------------------------------


def done_before_the_device(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    def both() -> None:
        work()
        done(None)

    self.inside.submit(device, both, lambda error: None if error is None else done(error))


def done_before_the_device_if_work_raises(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    def both() -> None:
        try:
            work()
        except Exception as error:
            done(error)
            raise

    self.inside.submit(device, both, lambda error: done(None) if error is None else None)


def done_twice(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    def both(error: BaseException | None) -> None:
        done(error)
        done(error)

    self.inside.submit(device, work, both)


def done_without_the_error(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    self.inside.submit(device, work, lambda error: done(None))


def done_with_another_error(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    self.inside.submit(device, work, lambda error: done(error and RuntimeError(str(error))))


def submit_waits_for_the_device(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    over = Event()

    def both(error: BaseException | None) -> None:
        done(error)
        over.set()

    self.inside.submit(device, work, both)
    over.wait(30)


def work_in_the_callers_thread(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    work()
    self.inside.submit(device, lambda: None, done)


def the_second_after_the_third(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    self.kept.append((device, work, done))
    count = len(self.kept) - len(self.devices())  # which the kit uses before
    if count != 2:
        self.inside.submit(device, work, done)
    if count == 3:
        self.inside.submit(*self.kept[-2])


def keeps_what_was_submitted(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    self.kept.append(work)
    self.inside.submit(device, work, done)


def tries_again_and_again(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    def stubborn() -> None:
        for _ in range(3):
            try:
                return work()
            except MemoryError:
                pass
        raise MemoryError

    self.inside.submit(device, stubborn, done)


def never_the_same_after_an_error(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    def remember(error: BaseException | None) -> None:
        self.error = self.error or error
        done(self.error)

    self.inside.submit(device, work, remember)


def loses_all_devices_with_one(self: WrongBackend, device: Device, work: Work, done: Done) -> None:
    def remember(error: BaseException | None) -> None:
        if isinstance(error, DeviceLostError):
            self.error = error
        done(self.error or error)

    self.inside.submit(device, work, remember)
