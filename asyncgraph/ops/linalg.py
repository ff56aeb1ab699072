"""Products of matrices and vectors. Also `asyncgraph.ops.linalg`, the extension of that name in the standard.

Sizes that are literal must fit when the node is built; others are compared by NumPy when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from .._graph.op import NO_PARAMS, Params
from ..errors import SpecError, SpecTypeError
from ._build import build
from ._params import as_int, as_ints

if TYPE_CHECKING:
    from .._graph.node import Node
    from ._build import Operand

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Operand, x2: Operand, /, *, name: str | None = None) -> Node:
    """`x1 @ x2`: `[..., m, k]` with `[..., k, n]` gives `[..., m, n]`, and what stands before broadcasts.

    A vector is a row on the left and a column on the right, which the result then lacks.

    Raises:
        SpecError: an operand has rank 0, or the dimensions do not fit.
        SpecTypeError: NumPy multiplies no matrices of these dtypes.
    """
    return build("matmul", (x1, x2), name=name)


def matrix_transpose(x: Operand, /, *, name: str | None = None) -> Node:
    """`[..., m, n]` as `[..., n, m]`.

    Raises:
        SpecError: the rank is 0 or 1.
    """
    return build("matrix_transpose", (x,), name=name)


def tensordot(
    x1: Operand,
    x2: Operand,
    /,
    *,
    axes: int | tuple[Sequence[int], Sequence[int]] = 2,
    name: str | None = None,
) -> Node:
    """The sum of products over `axes`: the last so many of `x1` with the first so many of `x2`, or those named.

    The result has the other axes of `x1`, then those of `x2`.

    Raises:
        SpecError: the axes are out of bounds, or their dimensions or numbers differ.
        SpecTypeError: `axes` is of another form; or NumPy multiplies no such dtypes.
    """
    return build("tensordot", (x1, x2), _tensordot_params(axes), name)


def _tensordot_params(axes: object) -> Params:
    if not isinstance(axes, (tuple, list)):
        count = as_int("tensordot", "axes", axes)
        if count < 0:
            raise SpecError(f"tensordot: axes={count}: a number of axes cannot be negative")
        return NO_PARAMS if count == 2 else {"axes": count}
    sides = [as_ints("tensordot", "axes", side) for side in cast("Sequence[object]", axes)]
    if len(sides) != 2:
        raise SpecTypeError(f"tensordot: axes takes an int, or two sequences of ints, not {axes!r}")
    pair = tuple(sides)
    if len(pair[0]) != len(pair[1]):
        raise SpecError(f"tensordot: axes={axes!r} name {len(pair[0])} axes of x1 and {len(pair[1])} of x2")
    return {"axes": pair}


def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1, name: str | None = None) -> Node:
    """The sum of `conj(x1) * x2` along `axis`, which is counted from the end; the other axes broadcast.

    Raises:
        SpecError: the axis is out of bounds or not negative, or the dimensions do not fit.
        SpecTypeError: NumPy multiplies no such dtypes.
    """
    one = as_int("vecdot", "axis", axis)
    if one >= 0:
        raise SpecError(f"vecdot: axis={one}: count it from the end, since the operands may differ in rank")
    return build("vecdot", (x1, x2), NO_PARAMS if one == -1 else {"axis": one}, name)
