"""Kernels of ops that are no functions of the Array API standard, but composed of functions that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from operator import itemgetter
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

import numpy as np

if TYPE_CHECKING:
    from .abc import Array, Kernel

_Params = Mapping[str, object]


def own_dtype(namespace: ModuleType, value: object) -> object:
    """A dtype of NumPy's as the namespace's own; anything else as it is."""
    if namespace is np or not isinstance(value, np.dtype) or value.kind not in "biufc":
        return cast("object", value)
    dtype: object = getattr(namespace, value.name, None)
    if dtype is None:
        raise NotImplementedError(f"{namespace.__name__} has no dtype {value.name!r}")
    return dtype


def _index(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    key = cast("tuple[object, ...]", params["key"])
    return itemgetter(key if Ellipsis in key else (*key, ...))


def _index_set(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    pick = _index(namespace, params, device)

    def kernel(x: Array, y: Array) -> Array:
        made = namespace.asarray(x, copy=True)
        pick(made)[...] = y
        return made

    return kernel


def _index_add(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    pick = _index(namespace, params, device)

    def kernel(x: Array, y: Array) -> Array:
        made = namespace.asarray(x, copy=True)
        into = pick(made)
        into += y
        return made

    return kernel


def _take_add(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    """Row by row: the standard has nothing that adds up what is repeated."""
    axis = cast("int", params.get("axis", 0))

    def kernel(x: Array, indices: Array, updates: Array) -> Array:
        made = namespace.asarray(x, copy=True)
        before = (slice(None),) * (axis % len(x.shape))
        shape = (*x.shape[: len(before)], *indices.shape, *x.shape[len(before) + 1 :])
        spread = namespace.broadcast_to(namespace.asarray(updates, dtype=x.dtype, device=device), shape)
        for place in np.ndindex(*indices.shape):
            row = (*before, int(indices[place]), ...)
            made[row] = made[row] + spread[(*before, *place, ...)]
        return made

    return kernel


def _broadcast_like(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    def kernel(x: Array, like: Array) -> Array:
        return namespace.broadcast_to(x, like.shape)

    return kernel


def _reshape_like(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    def kernel(x: Array, like: Array) -> Array:
        return namespace.reshape(x, like.shape)

    return kernel


def _sum_to(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    def kernel(x: Array, like: Array) -> Array:
        shape, wanted = x.shape, like.shape
        if shape == wanted:
            return x
        lead = len(shape) - len(wanted)
        axes = *range(lead), *[axis for axis in range(lead, len(shape)) if shape[axis] != wanted[axis - lead]]
        if lead < 0 or any(axis >= lead and wanted[axis - lead] != 1 for axis in axes):
            raise ValueError(f"shape {tuple(wanted)} was not broadcast to {tuple(shape)}")
        return namespace.reshape(namespace.sum(x, axis=axes, dtype=x.dtype, keepdims=True), wanted)

    return kernel


def _size_of(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    given = cast("int | tuple[int, ...] | None", params.get("axis"))
    dtype = own_dtype(namespace, np.dtype(np.float64))

    def kernel(x: Array) -> Array:
        axes = range(len(x.shape)) if given is None else (given,) if isinstance(given, int) else given
        return namespace.asarray(prod(x.shape[axis] for axis in axes), dtype=dtype, device=device)

    return kernel


def _divide_by_size(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    size_of = _size_of(namespace, params, device)

    def kernel(x: Array, like: Array) -> Array:
        return namespace.astype(x / size_of(like), x.dtype)

    return kernel


def _split_like(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    axis = cast("int | None", params["axis"])

    def kernel(x: Array, *parts: Array) -> tuple[Array, ...]:
        before, end = (slice(None),) * ((axis or 0) % len(x.shape)), 0
        split: list[Array] = []
        for like in parts:
            start, end = end, end + (prod(like.shape) if axis is None else like.shape[axis])
            part = x[(*before, slice(start, end), ...)]
            split.append(namespace.reshape(part, like.shape) if axis is None else part)
        return tuple(split)

    return kernel


def _stop_gradient(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    def kernel(x: Array) -> Array:
        return x

    return kernel


def _where_larger(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    def kernel(x: Array, a: Array, b: Array) -> Array:
        half, nothing = namespace.multiply(x, 0.5), namespace.zeros_like(x)
        return namespace.where(a > b, x, namespace.where(a == b, half, nothing))

    return kernel


# -- in one, where training takes several ------------------------------------------------------------


def _relu(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    def kernel(x: Array) -> Array:
        return namespace.maximum(x, 0)

    return kernel


def _where_positive(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    def kernel(gradient: Array, x: Array) -> Array:
        return namespace.where(x > 0, gradient, namespace.zeros_like(gradient))

    return kernel


def _softmax_cross_entropy(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    integer = own_dtype(namespace, np.dtype(np.int64))

    def kernel(logits: Array, labels: Array) -> tuple[Array, Array]:
        count, classes = logits.shape[-1], namespace.astype(labels, integer)
        if namespace.any(namespace.logical_or(classes < 0, classes >= count)):
            raise IndexError(f"a label is out of bounds for {count} classes")
        every = namespace.arange(count, dtype=integer, device=device)
        one_hot = namespace.expand_dims(classes, axis=-1) == every
        shifted = logits - namespace.max(logits, axis=-1, keepdims=True)
        chances = namespace.exp(shifted)
        total = namespace.sum(chances, axis=-1, dtype=logits.dtype, keepdims=True)
        chosen = namespace.where(one_hot, shifted, namespace.zeros_like(shifted))
        losses = namespace.log(total) - namespace.sum(chosen, axis=-1, dtype=logits.dtype, keepdims=True)
        residual = chances / total - namespace.astype(one_hot, logits.dtype)
        return namespace.squeeze(losses, axis=-1), residual

    return kernel


def _adam(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    beta1, beta2 = cast("tuple[float, float]", (params["beta1"], params["beta2"]))

    def kernel(w: Array, g: Array, m: Array, v: Array, factor: Array, epsilon: Array, *shrink: Array) -> Array:
        m = m + (g - m) * (1.0 - beta1)
        v = v + (g * g - v) * (1.0 - beta2)
        step = m * factor / (namespace.sqrt(v) + epsilon)
        return w - (step + w * shrink[0] if shrink else step), m, v

    return kernel


def _adam_rates(namespace: ModuleType, params: _Params, device: object) -> Kernel:
    beta1, beta2, epsilon = cast("tuple[float, float, float]", [params[one] for one in ("beta1", "beta2", "epsilon")])
    double, dtype = own_dtype(namespace, np.dtype(np.float64)), own_dtype(namespace, params["dtype"])

    def kernel(count: Array, rate: Array) -> tuple[Array, Array]:
        t = namespace.astype(count, double)
        c = namespace.sqrt(1.0 - beta2**t)
        factor = c * namespace.asarray(rate, dtype=double, device=device) / (1.0 - beta1**t)
        return namespace.astype(factor, dtype), namespace.astype(c * epsilon, dtype)

    return kernel


COMPOSED: Final[Mapping[str, Callable[[ModuleType, _Params, object], Kernel]]] = {
    "adam": _adam,
    "adam_rates": _adam_rates,
    "broadcast_like": _broadcast_like,
    "divide_by_size": _divide_by_size,
    "index": _index,
    "index_add": _index_add,
    "index_set": _index_set,
    "relu": _relu,
    "reshape_like": _reshape_like,
    "size_of": _size_of,
    "softmax_cross_entropy": _softmax_cross_entropy,
    "split_like": _split_like,
    "stop_gradient": _stop_gradient,
    "sum_to": _sum_to,
    "take_add": _take_add,
    "where_larger": _where_larger,
    "where_positive": _where_positive,
}
"""Makes the kernel of an op from a namespace, the op's params and the namespace's own object for the device."""
