"""What an error of CUDA's means: that memory ran out, that a device is lost, or that one call failed.

Errors are told by the names of their types and their statuses. The types are in libraries that CuPy loads when they
are first needed, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Final, final

from asyncgraph.abc import Device
from asyncgraph.errors import DeviceLostError

_OUT_OF_MEMORY: Final = {
    ("OutOfMemoryError", None),
    ("CUDARuntimeError", 2),
    ("CUDADriverError", 2),
    ("CUBLASError", 1),
    ("CUBLASError", 3),
    ("CURANDError", 102),
    ("CUSOLVERError", 2),
    ("CuFFTError", 2),
    ("CuSparseError", 2),
}
"""Handles of libraries, too, take device memory, and outside of CuPy's pool; cuBLAS says that it is not initialised
(1) if there is none for a handle."""

_CALLS: Final = {"CUDARuntimeError", "CUDADriverError"}

_STICKY: Final = {
    214: "uncorrectable ECC error",
    226: "contained error",
    700: "illegal address",
    702: "launch timeout",
    709: "context is destroyed",
    710: "assertion in a kernel",
    714: "hardware stack error",
    715: "illegal instruction",
    716: "misaligned address",
    717: "invalid address space",
    718: "invalid program counter",
    719: "launch failure",
    721: "tensor memory leak",
    999: "unknown error",
}
"""Statuses after which every call for the device fails, in this process, for ever."""

_LATE: Final = (
    "this came up after the kernels had been started: such an error surfaces at a later call, of any "
    "run on {device}.\n  CUDA_LAUNCH_BLOCKING=1 in the environment makes each call wait, and fail by itself"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device had too little memory, so that the same may work once other work is done."""
    return any((type(one).__name__, _status(one)) in _OUT_OF_MEMORY for one in _own_chain(error))


def is_sticky(error: BaseException) -> bool:
    """Whether the device will never do anything again."""
    return any(type(one).__name__ in _CALLS and _status(one) in _STICKY for one in _own_chain(error))


def forget_frames(error: BaseException) -> None:
    """Drops the frames that an error holds, and with them the arrays that they hold."""
    for one in _chain(error):
        one.__traceback__ = None


def _own_chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that it came of, as far as they are no matter of another device, which is lost."""
    return takewhile(lambda one: not isinstance(one, DeviceLostError), _chain(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that it came of."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def _status(error: BaseException) -> object:
    # CuFFTError has its status under the other name.
    return getattr(error, "status", getattr(error, "result", None))


@final
class Health:
    """Whether a device can still be used. Any thread may ask, or say that it cannot. It never gets better."""

    def __init__(self, device: Device) -> None:
        self.device: Final = device
        # Several threads may find out at once: to append is atomic, and the first one counts.
        self._lost: Final[list[BaseException]] = []

    @property
    def lost(self) -> bool:
        """Whether the device can never be used again."""
        return bool(self._lost)

    def judge(self, error: BaseException) -> BaseException:
        """What to report of an error that a call for the device has raised: itself, or that the device is lost."""
        return self.lose(error) if is_sticky(error) else error

    def lose(self, error: BaseException) -> DeviceLostError:
        """Notes that the device is lost, if nobody has: a new error that says so."""
        if not self._lost:
            # Kept for ever, and so without its frames.
            forget_frames(error)
            self._lost.append(error)
        return self.error()

    def error(self) -> DeviceLostError:
        """A new error that says why the device is lost, which it is."""
        first = self._lost[0]
        status = _status(first)
        lost = DeviceLostError(
            f"{self.device} is lost: {type(first).__name__}: {first}\n"
            f"  status {status}: {_STICKY.get(status, 'it answers no more') if isinstance(status, int) else 'none'}\n"
            f"  nothing can run on {self.device} in this process any more: start a new one; other devices go on"
        )
        lost.__cause__ = first
        return lost

    def settle(self, wait: Callable[[], object]) -> BaseException | None:
        """Waits until the device has done something: an error that surfaced meanwhile, if one did.

        Such an error may be of another run's making. What was waited for must be over all the same, before anything
        that it uses is let go: so after an error the wait is made again.

        Raises:
            DeviceLostError: the device is lost; it may have been before, and is then not asked.
        """
        if self._lost:
            raise self.error()
        try:
            wait()
        except Exception as error:
            surfaced = error
        else:
            return None
        if is_sticky(surfaced):
            raise self.lose(surfaced)
        try:
            wait()
        except Exception as error:
            again = error
        else:
            forget_frames(surfaced)
            surfaced.add_note(_LATE.format(device=self.device))
            return surfaced
        raise self.lose(again)
