"""New arrays with some elements replaced, or added to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from asyncgraph.abc import Kernel

_Array = np.ndarray[Any, Any]

_PIECE: Final = 1 << 16
"""Elements that are added by one call of `np.add.at`, which holds the GIL: 0.2 ms, and 0.6 ms of float16."""
_LONG_ROW: Final = 512
"""From so many elements on, a row is added faster by a call of its own, which takes 1 µs and releases the GIL."""


def _by_key(update: Callable[[_Array, Any], None]) -> Callable[[Mapping[str, object]], Kernel]:
    def make(params: Mapping[str, Any]) -> Kernel:
        key: tuple[Any, ...] = params["key"]
        # With a `...` it is a view, also of one element.
        view = key if Ellipsis in key else (*key, ...)

        def kernel(x: Any, y: Any) -> _Array:
            made = np.array(x)
            update(made[view], y)
            return made

        return kernel

    return make


def _set(into: _Array, y: Any) -> None:
    np.copyto(into, y, casting="safe")


def _add(into: _Array, y: Any) -> None:
    np.add(into, y, out=into, casting="safe")


def _take_add(params: Mapping[str, Any]) -> Kernel:
    axis: int = params.get("axis", 0)

    def kernel(x: Any, indices: Any, updates: Any) -> _Array:
        made = np.array(x, order="C")
        at = normalize_axis_index(axis, made.ndim)
        places = _counted(np.asarray(indices), at, made.shape[at])
        before, behind = made.shape[:at], made.shape[at + 1 :]
        added = np.broadcast_to(_exact(updates, made.dtype), (*before, *places.shape, *behind))
        if added.size:
            rows = places.ravel()
            if prod(before) > 1:
                # The same along the axis in each of the blocks that stand one after the other.
                rows = (np.arange(prod(before))[:, None] * made.shape[at] + rows).ravel()
            _add_rows(made.reshape(-1, prod(behind)), rows, added)
        return made

    return kernel


def _counted(indices: _Array, axis: int, length: int) -> _Array:
    """The indices, counted from the front.

    Raises:
        IndexError: one is out of bounds.
    """
    places = indices.astype(np.intp, copy=False)
    if not indices.size:
        return places
    least, most = indices.min(), indices.max()
    for one in (least, most):
        if not -length <= one < length:
            raise IndexError(f"index {one} is out of bounds for axis {axis} with size {length}")
    return np.where(places < 0, places + length, places) if least < 0 else places


def _exact(updates: Any, dtype: np.dtype[Any]) -> _Array:
    given = np.asarray(updates)
    if given.dtype == dtype:
        return given
    converted = np.empty(given.shape, dtype)
    np.copyto(converted, updates, casting="safe")
    return converted


def _add_rows(rows: _Array, places: _Array, added: _Array) -> None:
    """Adds one row after the other to the row at its place, in this order: so sums are rounded as by `np.add.at`.

    That takes five times as long for rows as for single elements.
    """
    width = int(rows.shape[1])
    if width >= _LONG_ROW:
        for place, row in zip(places.tolist(), added.reshape(-1, width), strict=True):
            into = rows[place]
            np.add(into, row, out=into)
        return
    elements, new, columns = rows.reshape(-1), added.reshape(-1), np.arange(width)
    count = _PIECE // width
    for first in range(0, len(places), count):
        where = places[first : first + count]
        if width > 1:
            where = (where[:, None] * width + columns).ravel()
        np.add.at(elements, where, new[first * width : first * width + where.size])


UPDATES: Final[dict[str, Callable[[Mapping[str, object]], Kernel]]] = {
    "index_add": _by_key(_add),
    "index_set": _by_key(_set),
    "take_add": _take_add,
}
"""Makes the kernel of an op from its params."""
