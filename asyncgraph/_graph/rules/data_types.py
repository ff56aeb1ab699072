"""Conversions of dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ..spec import ArraySpec, DType, intern_spec
from .probe import ask, result_dtype
from .rows import broadcast_rowwise
from .tables import COSTS, ROWS, SPECS, VIEWS, Cost

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params


def astype_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """The operand's shape in the dtype that is asked for."""
    (x,) = operands
    known, wanted = result_dtype("asarray", operands), cast(DType, params["dtype"])
    if known is None:
        # Text without a length takes the length that the values need.
        dtype = wanted if wanted.itemsize else None
    elif known.kind in "biufc" and wanted.kind in "biufc":
        dtype = wanted
    else:
        dtype = ask(op, operands, _converted, known, wanted)
    return intern_spec(dtype, x.shape if isinstance(x, ArraySpec) else ())


def _converted(known: DType, wanted: DType) -> DType:
    return np.empty(0, known).astype(wanted).dtype


SPECS["astype"] = astype_spec
ROWS["astype"] = broadcast_rowwise
COSTS["astype"] = Cost.MOVE
VIEWS["astype"] = (0,)
