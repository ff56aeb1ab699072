"""A value becomes an array of a given dtype only if no value changes.

NumPy's own conversion truncates, wraps, parses text and rounds without a word. Here int32 becomes
float64; 1.5 never becomes int32, nor "123" a number, nor NaN an integer, nor 2**40 an int32. Python
numbers, alone or in lists, have no precision of their own: 0.1 becomes the nearest float32, as in NEP 50.
Whatever else has a dtype keeps what it has: arrays, also in lists, buffers, and other libraries' arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, SupportsInt, cast, final

import numpy as np

from .spec import DType

_Array = np.ndarray[Any, Any]


class ConversionError(Exception):
    """Why a value cannot become an array of the dtype; the first argument says it in words."""


@final
class WrongTypeError(ConversionError):
    """It is not the kind of thing that is ever converted."""


@final
class OutOfRangeError(ConversionError):
    """An integer, or a finite float, is too large for the dtype."""


@final
class ValueChangesError(ConversionError):
    """A value would not be the same afterwards."""


def as_exact_array(value: object, dtype: DType | None) -> _Array:
    """`value` as an array of `dtype` in native byte order, `value` itself if it is one; `None` lets NumPy choose.

    Raises:
        ConversionError: a value would change, or `value` is no array of numbers, times or text.
    """
    array = _as_array(value)
    if array.dtype.hasobject:
        _refuse_objects(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind in "fc":
        _refuse_rounded_integers(value, array, dtype)
    if dtype is None or array.dtype == dtype:
        return array
    convert = _CONVERSIONS.get((array.dtype.kind, dtype.kind))
    if array.size == 0 and (convert is not None or _is_literal(value)):
        return array.astype(dtype)
    if convert is None:
        # Fields would be matched by their places, whatever they are called.
        alike = array.dtype.kind == dtype.kind and array.dtype.names == dtype.names
        if alike and np.can_cast(array.dtype, dtype, "safe"):
            return array.astype(dtype)
        raise WrongTypeError(f"{array.dtype} is never converted to {dtype}")
    return convert(array, dtype, value)


def _as_array(value: object) -> _Array:
    if isinstance(value, np.ma.MaskedArray):
        raise WrongTypeError("it is a masked array, whose mask would be lost; fill it first: array.filled(...)")
    try:
        # Without __array__ NumPy would make one Python object of it.
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(cast("Any", value))
        return np.asarray(value)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise ValueChangesError(str(error)) from error


def _refuse_objects(array: _Array) -> None:
    for one in array.flat:
        if isinstance(one, int) and not -(2**63) <= one < 2**64:
            raise OutOfRangeError(f"the integer {one} fits no dtype of NumPy's")
    raise WrongTypeError(f"it holds Python objects, such as {next(iter(array.flat), None)!r}")


def _refuse_rounded_integers(value: object, array: _Array, dtype: DType | None) -> None:
    # [2**63, -1] is an array of floats to NumPy, and 2**53 + 1 beside 0.5 becomes 2**53.
    with np.errstate(all="ignore"):
        if not isinstance(value, (list, tuple)) or not (np.abs(array) >= 2.0**53).any():
            return
    integers = [int(one) for one in _leaves(cast("object", value)) if isinstance(one, _INTEGERS)]
    for one in integers:
        if int(float(one)) != one:
            raise OutOfRangeError(f"the integer {one} would be rounded to {float(one)}")
    if dtype is None and len(integers) == array.size:
        raise OutOfRangeError(f"no integer dtype of NumPy's holds both {min(integers)} and {max(integers)}")


def _is_literal(value: Any) -> bool:
    """Whether there are only Python numbers in it, which have no precision of their own."""
    stack: list[Any] = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, (list, tuple)):
            parts = cast("list[Any]", one)
            kinds: set[type[Any]] = set(map(type, parts))  # in C: there may be many
            if not all(map(_is_number, kinds)):
                stack.extend(parts)
        elif not _is_number(one.__class__):
            return False
    return True


def _is_number(kind: type[Any]) -> bool:
    # np.float64 is a float, but has a dtype.
    return issubclass(kind, (int, float, complex)) and not issubclass(kind, np.generic)


_INTEGERS: Final[tuple[type[SupportsInt], ...]] = (int, np.integer)


def _leaves(value: object) -> Iterator[object]:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, (list, tuple)):
            stack.extend(cast("list[object]", one))
        elif isinstance(one, np.ndarray):
            yield from cast("_Array", one).flat
        else:
            yield one


def _always(array: _Array, dtype: DType, value: object) -> _Array:
    return array.astype(dtype)


def _integers(array: _Array, dtype: DType, value: object) -> _Array:
    _check_range(int(array.min()), int(array.max()), dtype)
    return array.astype(dtype)


def _integers_to_floats(array: _Array, dtype: DType, value: object) -> _Array:
    exact = np.finfo(dtype).nmant + 1
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
        if max(-int(array.min()), int(array.max())) <= 2**exact:
            return made
        # What is beyond the integers' range, rounded up or infinite, may come back as their largest or smallest.
        beyond = (made.astype(np.float64) > np.nextafter(2.0 ** _bits(array.dtype), 0)) | np.isinf(made)
        changed = beyond | (made.astype(array.dtype) != array)
    if changed.any():
        raise ValueChangesError(f"{array[changed][0]} would become {made[changed][0]}")
    return made


def _bits(dtype: DType) -> int:
    return int(np.iinfo(dtype).max).bit_length()


def _integers_to_complex(array: _Array, dtype: DType, value: object) -> _Array:
    return _integers_to_floats(array, np.finfo(dtype).dtype, value).astype(dtype)


def _integers_to_bool(array: _Array, dtype: DType, value: object) -> _Array:
    wrong = array[(array != 0) & (array != 1)]
    if wrong.size:
        raise ValueChangesError(f"{wrong[0]} is no boolean")
    return array.astype(dtype)


def _floats_to_integers(array: _Array, dtype: DType, value: object) -> _Array:
    wrong = array[~np.isfinite(array)]
    if wrong.size == 0:
        wrong = array[np.trunc(array) != array]
    if wrong.size:
        raise ValueChangesError(f"{wrong.flat[0]} is no integer")
    _check_range(int(array.min()), int(array.max()), dtype)
    return array.astype(dtype)


def _floats(array: _Array, dtype: DType, value: object) -> _Array:
    with np.errstate(all="ignore"):
        made = array.astype(dtype)
    if np.can_cast(array.dtype, dtype, "safe"):
        return made
    overflown = array[np.isfinite(array) & ~np.isfinite(made)]
    if overflown.size:
        raise OutOfRangeError(f"{overflown[0]} is too large for {dtype}")
    changed = (made.astype(array.dtype) != array) & ~np.isnan(array)
    if changed.any() and not _is_literal(value):
        raise ValueChangesError(
            f"{array[changed][0]} would become {made[changed][0]}; if you mean it: .astype({str(dtype)!r})"
        )
    return made


def _complexes(array: _Array, dtype: DType, value: object) -> _Array:
    part = np.finfo(dtype).dtype
    made = np.empty_like(array, dtype)
    made.real = _floats(array.real, part, value)
    made.imag = _floats(array.imag, part, value)
    return made


def _floats_to_complex(array: _Array, dtype: DType, value: object) -> _Array:
    return _floats(array, np.finfo(dtype).dtype, value).astype(dtype)


def _times(array: _Array, dtype: DType, value: object) -> _Array:
    if not np.can_cast(array.dtype, dtype, "safe"):
        raise WrongTypeError(f"{array.dtype} is never converted to {dtype}")
    try:
        made = array.astype(dtype)
    except OverflowError as error:  # NumPy 2.5 says so itself, but not of which value.
        raise OutOfRangeError(f"{array.max()} is out of range for {dtype}") from error
    # Finer units have a shorter range, beyond which older versions wrap around.
    wrapped = (made.astype(array.dtype) != array) & ~np.isnat(array)
    if wrapped.any():
        raise OutOfRangeError(f"{array[wrapped][0]} is out of range for {dtype}")
    return made


def _check_range(low: int, high: int, dtype: DType) -> None:
    info = np.iinfo(dtype)
    for bound in (low, high):
        if not info.min <= bound <= info.max:
            raise OutOfRangeError(f"{bound} is out of range for {dtype}")


_CONVERSIONS: Final[dict[tuple[str, str], Callable[[_Array, DType, object], _Array]]] = {
    **{("b", kind): _always for kind in "iufc"},
    **{(a, b): _integers for a in "iu" for b in "iu"},
    **{(a, "f"): _integers_to_floats for a in "iu"},
    **{(a, "c"): _integers_to_complex for a in "iu"},
    **{(a, "b"): _integers_to_bool for a in "iu"},
    **{("f", b): _floats_to_integers for b in "iu"},
    ("f", "f"): _floats,
    ("f", "c"): _floats_to_complex,
    ("c", "c"): _complexes,
    ("M", "M"): _times,
    ("m", "m"): _times,
}
"""How an array of one kind becomes one of another; a pair without a row never does."""
