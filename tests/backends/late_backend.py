"""An asynchronous backend on NumPy: nothing it gives can be read before its device says that it is done.

It stands for a device whose mistakes cannot be seen: what is read too early, written too early or dropped too early
is garbage there, most of the time. Here it is an `AssertionError`, or an entry in `complaints` and garbage, always.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, ClassVar, Final, cast, final
from weakref import ref

import numpy as np

from asyncgraph.abc import Array, Backend, Capabilities, Device, Done, Kernel, Spec, array_api_kernel
from asyncgraph.errors import DeviceLostError

HostArray = np.ndarray[Any, Any]
POISON: Final = 0xCB
DLPACK: Final = 12
"""kDLExtDev: no device that NumPy knows."""


@final
class LateArray:
    """Values on a device. `values` is them, once what computes them is done, and an AssertionError until then."""

    def __init__(self, planned: HostArray, device: Device, made_in: Submission) -> None:
        self.device: Final = device
        self.shape: Final = planned.shape
        self.dtype: Final = planned.dtype
        self.made_in: Final = made_in
        self.planned: HostArray = planned
        """What it will hold if nobody interferes; for kernels of the submission that makes it."""

    @property
    def values(self) -> HostArray:
        assert self.made_in.over, f"an array of {self.device} was read before the device was done"
        return self.planned

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK, self.device.index

    def __dlpack__(self, **options: Any) -> object:
        return self.values.__dlpack__()


@final
@dataclass(slots=True, eq=False)
class Submission:
    """One call of `submit`.

    Fields:
        device: where.
        error: what `work` raised.
        over: whether what it gave may be read.
        made: the arrays of the device that it gave, as far as they are still there.
        filled: what is written when the device is done: an array of the host, and where its values come from.
        read: the arrays of the host that the device reads, as far as they are there when `work` has returned, with
            what they held.
        used: the arrays of earlier submissions that it reads.
    """

    device: Device
    error: BaseException | None = None
    over: bool = False
    made: list[ref[LateArray]] = field(default_factory=list["ref[LateArray]"])
    filled: list[tuple[HostArray, LateArray]] = field(default_factory=list[tuple[HostArray, LateArray]])
    read: list[tuple[ref[HostArray], HostArray]] = field(default_factory=list["tuple[ref[HostArray], HostArray]"])
    used: list[ref[LateArray]] = field(default_factory=list["ref[LateArray]"])

    def use(self, array: LateArray) -> HostArray:
        """What a kernel computes with, of an array that it was given."""
        if array.made_in is self:
            return array.planned
        self.used.append(ref(array))
        return array.values

    def give(self, planned: HostArray) -> LateArray:
        array = LateArray(planned, self.device, self)
        self.made.append(ref(array))
        return array

    def work_is_over(self) -> None:
        """From here on what is alive is held by the session, and what is not was the work's own."""
        self.read = [one for one in self.read if one[0]() is not None]

    def complete(self) -> list[str]:
        """Lets what it gave be read; what is wrong with what it was given. Then all of that is garbage."""
        wrong = [f"an array of {self.device} was dropped before the device was done" for one in self.used if not one()]
        for source, held in self.read:
            array = source()
            if array is None:
                wrong.append(f"an array of the host was dropped before {self.device} was done")
            elif array.tobytes() != held.tobytes():
                wrong.append(f"an array of the host was written before {self.device} was done")
        for array in filter(None, [one() for one in self.made] if wrong else []):
            array.planned = _poisoned(array.planned)
        for target, array in self.filled:
            target[...] = array.planned
        self.over = True
        # The arrays that it made hold it.
        for one in (self.made, self.filled, self.read, self.used):
            one.clear()
        return wrong


@final
class _Lane:
    """A device: one thread begins what was submitted, in order, and another ends it, once the device may."""

    def __init__(self, backend: LateBackend, device: Device) -> None:
        self.may_end: Final = threading.Event()
        self.may_end.set()
        self.lost: BaseException | None = None
        self._backend: Final = backend
        self._device: Final = device
        self._begin: SimpleQueue[tuple[Callable[[], None], Done] | None] = SimpleQueue()
        self._end: SimpleQueue[tuple[Submission, Done] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, work: Callable[[], None], done: Done) -> None:
        if not self._threads:
            self._threads = [
                threading.Thread(target=loop, name=f"asyncgraph late {self._device} {loop.__name__}", daemon=True)
                for loop in (self._dispatch, self._complete)
            ]
            for one in self._threads:
                one.start()
        self._begin.put((work, done))

    def close(self) -> None:
        self._begin.put(None)
        for one in self._threads:
            one.join()
        self._threads.clear()
        self._begin, self._end = SimpleQueue(), SimpleQueue()

    def _dispatch(self) -> None:
        while (given := self._begin.get()) is not None:
            work, done = given
            submission = self._call(work)
            if isinstance(submission.error, MemoryError):
                self._wait_until_idle()
                submission = self._call(work)
            self._backend.has_begun(self._device)
            # What is over must not be held from here, while this thread waits for more.
            del given, work
            self._end.put((submission, done))
            del submission, done
        self._end.put(None)

    def _call(self, work: Callable[[], None]) -> Submission:
        submission = Submission(self._device)
        if self.lost is not None:
            submission.error = _lost(self._device, self.lost)
            return submission
        self._backend.current.submission = submission
        try:
            work()
        except BaseException as error:
            submission.error = error
        finally:
            self._backend.current.submission = None
        submission.work_is_over()
        return submission

    def _wait_until_idle(self) -> None:
        idle = threading.Event()
        self._end.put((Submission(self._device), lambda _: idle.set()))
        idle.wait()

    def _complete(self) -> None:
        while (ended := self._end.get()) is not None:
            submission, done = ended
            self.may_end.wait()
            self._backend.complaints.extend(submission.complete())
            error = submission.error
            submission.error = None
            if error is None and self.lost is not None:
                error = _lost(self._device, self.lost)
            del ended, submission
            done(error)
            del done, error


