"""How an operand may lie in memory: as it is fed, and as a device makes it of what was fed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

HostArray = np.ndarray[Any, Any]


Shape = tuple[int, ...]


def _as_it_is(xp: Any, x: Any, shape: Shape) -> Any:
    return x


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """A way in which an operand may lie in memory.

    Fields:
        feed: of an array of rank 1 at least, what is fed.
        view: makes the operand of that, with the array's shape, in the namespace of `asyncgraph.ops` or in NumPy's.
    """

    feed: Callable[[HostArray], HostArray]
    view: Callable[[Any, Any, Shape], Any] = _as_it_is


def _spread(array: HostArray) -> HostArray:
    """Twice as many elements along the last axis: each, and one that nobody should see."""
    return np.stack([array, np.zeros_like(array)], axis=-1).reshape(*array.shape[:-1], 2 * array.shape[-1])


def _unaligned(array: HostArray) -> HostArray:
    memory = np.zeros(array.nbytes + 1, np.uint8)
    moved = memory[1:].view(array.dtype).reshape(array.shape) if array.size else array
    moved[...] = array
    return moved


def _locked(array: HostArray) -> HostArray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


LAYOUTS: Final = {
    "reversed": Layout(lambda x: x[::-1]),
    "F order": Layout(np.asfortranarray),
    "strided": Layout(lambda x: _spread(x)[..., ::2]),
    "repeated": Layout(lambda x: np.broadcast_to(x[:1], x.shape)),
    "unaligned": Layout(_unaligned),
    "read-only": Layout(_locked),
    "reversed on the device": Layout(np.ascontiguousarray, lambda xp, x, shape: x[::-1]),
    "transposed on the device": Layout(
        lambda x: np.ascontiguousarray(x.T), lambda xp, x, shape: xp.permute_dims(x, tuple(reversed(range(len(shape)))))
    ),
    "strided on the device": Layout(_spread, lambda xp, x, shape: x[..., ::2]),
    "repeated on the device": Layout(lambda x: x[:1].copy(), lambda xp, x, shape: xp.broadcast_to(x, shape)),
}
"""The layouts, by what they are called in messages."""


def any_memory(dtype: str) -> list[HostArray]:
    """Arrays of all kinds: of rank 0, empty, reversed, transposed, strided, repeated, unaligned, read-only."""
    base = np.arange(24).astype(dtype).reshape(4, 6)
    views = [
        base, base[0, 1:2].reshape(()), base[:0], base[:, :0], base[:, ::-1], base[::-1, ::-2], base.T, base[1::2, 2:],
        np.broadcast_to(base[0, 1:2], (2, 3)),
    ]  # fmt: skip
    return [*views, _unaligned(base), _locked(base)]
