"""What NumPy takes for an element, in nanoseconds, by op and dtype: measured, and rounded up.

NumPy 2.4 on one core of a 2.6 GHz server of 2020, 200,000 elements, the slower of usual operands: angles
up to 1e6, but no overflow, which makes `exp` three times slower.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, final

import numpy as np

from .._graph.rules.tables import Cost
from .._graph.spec import ArraySpec

PRODUCT: Final = "each product"
"""The row of one multiplication of a product of matrices, whose own row is for each element of the result."""
MOVED: Final = "each operand"
"""The row of an element of such a product's operands, whatever it meets."""
BROADCAST_ROW: Final = 8.0
"""For each row of operands that broadcast: an inner loop of its own."""
REDUCED_ROW: Final = 40.0
"""The same where rows are reduced, or added up."""


@final
class _Column(IntEnum):
    """Of two dtypes the later decides. Half precision is computed in single, an element at a time."""

    INTEGER = 0
    SINGLE = 1
    DOUBLE = 2
    HALF = 3
    COMPLEX = 4


_Row = tuple[float, float, float, float, float]

# fmt: off
_CLASSES: Final[dict[Cost, _Row]] = {
    #               integer   single  double   half  complex
    Cost.MOVE:        (0.8,    0.8,    0.8,    0.8,    0.8),
    Cost.CHEAP:         (1,      1,      1,     48,    1.5),
    Cost.REDUCE:      (0.6,    0.6,    0.6,     20,    1.8),
    Cost.MATH:         (20,     20,     20,     30,    120),
    Cost.MATMUL:        (5,      5,      5,      5,      5),
    Cost.OPAQUE:       (20,     20,     20,     40,    120),
}
"""Of the ops that have no row. The first three are bound by memory, and for 8 bytes; the others for an element."""

_ROWS: Final[dict[str, _Row]] = {
    "acos acosh asin":  (24,     24,     24,     30,    180),
    "adam":              (7,      3,      7,    140,      7),
    "argmax argmin":   (0.8,    0.5,    0.8,      5,    3.5),
    "asinh":            (32,     32,     32,     40,    170),
    "astype":          (0.8,    0.6,    0.8,      8,    1.5),
    "atan":             (18,     15,     15,     26,    110),
    "atan2 logaddexp":  (35,     35,     35,     50,    120),
    "atanh":            (28,     28,     28,     35,    100),
    "bitwise_left_shift bitwise_right_shift": (0.8, 1, 1, 1, 1),
    "copysign signbit":  (9,    1.2,    1.2,     20,      4),
    "cos sin":          (25,      8,     25,     25,    100),
    "cosh":             (16,     16,     16,     25,    100),
    "divide":            (2,    0.6,      1,     12,     10),
    "divide_by_size":    (1,      1,      1,     95,      7),
    "exp":              (12,      3,     10,     24,     60),
    "floor_divide":      (4,     25,     25,     35,    120),
    "hypot":            (30,     10,     24,     40,    120),
    "index_add":       (0.8,    0.6,    0.8,     12,    1.5),
    "isfinite isinf isnan": (0.3, 0.4,  0.6,      4,      3),
    "greater greater_equal less less_equal maximum minimum": (1, 0.6, 1, 10, 8),
    "linspace":          (2,      2,      2,      6,      4),
    "log":              (11,      3,      9,     20,    110),
    "log2":             (11,      6,      9,     20,    110),
    "logical_and logical_not logical_or logical_xor": (0.8, 1.6, 1.8, 6, 3.5),
    "mean sum":          (1,    0.8,    0.7,      6,    1.2),
    "nextafter":        (15,     10,     15,     30,    120),
    "pow":               (9,     12,     25,     25,    170),
    "prod":            (1.5,    1.5,    1.5,      6,      9),
    "random_bernoulli":  (5,      5,      5,      5,      5),
    "random_normal":    (15,     12,     15,     15,     15),
    "random_permutation": (25,   25,     25,     25,     25),
    "random_uniform":    (7,      4,      7,      7,      7),
    "reciprocal":        (2,    0.6,      1,     12,     10),
    "remainder":         (4,     18,     18,     20,    120),
    "sign":            (0.5,    1.2,    1.5,      6,     30),
    "sinh":             (32,     32,     32,     45,    100),
    "softmax_cross_entropy": (10, 3,     10,    210,     10),
    "sqrt":            (2.4,    1.2,      2,     18,     60),
    "stack":             (1,      1,    1.2,      1,    2.5),
    "std var":           (3,      2,      3,     33,      5),
    "take":              (2,      2,      4,      2,      5),
    "take_add":          (5,      5,      6,     12,      8),
    "tan":              (36,     28,     36,     36,    100),
    "tanh":             (24,      5,     20,     42,    100),
    "tril triu":         (2,      2,      2,      2,      4),
    "vecdot":           (10,     10,     18,     10,     30),
    "where":             (5,      5,      5,      5,      5),
    PRODUCT:          (1.6,   0.04,   0.07,      8,    0.3),
    MOVED:            (0.3,    0.2,    0.3,    0.3,    0.6),
}
"""Of the ops that are far from their class: for an element."""
# fmt: on

_OF_OP: Final = {op: row for ops, row in _ROWS.items() for op in ((ops,) if ops in (PRODUCT, MOVED) else ops.split())}
_BY_BYTES: Final = frozenset({Cost.MOVE, Cost.CHEAP, Cost.REDUCE})
_FLOAT64: Final = np.dtype(np.float64)
_FLOATS: Final = {2: _Column.HALF, 4: _Column.SINGLE}


def nanoseconds(row: str, cost: Cost, specs: Iterable[ArraySpec]) -> float:
    """What an element takes.

    Args:
        row: the op's name, or what else has a row.
        cost: the op's class, for ops without a row.
        specs: of the op's operands and results; an unknown dtype is taken to be float64.
    """
    dtypes = [one.dtype or _FLOAT64 for one in specs]
    column = max([_column(one) for one in dtypes], default=_Column.DOUBLE)
    known = _OF_OP.get(row)
    if known is not None:
        return known[column]
    bytes_count = max([one.itemsize for one in dtypes], default=8) if cost in _BY_BYTES else 8
    return _CLASSES[cost][column] * bytes_count / 8


def _column(dtype: np.dtype[Any]) -> _Column:
    if dtype.kind == "f":
        return _FLOATS.get(dtype.itemsize, _Column.DOUBLE)
    return _Column.COMPLEX if dtype.kind == "c" else _Column.INTEGER
