"""Products of matrices and vectors."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np

from ...errors import SpecError
from ..spec import ArraySpec, Dim, DType, Shape, intern_spec
from .dtypes import asked, dtype_of
from .register import register
from .rows import rows_align
from .shapes import broadcast_shapes, normalize_axes, normalize_axis, shape_of
from .tables import Cost, RowQuestion

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params

Contracted = int | tuple[tuple[int, ...], tuple[int, ...]]
"""How many of the last axes of one operand meet the first of the other; or which axes meet which."""


@lru_cache(maxsize=1024)
def _product(op: str, a: DType, b: DType) -> DType:
    options = {"axes": 1} if op == "tensordot" else {}
    return asked(getattr(np, op), np.zeros(1, a), np.zeros(1, b), **options)


def _product_dtype(op: str, operands: tuple[ArraySpec | Scalar, ...]) -> DType | None:
    a, b = map(dtype_of, operands)
    return None if a is None or b is None else _product(op, a, b)


def _contract(a: Dim, b: Dim) -> None:
    if isinstance(a, int) and isinstance(b, int) and a != b:
        raise SpecError(f"the dimensions to be contracted differ: {a} and {b}")


# -- matmul ------------------------------------------------------------------------------------------


def matmul_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """Matrices, vectors, and stacks of matrices, which broadcast."""
    a, b = map(shape_of, operands)
    if a == () or b == ():
        raise SpecError("a value of rank 0 cannot be multiplied as a matrix\n  write x * y")
    return intern_spec(_product_dtype(op, operands), None if a is None or b is None else _matmul_shape(a, b))


def _matmul_shape(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> Shape:
    _contract(a[-1], b[-2:][0])
    stack = broadcast_shapes([a[:-2], b[:-2]])
    assert stack is not None
    return stack + a[-2:-1] + (b[-1:] if len(b) > 1 else ())


def matmul_rowwise(question: RowQuestion) -> bool:
    """Rows are those of a stack, or of the matrix on the left."""
    a, b = map(shape_of, question.operands)
    if a is None or b is None:
        return False
    if question.carries == (True, False) and len(a) == 2 and len(b) <= 2:
        return True
    # Without their last two axes, rows that would be contracted are gone, and align with nothing.
    return rows_align([a[:-2], b[:-2]], question.carries)


# -- tensordot ---------------------------------------------------------------------------------------


def tensordot_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """What is left of one operand's axes, and then of the other's."""
    a, b = map(shape_of, operands)
    dtype = _product_dtype(op, operands)
    if a is None or b is None:
        return intern_spec(dtype, None)
    from_a, from_b = contracted_axes(cast(Contracted, params.get("axes", 2)), len(a), len(b))
    for i, j in zip(from_a, from_b, strict=True):
        _contract(a[i], b[j])
    left = [dim for axis, dim in enumerate(a) if axis not in from_a]
    left += [dim for axis, dim in enumerate(b) if axis not in from_b]
    return intern_spec(dtype, tuple(left))


def contracted_axes(axes: Contracted, rank_a: int, rank_b: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of the one and of the other operand that meet, counted from the front.

    Raises:
        SpecError: one is out of bounds, or there twice.
    """
    if not isinstance(axes, int):
        return normalize_axes(axes[0], rank_a), normalize_axes(axes[1], rank_b)
    if axes > min(rank_a, rank_b):
        raise SpecError(f"axes={axes} are more than a value of rank {min(rank_a, rank_b)} has")
    return tuple(range(rank_a - axes, rank_a)), tuple(range(axes))


def tensordot_rowwise(question: RowQuestion) -> bool:
    """Rows are those of the first operand, and its first axis is not contracted."""
    a, b = map(shape_of, question.operands)
    if a is None or b is None or question.carries != (True, False):
        return False
    return 0 not in contracted_axes(cast(Contracted, question.params.get("axes", 2)), len(a), len(b))[0]


# -- vecdot ------------------------------------------------------------------------------------------


def vecdot_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """One axis, counted from the end, is contracted; the others broadcast."""
    shapes = [shape_of(one) for one in operands]
    axis = cast(int, params.get("axis", -1))
    dims = [shape[normalize_axis(axis, len(shape))] for shape in shapes if shape is not None]
    if len(dims) == len(shapes):
        _contract(*dims)
    rests = [_without(shape, axis) for shape in shapes]
    return intern_spec(_product_dtype(op, operands), broadcast_shapes(rests))


def _without(shape: Shape, axis: int) -> Shape:
    if shape is None:
        return None
    at = normalize_axis(axis, len(shape))
    return shape[:at] + shape[at + 1 :]


def vecdot_rowwise(question: RowQuestion) -> bool:
    """The operands' rows align, and are not what is contracted."""
    axis = cast(int, question.params.get("axis", -1))
    shapes = [shape_of(one) for one in question.operands]
    for shape, carried in zip(shapes, question.carries, strict=True):
        if carried and (shape is None or len(shape) == -axis):
            return False
    return rows_align([_without(shape, axis) for shape in shapes], question.carries)


# -- matrix_transpose --------------------------------------------------------------------------------


def matrix_transpose_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The last two axes change places."""
    (x,) = operands
    shape = shape_of(x)
    if shape is None:
        return intern_spec(dtype_of(x), None)
    if len(shape) < 2:
        raise SpecError(f"a value of rank {len(shape)} is no matrix")
    return intern_spec(dtype_of(x), (*shape[:-2], shape[-1], shape[-2]))


def matrix_transpose_rowwise(question: RowQuestion) -> bool:
    """Rows are those of a stack of matrices."""
    return (question.result.ndim or 0) > 2


register("matmul", matmul_spec, matmul_rowwise, Cost.MATMUL)
register("tensordot", tensordot_spec, tensordot_rowwise, Cost.MATMUL)
register("vecdot", vecdot_spec, vecdot_rowwise, Cost.MATMUL)
register("matrix_transpose", matrix_transpose_spec, matrix_transpose_rowwise, Cost.FREE, views=(0,))
