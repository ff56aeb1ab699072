"""Where NumPy's function is not the Array API standard's: what stands in for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from operator import attrgetter, itemgetter, methodcaller
from typing import Any, Final

import numpy as np

from asyncgraph.abc import Kernel

from ._fused import FUSED, zero_of
from ._updates import UPDATES

_Axes = int | tuple[int, ...] | None


def _imag(x: Any) -> Any:
    return np.asarray(x.imag)


def _real(x: Any) -> Any:
    return np.asarray(x.real)


def _reduce(ufunc: np.ufunc, dtype: object = None) -> Callable[[Mapping[str, Any]], Kernel]:
    # What np.sum and its like call in the end, after 2 to 3 µs of Python; by position, which saves another.
    reduce: Callable[..., Any] = ufunc.reduce

    def make(params: Mapping[str, Any]) -> Kernel:
        axis, into, keepdims = params.get("axis"), params.get("dtype", dtype), params.get("keepdims", False)

        def kernel(x: Any) -> Any:
            return reduce(x, axis, into, None, keepdims)

        return kernel

    return make


def _mean(params: Mapping[str, Any]) -> Kernel:
    axis, keepdims = params.get("axis"), params.get("keepdims", False)

    def kernel(x: Any) -> Any:
        if x.__class__ is not _ARRAY or x.dtype.char not in "fd" or not x.size or not x.ndim:
            return np.mean(x, **params)
        total = _sum(x, axis, None, None, keepdims)
        count = x.size // total.size
        if not total.ndim:
            return x.dtype.type(float(total) / count)
        return np.true_divide(total, np.intp(count), out=total, casting="unsafe")

    # What np.mean does, after 6 µs of Python.
    return partial(np.mean, **params) if "dtype" in params else kernel


def _reshape_like(x: Any, like: Any) -> Any:
    return np.reshape(x, np.shape(like))


def _size_of(params: Mapping[str, Any]) -> Kernel:
    axis: _Axes = params.get("axis")

    def kernel(x: Any) -> Any:
        return np.float64(_count(np.shape(x), axis))

    return kernel


def _divide_by_size(params: Mapping[str, Any]) -> Kernel:
    axis: _Axes = params.get("axis")

    def kernel(x: Any, like: Any) -> Any:
        count = like.size if axis is None else _count(like.shape, axis)
        if x.ndim or x.dtype.char not in "fd" or not count:
            return np.asarray(x / np.float64(count), x.dtype)
        return x.dtype.type(float(x) / count)

    return kernel


def _count(shape: tuple[int, ...], axis: _Axes) -> int:
    return prod(shape if axis is None else [shape[one] for one in ((axis,) if isinstance(axis, int) else axis)])


def _split_like(params: Mapping[str, Any]) -> Kernel:
    axis: int | None = params["axis"]

    def kernel(x: Any, *parts: Any) -> tuple[Any, ...]:
        ends = np.cumsum([np.size(one, axis) for one in parts])
        split = np.split(x, ends[:-1], axis or 0)
        if axis is None:
            split = [np.reshape(one, np.shape(like)) for one, like in zip(split, parts, strict=True)]
        return tuple(split)

    return kernel


def _expand_dims(params: Mapping[str, Any]) -> Kernel:
    axis: int | tuple[int, ...] = params["axis"]
    if not isinstance(axis, int):
        return partial(np.expand_dims, axis=axis)

    def kernel(x: Any) -> Any:
        shape = np.shape(x)
        at = axis if axis >= 0 else axis + len(shape) + 1
        if not isinstance(x, _ARRAY) or not 0 <= at <= len(shape):
            return np.expand_dims(x, axis)
        # What np.expand_dims does, after 4 µs of Python: indexing with None would give other strides.
        return x.reshape((*shape[:at], 1, *shape[at:]))

    return kernel


def _where(condition: Any, a: Any, b: Any) -> Any:
    if b.__class__ is int and not b and _is_masked_faster(condition, a):
        return _masked(a, condition)
    if a.__class__ is int and not a and _is_masked_faster(condition, b):
        return _masked(b, np.logical_not(condition))
    return _choose(condition, a, b)


def _where_larger(x: Any, a: Any, b: Any) -> Any:
    larger, equal = np.greater(a, b), np.equal(a, b)
    if equal.any():
        return np.where(larger, x, np.where(equal, x * 0.5, 0))
    return _where(larger, x, 0)


def _where_positive(gradient: Any, x: Any) -> Any:
    positive = _greater(x, zero_of(x))
    if gradient.__class__ is _ARRAY and positive.__class__ is _ARRAY and gradient.dtype.itemsize in _INTEGERS:
        return _masked(gradient, positive)
    return _choose(positive, gradient, 0)


def _is_masked_faster(mask: Any, x: Any) -> bool:
    if not isinstance(x, _ARRAY) or x.size < _LONG or not isinstance(mask, _ARRAY):
        return False
    return mask.dtype.kind == "b" and x.dtype.kind in "fc" and x.dtype.itemsize in _INTEGERS


def _masked(x: Any, mask: Any) -> Any:
    """What np.where(mask, x, 0) gives, without a branch for each element."""
    dtype = x.dtype
    integer = _INTEGERS[dtype.itemsize]
    # All bits are kept by a product with 1, and none by one with 0.
    kept = mask.astype(integer)
    fits = kept.strides == x.strides and kept.shape == x.shape
    return _multiply(x.view(integer), kept, kept if fits else None).view(dtype)


_ARRAY: Final[Any] = np.ndarray
_sum: Final[Callable[..., Any]] = np.add.reduce
_choose: Final[Callable[..., Any]] = np.where
_greater: Final = np.greater
_multiply: Final = np.multiply
_INTEGERS: Final[Mapping[int, np.dtype[Any]]] = {size: np.dtype(f"i{size}") for size in (2, 4, 8)}
"""By size in bytes."""
_LONG: Final = 1 << 13
"""Elements from which np.where takes 3 to 25 times as long, if the mask is in no order: branches are mispredicted."""


KERNELS: Final[dict[str, Callable[[Mapping[str, object]], Kernel]]] = {
    "all": _reduce(np.logical_and, np.bool_),
    "any": _reduce(np.logical_or, np.bool_),
    # np.astype takes no NumPy scalars, which ufuncs make where arrays have rank 0.
    "astype": lambda params: methodcaller("astype", params["dtype"], copy=params["copy"]),
    "divide_by_size": _divide_by_size,
    "expand_dims": _expand_dims,
    # np.imag and np.real make Python numbers of Python numbers, which would promote as such.
    "imag": lambda params: _imag,
    # Written in C, where a lambda would cost as much as the indexing.
    "index": lambda params: itemgetter(params["key"]),
    # np.matrix_transpose is Python, at ten times the cost.
    "matrix_transpose": lambda params: attrgetter("mT"),
    "max": _reduce(np.maximum),
    "mean": _mean,
    "min": _reduce(np.minimum),
    "prod": _reduce(np.multiply),
    "real": lambda params: _real,
    "reshape_like": lambda params: _reshape_like,
    "size_of": _size_of,
    "split_like": _split_like,
    "stop_gradient": lambda params: np.asarray,
    "sum": _reduce(np.add),
    "where": lambda params: _where,
    "where_larger": lambda params: _where_larger,
    "where_positive": lambda params: _where_positive,
    **FUSED,
    **UPDATES,
}
"""Makes the kernel of an op from its params."""
