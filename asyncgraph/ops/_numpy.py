"""What NumPy's functions build when they are called on nodes: elementwise, creation and data types.

Each function here has the signature of NumPy's. What a signature lacks, such as `out`, has no meaning for nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from .._graph.node import Node
from .._graph.protocols import ARRAY_FUNCTIONS, UFUNC_OPS
from .._graph.rules.elementwise import ELEMENTWISE
from . import creation, data_types, elementwise
from ._build import build

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ._build import Operand

# NumPy has each ufunc under the standard's name and under its old one: np.pow is np.power.
UFUNC_OPS.update({made: name for name in ELEMENTWISE if isinstance(made := vars(np)[name], np.ufunc)})


def _clip(
    a: Operand,
    a_min: Operand | None = None,
    a_max: Operand | None = None,
    *,
    min: Operand | None = None,
    max: Operand | None = None,
) -> Node:
    return elementwise.clip(a, a_min if min is None else min, a_max if max is None else max)


def _round(a: Operand, decimals: int = 0) -> Node:
    return build("round", (a,), {"decimals": decimals}) if decimals else elementwise.round(a)


def _real(val: Operand) -> Node:
    return elementwise.real(val)


def _imag(val: Operand) -> Node:
    return elementwise.imag(val)


def _zeros_like(a: Operand, dtype: DTypeLike | None = None) -> Node:
    return creation.zeros_like(a, dtype=dtype)


def _ones_like(a: Operand, dtype: DTypeLike | None = None) -> Node:
    return creation.ones_like(a, dtype=dtype)


def _empty_like(prototype: Operand, dtype: DTypeLike | None = None) -> Node:
    return creation.empty_like(prototype, dtype=dtype)


def _full_like(a: Operand, fill_value: complex, dtype: DTypeLike | None = None) -> Node:
    return creation.full_like(a, fill_value, dtype=dtype)


def _tril(m: Operand, k: int = 0) -> Node:
    return creation.tril(m, k=k)


def _triu(m: Operand, k: int = 0) -> Node:
    return creation.triu(m, k=k)


def _meshgrid(*xi: Operand, indexing: Literal["xy", "ij"] = "xy") -> Sequence[Node]:
    return creation.meshgrid(*xi, indexing=indexing)


def _astype(x: Operand, dtype: DTypeLike, /, *, copy: bool = True) -> Node:
    return data_types.astype(x, dtype, copy=copy)


ARRAY_FUNCTIONS.update(
    {
        np.around: _round,
        np.astype: _astype,
        np.can_cast: data_types.can_cast,
        np.clip: _clip,
        np.empty_like: _empty_like,
        np.full_like: _full_like,
        np.imag: _imag,
        np.meshgrid: _meshgrid,
        np.ones_like: _ones_like,
        np.real: _real,
        np.result_type: data_types.result_type,
        np.round: _round,
        np.tril: _tril,
        np.triu: _triu,
        np.zeros_like: _zeros_like,
    }
)
