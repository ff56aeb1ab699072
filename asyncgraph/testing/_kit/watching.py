"""A backend inside another that watches it, and interferes when it is told to.

It sees what is moved where, that no two devices meet in a kernel, and that an asynchronous device is used inside `work`
alone. It can have a kernel or a transfer fail, lose a device, and keep a session waiting for one.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Condition, Timer, local
from time import sleep
from typing import Any, Final, cast, final

import numpy as np

from ...abc import Array, Backend, Device, Done, Kernel, Spec
from ...errors import DeviceLostError

LIMIT_S: Final = 20.0
"""What is waited for at most: what has not happened by then never will."""

_LOOKS: Final = 5
_BETWEEN_LOOKS_S: Final = 0.02


@final
class WatchingBackend(Backend):
    """Does what the backend inside does, and keeps account.

    Fields:
        to_devices: the devices that values were moved to, one entry for each move.
        to_hosts: the devices that values were moved from.
        taken: the devices on which arrays were taken over DLPack.
        computed: the devices that kernels were called for.
        submitted: the devices that works were submitted to.
        before: called before each kernel and transfer with its op, or its method's name, and the device. What it
            raises, they raise.
        lost: the devices for which all that is submitted, and every kernel and transfer, ends with a DeviceLostError.
        holds: whether nobody is told that a device is done.
        gave_up: whether nobody said for so long that it may go on that something must have been blocked.

    Raises:
        AssertionError: a kernel is called with an array of another device, or of none; or an asynchronous backend's
            kernel or transfer is called outside of a work for its device.
    """

    name = "watching"

    def __init__(self, inside: Backend) -> None:
        # It is what the backend inside declares, whose class says it of all its objects.
        self.capabilities = inside.capabilities  # pyright: ignore[reportAttributeAccessIssue]  # as said
        self.to_devices: Final[list[str]] = []
        self.to_hosts: Final[list[str]] = []
        self.taken: Final[list[str]] = []
        self.computed: Final[list[str]] = []
        self.submitted: Final[list[str]] = []
        self.before: Callable[[str, Device], None] = _nothing
        self.lost: Final[set[Device]] = set()
        self.holds = False
        self.gave_up = False
        self._inside: Final = inside
        self._devices: Final = tuple(inside.devices())
        self._changed: Final = Condition()
        self._held: list[Callable[[], None]] = []
        self._current: Final = local()
        self._seen: Final[dict[int, _Seen]] = {}

    # -- the contract ----------------------------------------------------------------------------------

    def devices(self) -> Sequence[Device]:
        """Those of the backend inside."""
        return self._devices

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        """That of the backend inside, which looks at its operands first."""
        kernel = self._inside.kernel(op, params, operands, device)

        def watched(*arrays: Array) -> Array:
            for one in arrays:
                assert _is_number(one) or self.device_of(one) == device, (
                    f"the kernel of {op!r} on {device} was given an array of {self.device_of(one)}"
                )
            return self._call(op, device, self.computed, partial(kernel, *arrays))

        return watched

    def to_device(self, array: Array, device: Device) -> Array:
        """As the backend inside does it."""
        return self._call("to_device", device, self.to_devices, partial(self._inside.to_device, array, device))

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """As the backend inside does it."""
        device = self.device_of(array)
        assert device is not None, f"to_host was given {type(array).__name__}, which is no array of the backend"
        return self._call("to_host", device, self.to_hosts, partial(self._inside.to_host, array))

    def from_dlpack(self, array: Array, device: Device) -> Array:
        """As the backend inside does it."""
        return self._call("from_dlpack", device, self.taken, partial(self._inside.from_dlpack, array, device))

    def submit(self, device: Device, work: Callable[[], None], done: Done) -> None:
        """As the backend inside does it, but for when `done` is called."""
        with self._changed:
            self.submitted.append(str(device))
        self._inside.submit(device, partial(self._work, device, work), partial(self._done, device, done))

    # -- for tests -------------------------------------------------------------------------------------

    def device_of(self, array: Array) -> Device | None:
        """The device that an array of the backend came to be on; `None` if it is not one of its arrays."""
        seen = self._seen.get(id(array))
        if seen is not None and seen.array() is array:
            return seen.device
        # NumPy's arrays are on its one device, wherever they come from.
        return self._devices[0] if self.capabilities.host_arrays else None

    def alive(self, made_by: str | None = None, expected: int = 0) -> int:
        """How many of the arrays that kernels and transfers have given, or those of that name alone, are there."""
        with self._changed:
            seen = [one.array for one in self._seen.values() if made_by in (None, one.made_by)]
        return alive(seen, expected)

    @property
    def tells_what_is_alive(self) -> bool:
        """Whether it holds none of the arrays itself, as it does those that take no weak references."""
        with self._changed:
            return all(one.is_weak for one in self._seen.values())

    @contextmanager
    def holding(self) -> Generator[None]:
        """Inside, nobody is told that a device is done; at the end all are. Gives up when that takes too long."""
        watchdog = Timer(LIMIT_S, self._give_up)
        watchdog.start()
        self.holds = True
        try:
            yield
        finally:
            watchdog.cancel()
            self.release()
            watchdog.join()

    def release(self) -> None:
        """Tells whoever has been waiting that devices are done, and from now on all others."""
        with self._changed:
            self.holds = False
            held, self._held = self._held, []
        for tell in held:
            tell()

    def wait_until_held(self, count: int = 1) -> None:
        """Returns when so many would have been told that a device is done. Blocks."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._held) >= count or self.gave_up, LIMIT_S)

    # -- what it is made of ----------------------------------------------------------------------------

    def _call(self, what: str, device: Device, account: list[str], call: Callable[[], Array]) -> Array:
        inside = getattr(self._current, "device", None)
        assert inside == device or not self.capabilities.asynchronous, (
            f"{what!r} for {device} was called {f'in a work for {inside}' if inside else 'outside of any work'}"
        )
        if device in self.lost:
            raise _lost(device)
        self.before(what, device)
        result = call()
        several = isinstance(result, (tuple, list))
        with self._changed:
            account.append(str(device))
            for one in cast("Sequence[Array]", result) if several else (result,):
                self._seen[id(one)] = _Seen(one, device, what)
        return result

    def _work(self, device: Device, work: Callable[[], None]) -> None:
        if device in self.lost:
            raise _lost(device)
        outer = getattr(self._current, "device", None)
        self._current.device = device
        try:
            work()
        finally:
            self._current.device = outer

    def _done(self, device: Device, done: Done, error: BaseException | None) -> None:
        with self._changed:
            if self.holds:
                self._held.append(partial(self._done, device, done, error))
                self._changed.notify_all()
                return
        done(_lost(device) if error is None and device in self.lost else error)

    def _give_up(self) -> None:
        self.gave_up = True
        self.release()


@final
class _Seen:
    """An array that a kernel or a transfer has given: where it is, and what made it."""

    __slots__ = ("array", "device", "is_weak", "made_by")

    def __init__(self, array: Array, device: Device, made_by: str) -> None:
        self.device: Final = device
        self.made_by: Final = made_by
        try:
            self.array: Callable[[], Array | None] = weakref.ref(array)
            self.is_weak = True
        except TypeError:  # So it is for NumPy's scalars, and for classes with slots.
            self.array = lambda: array
            self.is_weak = False


def alive(arrays: Sequence[Callable[[], Array | None]], expected: int = 0) -> int:
    """How many arrays of these weak references are there, and stay there, if they are more than expected.

    Those do not count that wait for the garbage collector, which leaves to the next time what finalizers have looked
    at; nor those that a thread is about to let go, which has just said that a device is done.
    """
    for _ in range(_LOOKS):
        if sum(one() is not None for one in arrays) <= expected:
            break
        gc.collect()
        sleep(_BETWEEN_LOOKS_S)
    return sum(one() is not None for one in arrays)


def _lost(device: Device) -> DeviceLostError:
    return DeviceLostError(f"{device} is lost: the test says so")


def _nothing(*_: object) -> None:
    pass


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, np.generic)
