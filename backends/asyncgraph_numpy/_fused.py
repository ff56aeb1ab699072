"""What training does in every step: each goes over its operands as few times as NumPy can, and makes few arrays.

Where results go is said by position, which takes NumPy less time than by name, or by an operator such as `+=`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy import add, divide, exp, log, maximum, multiply, sqrt, square, subtract

from asyncgraph.abc import Kernel

_Array = np.ndarray[Any, Any]


def _relu(x: Any) -> Any:
    return np.maximum(x, zero_of(x))


def zero_of(x: Any) -> Any:
    """The 0 of the dtype of `x`. Of a Python number NumPy makes an array in each call: as much as 1000 elements."""
    return _ZEROS.get(x.dtype.char, 0)


_ZEROS: Final[Mapping[str, _Array]] = {one: np.zeros((), one) for one in "efdg"}


# -- losses ------------------------------------------------------------------------------------------


def _softmax_cross_entropy(logits: Any, labels: Any) -> tuple[Any, Any]:
    """The losses, and softmax - one_hot, which is made in the place of the shifted logits."""
    shape: tuple[int, ...] = logits.shape
    if labels.shape != shape[:-1]:
        raise ValueError(f"labels of shape {labels.shape} do not fit logits of shape {shape}")
    if len(shape) != 2:
        losses, residual = _softmax_cross_entropy(logits.reshape(-1, shape[-1]), labels.reshape(-1))
        return losses.reshape(shape[:-1]), residual.reshape(shape)
    count, classes = shape
    numbers: _Array = np.arange(count)
    # NumPy reduces each row by itself, at 40 ns a row; columns of many rows it adds up, of float16 without more digits.
    by_column = classes <= _FEW and classes < count and logits.dtype.char != "e"
    at, axis = ((labels, numbers), 0) if by_column else ((numbers, labels), 1)
    residual: _Array = (logits.T if by_column else logits).copy()
    try:
        places = np.ravel_multi_index(at, residual.shape)
    except ValueError as error:
        raise IndexError(f"a label is negative, or not less than the {classes} classes") from error
    subtract(residual, _max(residual, axis, None, None, True), residual)
    chosen = residual.take(places)
    exp(residual, residual)
    total = _sum(residual, axis, None, None, True)
    divide(residual, total, residual)
    losses = log(total, total).reshape(-1)
    residual.put(places, residual.take(places) - 1)
    return subtract(losses, chosen, losses), residual.T if by_column else residual


_max: Final[Callable[..., Any]] = maximum.reduce
_sum: Final[Callable[..., Any]] = add.reduce
_FEW: Final = 32
"""The most classes that it is worth to put into columns."""


# -- optimizers --------------------------------------------------------------------------------------


def _adam(params: Mapping[str, Any]) -> Kernel:
    betas: tuple[float, float] = params["beta1"], params["beta2"]
    # Of a Python number NumPy makes an array in each call, which takes as long as 1000 elements.
    complements = {np.dtype(one): [np.asarray(1.0 - beta, one) for beta in betas] for one in "efdg"}

    def kernel(w: Any, g: Any, m: Any, v: Any, factor: Any, epsilon: Any, shrink: Any = None) -> tuple[Any, Any, Any]:
        new_m = subtract(g, m)
        if not new_m.ndim:  # Then it is a scalar of NumPy's, which nothing is written to.
            w, g, m, v = [np.asarray(one)[None] for one in (w, g, m, v)]
            made = kernel(w, g, m, v, factor, epsilon, shrink)
            return made[0][0], made[1][0], made[2][0]
        of_gradient, of_square = complements[new_m.dtype]
        multiply(new_m, of_gradient, new_m)
        add(new_m, m, new_m)
        new_v = square(g)
        subtract(new_v, v, new_v)
        multiply(new_v, of_square, new_v)
        add(new_v, v, new_v)
        root = sqrt(new_v)
        add(root, epsilon, root)
        step = multiply(new_m, factor)
        divide(step, root, step)
        if shrink is not None:
            add(step, multiply(w, shrink, root), step)
        return subtract(w, step, step), new_m, new_v

    return kernel


def _adam_rates(params: Mapping[str, Any]) -> Kernel:
    beta1: float = params["beta1"]
    beta2: float = params["beta2"]
    epsilon: float = params["epsilon"]
    dtype: np.dtype[Any] = params["dtype"]

    def kernel(count: Any, rate: Any) -> tuple[_Array, _Array]:
        # Python's floats, at a tenth of the time of NumPy's.
        t = int(count)
        c = math.sqrt(1.0 - beta2**t)
        return np.asarray(c * float(rate) / (1.0 - beta1**t), dtype), np.asarray(c * epsilon, dtype)

    return kernel


FUSED: Final[dict[str, Callable[[Mapping[str, object]], Kernel]]] = {
    "adam": _adam,
    "adam_rates": _adam_rates,
    "relu": lambda params: _relu,
    "softmax_cross_entropy": lambda params: _softmax_cross_entropy,
}
"""Makes the kernel of an op from its params."""
