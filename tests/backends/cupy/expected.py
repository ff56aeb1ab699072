"""Where CuPy 14.2 differs from NumPy, found by reading its sources and tables. None of it has been run on a GPU."""

from __future__ import annotations

from typing import Final

FLUSHED: Final = ("float32", "complex64")
"""Dtypes whose subnormal numbers may be taken for zero: CuPy compiles all kernels with `-ftz=true`."""

_CHOSEN = "NumPy converts 1 / 0, an infinity, to an integer, which comes out as the processor has it; CuPy gives 0"

EXPECTED_FAILURES: Final = {
    "test_values[reciprocal-int]": _CHOSEN,
    "test_values[reciprocal-limits]": _CHOSEN,
}
"""Tests of the conformance kit that must fail on a GPU. As strict as the kit's: one that passes is a failure."""

DOUBTFUL: Final = {
    "test_values[nextafter-special]": "the number after 0 is subnormal, which float32 may be flushed from",
    "test_values[pow-complex]": "thrust's pow is exp(y * log(x)), NumPy's multiplies for small whole exponents",
    "test_values[matmul-bool]": "an integer kernel that is compiled for counts in int32",
}
"""Tests that may fail, where the sources leave it open. To be moved or dropped by whoever has a GPU."""

_NO_COMPLEX_LOOPS = {("bool", "TypeError"): 99}
_MORE_COMPLEX_LOOPS = {("TypeError", "complex64"): 27, ("TypeError", "complex128"): 72}

OTHER_LOOPS: Final = {
    # Adapted: what is true of a complex number is whether it is not 0.
    "logical_and": _NO_COMPLEX_LOOPS,
    "logical_not": {("bool", "TypeError"): 3},
    "logical_or": _NO_COMPLEX_LOOPS,
    "logical_xor": _NO_COMPLEX_LOOPS,
    # Not adapted: where the dtypes are known, the graph cannot be built.
    "atan2": _MORE_COMPLEX_LOOPS,
    "copysign": _MORE_COMPLEX_LOOPS,
    "hypot": _MORE_COMPLEX_LOOPS,
    "nextafter": _MORE_COMPLEX_LOOPS,
    "sign": {("TypeError", "int8"): 2},
}
"""For each ufunc that does not choose NumPy's dtypes: which it chooses instead, and of how many calls."""
