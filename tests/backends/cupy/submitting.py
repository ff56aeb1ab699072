"""Submissions to a backend, from a test's thread."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, final

from asyncgraph.abc import Backend, Device

T = TypeVar("T")

GPU, GPU1 = Device("gpu", 0), Device("gpu", 1)
SECONDS = 30
"""How long a test waits for what must happen."""


@final
class Submitted(Generic[T]):
    """What was submitted: `calls` says how often `work` was called."""

    def __init__(self, backend: Backend, device: Device, work: Callable[[], T]) -> None:
        self.calls = 0
        self._results: list[T] = []
        self._work = work
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        backend.submit(device, self._call, self._done.put)

    def _call(self) -> None:
        self.calls += 1
        self._results.clear()
        self._results.append(self._work())

    @property
    def is_done(self) -> bool:
        return not self._done.empty()

    def error(self) -> BaseException | None:
        """What `done` was called with, once it was."""
        return self._done.get(timeout=SECONDS)

    def result(self) -> T:
        """What `work` gave, once `done` was called; raises what that was called with."""
        error = self.error()
        if error is not None:
            raise error
        return self._results.pop()


def run(backend: Backend, work: Callable[[], T], device: Device = GPU) -> T:
    """What `work` gives when the device is done with it."""
    return Submitted(backend, device, work).result()


def kernel(backend: Backend, op: str, device: Device = GPU, **params: Any) -> Callable[..., Any]:
    """A kernel of operands that it knows nothing of."""
    return backend.kernel(op, params, (), device)
