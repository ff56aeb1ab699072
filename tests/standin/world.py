"""A world: some devices, a host, and what happens between them. It gives objects that stand for CuPy's modules.

    world = World(devices=2, seed=0)
    backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx)
    ...
    backend.close()
    world.check()

What it is honest about is order: which operation may run before which (`clocks`, `queues`), how long memory lives and
who gets it next (`memory`, `pinned`), what a thread's current device and stream are, and what fails how. It is not
about speed, rounding, or anything of the hardware's: values are NumPy's.
"""

from __future__ import annotations

import gc
import itertools
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple, final
from weakref import WeakValueDictionary

import numpy as np
import pytest

from .clocks import Access, Clock, RaceError, join
from .faults import Faults
from .memory import Allocation, Block, Pool, Span
from .queues import DeviceState, Executor, Mark, Operation, StreamQueue, ThreadPlaces
from .threads import HostThreads


@final
class Call(NamedTuple):
    """Something that was asked of a device.

    Fields:
        kind: "launch", "h2d", "d2h", "d2d" (from another device), "record", "wait", "synchronize", "query", "alloc";
            "malloc" if that took new memory from the device; "watch" for what CuPy records for itself, to keep pinned
            memory as long as a copy reads it; "stream" and "event" for one made.
        device: where.
        stream: the `ptr` of the stream, 0 if it is the null stream or there is none to it.
        what: the name of a kernel, or more on the rest.
    """

    kind: str
    device: int
    stream: int = 0
    what: str = ""


