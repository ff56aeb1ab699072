"""What training does in every step, composed of CuPy's functions: nothing here waits for the device.

So a label that is out of bounds is no error, but makes the loss of its row NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any, Final

import numpy as np

from asyncgraph.abc import Array

from ._adapted import Namespace

DType = np.dtype[Any]
_DOUBLE: Final = np.dtype("float64")
_INTEGER: Final = np.dtype("int64")


def _relu(xp: Namespace, x: Array) -> Array:
    return xp.maximum(x, 0)


def _where_positive(xp: Namespace, gradient: Array, x: Array) -> Array:
    return xp.where(xp.greater(x, 0), gradient, 0)


def _softmax_cross_entropy(xp: Namespace, logits: Array, labels: Array) -> tuple[Array, Array]:
    classes = xp.expand_dims(xp.astype(labels, _INTEGER), axis=-1)
    one_hot = xp.equal(classes, xp.arange(logits.shape[-1], dtype=_INTEGER))
    shifted = xp.subtract(logits, xp.max(logits, axis=-1, keepdims=True))
    chances = xp.exp(shifted)
    total = xp.sum(chances, axis=-1, keepdims=True)
    chosen = xp.sum(xp.where(one_hot, shifted, 0), axis=-1, keepdims=True)
    losses = xp.where(xp.any(one_hot, axis=-1, keepdims=True), xp.subtract(xp.log(total), chosen), nan)
    return xp.squeeze(losses, axis=-1), xp.subtract(xp.divide(chances, total), one_hot)


def _adam(
    xp: Namespace,
    w: Array,
    g: Array,
    m: Array,
    v: Array,
    factor: Array,
    epsilon: Array,
    *shrink: Array,
    beta1: float,
    beta2: float,
) -> tuple[Array, Array, Array]:
    new_m = xp.add(xp.multiply(xp.subtract(g, m), 1.0 - beta1), m)
    new_v = xp.add(xp.multiply(xp.subtract(xp.square(g), v), 1.0 - beta2), v)
    step = xp.divide(xp.multiply(new_m, factor), xp.add(xp.sqrt(new_v), epsilon))
    for one in shrink:
        step = xp.add(step, xp.multiply(w, one))
    return xp.subtract(w, step), new_m, new_v


def _adam_rates(
    xp: Namespace, count: Array, rate: Array, *, beta1: float, beta2: float, epsilon: float, dtype: DType
) -> tuple[Array, Array]:
    t = xp.astype(count, _DOUBLE)
    c = xp.sqrt(xp.subtract(1.0, xp.pow(beta2, t)))
    factor = xp.divide(xp.multiply(c, rate), xp.subtract(1.0, xp.pow(beta1, t)))
    return xp.astype(factor, dtype), xp.astype(xp.multiply(c, epsilon), dtype)


FUSED: Final[dict[str, Callable[..., Any]]] = {
    "adam": _adam,
    "adam_rates": _adam_rates,
    "relu": _relu,
    "softmax_cross_entropy": _softmax_cross_entropy,
    "where_positive": _where_positive,
}
"""Computes an op: called with CuPy's namespace, the operands, and the op's params as keywords."""
