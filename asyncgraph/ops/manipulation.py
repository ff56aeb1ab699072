"""The same elements in another shape, order or array.

Axes are ints, counted from the front, or from the end if negative. A result may share memory with its
operand; nobody can tell, since values are never written.

Raises:
    SpecError: an axis is out of bounds, or there twice; or the shapes can never fit.
    SpecTypeError: an axis or a dimension is no int.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from .._graph.op import NO_PARAMS
from ..errors import SpecError, SpecTypeError
from ._build import as_nodes, build, build_several
from ._params import as_axes, as_int, as_ints

if TYPE_CHECKING:
    from .._graph.node import Node
    from ._build import Operand

Axis = int | tuple[int, ...]


def broadcast_arrays(*arrays: Operand, name: str | None = None) -> tuple[Node, ...]:
    """The operands, each broadcast to the shape they have in common."""
    return build_several("broadcast_arrays", arrays, name=name)


def broadcast_like(x: Operand, like: Operand, /, *, name: str | None = None) -> Node:
    """`x` broadcast to the shape that `like` has when it runs. Of `like`, only the shape is used.

    If the two are known to have one shape, this is `x` itself, unless it is to have another name; and if the shape of
    `like` is known, its value is not needed.

    Raises:
        SpecError: it can never be broadcast so.
    """
    x, like = as_nodes("broadcast_like", (x, like))
    if like.shape is not None and name is None and x.shape == like.shape and None not in like.shape:
        return x
    sizes = [dim for dim in like.shape or () if isinstance(dim, int)]
    if like.shape is not None and len(sizes) == len(like.shape):
        return broadcast_to(x, tuple(sizes), name=name)
    return build("broadcast_like", (x, like), name=name)


def broadcast_to(x: Operand, /, shape: tuple[int, ...], *, name: str | None = None) -> Node:
    """`x`, repeated where it has a dimension of 1, or lacks one in front."""
    return build("broadcast_to", (x,), {"shape": as_ints("broadcast_to", "shape", shape)}, name)


def concat(arrays: Sequence[Operand], /, *, axis: int | None = 0, name: str | None = None) -> Node:
    """The arrays one after the other along `axis`, or flattened if it is `None`.

    Their other dimensions must be equal. The result has the dtype that they promote to.
    """
    params = NO_PARAMS
    at = None if axis is None else as_int("concat", "axis", axis)
    if at != 0:
        params = {"axis": at}
    return build("concat", _listed("concat", arrays), params, name)


def expand_dims(x: Operand, /, axis: Axis, *, name: str | None = None) -> Node:
    """`x` with a dimension of 1 at `axis`, counted in the result; several for a tuple."""
    return build("expand_dims", (x,), {"axis": as_axes("expand_dims", _given("expand_dims", axis))}, name)


def flip(x: Operand, /, *, axis: Axis | None = None, name: str | None = None) -> Node:
    """`x` with the order of elements reversed along `axis`, or along all axes."""
    return build("flip", (x,), NO_PARAMS if axis is None else {"axis": as_axes("flip", axis)}, name)


def moveaxis(x: Operand, source: Axis, destination: Axis, /, *, name: str | None = None) -> Node:
    """`x` with the axes `source` moved to the places `destination`; the others keep their order."""
    params = {
        "source": as_axes("moveaxis", _given("moveaxis", source), "source"),
        "destination": as_axes("moveaxis", _given("moveaxis", destination), "destination"),
    }
    return build("moveaxis", (x,), params, name)


def permute_dims(x: Operand, /, axes: tuple[int, ...], *, name: str | None = None) -> Node:
    """`x` with its axes in another order: axis i of the result is axis `axes[i]` of `x`."""
    return build("permute_dims", (x,), {"axes": as_ints("permute_dims", "axes", axes)}, name)


def reshape(x: Operand, /, shape: tuple[int, ...], *, copy: bool | None = None, name: str | None = None) -> Node:
    """The elements of `x`, in C order, in another shape; one dimension may be -1, and follows from the size.

    If all but one dimension of `x` are literal, and as many elements as those in `shape`, the -1 is
    that dimension: `float32[n,2,3]` reshaped to `(-1, 6)` is `float32[n,6]`.

    With `copy=False` it raises `ValueError`, when it runs, if the elements would have to be copied.
    """
    params: dict[str, object] = {"shape": as_ints("reshape", "shape", shape)}
    if copy is not None:
        params["copy"] = bool(copy)
    return build("reshape", (x,), params, name)


def roll(x: Operand, /, shift: int | tuple[int, ...], *, axis: Axis | None = None, name: str | None = None) -> Node:
    """`x` with its elements moved on by `shift` along `axis`, or flattened; those that fall off come in again.

    For several axes `shift` and `axis` are tuples of one length.
    """
    shifts, axes = as_axes("roll", _given("roll", shift), "shift"), as_axes("roll", axis)
    if isinstance(shifts, tuple) and (not isinstance(axes, tuple) or len(axes) != len(shifts)):
        raise SpecError(f"roll: shift={shift!r} takes as many axes, not axis={axis!r}")
    return build("roll", (x,), {"shift": shifts} if axes is None else {"shift": shifts, "axis": axes}, name)


def squeeze(x: Operand, /, axis: Axis, *, name: str | None = None) -> Node:
    """`x` without the axes, which must have the size 1: what is not literal is checked when it runs."""
    return build("squeeze", (x,), {"axis": as_axes("squeeze", _given("squeeze", axis))}, name)


def stack(arrays: Sequence[Operand], /, *, axis: int = 0, name: str | None = None) -> Node:
    """The arrays, all of one shape, along a new axis, which is counted in the result."""
    one = as_int("stack", "axis", axis)
    return build("stack", _listed("stack", arrays), {"axis": one} if one else NO_PARAMS, name)


def unstack(x: Operand, /, *, axis: int = 0, name: str | None = None) -> tuple[Node, ...]:
    """The parts of `x` along `axis`, one node each; all come from one call.

    Raises:
        SpecError: the length of the axis is not literal, so that nobody knows how many there will be.
    """
    one = as_int("unstack", "axis", axis)
    return build_several("unstack", (x,), {"axis": one} if one else NO_PARAMS, name)


def _listed(op: str, arrays: object) -> tuple[object, ...]:
    if not isinstance(arrays, (list, tuple)):
        raise SpecTypeError(f"{op} takes a list or a tuple of arrays, not {arrays!r}")
    return tuple(cast("Sequence[object]", arrays))


def _given(op: str, axis: Axis | None) -> Axis:
    if axis is None:
        raise SpecTypeError(f"{op} takes an int or a tuple of ints, not None")
    return axis
