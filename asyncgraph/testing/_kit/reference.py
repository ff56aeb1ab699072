"""NumPy, with the functions of `asyncgraph.ops` that it has not: what says which values are right."""

from __future__ import annotations

from math import sqrt
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


def _divide_by_size(x: _Array, like: _Array, *, axis: int | None = None) -> _Array:
    return np.asarray(x / _size_of(like, axis=axis), x.dtype)


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


def _where_positive(gradient: _Array, x: _Array) -> _Array:
    return np.where(x > 0, gradient, 0)


def _softmax_cross_entropy(logits: _Array, labels: _Array) -> tuple[_Array, _Array]:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)
    count: int = logits.shape[-1]
    one_hot = np.equal(labels[..., None], np.arange(count))
    losses = np.log(total) - np.where(one_hot, shifted, 0).sum(axis=-1, keepdims=True)
    return losses[..., 0], np.exp(shifted) / total - one_hot


def _adam(
    w: _Array, g: _Array, m: _Array, v: _Array, factor: Any, epsilon: Any, *shrink: Any, beta1: float, beta2: float
) -> list[_Array]:
    new_m, new_v = m + (g - m) * (1.0 - beta1), v + (g**2 - v) * (1.0 - beta2)
    step = new_m * factor / (np.sqrt(new_v) + epsilon)
    return [w - sum([w * one for one in shrink], start=step), new_m, new_v]


def _adam_rates(
    count: _Array, rate: Any, *, beta1: float, beta2: float, epsilon: float, dtype: np.dtype[Any]
) -> list[_Array]:
    c = sqrt(1.0 - beta2 ** int(count))
    return [np.asarray(c * float(rate) / (1.0 - beta1 ** int(count)), dtype), np.asarray(c * epsilon, dtype)]


def _relu(x: _Array) -> _Array:
    return np.maximum(x, 0)


NUMPY: Final[Any] = SimpleNamespace(
    **vars(np),
    at=_At,
    adam=_adam,
    adam_rates=_adam_rates,
    broadcast_like=_broadcast_like,
    divide_by_size=_divide_by_size,
    relu=_relu,
    reshape_like=_reshape_like,
    size_of=_size_of,
    softmax_cross_entropy=_softmax_cross_entropy,
    split_like=_split_like,
    stop_gradient=np.asarray,
    sum_to=_sum_to,
    where_larger=_where_larger,
    where_positive=_where_positive,
)
"""A namespace."""
