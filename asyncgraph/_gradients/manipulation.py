"""Gradients of what moves, joins and repeats elements: they are moved back, taken apart and added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import prod
from types import EllipsisType
from typing import Final, cast

from .. import ops
from .._graph.node import Node
from .._graph.rules.shapes import Axes, normalize_axes
from ..ops._build import build_several
from .fitting import Operand, reshaped, shape_of, summed, summed_to
from .tables import GRADIENTS, NOWHERE, Row, by_operand, for_all

_Part = int | slice  # with parameters it is no type before Python 3.14
_Key = tuple[_Part | EllipsisType, ...]
_Axis = int | tuple[int, ...]

# -- the same elements in another shape or order -----------------------------------------------------


def _expand_dims(gradient: Node, node: Node, position: int) -> Node:
    return ops.squeeze(gradient, cast(_Axis, node.params["axis"]))


def _flip(gradient: Node, node: Node, position: int) -> Node:
    return ops.flip(gradient, axis=cast(Axes, node.params.get("axis")))


def _moveaxis(gradient: Node, node: Node, position: int) -> Node:
    return ops.moveaxis(gradient, cast(_Axis, node.params["destination"]), cast(_Axis, node.params["source"]))


def _permute_dims(gradient: Node, node: Node, position: int) -> Node:
    axes = cast("tuple[int, ...]", node.params["axes"])
    order = normalize_axes(axes, len(axes))
    return ops.permute_dims(gradient, tuple(sorted(range(len(order)), key=order.__getitem__)))


def _reshape(gradient: Node, node: Node, position: int) -> Node:
    return reshaped(gradient, node.inputs[0])


def _roll(gradient: Node, node: Node, position: int) -> Node:
    shift = cast(_Axis, node.params["shift"])
    back = -shift if isinstance(shift, int) else tuple([-one for one in shift])
    return ops.roll(gradient, back, axis=cast(Axes, node.params.get("axis")))


def _squeeze(gradient: Node, node: Node, position: int) -> Node:
    return ops.expand_dims(gradient, cast(_Axis, node.params["axis"]))


def _tril(gradient: Node, node: Node, position: int) -> Node:
    return ops.tril(gradient, k=cast(int, node.params["k"]))


def _triu(gradient: Node, node: Node, position: int) -> Node:
    return ops.triu(gradient, k=cast(int, node.params["k"]))


# -- repeated ----------------------------------------------------------------------------------------


def _broadcast_to(gradient: Node, node: Node, position: int) -> Node:
    return summed_to(gradient, node.inputs[0], node.shape)


def _sum_to(gradient: Node, node: Node, position: int) -> Node:
    return ops.broadcast_like(gradient, node.inputs[0])


def _broadcast_arrays(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> list[Node | None]:
    return [summed(gradients[at], node, at) if at in gradients else None for at in wanted]


def _meshgrid(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> list[Node | None]:
    return [_of_grid(gradients[at], node, at) if at in gradients else None for at in wanted]


def _of_grid(gradient: Node, node: Node, position: int) -> Node:
    x, axes = node.operands[position], list(range(len(node.operands)))
    assert isinstance(x, Node)
    if node.params["indexing"] == "xy":
        axes[:2] = axes[1::-1] if len(axes) > 1 else axes[:1]
    made = ops.sum(gradient, axis=tuple([one for one in axes if one != axes[position]]))
    return made if x.ndim == 1 else reshaped(made, x)


# -- joined and taken apart --------------------------------------------------------------------------


def _stack(gradient: Node, node: Node, position: int) -> Node:
    return gradient[_along(cast(int, node.params.get("axis", 0)), position)]


def _concat(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> list[Node | None]:
    axis = cast("int | None", node.params.get("axis", 0))
    lengths = [_length(one, axis) for one in node.operands]
    known = [one for one in lengths if one is not None]
    if len(known) < len(lengths):
        parts = build_several("split_like", (gradients[0], *node.operands), {"axis": axis})
        return [parts[at] for at in wanted]
    bounds = list(pairwise(accumulate(known, initial=0)))
    made = [gradients[0][_along(axis or 0, slice(*bounds[at]))] for at in wanted]
    if axis is not None:
        return [*made]
    return [reshaped(part, cast(Node, node.operands[at])) for part, at in zip(made, wanted, strict=True)]


def _length(x: Operand, axis: int | None) -> int | None:
    """How many elements `x` adds to what is joined, along `axis` or in all; `None` if only a run knows."""
    shape = shape_of(x)
    if shape is None:
        return None
    dims = shape if axis is None else (shape[axis],)
    known = [dim for dim in dims if isinstance(dim, int)]
    return prod(known) if len(known) == len(dims) else None


def _along(axis: int, part: _Part) -> _Key:
    """The key that picks a part along one axis, counted from either end."""
    if axis < 0:
        return (..., part, *[slice(None)] * (-axis - 1))
    return (*[slice(None)] * axis, part)


def _unstack(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> list[Node | None]:
    axis, shape = cast(int, node.params.get("axis", 0)), node.inputs[0].shape
    assert shape is not None
    nothing = ops.zeros_like(next(iter(gradients.values())))
    parts = [gradients.get(at, nothing) for at in range(cast(int, shape[axis]))]
    return [ops.stack(parts, axis=axis)]


def _split_like(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> list[Node | None]:
    dtype = node.inputs[0].dtype
    parts = [gradients.get(at) for at in range(len(node.operands) - 1)]
    known = [
        ops.zeros_like(like, dtype=dtype) if part is None else part
        for part, like in zip(parts, node.operands[1:], strict=True)
    ]
    return [ops.concat(known, axis=cast("int | None", node.params["axis"]))]


# -- the table ---------------------------------------------------------------------------------------

_ROWS: Final[dict[str, Row]] = {
    "broadcast_arrays": Row(_broadcast_arrays),
    "broadcast_like": by_operand(_broadcast_to, None),
    "broadcast_to": by_operand(_broadcast_to),
    "concat": Row(_concat),
    "expand_dims": by_operand(_expand_dims),
    "flip": by_operand(_flip),
    "meshgrid": Row(_meshgrid),
    "moveaxis": by_operand(_moveaxis),
    "permute_dims": by_operand(_permute_dims),
    "reshape": by_operand(_reshape),
    "reshape_like": by_operand(_reshape, None),
    "roll": by_operand(_roll),
    "squeeze": by_operand(_squeeze),
    "split_like": Row(_split_like, reaches=(0,)),
    "stack": for_all(_stack),
    "sum_to": by_operand(_sum_to, None),
    "tril": by_operand(_tril),
    "triu": by_operand(_triu),
    "unstack": Row(_unstack),
}
GRADIENTS.update(_ROWS)
_CREATED: Final = "arange eye full full_like linspace ones ones_like size_of zeros zeros_like"
for _name in _CREATED.split():
    GRADIENTS[_name] = NOWHERE
