"""The ops for which CuPy 14 has no function, or one that means something else than NumPy's.

Each is a function of CuPy's namespace, of the operands, and of the op's params as keywords. What CuPy computes
otherwise, and is computed here as NumPy does:

- `floor_divide` and `remainder` of floats, which CuPy derives from the rounded quotient: 1.0 // 0.1 is 9, not 10, and
  x % inf is x, not NaN;
- products of booleans, whose sums CuPy's reduction of two vectors cannot give back as booleans;
- what is true of complex numbers, of which CuPy has no `logical_and` and its like;
- sums and products in another dtype, for which NumPy converts each element before it adds;
- `std` and `var` with a correction that leaves nothing to divide by: infinity, unless all elements are equal;
- limits that are NaN in `clip`, which are no limits to CuPy; and clipped complex numbers;
- `arange` in an integer dtype by steps that wrap around, or are no integers; of floats, in the last bits; of booleans;
- what is joined of three dtypes or more, or of numbers;
- `linspace` of complex numbers, fill values that are complex, `meshgrid` of one vector, which is a copy, and of rank 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from math import ceil, prod
from typing import Any, Final

import numpy as np

from asyncgraph.abc import Array

Namespace = Any
"""CuPy, or what stands for it."""

DType = np.dtype[Any]


def is_number(operand: object) -> bool:
    """Whether an operand is a Python number."""
    return isinstance(operand, (bool, int, float, complex))


def as_array(xp: Namespace, operand: Array) -> Array:
    """An operand as an array; a number as one of rank 0, in NumPy's dtype for it."""
    return xp.full((), operand, _dtype(operand)) if is_number(operand) else operand


def _dtype(operand: Array) -> DType:
    return np.asarray(operand).dtype if is_number(operand) else operand.dtype


def _kinds(*operands: Array) -> str:
    return "".join([_dtype(one).kind for one in operands])


# -- elementwise -------------------------------------------------------------------------------------


def _floor_divide(xp: Namespace, x1: Array, x2: Array) -> Array:
    if "f" not in _kinds(x1, x2):
        return xp.floor_divide(x1, x2)
    ratio, rest = xp.divide(x1, x2), xp.fmod(x1, x2)
    whole = xp.rint(xp.divide(xp.subtract(x1, rest), x2))
    floored = xp.subtract(whole, _is_above_floor(xp, rest, x2))
    # The ratio has the sign of a quotient that is zero, and is the quotient if the divisor is.
    return xp.where(xp.equal(x2, 0), ratio, xp.copysign(floored, ratio))


def _remainder(xp: Namespace, x1: Array, x2: Array) -> Array:
    if "f" not in _kinds(x1, x2):
        return xp.remainder(x1, x2)
    rest = xp.fmod(x1, x2)
    moved = xp.where(_is_above_floor(xp, rest, x2), xp.add(rest, x2), rest)
    return xp.where(xp.equal(rest, 0), xp.copysign(rest, x2), moved)


def _is_above_floor(xp: Namespace, rest: Array, divisor: Array) -> Array:
    """Where the quotient that was truncated is one more than that which is floored."""
    return xp.logical_and(xp.not_equal(rest, 0), xp.not_equal(xp.less(rest, 0), xp.less(divisor, 0)))


def _clip(xp: Namespace, x: Array, low: Array, high: Array) -> Array:
    array = as_array(xp, x)
    numbers = is_number(low) and is_number(high)
    if numbers and low == low and high == high and array.dtype.kind != "c":
        return xp.clip(array, low, high)
    # Two promotions, one after the other, may give another dtype than all three at once.
    common = np.result_type(*[one if is_number(one) else one.dtype for one in (x, low, high)])
    return xp.minimum(xp.maximum(xp.astype(array, common, copy=False), low), high)


def _logical(name: str, xp: Namespace, *operands: Array) -> Array:
    return getattr(xp, name)(*[_truth(xp, one) for one in operands])


