"""Ops that are several of the vocabulary in one, since training does them in every step.

They are the rectifier and its derivative, the loss of a classifier together with its derivative, and a step of Adam.
Each is one call of a kernel, which goes over its operands few times, and makes no array besides its results, or few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...errors import SpecError, SpecTypeError
from ..spec import ArraySpec, DType, intern_spec
from .dtypes import dtype_of
from .register import register
from .rows import broadcast_rowwise, never_rowwise
from .shapes import broadcast_shapes, equal_shapes, shape_of
from .tables import Cost, RowQuestion

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params

Operands = tuple["ArraySpec | Scalar", ...]


# -- activations -------------------------------------------------------------------------------------


def relu_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """`maximum(x, 0)`, in the dtype of `x`. NaN stays NaN."""
    (x,) = operands
    _check_kind(dtype_of(x), "iuf", "it is of real numbers")
    return intern_spec(dtype_of(x), shape_of(x))


def where_positive_spec(op: str, operands: Operands, params: Params) -> ArraySpec:
    """The first operand where the second is positive, and 0 elsewhere, also where the first is infinite or NaN."""
    gradient, x = operands
    _check_kind(dtype_of(gradient), "fc", "it is for gradients, which are real or complex numbers")
    _check_kind(dtype_of(x), "iuf", "real numbers are positive")
    return intern_spec(dtype_of(gradient), broadcast_shapes([shape_of(gradient), shape_of(x)]))


# -- losses ------------------------------------------------------------------------------------------


def softmax_cross_entropy_spec(op: str, operands: Operands, params: Params) -> tuple[ArraySpec, ArraySpec]:
    """Of logits and the indices of classes: `-log(softmax(logits)[label])`, and `softmax(logits) - one_hot(labels)`.

    The classes are the last axis of the logits, and the labels have the other axes. Both results are in the dtype of
    the logits. The second is what the gradient of the first is a multiple of.
    """
    logits, labels = operands
    dtype, shape = dtype_of(logits), shape_of(logits)
    _check_kind(dtype, "f", "logits are real numbers")
    _check_kind(dtype_of(labels), "iu", "labels are integers")
    if shape == ():
        raise SpecError("the logits have no axis of classes")
    lead = equal_shapes([None if shape is None else shape[:-1], shape_of(labels)])
    classes = None if shape is None else shape[-1]
    return intern_spec(dtype, lead), intern_spec(dtype, None if lead is None else (*lead, classes))


def softmax_cross_entropy_rowwise(question: RowQuestion) -> bool:
    """Rows of logits meet rows of labels, and classes are not rows."""
    shape = shape_of(question.operands[0])
    return all(question.carries) and shape is not None and len(shape) > 1


# -- optimizers --------------------------------------------------------------------------------------


def adam_spec(op: str, operands: Operands, params: Params) -> tuple[ArraySpec, ArraySpec, ArraySpec]:
    """Of `w, g, m, v, factor, epsilon` and perhaps `shrink`: what `w`, `m` and `v` are after a step.

        m += (1 - beta1) * (g - m);  v += (1 - beta2) * (g**2 - v)
        w -= m * factor / (sqrt(v) + epsilon) + w * shrink

    The first four have one dtype and one shape; the others are numbers.
    """
    arrays, numbers = operands[:4], operands[4:]
    dtypes = dict.fromkeys([one for one in map(dtype_of, arrays) if one is not None])
    dtypes |= dict.fromkeys([one.dtype for one in numbers if isinstance(one, ArraySpec) and one.dtype is not None])
    if len(dtypes) > 1:
        raise SpecTypeError(f"the dtypes {' and '.join(map(str, dtypes))} differ")
    _check_kind(next(iter(dtypes), None), "f", "variables are real numbers")
    if any(shape_of(one) not in (None, ()) for one in numbers):
        raise SpecError("all but the first four are numbers, of rank 0")
    spec = intern_spec(dtype_of(arrays[0]), equal_shapes([shape_of(one) for one in arrays]))
    return spec, spec, spec


def adam_rates_spec(op: str, operands: Operands, params: Params) -> tuple[ArraySpec, ArraySpec]:
    """Of the number of the step, from 1 on, and the learning rate: `factor` and `epsilon` of "adam", in `dtype`.

    With `c = sqrt(1 - beta2**t)` they are `c * rate / (1 - beta1**t)` and `c * epsilon`: so arrays are not gone over
    for the corrections. They are computed in double precision, since `1 - beta2**t` is a difference of nearly equal
    numbers.
    """
    count, rate = operands
    _check_kind(dtype_of(count), "iu", "the number of a step is an integer")
    _check_kind(dtype_of(rate), "biuf", "a learning rate is a real number")
    if any(shape_of(one) not in (None, ()) for one in operands):
        raise SpecError("both operands are numbers, of rank 0")
    spec = intern_spec(cast(DType, params["dtype"]), ())
    return spec, spec


def _check_kind(dtype: DType | None, kinds: str, why: str) -> None:
    if dtype is not None and dtype.kind not in kinds:
        raise SpecTypeError(f"{why}, and not {dtype}")


register("relu", relu_spec, broadcast_rowwise, Cost.CHEAP)
register("where_positive", where_positive_spec, broadcast_rowwise, Cost.CHEAP)
register("softmax_cross_entropy", softmax_cross_entropy_spec, softmax_cross_entropy_rowwise, Cost.REDUCE)
register("adam", adam_spec, broadcast_rowwise, Cost.MATH)
register("adam_rates", adam_rates_spec, never_rowwise, Cost.FREE)
