"""By how much a backend's values may differ from NumPy's: by what computes them, and by dtype.

Whatever is no float equals NumPy's. A float may differ by a relative tolerance; or by that much of the largest value
of its array, if that is less than 1, as the difference of two numbers is rounded as they are and not as it is.

| | what | how near |
| --- | --- | --- |
| exact | what moves, picks or makes values, rounds to integers or sets signs | the same, also the sign of 0 |
| choice | what picks one of several by size | the same; 0 and -0 are one number, and either may be picked |
| elementwise | all other functions of single elements | 64 roundings; 8 of float16, mostly computed in float32 |
| reduction | sums, products and what is made of them | 64 roundings; 32 of float16 |
| matmul | products of matrices | 64 roundings; 32 of float16 |

One rounding is the dtype's `eps`. Any NaN is as good as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

_HostArray = np.ndarray[Any, Any]

CLASSES: Final[Mapping[str, str]] = {
    "exact": """
        arange asarray astype broadcast_arrays broadcast_like broadcast_to ceil concat conj copysign expand_dims eye
        flip floor full full_like imag index index_set matrix_transpose meshgrid moveaxis negative nextafter ones
        ones_like permute_dims positive real reshape reshape_like roll round size_of split_like squeeze stack
        stop_gradient take tril triu trunc unstack where where_larger where_positive zeros
        zeros_like""",
    "choice": "clip max maximum min minimum relu",
    "reduction": "mean prod softmax_cross_entropy std sum sum_to take_add var",
    "matmul": "matmul tensordot vecdot",
}
"""The ops of each class; any other op is elementwise."""

_CLASS_OF: Final = {op: name for name, ops in CLASSES.items() for op in ops.split()}
_ROUNDINGS: Final = {
    "exact": (0, 0),
    "choice": (0, 0),
    "elementwise": (64, 8),
    "reduction": (64, 32),
    "matmul": (64, 32),
}
_FLOATS: Final = ("float16", "float32", "float64", "complex64", "complex128")

TOLERANCES: Final[Mapping[tuple[str, str], float]] = {
    (name, dtype): float(np.finfo(dtype).eps) * roundings[dtype == "float16"]
    for name, roundings in _ROUNDINGS.items()
    for dtype in _FLOATS
}
"""The relative tolerance, by class and dtype."""


def class_of(op: str) -> str:
    """The class of an op."""
    return _CLASS_OF.get(op, "elementwise")


def is_same(op: str, result: _HostArray, wanted: _HostArray, tolerances: Mapping[tuple[str, str], float]) -> bool:
    """Whether an op's result, of the dtype and shape that it should have, is near enough to what is wanted.

    `tolerances` are those that take the place of `TOLERANCES`.
    """
    if wanted.dtype.kind not in "fc":
        return bool(np.array_equal(result, wanted))
    name = class_of(op)
    key = name, wanted.dtype.name
    tolerance = tolerances.get(key, TOLERANCES[key])
    if name == "exact" and not tolerance and not np.array_equal(_signs(result), _signs(wanted)):
        return False
    finite = np.abs(wanted[np.isfinite(wanted)])
    largest = float(finite.max()) if finite.size else 0.0
    return np.allclose(result, wanted, rtol=tolerance, atol=tolerance * min(largest, 1.0), equal_nan=True)


def _signs(array: _HostArray) -> _HostArray:
    """The signs of real and imaginary parts; of NaN, whose sign means nothing, always the same."""
    parts = np.stack([array.real, array.imag])
    return np.where(np.isnan(parts), False, np.signbit(parts))