def _truth(xp: Namespace, x: Array) -> Array:
    return xp.not_equal(x, 0) if _kinds(x) == "c" else x


def _where(xp: Namespace, condition: Array, x1: Array, x2: Array) -> Array:
    return xp.where(as_array(xp, _truth(xp, condition)), x1, x2)


def _where_larger(xp: Namespace, x: Array, a: Array, b: Array) -> Array:
    return xp.where(xp.greater(a, b), x, xp.where(xp.equal(a, b), xp.multiply(x, 0.5), 0))


# -- reductions --------------------------------------------------------------------------------------


def _accumulated(name: str, xp: Namespace, x: Array, *, dtype: DType | None = None, **options: Any) -> Array:
    if dtype is None:
        return getattr(xp, name)(x, **options)
    converted = x if np.can_cast(x.dtype, dtype) else xp.astype(x, dtype)
    return getattr(xp, name)(converted, dtype=dtype, **options)


def _spread(name: str, xp: Namespace, x: Array, *, correction: float = 0, **options: Any) -> Array:
    axis = options.get("axis")
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    if correction < prod(x.shape[one] for one in axes):
        return getattr(xp, name)(x, ddof=correction, **options)
    return xp.divide(getattr(xp, name)(x, **options), 0.0)


# -- products ----------------------------------------------------------------------------------------


def _product(name: str, xp: Namespace, x1: Array, x2: Array, **options: Any) -> Array:
    if _kinds(x1, x2) != "bb":
        return getattr(xp, name)(x1, x2, **options)
    counts = [xp.astype(one, np.dtype("int32")) for one in (x1, x2)]
    return xp.not_equal(getattr(xp, name)(*counts, **options), 0)


def _vecdot(xp: Namespace, x1: Array, x2: Array, *, axis: int = -1) -> Array:
    left, right = xp.moveaxis(x1, axis, -1), xp.moveaxis(x2, axis, -1)
    rows = xp.expand_dims(xp.conj(left) if left.dtype.kind == "c" else left, axis=-2)
    return xp.squeeze(_product("matmul", xp, rows, xp.expand_dims(right, axis=-1)), axis=(-2, -1))


# -- creation ----------------------------------------------------------------------------------------


def _arange(xp: Namespace, start: float, stop: float, step: float, *, dtype: DType) -> Array:
    count = max(0, ceil((stop - start) / step))
    if dtype.kind == "b" and count > 2:
        raise TypeError(f"arange of booleans has at most two, got {count}")
    # NumPy converts the first two elements, and goes on by their difference; integers wrap around modulo 2**64.
    wide = _WIDE.get(dtype.kind, np.result_type(dtype, "float32"))
    both = start, start + step if count > 1 else start
    first, second = [np.asarray(one).astype(dtype).astype(wide)[None] for one in both]
    ramp = xp.multiply(xp.arange(count, dtype=wide), (second - first).item())
    return xp.astype(xp.add(ramp, first.item()), dtype, copy=False)


_WIDE: Final = {"b": np.dtype("uint8"), "i": np.dtype("uint64"), "u": np.dtype("uint64")}


def _linspace(xp: Namespace, start: complex, stop: complex, *, dtype: DType, **options: Any) -> Array:
    if "c" not in _kinds(start, stop):
        return xp.linspace(start, stop, dtype=dtype, **options)
    real, imag = [xp.linspace(*parts, **options) for parts in ((start.real, stop.real), (start.imag, stop.imag))]
    return xp.astype(xp.add(real, xp.multiply(imag, 1j)), dtype, copy=False)


def _full(xp: Namespace, *, shape: tuple[int, ...], fill_value: complex, dtype: DType) -> Array:
    # NumPy converts the value, and warns if it has to.
    return xp.full(shape, np.full((), fill_value, dtype)[()], dtype=dtype)


def _full_like(xp: Namespace, x: Array, *, fill_value: complex, dtype: DType | None = None) -> Array:
    return _full(xp, shape=x.shape, fill_value=fill_value, dtype=dtype or x.dtype)


