"""What has been issued to the devices and not run yet, and who runs it: whoever waits for something.

Nothing runs by itself. A thread that waits runs operations from the heads of the streams' queues, drawn at random from
a seed, until what it waits for has happened; and now and then, one is run when another is issued, as a device does
not wait for the host. An operation runs only after those before it on its stream, and a wait for an event only after
what the event marks. So each seed is one of the orders that a real device could have chosen.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from .clocks import Clock
from .errors import CUDARuntimeError

_STEPS = 8
"""How many operations a thread runs before it lets others in: to let them in takes longer than a small operation."""
POISONING = "poisoning of freed memory"
"""What is queued besides what was issued."""


@final
class Mark:
    """A place in a stream's queue: it is passed once all before it has run."""

    __slots__ = ("passed",)

    def __init__(self) -> None:
        self.passed = False


@final
@dataclass(slots=True)
class Operation:
    """One entry of a stream's queue.

    Fields:
        what: for messages.
        run: does it.
        marks: the place in the queue that it is.
        after: what has to be passed before it.
        fatal: the status that running it leaves on the device for ever, or 0.
    """

    what: str
    run: Callable[[], object] | None = None
    marks: Mark | None = None
    after: Mark | None = None
    fatal: int = 0


@final
@dataclass(slots=True, eq=False)
class StreamQueue:
    """A stream as the device sees it. It outlives the `Stream` object, as destroying one waits for nothing."""

    actor: int
    ptr: int
    device: DeviceState
    non_blocking: bool
    clock: Clock = field(default_factory=Clock)
    count: int = 0
    operations: deque[Operation] = field(default_factory=deque[Operation])

    def tick(self) -> None:
        """Counts one more operation."""
        self.count += 1
        self.clock[self.actor] = self.count

    def can_run(self) -> bool:
        """Whether the operation at its head may run now."""
        after = self.operations[0].after if self.operations else None
        return bool(self.operations) and (after is None or after.passed)


@final
@dataclass(slots=True, eq=False)
class DeviceState:
    """A device: its streams, and the error that it is lost with, if it is.

    `learn` orders the calling thread after what a clock knows.
    """

    index: int
    learn: Callable[[Clock], None]
    status: int = 0
    queues: list[StreamQueue] = field(default_factory=list[StreamQueue])

    def check(self) -> None:
        """Raises the error that every call on a lost device gives."""
        if self.query():
            raise CUDARuntimeError(self.status)

    def query(self) -> int:
        """The status of a lost device, or 0. Who is told that it is lost knows that nothing goes on there any more."""
        if self.status:
            for one in self.queues:
                self.learn(one.clock)
        return self.status

    def lose(self, status: int) -> None:
        """Leaves the error on the device for ever, and drops all that it has not run.

        What other devices wait for counts as passed, as nothing will come of it: they go on, with what is there.
        """
        self.status = status
        for one in self.queues:
            for operation in one.operations:
                if operation.marks:
                    operation.marks.passed = True
            one.operations.clear()


@final
class Executor:
    """Runs what is queued on the devices, in an order that a seed gives.

    eagerness: how probable it is that one operation runs when another is issued.
    failures: what raised when it was run, which no operation should.
    """

    def __init__(self, lock: Any, seed: int, eagerness: float) -> None:
        self._lock, self._random, self._eagerness = lock, random.Random(seed), eagerness
        self.devices: list[DeviceState] = []
        self.failures: list[Exception] = []

    def step(self) -> bool:
        """Runs one operation that may run; `False` if there is none."""
        heads = [one for device in self.devices for one in device.queues if one.can_run()]
        if not heads:
            return False
        chosen = self._random.choice(heads)
        operation = chosen.operations.popleft()
        if operation.fatal:
            chosen.device.lose(operation.fatal)
            return True
        if operation.run:
            try:
                operation.run()
            except Exception as error:
                # Whoever happens to wait has nothing to do with it.
                error.add_note(f"the stand-in could not run: {operation.what}")
                self.failures.append(error)
        if operation.marks:
            operation.marks.passed = True
        return True

    def issued(self) -> None:
        """Told that something was queued: the devices may get on."""
        if self._random.random() < self._eagerness:
            self.step()

    def wait(self, passed: Callable[[], bool], device: DeviceState) -> None:
        """Returns once this has happened on that device, to whose end this thread and others run what is queued.

        Raises:
            CUDARuntimeError: the device is lost.
        """
        while True:
            with self._lock:
                device.check()
                if passed():
                    return
                for _ in range(_STEPS):
                    if not self.step():
                        raise AssertionError(f"device {device.index} is waited for, and nothing can run: a deadlock")
                    if passed():
                        break
            # Taking the lock again at once would never let another thread have it.
            time.sleep(0)

    def idle(self, device: DeviceState) -> bool:
        """Whether the device has run all that was issued to it."""
        return not any(one.operations for one in device.queues)

    def undone(self) -> list[str]:
        """The copies and kernels that were issued and have not run."""
        operations = [op for device in self.devices for one in device.queues for op in one.operations]
        return [operation.what for operation in operations if operation.run and operation.what != POISONING]


@final
class ThreadPlace:
    """Where a thread of the host is: its current device, and the streams that it has entered, per device.

    `entered` says on which devices, in order: leaving pops whatever is on top there, whichever stream is left.
    """

    def __init__(self) -> None:
        self.device = 0
        self.devices: list[int] = []
        self.streams: dict[int, list[Any]] = {}
        self.entered: list[int] = []


@final
class ThreadPlaces(threading.local):
    """The calling thread's place."""

    def __init__(self) -> None:
        self.here = ThreadPlace()
