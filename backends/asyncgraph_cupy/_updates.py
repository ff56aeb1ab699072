"""New arrays with some elements replaced, or added to.

Where the same element is added to several times, CuPy adds with atomic instructions, in any order: so results may
differ in the last bits from run to run. There are such for seven dtypes; others are added in one of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from asyncgraph.abc import Array

from ._adapted import Namespace, as_array, is_number

Key = tuple[Any, ...]


def _index_set(xp: Namespace, x: Array, y: Array, *, key: Key) -> Array:
    made = xp.copy(as_array(xp, x))
    made[key] = _exact(xp, y, made.dtype)
    return made


def _index_add(xp: Namespace, x: Array, y: Array, *, key: Key) -> Array:
    made = xp.copy(as_array(xp, x))
    # With a `...` it is a view, also of one element.
    into = made[key if Ellipsis in key else (*key, ...)]
    into += _exact(xp, y, made.dtype)
    return made


def _take_add(xp: Namespace, x: Array, indices: Array, updates: Array, *, axis: int = 0) -> Array:
    array, places = as_array(xp, x), as_array(xp, indices)
    if not array.shape[axis] and places.size:
        raise IndexError(f"cannot add to elements along axis {axis}, which has none")
    key = (*[slice(None)] * (axis % array.ndim), places)
    added = xp.full((), updates, array.dtype) if is_number(updates) else _exact(xp, updates, array.dtype)
    atomic = _ATOMIC.get(array.dtype.name)
    if atomic is not None:
        wide = xp.astype(array, atomic)
        xp.add.at(wide, key, xp.astype(added, atomic))
        return xp.astype(wide, array.dtype)
    made = xp.copy(array)
    if made.dtype.kind == "c":
        xp.add.at(made.real, key, added.real)
        xp.add.at(made.imag, key, added.imag)
    else:
        xp.add.at(made, key, added)
    return made


_ATOMIC: Final = {
    "bool": np.dtype("int32"),
    "int8": np.dtype("int32"),
    "int16": np.dtype("int32"),
    "int64": np.dtype("uint64"),
    "uint8": np.dtype("int32"),
    "uint16": np.dtype("int32"),
}
"""The dtypes in which others are added, modulo a power of two as in their own; booleans are true if they are not 0."""


def _exact(xp: Namespace, y: Array, dtype: np.dtype[Any]) -> Array:
    """What is put in, in that dtype: a number as it is, which CuPy converts.

    Raises:
        TypeError: it would lose something; which is known before it runs if the dtypes are.
    """
    if is_number(y) or y.dtype == dtype:
        return y
    if not np.can_cast(y.dtype, dtype, "safe"):
        raise TypeError(f"cannot convert {y.dtype} to {dtype} without loss")
    return xp.astype(y, dtype)


UPDATES: Final[dict[str, Callable[..., Array]]] = {
    "index_add": _index_add,
    "index_set": _index_set,
    "take_add": _take_add,
}
"""Computes an op: called with CuPy's namespace, the operands, and the op's params as keywords."""