def _meshgrid(xp: Namespace, *arrays: Array, indexing: str) -> tuple[Array, ...]:
    vectors = [xp.reshape(one, (-1,)) for one in arrays]
    return xp.meshgrid(*vectors, indexing=indexing) if len(vectors) > 1 else (xp.copy(vectors[0]),)


# -- manipulation ------------------------------------------------------------------------------------


def _joined(name: str, xp: Namespace, *operands: Array, **options: Any) -> Array:
    numbers = [one for one in operands if is_number(one)]
    dtypes = {one.dtype for one in operands if not is_number(one)}
    if not numbers and len(dtypes) == 1:
        return getattr(xp, name)(operands, **options)
    # CuPy takes no numbers, and promotes three dtypes or more one after the other, in any order.
    common = np.result_type(*dtypes, *numbers)
    arrays = [xp.full((), one, common) if is_number(one) else one for one in operands]
    return getattr(xp, name)(arrays, dtype=common, **options)


def _reshape(xp: Namespace, x: Array, *, shape: tuple[int, ...]) -> Array:
    return xp.reshape(x, shape)


def _reshape_like(xp: Namespace, x: Array, like: Array) -> Array:
    return xp.reshape(as_array(xp, x), _shape(like))


def _split_like(xp: Namespace, x: Array, *parts: Array, axis: int | None) -> tuple[Array, ...]:
    shapes = [_shape(one) for one in parts]
    lengths = [prod(one) if axis is None else one[axis] for one in shapes]
    before = (slice(None),) * ((axis or 0) % x.ndim)
    split = [x[(*before, slice(end - length, end))] for end, length in zip(accumulate(lengths), lengths, strict=True)]
    return tuple([xp.reshape(one, shape) for one, shape in zip(split, shapes, strict=True)] if axis is None else split)


def _shape(operand: Array) -> tuple[int, ...]:
    return () if is_number(operand) else operand.shape


def _size_of(xp: Namespace, x: Array, *, axis: int | tuple[int, ...] | None = None) -> Array:
    shape = _shape(x)
    axes = range(len(shape)) if axis is None else (axis,) if isinstance(axis, int) else axis
    return xp.full((), prod([shape[one] for one in axes]), np.dtype("float64"))


def _divide_by_size(xp: Namespace, x: Array, like: Array, *, axis: int | tuple[int, ...] | None = None) -> Array:
    return xp.astype(xp.divide(x, _size_of(xp, like, axis=axis)), x.dtype, copy=False)


def _unstack(xp: Namespace, x: Array, *, axis: int = 0) -> tuple[Array, ...]:
    moved = xp.moveaxis(x, axis, 0)
    return tuple([moved[position] for position in range(moved.shape[0])])


ADAPTED: Final[dict[str, Callable[..., Array]]] = {
    "arange": _arange,
    "clip": _clip,
    "concat": partial(_joined, "concat"),
    "divide_by_size": _divide_by_size,
    "floor_divide": _floor_divide,
    "full": _full,
    "full_like": _full_like,
    "linspace": _linspace,
    **{name: partial(_logical, name) for name in ("logical_and", "logical_not", "logical_or", "logical_xor")},
    "matmul": partial(_product, "matmul"),
    "meshgrid": _meshgrid,
    "prod": partial(_accumulated, "prod"),
    "remainder": _remainder,
    "reshape": _reshape,
    "reshape_like": _reshape_like,
    "size_of": _size_of,
    "split_like": _split_like,
    "stack": partial(_joined, "stack"),
    "std": partial(_spread, "std"),
    "stop_gradient": as_array,
    "sum": partial(_accumulated, "sum"),
    "tensordot": partial(_product, "tensordot"),
    "unstack": _unstack,
    "var": partial(_spread, "var"),
    "vecdot": _vecdot,
    "where": _where,
    "where_larger": _where_larger,
}
"""Computes an op: called with CuPy's namespace, the operands, and the op's params as keywords."""
