"""Device memory: blocks, who holds them, and the pool that hands them out again, as CuPy's does.

The pool keeps what is freed for the stream that was current when it was allocated, and hands it out again for that
stream at once, without looking at the device. That is right as long as the stream's own order protects the old use
from the new one; a use by another stream is not protected, and is what the race checker finds.

Memory is filled with 0xCB when it is new and, on its stream, when it is freed.
"""

from __future__ import annotations

import gc
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple, final

import numpy as np

from .clocks import Accesses, Clock
from .errors import OutOfMemoryError
from .queues import POISONING, DeviceState, Executor, Operation, StreamQueue

POISON = 0xCB
UNIT = 512
"""Sizes are rounded up to multiples of it."""


@final
class Block:
    """Some memory of a device (or, where `device` is `None`, of the host), and who has accessed it.

    `watched` is up to where CuPy itself has seen to it that copies are over, before it let the memory go.
    """

    def __init__(self, memory: int | np.ndarray[Any, Any], device: int | None, what: str) -> None:
        self.memory = np.full(memory, POISON, np.uint8) if isinstance(memory, int) else memory
        self.address: int = self.memory.ctypes.data
        self.device, self.what = device, what
        self.accesses = Accesses()
        self.watched = Clock()

    def __repr__(self) -> str:
        return self.what


@final
class Span(NamedTuple):
    """Bytes of a block that an operation reads or writes."""

    block: Block
    start: int
    stop: int


@final
class Layout(NamedTuple):
    """An array's elements in a block; `None` if it is empty."""

    block: Block | None
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as they are now. Only their shape and strides mean something before the device is done."""
        if self.block is None:
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, self.block.memory, self.offset, self.strides)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The bytes from the first element to the last: none, or one span."""
        if self.block is None or 0 in self.shape:
            return ()
        reach = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        start = self.offset + sum(step for step in reach if step < 0)
        stop = self.offset + sum(step for step in reach if step > 0) + self.dtype.itemsize
        return (Span(self.block, start, stop),)


@final
class Allocation:
    """Holds a block for the arrays that share it. When the last of them goes, it is freed, in whatever thread."""

    __slots__ = ("_dropped", "block", "nbytes", "queue")

    def __init__(
        self, block: Block, nbytes: int, queue: StreamQueue, dropped: deque[tuple[Block, int, StreamQueue]]
    ) -> None:
        self.block, self.nbytes, self.queue, self._dropped = block, nbytes, queue, dropped

    def __del__(self) -> None:
        # May be called anywhere, by the garbage collector too, where a lock might be held: all that is done here
        # is one append, and the rest before the next thing that anybody does.
        self._dropped.append((self.block, self.nbytes, self.queue))


@final
class Pool:
    """The memory pool of one device. To be called with the world's lock held.

    Fields:
        index: the device's.
        capacity: bytes that the device has.
        limit: bytes that the pool may hold, 0 for all; to be set by `set_limit`.
        used, cached: bytes that arrays hold, and that the pool holds for later.
    """

    def __init__(self, device: DeviceState, capacity: int, executor: Executor, sweep: Callable[[], None]) -> None:
        self.capacity, self.limit, self.used, self.cached = capacity, 0, 0, 0
        self.index = device.index
        self._device, self._executor, self._sweep = device, executor, sweep
        self._arenas: defaultdict[tuple[int, int], list[Block]] = defaultdict(list)
        self.dropped: deque[tuple[Block, int, StreamQueue]] = deque()

    def allocate(self, nbytes: int, queue: StreamQueue) -> tuple[Allocation, bool]:
        """Memory for an array that is made while that stream is current, and whether it is new.

        Raises:
            OutOfMemoryError: there is none left, also after all that is cached was given back.
        """
        size = -(-nbytes // UNIT) * UNIT
        arena = self._arenas[queue.ptr, size]
        if arena:
            self.cached -= size
            block, is_new = arena.pop(), False
        else:
            self._make_room(size)
            block, is_new = Block(size, self._device.index, f"{size} bytes of device {self._device.index}"), True
        self.used += size
        return Allocation(block, size, queue, self.dropped), is_new

    def free(self, block: Block, size: int, queue: StreamQueue, everything: Clock) -> None:
        """Takes back what the last array has let go.

        `everything` is what the threads of the host know: whoever let go of it before, after waiting for its use,
        did so before now, as references are counted in order. Such uses are over.
        """
        block.accesses.settle(everything)
        self.used -= size
        self.cached += size
        self._arenas[queue.ptr, size].append(block)
        left = block.accesses.unknown_to({})
        if not left:
            block.memory.fill(POISON)
        elif not block.accesses.unknown_to(queue.clock) and not self._device.status:
            queue.operations.append(Operation(POISONING, lambda: block.memory.fill(POISON)))
        # Else another stream may still be using it, which the next one to write there will find out.

    def free_all_blocks(self) -> None:
        """Gives back to the device what no array holds, which waits for all that the device is doing."""
        if self.cached:
            self._device.check()
            while not self._executor.idle(self._device) and self._executor.step():
                pass
        self._arenas.clear()
        self.cached = 0

    def _make_room(self, size: int) -> None:
        limit = min(self.limit or self.capacity, self.capacity)
        for give_back in (self.free_all_blocks, gc.collect):
            if self.used + self.cached + size <= limit:
                return
            give_back()
            self._sweep()
        self.free_all_blocks()
        if self.used + size > limit:
            raise OutOfMemoryError(size, self.used, self.limit)
