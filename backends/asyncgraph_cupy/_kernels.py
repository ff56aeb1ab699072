"""What computes each op with CuPy 14: its own function of the op's name, or what stands in for it in `_adapted`.

CuPy has the functions of the Array API standard under NumPy's names, promotes dtypes as NumPy 2 does, Python numbers
included, and gives arrays of rank 0 where NumPy gives scalars. No kernel waits for the device. Arrays are made on the
current device, which whoever calls a kernel has set: CuPy 14.2 has no `device=`.

What remains different from NumPy, because finding out would mean waiting for the device, or writing a kernel anew:

- nothing warns, and `np.errstate` changes nothing;
- an index out of bounds in `take` and `take_add` wraps around, and integers to negative integer powers are 0, 1 or -1,
  where NumPy raises; a label that is out of bounds makes a loss of NaN;
- 1 / 0 in integers, by `reciprocal`, and floats converted to integers that cannot hold them are what the GPU makes of
  it; so they are with NumPy, of the CPU;
- float32 smaller than 1.2e-38 may be taken for zero;
- sums are added in another order; so is what `take_add` adds to one element, and not in the same order each time;
- what is true of no numbers, such as the `atan2` of complex ones, is refused where the graph is built, or else may be
  computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import copysign, inf
from typing import Any, Final

import numpy as np

from asyncgraph.abc import Array, Device, Kernel, Spec, array_api_kernel

from ._adapted import ADAPTED, as_array
from ._cuda_api import CudaApi
from ._fused import FUSED
from ._updates import UPDATES

DTYPES: Final = frozenset(
    {
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    }
)  # fmt: skip
"""The dtypes that CuPy's arrays have, by NumPy's names, in the byte order of the machine."""

_TAKE_NUMBERS: Final = frozenset({"arange", "clip", "concat", "eye", "linspace", "where", *FUSED, *UPDATES})
# Of NumPy's with integers that no dtype of 64 bits holds, these alone have an answer.
_COMPARISONS: Final = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal"})
_NUMBERS = (bool, int, float, complex)


def make_kernel(
    api: CudaApi, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
) -> Kernel:
    """What computes `op`, as `Backend.kernel` says, on arrays of the device that is the current one when it is called.

    Touches no device.

    Raises:
        NotImplementedError: CuPy has no such function or dtype.
    """
    _refuse_dtypes([params.get("dtype"), *[one.dtype for one in operands if not isinstance(one, _NUMBERS)]])
    adapted = ADAPTED.get(op) or FUSED.get(op) or UPDATES.get(op)
    kernel = array_api_kernel(api.xp, op, params) if adapted is None else partial(adapted, api.xp, **params)
    numbers = {i: one for i, one in enumerate(operands) if isinstance(one, _NUMBERS)}
    if not numbers:
        return kernel
    if not _takes_numbers(op):
        return partial(_with_arrays, kernel, api.xp)
    kinds = {one.dtype.kind for one in operands if not isinstance(one, _NUMBERS) and one.dtype is not None}
    replaced = {i: _within_64_bits(op, one, kinds) for i, one in numbers.items()}
    return kernel if replaced == numbers else partial(_with_numbers, kernel, replaced)


def _refuse_dtypes(dtypes: Sequence[Any]) -> None:
    for dtype in dtypes:
        if dtype is not None and (dtype.name not in DTYPES or not dtype.isnative):
            raise NotImplementedError(
                f"CuPy has no dtype {str(dtype)!r}\n  compute it on the host: with device('cpu:0'): ..."
            )


def _takes_numbers(op: str) -> bool:
    """Whether CuPy's function of that name takes Python numbers as NumPy's does: ufuncs do."""
    function = getattr(np, op, None)
    return op in _TAKE_NUMBERS or (isinstance(function, np.ufunc) and function.signature is None)


def _with_arrays(kernel: Kernel, xp: Any, *operands: Array) -> Array:
    return kernel(*[as_array(xp, one) for one in operands])


def _within_64_bits(op: str, number: complex, kinds: set[str]) -> complex:
    """A number that CuPy takes, and that means the same beside arrays of these kinds: the number itself, if it can."""
    if not isinstance(number, int) or -(2**63) <= number < 2**64:
        return number
    if kinds & set("fc"):
        return float(number)
    return copysign(inf, number) if kinds and op in _COMPARISONS else number


def _with_numbers(kernel: Kernel, numbers: Mapping[int, complex], *operands: Array) -> Array:
    return kernel(*[numbers.get(i, one) for i, one in enumerate(operands)])
