"""Whether elements hold: zero does not, everything else does, NaN included.

`axis` and `keepdims` are those of the reductions in `statistical`. Of no elements `all` holds, and `any` does not.

Raises:
    SpecError: an axis is out of bounds, or there twice.
    SpecTypeError: `axis` is no int.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._graph.op import NO_PARAMS
from ._build import build
from ._params import reduction_params

if TYPE_CHECKING:
    from .._graph.node import Node
    from ._build import Operand
    from .statistical import Axis


def all(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Node:
    """Whether all elements hold, as booleans."""
    return build("all", (x,), reduction_params("all", axis, keepdims) or NO_PARAMS, name)


def any(x: Operand, /, *, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Node:
    """Whether at least one element holds, as booleans."""
    return build("any", (x,), reduction_params("any", axis, keepdims) or NO_PARAMS, name)
