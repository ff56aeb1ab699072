"""Host memory that devices copy to and from, and who may touch it when.

A copy reads or writes it while it runs, which is after the call that issues it, and neither CuPy nor CUDA keeps it from
being written, read or freed before. So arrays of such memory are NumPy arrays that look at each access to their
elements whether the thread is ordered after the copies. What NumPy does without asking the array, as in
`np.array(buffer)`, is seen only where `WatchedNumpy` stands for the module `numpy`; elsewhere it finds 0xCB.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, final

import numpy as np
from numpy.lib.array_utils import byte_bounds

from .clocks import Clock, join
from .memory import Block, Span
from .queues import Mark
from .world import World

_MAKES_VIEWS = frozenset(
    {
        "broadcast_to",
        "expand_dims",
        "may_share_memory",
        "moveaxis",
        "ndim",
        "ravel",
        "reshape",
        "shape",
        "shares_memory",
    }
    | {"size", "squeeze", "swapaxes", "transpose"}
)
"""What looks at no element. (`ravel` and `reshape` do if they have to copy; the copy then is not seen.)"""

Numbers = np.ndarray[Any, Any]


class CheckedArray(np.ndarray[Any, Any]):
    """Host memory that the world knows. What shares it is of this class too, what is computed from it is not."""

    _world: ClassVar[World]

    def __getitem__(self, key: Any) -> Any:
        result = super().__getitem__(key)
        if not isinstance(result, CheckedArray) or not np.may_share_memory(plain(result), plain(self)):
            self._world.host.read(self)
            return plain(result)
        return result

    def __setitem__(self, key: Any, value: Any) -> None:
        target = super().__getitem__(key)
        shares = isinstance(target, CheckedArray) and np.may_share_memory(plain(target), plain(self))
        self._world.host.write(target if shares else self)
        if isinstance(value, CheckedArray):
            self._world.host.read(value)
        super().__setitem__(key, value)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        outputs: tuple[Any, ...] = kwargs.get("out", ())
        self._read(inputs)
        for one in outputs:
            self._world.host.write(one)
        if outputs:
            kwargs["out"] = tuple(map(plain, outputs))
        result = getattr(ufunc, method)(*map(plain, inputs), **kwargs)
        return outputs[0] if len(outputs) == 1 else outputs or result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.copyto:
            self._world.host.write(args[0])
            self._read(args[1:])
        elif func.__name__ not in _MAKES_VIEWS:
            self._read(_flat(args))
            self._world.host.write(kwargs.get("out"))
        result = super().__array_function__(func, types, args, kwargs)
        return result if func.__name__ in _MAKES_VIEWS else plain(result)

    def _read(self, values: Iterable[Any]) -> None:
        for one in values:
            self._world.host.read(one)


def _reading(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def read(self: CheckedArray, *args: Any, **kwargs: Any) -> Any:
        self._world.host.read(self)
        return method(plain(self), *args, **kwargs)

    return read


for _name in ("__bool__", "__complex__", "__copy__", "__float__", "__index__", "__int__", "__iter__"):
    setattr(CheckedArray, _name, _reading(_name))
for _name in ("astype", "copy", "dump", "dumps", "flatten", "item", "nonzero", "tobytes", "tofile", "tolist"):
    setattr(CheckedArray, _name, _reading(_name))


def _fill(self: CheckedArray, value: Any) -> None:
    self[...] = value


setattr(CheckedArray, "fill", _fill)  # noqa: B010  # as the others


def plain(value: Any) -> Any:
    """A view that looks at nothing, if it is an array that does; anything else as it is."""
    return value.view(np.ndarray) if isinstance(value, CheckedArray) else value


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for one in values:
        if isinstance(one, (list, tuple)):
            yield from _flat(one)
        else:
            yield one


@final
class _Lease:
    """Holds a block of host memory for the arrays that share it; gives it up when the last of them goes."""

    def __init__(self, block: Block, world: World) -> None:
        self._block, self._dropped = block, world.unused_pinned
        self.__array_interface__ = block.memory.__array_interface__

    def __del__(self) -> None:
        self._dropped.append(self._block)


@final
class HostMemory:
    """The host memory of a world that devices copy to and from.

    Pinned memory is its own; pageable memory is known from the first copy to it that is not waited for.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.array_type = type("CheckedArray", (CheckedArray,), {"_world": world})
        self._blocks: list[tuple[int, Block, bool]] = []
        self._watched: list[tuple[Numbers, Mark, Clock]] = []

    def empty(self, shape: Any, dtype: Any = float, order: Any = "C", *, pinned: bool = True) -> Numbers:
        """An array of new memory, full of 0xCB."""
        dims = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = int(np.prod(dims, dtype=np.int64)) * np.dtype(dtype).itemsize
        block = Block(max(1, nbytes), None, f"{nbytes} bytes of {'pinned' if pinned else 'pageable'} memory")
        memory = np.asarray(_Lease(block, self._world)).view(self.array_type)
        self._add(block, pinned)
        return np.ndarray.__new__(self.array_type, dims, dtype, memory, 0, None, order)

    def find(self, array: Any) -> tuple[Span, bool] | None:
        """The bytes of an array if they are of a block of the world's, and whether it is pinned."""
        if not isinstance(array, np.ndarray) or not array.size:
            return None
        first, stop = byte_bounds(array)
        with self._world.lock:
            at = bisect.bisect_right(self._blocks, first, key=lambda one: one[0]) - 1
            if at < 0:
                return None
            address, block, pinned = self._blocks[at]
        if stop > address + block.memory.nbytes:
            return None
        return Span(block, first - address, stop - address), pinned

    def find_or_add(self, array: Numbers) -> tuple[Span, bool] | None:
        """What `find` gives, also of pageable memory that was not known: a copy is about to write there."""
        found = self.find(array)
        if found or not array.size:
            return found
        # Held for good, so that its address stays its own. Who gives it up early is not seen.
        flat = array.reshape(-1, order="A").view(np.uint8)
        self._add(Block(flat, None, f"{flat.nbytes} bytes of pageable memory"), False)
        return self.find(array)

    def _add(self, block: Block, pinned: bool) -> None:
        with self._world.lock:
            self._let_go()
            bisect.insort(self._blocks, (block.address, block, pinned), key=lambda one: one[0])

    def unheld(self, array: Numbers) -> Numbers:
        """The elements of an array, for a copy to use later: if they are the world's, it holds no array's memory."""
        found = self.find(array)
        if not found:
            return plain(array)
        block = found[0].block
        offset = array.__array_interface__["data"][0] - block.address
        return np.ndarray(array.shape, array.dtype, block.memory, offset, array.strides)

    def hold(self, array: Numbers, mark: Mark, clock: Clock) -> None:
        """Keeps an array that a copy reads until the mark is passed, as CuPy does for some; then lets it go."""
        with self._world.lock:
            self._watched.append((array, mark, clock))
            self._let_go()

    def _let_go(self) -> None:
        over = [one for one in self._watched if one[1].passed]
        self._watched = [one for one in self._watched if not one[1].passed]
        for array, _, clock in over:
            found = self.find(array)
            if found:
                join(found[0].block.watched, clock)

    def forget(self, block: Block) -> None:
        """Takes a block out that no array has any more."""
        self._blocks = [one for one in self._blocks if one[1] is not block]

    def read(self, array: Any) -> None:
        """Says that the calling thread reads an array.

        Raises:
            RaceError: a copy writes there, and it has not been waited for.
        """
        self._touch(array, False)

    def write(self, array: Any) -> None:
        """Says that the calling thread writes an array.

        Raises:
            RaceError: a copy reads or writes there, and it has not been waited for.
        """
        self._touch(array, True)

    def _touch(self, array: Any, writes: bool) -> None:
        found = self.find(array)
        if found:
            with self._world.lock:
                me = self._world.threads.tick()
                name = f"thread {threading.current_thread().name!r}"
                self._world.access(me.actor, me.clock[me.actor], me.clock, name, [(found[0], writes)])


class WatchedNumpy:
    """The module `numpy`, but what copies arrays without asking them looks whether it may read them."""

    def __init__(self, host: HostMemory) -> None:
        self._host = host

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        if name not in {"array", "asarray", "ascontiguousarray", "frombuffer"}:
            return value

        def reading(source: Any, *args: Any, **kwargs: Any) -> Any:
            self._host.read(source)
            return value(source, *args, **kwargs)

        return reading
