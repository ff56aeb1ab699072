"""Where things are, and choosing by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..spec import ArraySpec, intern_spec
from .dtypes import asked, empty
from .register import register
from .rows import broadcast_rowwise
from .shapes import broadcast_shapes, shape_of
from .statistical import reduction_rowwise, reduction_spec
from .tables import Cost

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params


def where_spec(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> ArraySpec:
    """All three operands broadcast; the dtype is that of the two to choose from."""
    shape = broadcast_shapes([shape_of(one) for one in operands])
    choices = operands[1:]
    if any(isinstance(one, ArraySpec) and one.dtype is None for one in choices):
        return intern_spec(None, shape)
    return intern_spec(asked(np.where, True, *map(empty, choices)), shape)


register("where", where_spec, broadcast_rowwise, Cost.CHEAP)
register("argmax", reduction_spec, reduction_rowwise, Cost.REDUCE)
register("argmin", reduction_spec, reduction_rowwise, Cost.REDUCE)
