"""Where CuPy 14.2 differs from NumPy, found by reading its sources and tables. None of it has been run on a GPU."""

from __future__ import annotations

from typing import Final

DOUBTFUL: Final = {
    "test_values[nextafter-special]": "the number after 0 is subnormal, which float32 may be flushed from",
    "test_values[pow-complex]": "thrust's pow is exp(y * log(x)), NumPy's multiplies for small whole exponents",
}
"""Tests of the conformance kit that may fail on a GPU, where the sources leave it open. Those that must fail are with
the checks for one, in `asyncgraph.testing.gpu_checks`."""

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
