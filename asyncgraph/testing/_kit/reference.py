"""NumPy, with the functions of `asyncgraph.ops` that it has not: what says which values are right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final, final

import numpy as np

_Array = np.ndarray[Any, Any]


@final
class _At:
    """What `asyncgraph.ops.at(x)` is, for arrays."""

    def __init__(self, x: Any) -> None:
        self._x: Final = np.asarray(x)

    def __getitem__(self, key: Any) -> _Place:
        return _Place(self._x, key)

    def take_add(self, indices: Any, updates: Any, *, axis: int = 0) -> _Array:
        made = self._x.copy()
        key: Any = (*[slice(None)] * (axis % made.ndim), indices)
        np.add.at(made, key, updates)
        return made


@final
class _Place:
    """What `asyncgraph.ops.at(x)[key]` is, for arrays."""

    def __init__(self, x: _Array, key: Any) -> None:
        self._x: Final = x
        self._key: Final = key

    def set(self, y: Any) -> _Array:
        made = self._x.copy()
        made[self._key] = y
        return made

    def add(self, y: Any) -> _Array:
        made = self._x.copy()
        made[self._key] += y
        return made


def _broadcast_like(x: Any, like: _Array) -> _Array:
    return np.broadcast_to(x, like.shape)


def _sum_to(x: _Array, like: _Array) -> _Array:
    lead = x.ndim - like.ndim
    axes = [axis for axis, size in enumerate(x.shape) if axis < lead or size != like.shape[axis - lead]]
    return x.sum(axis=tuple(axes), dtype=x.dtype, keepdims=True).reshape(like.shape)


def _reshape_like(x: _Array, like: _Array) -> _Array:
    return np.reshape(x, like.shape)


def _size_of(x: _Array, *, axis: int | None = None) -> _Array:
    return np.asarray(x.size if axis is None else x.shape[axis], np.float64)


def _split_like(x: _Array, *parts: _Array, axis: int | None) -> list[_Array]:
    ends = np.cumsum([one.size if axis is None else one.shape[axis] for one in parts])
    split = np.split(x, ends[:-1], axis or 0)
    return split if axis is not None else [np.reshape(one, like.shape) for one, like in zip(split, parts, strict=True)]


def _where_larger(x: _Array, a: _Array, b: _Array) -> _Array:
    return np.where(a > b, x, np.where(a == b, x * 0.5, 0))


NUMPY: Final[Any] = SimpleNamespace(
    **vars(np),
    at=_At,
    broadcast_like=_broadcast_like,
    reshape_like=_reshape_like,
    size_of=_size_of,
    split_like=_split_like,
    stop_gradient=np.asarray,
    sum_to=_sum_to,
    where_larger=_where_larger,
)
"""A namespace."""
