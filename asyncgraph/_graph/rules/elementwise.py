"""Elementwise ops: dtypes as NumPy's ufuncs give them, shapes broadcast."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import numpy as np

from ...errors import SpecError, SpecOverflowError, SpecTypeError
from ..spec import ArraySpec, DType, intern_spec
from .shapes import broadcast_shapes
from .tables import COSTS, ROWS, SPECS, Cost, RowQuestion

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params

_dtypes: dict[tuple[object, ...], DType] = {}


def elementwise_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The result of a NumPy ufunc, or of a function that broadcasts its operands like one."""
    shape = broadcast_shapes([one.shape if isinstance(one, ArraySpec) else () for one in operands])
    return intern_spec(_dtype(op, operands), shape)


def _dtype(op: str, operands: tuple[ArraySpec | Scalar, ...]) -> DType | None:
    probes: list[object] = []
    for one in operands:
        if isinstance(one, ArraySpec):
            if one.dtype is None:
                return None
            probes.append(np.empty(0, one.dtype))
        else:
            probes.append(one)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return getattr(np, op)(*probes).dtype


def rowwise_if_leading(question: RowQuestion) -> bool:
    """Operands that carry rows have the result's rank; the others have no dimension where rows are."""
    rank = question.result.ndim
    if rank is None:
        return False
    for one, carries in zip(question.operands, question.carries, strict=True):
        if isinstance(one, ArraySpec):
            if one.ndim is None or (one.ndim == rank) != carries and not (one.ndim == rank and one.shape[0] == 1):
                return False
    return True


for _name in ("add", "square", "subtract", "multiply"):
    SPECS[_name] = elementwise_spec
    ROWS[_name] = rowwise_if_leading
    COSTS[_name] = Cost.CHEAP