@final
class LateBackend(Backend):
    """`late:0` and `late:1`, each with two threads, which `close` ends.

    Fields:
        complaints: what the session did that no session may, as far as it raised no error.
        out_of_memory: how many of the next kernels raise a MemoryError.
        begun: how often a work has returned, by device.
        current: the submission that a thread is in.

    Args:
        between_devices, dlpack: whether it declares that.
    """

    name: ClassVar[str] = "late"
    capabilities: ClassVar[Capabilities] = Capabilities(asynchronous=True)

    def __init__(self, *, between_devices: bool = False, dlpack: bool = False) -> None:
        declared = Capabilities(asynchronous=True, between_devices=between_devices, dlpack=DLPACK if dlpack else None)
        self.capabilities = declared  # pyright: ignore[reportAttributeAccessIssue]  # it is the test's choice
        self.complaints: Final[list[str]] = []
        self.out_of_memory = 0
        self.begun: Final[dict[Device, int]] = {}
        self.current: Final = threading.local()
        self._changed: Final = threading.Condition()
        self._lanes: Final = {one: _Lane(self, one) for one in (Device("late", 0), Device("late", 1))}

    # -- for tests -------------------------------------------------------------------------------------

    @contextmanager
    def held(self, *devices: Device) -> Generator[None]:
        """Inside, nothing that is submitted to those devices, or to any, is ever done; at the end all of it is."""
        lanes = [self._lanes[one] for one in devices or self._lanes]
        for one in lanes:
            one.may_end.clear()
        try:
            yield
        finally:
            for one in lanes:
                one.may_end.set()

    def wait_until_begun(self, device: Device, count: int = 1) -> None:
        """Returns when `count` works of a device have returned, in all."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.begun.get(device, 0) >= count, timeout=30)

    def lose(self, device: Device) -> None:
        """What is not done there, and whatever is submitted later, ends with a DeviceLostError."""
        self._lanes[device].lost = RuntimeError("an illegal memory access was encountered")

    def has_begun(self, device: Device) -> None:
        with self._changed:
            self.begun[device] = self.begun.get(device, 0) + 1
            self._changed.notify_all()

    # -- the contract ----------------------------------------------------------------------------------

    def devices(self) -> Sequence[Device]:
        return tuple(self._lanes)

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        function = array_api_kernel(np, op, params, operands)

        def kernel(*arrays: Array) -> Array:
            submission = self._inside(device, f"the kernel of {op!r}")
            if self.out_of_memory:
                self.out_of_memory -= 1
                raise MemoryError(f"{device} has no memory left")
            for one in arrays:
                assert not isinstance(one, LateArray) or one.device == device, f"{op!r} on {device}: {one.device}"
                assert not isinstance(one, np.ndarray), f"{op!r} on {device} was given an array of the host"
            values = [submission.use(one) if isinstance(one, LateArray) else one for one in arrays]
            result = function(*values)
            if isinstance(result, (tuple, list)):
                return tuple([submission.give(np.asarray(one)) for one in cast("Sequence[Any]", result)])
            return submission.give(np.asarray(result))

        return kernel

    def to_device(self, array: Array, device: Device) -> Array:
        submission = self._inside(device, "to_device")
        if isinstance(array, LateArray):
            assert self.capabilities.between_devices, f"to_device was given an array of {array.device}"
            return submission.give(submission.use(array).copy())
        host = cast("HostArray", array)
        held = host.copy(order="K")
        submission.read.append((ref(host), held))
        return submission.give(held)

    def to_host(self, array: Array) -> HostArray:
        late = cast("LateArray", array)
        submission = self._inside(late.device, "to_host")
        target = _poisoned(submission.use(late))
        submission.filled.append((target, late))
        return target

    def submit(self, device: Device, work: Callable[[], None], done: Done) -> None:
        self._lanes[device].submit(work, done)

    def from_dlpack(self, array: Array, device: Device) -> Array:
        if self.capabilities.dlpack is None:
            return super().from_dlpack(array, device)
        submission = self._inside(device, "from_dlpack")
        assert array.__dlpack_device__() == (DLPACK, device.index), f"{array.__dlpack_device__()} is not {device}"
        return submission.give(np.from_dlpack(_OnHost(array)))

    def details(self) -> Mapping[str, object]:
        return {"numpy": np.__version__}

    def close(self) -> None:
        for one in self._lanes.values():
            one.close()

    def _inside(self, device: Device, what: str) -> Submission:
        submission: Submission | None = getattr(self.current, "submission", None)
        assert submission is not None, f"{what} was called outside of any work"
        assert submission.device == device, f"{what} for {device} was called in a work for {submission.device}"
        return submission


@final
class _OnHost:
    """Memory that NumPy takes for the host's, which it is."""

    def __init__(self, array: Array) -> None:
        self._array: Final = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__()


def _poisoned(like: HostArray) -> HostArray:
    array = np.empty(like.shape, like.dtype)
    array.reshape(-1).view(np.uint8)[...] = POISON
    return array


def _lost(device: Device, cause: BaseException) -> DeviceLostError:
    error = DeviceLostError(f"{device} is lost: {cause}")
    error.__cause__ = cause
    return error
