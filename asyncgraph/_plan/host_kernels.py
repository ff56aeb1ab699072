"""Kernels of ops that no backend computes, since they compute nothing: they hand values on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any, Final

from .._graph.exchange import dtype_name
from .._graph.node import Node
from .._graph.op import ASSIGN, CURRENT, GROUP, ITEM, OUTPUT, READ, Op
from .._graph.spec import ArraySpec
from .._graph.variable import may_be
from ..errors import SpecError, SpecTypeError


def _assignment(node: Node) -> Callable[..., Any]:
    """Hands the value on; looks at it, if what it is was not known when the node was built."""
    return same if is_known_to_fit(node) else partial(_fitting, node.spec)


def is_known_to_fit(node: Node) -> bool:
    """Whether what a node assigns is known to have the dtype and shape of the variable."""
    (operand,) = node.inputs
    literal = operand.shape is not None and all(isinstance(dim, int) for dim in operand.shape)
    return operand.dtype is not None and operand.dtype == node.dtype and literal and operand.shape == node.shape


def _fitting(spec: ArraySpec, value: Any) -> Any:
    """`value`, if a variable of that spec may have it.

    Raises:
        SpecTypeError, SpecError: its dtype or its shape differ.
    """
    found = misfit(value, spec)
    if found is not None:
        kind, what = found
        raise kind(f"a {spec!r} was assigned {what}")
    return value


def misfit(value: Any, spec: ArraySpec) -> tuple[type[SpecError | SpecTypeError], str] | None:
    """Why a variable of that spec cannot hold a value: the error to raise, and what the value is; `None` if it can."""
    dtype, shape = getattr(value, "dtype", None), tuple(getattr(value, "shape", ()))
    if dtype is not spec.dtype and (dtype is None or dtype_name(value) != str(spec.dtype)):
        return SpecTypeError, f"a value of dtype {dtype or type(value).__name__}"
    if shape != spec.shape and not may_be(shape, spec.shape):
        return SpecError, f"a value of shape {shape}"
    return None


def _nothing() -> None:
    return None


def same(value: Any) -> Any:
    """Hands it on."""
    return value


HOST_KERNELS: Final[dict[Op, Callable[[Node], Callable[..., Any]]]] = {
    ASSIGN: _assignment,
    CURRENT: lambda node: same,
    GROUP: lambda node: _nothing,
    READ: lambda node: same,
    ITEM: lambda node: itemgetter(node.params["key"]),
    OUTPUT: lambda node: itemgetter(node.params["index"]),
}
"""Makes the kernel of a node."""
