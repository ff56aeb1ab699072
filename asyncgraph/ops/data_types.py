"""Data type functions.

`astype` builds a node. The others answer at once, from dtypes alone: of a node they take the dtype its spec has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._graph.node import Node
from .._graph.spec import DType, as_dtype
from ..errors import SpecTypeError
from ._build import build, graph_of, on

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ._build import Operand


def astype(
    x: Operand,
    dtype: DTypeLike,
    /,
    *,
    copy: bool = True,
    device: str | None = None,
    name: str | None = None,
) -> Node:
    """`x` in another dtype, converted as NumPy converts: floats to integers are truncated.

    With `copy=False` the value may be that of `x` itself, if it has the dtype already. Of complex to real NumPy warns
    when it runs.

    Raises:
        SpecTypeError: `dtype` is none, or NumPy converts no such array to it.
    """
    with on(device):
        # A Python number has no method that converts it.
        operand = x if isinstance(x, Node) else graph_of("astype").constant(x)
        return build("astype", (operand,), {"dtype": _known(dtype), "copy": bool(copy)}, name)


def can_cast(from_: DTypeLike | Node, to: DTypeLike, /) -> bool:
    """Whether every value of `from_` has its own value in `to`.

    Raises:
        SpecTypeError: one of them is no dtype, or a node whose dtype is unknown.
    """
    return np.can_cast(_known(from_), _known(to))


def finfo(type: DTypeLike | Node, /) -> np.finfo[Any]:
    """The limits of a floating-point dtype; of a complex one, those of its parts.

    Raises:
        SpecTypeError: it is none, or a node whose dtype is unknown.
    """
    dtype = _known(type)
    if dtype.kind not in "fc":
        raise SpecTypeError(f"finfo: {dtype} is no floating-point dtype\n  write iinfo for an integer one")
    return np.finfo(dtype)


def iinfo(type: DTypeLike | Node, /) -> np.iinfo[Any]:
    """The limits of an integer dtype.

    Raises:
        SpecTypeError: it is none, or a node whose dtype is unknown.
    """
    dtype = _known(type)
    if dtype.kind not in "iu":
        raise SpecTypeError(f"iinfo: {dtype} is no integer dtype\n  write finfo for a floating-point one")
    return np.iinfo(dtype)


def isdtype(dtype: DTypeLike | Node, kind: DTypeLike | str | tuple[DTypeLike | str, ...]) -> bool:
    """Whether a dtype is of a kind: another dtype, a name such as "real floating", or any of a tuple of these.

    Raises:
        SpecTypeError: `dtype` is none, or a node whose dtype is unknown; or there is no such kind.
    """
    known = _known(dtype)
    try:
        return np.isdtype(known, kind)
    except (TypeError, ValueError) as error:
        raise SpecTypeError(f"isdtype: {error}") from error


def result_type(*arrays_and_dtypes: DTypeLike | Operand) -> DType:
    """The dtype that these promote to; a Python number takes part by its kind alone (NEP 50).

    Raises:
        SpecTypeError: they promote to none, there are none, or one is a node whose dtype is unknown.
    """
    known = [_known(one) if isinstance(one, Node) else one for one in arrays_and_dtypes]
    try:
        return np.result_type(*known)
    except (TypeError, ValueError) as error:
        raise SpecTypeError(f"result_type: {error}") from error


def _known(of: DTypeLike | Node) -> DType:
    dtype = of.dtype if isinstance(of, Node) else as_dtype(of)
    if dtype is None:
        raise SpecTypeError(f"the dtype of {of!r} is not known\n  give the placeholder a dtype, or name one here")
    return dtype
