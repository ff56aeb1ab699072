"""What can go wrong on a device, at the k-th time that something is tried there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from .errors import ILLEGAL_ADDRESS, CUDARuntimeError, OutOfMemoryError


@final
@dataclass(slots=True)
class _Fault:
    device: int
    kind: str
    first: int
    times: int
    error: Callable[[], BaseException] | None
    status: int


@final
class Faults:
    """Faults that were asked for. The k-th time is counted from 1, and from when the fault was asked for.

    Of kinds: "launch", "h2d", "d2h", "d2d" (a copy from another device), "alloc", and "operation" for all but the last.
    """

    def __init__(self) -> None:
        self._seen: Counter[tuple[int, str]] = Counter()
        self._faults: list[_Fault] = []

    def lose(self, device: int, at: int = 1, status: int = ILLEGAL_ADDRESS) -> None:
        """When the `at`-th operation runs on the device, it is lost: every later call gives that status, for ever.

        As it is with CUDA, the call that issues the operation succeeds.
        """
        self._ask(device, "operation", at, 1, None, status)

    def run_out_of_memory(self, device: int, at: int = 1, times: int = 1) -> None:
        """The `at`-th allocation on the device, and the next `times - 1`, raise `OutOfMemoryError`."""
        self._ask(device, "alloc", at, times, lambda: OutOfMemoryError(1 << 40, 0), 0)

    def fail_kernel(self, device: int, error: Callable[[], BaseException], at: int = 1, times: int = 1) -> None:
        """The `at`-th launch on the device, and the next `times - 1`, raise what `error()` gives."""
        self._ask(device, "launch", at, times, error, 0)

    def refuse_copy(self, device: int, kind: str, at: int = 1, times: int = 1, status: int = 1) -> None:
        """The `at`-th copy of that kind on the device, and the next `times - 1`, raise an error with this status."""
        self._ask(device, kind, at, times, lambda: CUDARuntimeError(status), 0)

    def meet(self, device: int, kind: str) -> int:
        """Counts one try of this kind: raises what was asked for it, or gives the status that running it will leave."""
        self._seen[device, kind] += 1
        count = self._seen[device, kind]
        for one in self._faults:
            if (one.device, one.kind) == (device, kind) and one.first <= count < one.first + one.times:
                if one.error:
                    raise one.error()
                return one.status
        return 0

    def _ask(
        self, device: int, kind: str, at: int, times: int, error: Callable[[], BaseException] | None, status: int
    ) -> None:
        first = self._seen[device, kind] + at
        self._faults.append(_Fault(device, kind, first, times, error, status))