@final
class World:
    """Some devices and a host.

    Args:
        devices: how many.
        seed: of the order in which things run, where it is open.
        bytes_per_device: the memory that each has.
        eagerness: how probable it is that a device runs something while the host issues something else.
        checked_threads: how the names of the host's threads begin that know only what they were told; all others know
            what any knows (`threads`). "" is all of them, `None` is none, for modules that are not watched (`watch`).
        peers: whether the devices reach each other's memory directly.
        logged: whether calls are written down, which takes memory for each.
    """

    def __init__(
        self,
        devices: int = 2,
        seed: int = 0,
        *,
        bytes_per_device: int = 1 << 28,
        eagerness: float = 0.25,
        checked_threads: str | None = "asyncgraph cupy",
        peers: bool = True,
        logged: bool = True,
    ) -> None:
        from .modules import cupy_of, cupyx_of  # what these make needs this class
        from .pinned import HostMemory, WatchedNumpy

        # Reentrant, as the garbage collector may run anything anywhere.
        self.lock = threading.RLock()
        self._actors = itertools.count(1)
        self.places = ThreadPlaces()
        self.threads = HostThreads(self._actors, self.lock, checked_threads)
        self.executor = Executor(self.lock, seed, eagerness)
        self.faults = Faults()
        self.peers, self.logged = peers, logged
        self.log: list[Call] = []
        self.races: list[RaceError] = []
        self.unused_pinned: deque[Block] = deque()
        self.events: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.array_type: Any = None
        self._null_queues: dict[int, StreamQueue] = {}
        for index in range(devices):
            self.executor.devices.append(DeviceState(index, self.threads.learn))
        self.pools = [Pool(one, bytes_per_device, self.executor, self.sweep) for one in self.devices]
        for one in self.devices:
            self._null_queues[one.index] = self.new_queue(one, ptr=0)
        self.host = HostMemory(self)
        self._watched_numpy = WatchedNumpy(self.host)
        self.cupy = cupy_of(self)
        self.cupyx = cupyx_of(self)

    @property
    def devices(self) -> list[DeviceState]:
        """Its devices, by index."""
        return self.executor.devices

    @property
    def counts(self) -> Counter[str]:
        """How many calls of each kind the log has."""
        return Counter(call.kind for call in self.log)

    # What is current, and what there is.

    @property
    def current_device(self) -> DeviceState:
        """The calling thread's."""
        return self.devices[self.places.here.device]

    def current_queue(self, device: int | None = None) -> StreamQueue:
        """The queue of the calling thread's current stream, on its current device or another."""
        here = self.places.here
        index = here.device if device is None else device
        entered = here.streams.get(index)
        return self.null_queue(index) if not entered else entered[-1].queue

    def null_queue(self, device: int) -> StreamQueue:
        """The queue of a device's legacy null stream."""
        return self._null_queues[device]

    def new_queue(self, device: DeviceState, ptr: int | None = None, non_blocking: bool = False) -> StreamQueue:
        """A stream of a device."""
        with self.lock:
            actor = next(self._actors)
            queue = StreamQueue(actor, actor if ptr is None else ptr, device, non_blocking)
            device.queues.append(queue)
            return queue

    def new_ptr(self) -> int:
        """A handle that nothing else has."""
        return next(self._actors)

    def note(self, kind: str, device: int, stream: int = 0, what: str = "") -> None:
        """Writes down a call."""
        if self.logged:
            self.log.append(Call(kind, device, stream, what))

    # Memory.

    def allocate(self, nbytes: int, queue: StreamQueue) -> Allocation | None:
        """Memory of the queue's device for an array, as if the queue's stream was the current one."""
        if not nbytes:
            return None
        device = queue.device
        with self.lock:
            self.sweep()
            device.check()
            self.faults.meet(device.index, "alloc")
            allocation, is_new = self.pools[device.index].allocate(nbytes, queue)
            self.note("alloc", device.index, queue.ptr, str(nbytes))
            if is_new:
                self.note("malloc", device.index, queue.ptr, str(allocation.nbytes))
            return allocation

    def sweep(self) -> None:
        """Takes back what arrays and pinned buffers have let go. First of all in whatever is done to a world."""
        if not self.unused_pinned and not any(pool.dropped for pool in self.pools):
            return
        everything = self.threads.everything()
        for pool in self.pools:
            while pool.dropped:
                pool.free(*pool.dropped.popleft(), everything)
        while self.unused_pinned:
            block = self.unused_pinned.popleft()
            join(block.watched, everything)
            for access in block.accesses.unknown_to(block.watched)[:1]:
                self.report(RaceError(f"{block} was given up while it may still be used by {access.what}"))
            self.host.forget(block)

    def report(self, race: RaceError) -> RaceError:
        """Keeps a race, so that it is found also if what raised it was swallowed."""
        self.races.append(race)
        return race

    # Operations.

    def issue(
        self,
        queue: StreamQueue,
        kind: str,
        what: str,
        run: Callable[[], object],
        reads: Iterable[Span] = (),
        writes: Iterable[Span] = (),
    ) -> None:
        """Queues an operation that reads and writes these bytes when it runs.

        Raises:
            CUDARuntimeError: the device is lost.
            RaceError: it is not ordered after another access to some of the bytes. It is not queued then.
        """
        with self.lock:
            self.sweep()
            queue.device.check()
            self.faults.meet(queue.device.index, kind)
            fatal = self.faults.meet(queue.device.index, "operation")
            self._order(queue)
            queue.tick()
            text = f"{kind} {what!r} on stream {queue.ptr} of device {queue.device.index}"
            accesses = [(one, False) for one in reads] + [(one, True) for one in writes]
            self.access(queue.actor, queue.count, queue.clock, text, accesses)
            queue.operations.append(Operation(text, run, fatal=fatal))
            self.note(kind, queue.device.index, queue.ptr, what)
            self.executor.issued()

    def access(self, actor: int, count: int, clock: Clock, what: str, spans: Iterable[tuple[Span, bool]]) -> None:
        """Notes accesses to bytes, the `count`-th thing that the actor does, whose clock this is."""
        spans = list(spans)
        for (block, start, stop), writes in spans:
            other = block.accesses.first_unordered(start, stop, writes, clock)
            if other:
                verb, did = ("writes" if writes else "reads"), ("written" if other.writes else "read")
                raise self.report(
                    RaceError(f"{what} {verb} {block}, which was {did} by {other.what}, with nothing to order the two")
                )
        for (block, start, stop), writes in spans:
            block.accesses.add(Access(actor, count, start, stop, writes, what))

    def record(self, queue: StreamQueue, kind: str = "record", what: str = "") -> tuple[Mark, Clock]:
        """A mark after all that the stream was given so far, and what who has waited for it knows."""
        with self.lock:
            self.sweep()
            queue.device.check()
            self._order(queue)
            queue.tick()
            mark = Mark()
            queue.operations.append(Operation(f"{kind} on stream {queue.ptr}", marks=mark))
            self.note(kind, queue.device.index, queue.ptr, what)
            return mark, queue.clock.copy()

    def wait_on(self, queue: StreamQueue, mark: Mark, clock: Clock, what: str = "") -> None:
        """Has all that the stream is given from now on run after the mark."""
        with self.lock:
            self.sweep()
            queue.device.check()
            join(queue.clock, clock)
            queue.operations.append(Operation(f"wait on stream {queue.ptr}", after=mark))
            self.note("wait", queue.device.index, queue.ptr, what)

    def synchronize(self, queue: StreamQueue) -> None:
        """Blocks until the stream has run all that it was given so far; the thread is then ordered after it."""
        mark, clock = self._silent_mark(queue)
        self.note("synchronize", queue.device.index, queue.ptr, "stream")
        self.executor.wait(lambda: mark.passed, queue.device)
        self.threads.learn(clock)

    def synchronize_device(self, device: DeviceState) -> None:
        """Blocks until the device has run all that it was given so far."""
        with self.lock:
            marks = [self._silent_mark(queue) for queue in tuple(device.queues)]
        self.note("synchronize", device.index, 0, "device")
        self.executor.wait(lambda: all(mark.passed for mark, _ in marks), device)
        for _, clock in marks:
            self.threads.learn(clock)

    def _silent_mark(self, queue: StreamQueue) -> tuple[Mark, Clock]:
        with self.lock:
            self.sweep()
            queue.device.check()
            mark = Mark()
            queue.operations.append(Operation(f"synchronize on stream {queue.ptr}", marks=mark))
            return mark, queue.clock.copy()

    def _order(self, queue: StreamQueue) -> None:
        # What a thread launches is ordered after all that the thread knows. And the legacy null stream waits for
        # all streams but the non-blocking ones, and these wait for it.
        me = self.threads.tick()
        join(queue.clock, me.clock)
        if queue.non_blocking:
            return
        null = self.null_queue(queue.device.index)
        others = [one for one in queue.device.queues if not one.non_blocking] if queue is null else [null]
        for one in others:
            if one is not queue and one.count:
                mark = Mark()
                one.operations.append(Operation(f"implicit mark on stream {one.ptr}", marks=mark))
                queue.operations.append(Operation(f"implicit wait on stream {queue.ptr}", after=mark))
                join(queue.clock, one.clock)

    # The host.

    def host_read(self, array: Any) -> None:
        """Says that the calling thread reads an array of the host; a race unless it is ordered after what writes it."""
        self.host.read(array)

    def host_write(self, array: Any) -> None:
        """Says that the calling thread writes an array of the host."""
        self.host.write(array)

    def watch(self, patch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        """Has what the globals of these modules name carry clocks: queues, locks, threads; and `numpy` look.

        What was captured before, such as in a default argument or a field's factory, is not found.
        """
        stand_ins = [*self.threads.stand_ins(), (np, self._watched_numpy)]
        for module in modules:
            for name, value in list(vars(module).items()):
                for old, new in stand_ins:
                    if old is value:
                        patch.setattr(module, name, new)

    # The end.

    def finish(self) -> None:
        """Lets the devices run all that they were given, which no thread is told of."""
        with self.lock:
            while self.executor.step():
                pass

    def check(self) -> None:
        """Asserts that nothing raced, nothing is left to be run, and no device memory is held.

        Raises:
            RaceError: the first of `races`, also if it was raised in a thread where nobody saw it.
            Exception: the stand-in itself could not compute something, since its values were not what it expected.
        """
        if any(pool.used for pool in self.pools):
            gc.collect()
        with self.lock:
            self.sweep()
            for wrong in (*self.races, *self.executor.failures):
                raise wrong
            undone = self.executor.undone()
            assert not undone, f"issued, and never waited for: {len(undone)} operations: {undone[:5]}"
            held = {pool.index: pool.used for pool in self.pools if pool.used}
            assert not held, f"bytes that arrays still hold, by device: {held}"
