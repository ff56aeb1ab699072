"""Elementwise functions.

What holds for all of them:

* An operand is a node, a Python number, or anything that `asyncgraph.constant` takes. Operands are broadcast: the
  shape of the result is theirs, and of one operand alone its own.
* The dtype is the one NumPy gives. A Python number takes part by its kind alone (NEP 50): `x + 1` has the dtype of
  `x`, if that can hold 1. If the dtype of an operand is not known, that of the result is not.
* Values are NumPy's, and so are floating-point warnings, when it runs.
* `name` labels the node.

Raises:
    SpecError: the shapes can never be broadcast.
    SpecTypeError: NumPy has no such function of these dtypes.
    SpecOverflowError: a Python integer does not fit the dtype it meets.
    GraphError: there is no node among the operands, and no graph is current.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._graph.node import Node
from ._build import build

if TYPE_CHECKING:
    from ._build import Operand


def abs(x: Operand, /, *, name: str | None = None) -> Node:
    """The absolute value. Complex gives real; the smallest integer of a signed dtype stays itself, as in NumPy."""
    return build("abs", (x,), name=name)


def acos(x: Operand, /, *, name: str | None = None) -> Node:
    """The inverse cosine, in radians from 0 to π. Integers and booleans give floats."""
    return build("acos", (x,), name=name)


def acosh(x: Operand, /, *, name: str | None = None) -> Node:
    """The inverse hyperbolic cosine. Integers and booleans give floats."""
    return build("acosh", (x,), name=name)


def add(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 + x2`. Integers wrap around; of booleans it is the logical or."""
    return build("add", (x1, x2), name=name)


def asin(x: Operand, /, *, name: str | None = None) -> Node:
    """The inverse sine, in radians from -π/2 to π/2. Integers and booleans give floats."""
    return build("asin", (x,), name=name)


def asinh(x: Operand, /, *, name: str | None = None) -> Node:
    """The inverse hyperbolic sine. Integers and booleans give floats."""
    return build("asinh", (x,), name=name)


def atan(x: Operand, /, *, name: str | None = None) -> Node:
    """The inverse tangent, in radians from -π/2 to π/2. Integers and booleans give floats."""
    return build("atan", (x,), name=name)


def atan2(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """The angle of the point (x2, x1), in radians from -π to π. Integers and booleans give floats; complex raises."""
    return build("atan2", (x1, x2), name=name)


def atanh(x: Operand, /, *, name: str | None = None) -> Node:
    """The inverse hyperbolic tangent. Integers and booleans give floats."""
    return build("atanh", (x,), name=name)


def bitwise_and(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 & x2`, of integers or booleans."""
    return build("bitwise_and", (x1, x2), name=name)


def bitwise_left_shift(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 << x2`, of integers."""
    return build("bitwise_left_shift", (x1, x2), name=name)


def bitwise_invert(x: Operand, /, *, name: str | None = None) -> Node:
    """`~x`, of integers or booleans."""
    return build("bitwise_invert", (x,), name=name)


def bitwise_or(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 | x2`, of integers or booleans."""
    return build("bitwise_or", (x1, x2), name=name)


def bitwise_right_shift(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 >> x2`, of integers. Negative numbers are filled with ones."""
    return build("bitwise_right_shift", (x1, x2), name=name)


def bitwise_xor(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 ^ x2`, of integers or booleans."""
    return build("bitwise_xor", (x1, x2), name=name)


def ceil(x: Operand, /, *, name: str | None = None) -> Node:
    """The least integer that is not less than `x`, in the dtype of `x`. Complex raises."""
    return build("ceil", (x,), name=name)


def clip(x: Operand, /, min: Operand | None = None, max: Operand | None = None, *, name: str | None = None) -> Node:
    """`x`, but `min` where it is less, and `max` where it is greater; NaN stays.

    Shapes and dtypes of the bounds take part in the result's, as in NumPy. A Python integer beyond the range of an
    integer `x` is no bound at all. Where both hold, `max` wins.
    """
    low, high = _effective(x, min, max)
    if low is None and high is None:
        return build("positive", (x,), name=name or "clip")
    if low is None:
        return build("minimum", (x, high), name=name or "clip")
    if high is None:
        return build("maximum", (x, low), name=name or "clip")
    return build("clip", (x, low, high), name=name)


def conj(x: Operand, /, *, name: str | None = None) -> Node:
    """The complex conjugate, in the dtype of `x`."""
    return build("conj", (x,), name=name)


def copysign(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """The magnitude of `x1` with the sign of `x2`, that of zero and NaN included. Integers and booleans give floats."""
    return build("copysign", (x1, x2), name=name)


def cos(x: Operand, /, *, name: str | None = None) -> Node:
    """The cosine of an angle in radians. Integers and booleans give floats."""
    return build("cos", (x,), name=name)


def cosh(x: Operand, /, *, name: str | None = None) -> Node:
    """The hyperbolic cosine. Integers and booleans give floats."""
    return build("cosh", (x,), name=name)


def divide(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 / x2`. Integers and booleans give floats; division by zero gives inf or NaN, and NumPy's warning."""
    return build("divide", (x1, x2), name=name)


def equal(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 == x2`, as booleans. NaN equals nothing; an integer out of the other's range is unequal."""
    return build("equal", (x1, x2), name=name)


def exp(x: Operand, /, *, name: str | None = None) -> Node:
    """e to the power of `x`. Integers and booleans give floats."""
    return build("exp", (x,), name=name)


def expm1(x: Operand, /, *, name: str | None = None) -> Node:
    """`exp(x) - 1`, exact for small `x`. Integers and booleans give floats."""
    return build("expm1", (x,), name=name)


def floor(x: Operand, /, *, name: str | None = None) -> Node:
    """The greatest integer that is not greater than `x`, in the dtype of `x`. Complex raises."""
    return build("floor", (x,), name=name)


def floor_divide(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 // x2`, rounded towards minus infinity. Integers divided by zero give 0, and NumPy's warning."""
    return build("floor_divide", (x1, x2), name=name)


def greater(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 > x2`, as booleans."""
    return build("greater", (x1, x2), name=name)


def greater_equal(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 >= x2`, as booleans."""
    return build("greater_equal", (x1, x2), name=name)


def hypot(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """The length of the vector (x1, x2), without overflow inside. Integers and booleans give floats; complex raises."""
    return build("hypot", (x1, x2), name=name)


def imag(x: Operand, /, *, name: str | None = None) -> Node:
    """The imaginary part, as reals; zeros of the dtype of `x` if it is real."""
    return build("imag", (x,), name=name)


def isfinite(x: Operand, /, *, name: str | None = None) -> Node:
    """Whether each element is neither infinite nor NaN, as booleans."""
    return build("isfinite", (x,), name=name)


def isinf(x: Operand, /, *, name: str | None = None) -> Node:
    """Whether each element is infinite, as booleans."""
    return build("isinf", (x,), name=name)


def isnan(x: Operand, /, *, name: str | None = None) -> Node:
    """Whether each element is NaN, as booleans."""
    return build("isnan", (x,), name=name)


def less(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 < x2`, as booleans."""
    return build("less", (x1, x2), name=name)


def less_equal(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 <= x2`, as booleans."""
    return build("less_equal", (x1, x2), name=name)


def log(x: Operand, /, *, name: str | None = None) -> Node:
    """The natural logarithm. Integers and booleans give floats."""
    return build("log", (x,), name=name)


def log1p(x: Operand, /, *, name: str | None = None) -> Node:
    """`log(1 + x)`, exact for small `x`. Integers and booleans give floats."""
    return build("log1p", (x,), name=name)


def log2(x: Operand, /, *, name: str | None = None) -> Node:
    """The logarithm to the base 2. Integers and booleans give floats."""
    return build("log2", (x,), name=name)


def log10(x: Operand, /, *, name: str | None = None) -> Node:
    """The logarithm to the base 10. Integers and booleans give floats."""
    return build("log10", (x,), name=name)


def logaddexp(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`log(exp(x1) + exp(x2))`, without overflow inside. Integers and booleans give floats; complex raises."""
    return build("logaddexp", (x1, x2), name=name)


def logical_and(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """Whether both are nonzero, as booleans."""
    return build("logical_and", (x1, x2), name=name)


def logical_not(x: Operand, /, *, name: str | None = None) -> Node:
    """Whether `x` is zero, as booleans."""
    return build("logical_not", (x,), name=name)


def logical_or(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """Whether at least one is nonzero, as booleans."""
    return build("logical_or", (x1, x2), name=name)


def logical_xor(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """Whether exactly one is nonzero, as booleans."""
    return build("logical_xor", (x1, x2), name=name)


def maximum(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """The larger of `x1` and `x2`; NaN if either is."""
    return build("maximum", (x1, x2), name=name)


def minimum(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """The smaller of `x1` and `x2`; NaN if either is."""
    return build("minimum", (x1, x2), name=name)


def multiply(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 * x2`. Integers wrap around; of booleans it is the logical and."""
    return build("multiply", (x1, x2), name=name)


def negative(x: Operand, /, *, name: str | None = None) -> Node:
    """`-x`, in the dtype of `x`. Unsigned integers wrap around; booleans raise."""
    return build("negative", (x,), name=name)


def nextafter(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """The next float after `x1` towards `x2`. Integers and booleans give floats; complex raises."""
    return build("nextafter", (x1, x2), name=name)


def not_equal(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 != x2`, as booleans. NaN is unequal to everything."""
    return build("not_equal", (x1, x2), name=name)


def positive(x: Operand, /, *, name: str | None = None) -> Node:
    """`+x`: the same values, in the dtype of `x`. Booleans raise."""
    return build("positive", (x,), name=name)


def pow(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 ** x2`. Integers wrap around; a negative integer power of an integer raises."""
    return build("pow", (x1, x2), name=name)


def real(x: Operand, /, *, name: str | None = None) -> Node:
    """The real part; `x` itself if it is real."""
    return build("real", (x,), name=name)


def reciprocal(x: Operand, /, *, name: str | None = None) -> Node:
    """`1 / x`, in the dtype of `x`: of integers it is 0 but for 1 and -1."""
    return build("reciprocal", (x,), name=name)


def remainder(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 % x2`, with the sign of `x2`. Integers divided by zero give 0, and NumPy's warning."""
    return build("remainder", (x1, x2), name=name)


def round(x: Operand, /, *, name: str | None = None) -> Node:
    """The nearest integer, ties to even, in the dtype of `x`. Booleans give float16."""
    return build("round", (x,), name=name)


def sign(x: Operand, /, *, name: str | None = None) -> Node:
    """-1, 0 or 1, in the dtype of `x`; NaN of NaN; of complex, `x / abs(x)`. Booleans raise."""
    return build("sign", (x,), name=name)


def signbit(x: Operand, /, *, name: str | None = None) -> Node:
    """Whether the sign bit is set, that of -0.0 and NaN included, as booleans. Complex raises."""
    return build("signbit", (x,), name=name)


def sin(x: Operand, /, *, name: str | None = None) -> Node:
    """The sine of an angle in radians. Integers and booleans give floats."""
    return build("sin", (x,), name=name)


def sinh(x: Operand, /, *, name: str | None = None) -> Node:
    """The hyperbolic sine. Integers and booleans give floats."""
    return build("sinh", (x,), name=name)


def square(x: Operand, /, *, name: str | None = None) -> Node:
    """`x * x`, in the dtype of `x`. Integers wrap around; of booleans it is the logical and."""
    return build("square", (x,), name=name)


def sqrt(x: Operand, /, *, name: str | None = None) -> Node:
    """The square root that is not negative; NaN of negative reals. Integers and booleans give floats."""
    return build("sqrt", (x,), name=name)


def subtract(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 - x2`. Integers wrap around; booleans raise."""
    return build("subtract", (x1, x2), name=name)


def tan(x: Operand, /, *, name: str | None = None) -> Node:
    """The tangent of an angle in radians. Integers and booleans give floats."""
    return build("tan", (x,), name=name)


def tanh(x: Operand, /, *, name: str | None = None) -> Node:
    """The hyperbolic tangent. Integers and booleans give floats."""
    return build("tanh", (x,), name=name)


def trunc(x: Operand, /, *, name: str | None = None) -> Node:
    """`x` without its fraction, in the dtype of `x`. Complex raises."""
    return build("trunc", (x,), name=name)


def _effective(x: Operand, low: Operand | None, high: Operand | None) -> tuple[Operand | None, Operand | None]:
    # NumPy drops Python integers that an integer array cannot pass; elsewhere they would be out of range.
    dtype = x.dtype if isinstance(x, Node) else np.asarray(x).dtype
    if dtype is not None and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if type(low) is int and low <= limits.min:
            low = None
        if type(high) is int and high >= limits.max:
            high = None
    return low, high
