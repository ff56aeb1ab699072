"""What NumPy's functions build when they are called on nodes: reductions, products, and whatever moves elements.

A call is read by the signature of NumPy's own function, so that arguments may be given by position or by
name, as ever. An argument that no op takes, such as `out=`, is an error unless it is NumPy's default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .._graph.node import Node
from .._graph.protocols import ARRAY_FUNCTIONS, UFUNC_OPS
from ..errors import SpecTypeError
from . import elementwise, indexing, linalg, manipulation, searching, statistical, utility

if TYPE_CHECKING:
    from ._build import Operand

UFUNC_OPS.update({np.matmul: "matmul", np.vecdot: "vecdot"})


# -- functions whose arguments have other meanings than the op's, with NumPy's signatures -------------


def _concatenate(arrays: Sequence[Operand], /, axis: int | None = 0, out: None = None, **options: object) -> Node:
    """`dtype` and `casting` are in `options`: before 2.2, inspecting NumPy's own signature fails."""
    options = {key: value for key, value in options.items() if value is not None and value != "same_kind"}
    if out is not None or options:
        raise _has_no_op(np.concatenate, next(iter(options), "out"))
    return manipulation.concat(arrays, axis=axis)


def _where(condition: Operand, x: Operand | None = None, y: Operand | None = None, /) -> Node:
    if x is None or y is None:
        raise SpecTypeError("np.where of a condition alone has no op: how many elements hold is not known")
    return searching.where(condition, x, y)


def _dot(a: Operand, b: Operand, out: None = None) -> Node:
    """A sum of products over the last axis of `a` and the last but one of `b`, which is no broadcast."""
    if out is not None:
        raise _has_no_op(np.dot, "out")
    ranks = [one.ndim if isinstance(one, Node) else np.ndim(one) for one in (a, b)]
    if 0 in ranks:
        return elementwise.multiply(a, b)
    if ranks[1] == 1 or (ranks[1] == 2 and ranks[0] in (1, 2)):
        return linalg.matmul(a, b)
    if None in ranks:
        raise SpecTypeError("np.dot needs operands of known rank\n  write a @ b, or ops.tensordot(a, b, axes=...)")
    return linalg.tensordot(a, b, axes=((-1,), (-2,)))


def _take(a: Operand, indices: Operand, axis: int | None = None) -> Node:
    return indexing.take(_ravel(a), indices) if axis is None else indexing.take(a, indices, axis=axis)


def _ravel(a: Operand) -> Node:
    return manipulation.reshape(a, (-1,))


def _transpose(a: Node, axes: Sequence[int] | None = None) -> Node:
    if axes is None:
        axes = range(_rank("transpose", a))[::-1]
    return manipulation.permute_dims(a, tuple(axes))


def _squeeze(a: Node, axis: int | tuple[int, ...] | None = None) -> Node:
    if axis is None:
        rank = _rank("squeeze", a)
        if a.size is None and any(not isinstance(dim, int) for dim in a.shape or ()):
            raise SpecTypeError(f"np.squeeze({a!r}): which dimensions are 1 is not known\n  give axis=")
        axis = tuple(at for at in range(rank) if a.shape is not None and a.shape[at] == 1)
    return manipulation.squeeze(a, axis)


def _rank(what: str, a: Node) -> int:
    if a.ndim is None:
        raise SpecTypeError(f"np.{what}({a!r}): its rank is not known\n  give the axes")
    return a.ndim


def _broadcast_arrays(*args: Operand, subok: bool = False) -> tuple[Node, ...]:
    if subok:
        raise _has_no_op(np.broadcast_arrays, "subok")
    return manipulation.broadcast_arrays(*args)


ARRAY_FUNCTIONS.update(
    {np.broadcast_arrays: _broadcast_arrays, np.concatenate: _concatenate, np.dot: _dot, np.where: _where}
)


# -- functions whose arguments have the op's meaning -------------------------------------------------


def _register(
    function: Callable[..., Any], build: Callable[..., Any], operands: str, params: str = "", **renamed: str
) -> None:
    """Has `build` answer for `function`, called with `operands` by position and `params` by name.

    `renamed` are params that have another name in NumPy: `op_name="numpy_name"`.
    """
    known = signature(function)
    positions = operands.split()
    names = {name: name for name in params.split()} | {theirs: ours for ours, theirs in renamed.items()}

    def builds(*args: Any, **kwargs: Any) -> Any:
        given = _arguments(known, args, kwargs)
        for name in given:
            if name not in names and name not in positions:
                raise _has_no_op(function, name)
        options = {names[name]: value for name, value in given.items() if name in names}
        return build(*[given[name] for name in positions if name in given], **options)

    ARRAY_FUNCTIONS[function] = builds


def _arguments(known: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What was given and says something, by the names in NumPy's signature."""
    given = known.bind(*args, **kwargs).arguments
    return {name: value for name, value in given.items() if not _is_default(value, known.parameters[name])}


def _is_default(value: object, parameter: Parameter) -> bool:
    default = parameter.default
    # Of one type first: a node compared with anything is a node.
    return value is default or (type(value) is type(default) and not isinstance(value, np.ndarray) and value == default)


def _has_no_op(function: Callable[..., Any], parameter: str) -> SpecTypeError:
    return SpecTypeError(
        f"np.{function.__name__} with {parameter}= has no op that could build a node\n"
        "  use a function of asyncgraph.ops, or wrap the call in a function with @asyncgraph.op"
    )


def _register_known(function: Callable[..., Any], attribute: str) -> None:
    """Has `function` say that what it asks for is an attribute, which may hold names and `None` too."""

    def refuses(*_: object, **__: object) -> NoReturn:
        raise SpecTypeError(
            f"np.{function.__name__} builds no node\n  write node.{attribute}: what is known before a run"
        )

    ARRAY_FUNCTIONS[function] = refuses


_register_known(np.shape, "shape")
_register_known(np.ndim, "ndim")
_register_known(np.size, "size")
_register(np.all, utility.all, "a", "axis keepdims")
_register(np.any, utility.any, "a", "axis keepdims")
_register(np.amax, statistical.max, "a", "axis keepdims")
_register(np.amin, statistical.min, "a", "axis keepdims")
_register(np.argmax, searching.argmax, "a", "axis keepdims")
_register(np.argmin, searching.argmin, "a", "axis keepdims")
_register(np.broadcast_to, manipulation.broadcast_to, "array shape")
_register(np.expand_dims, manipulation.expand_dims, "a axis")
_register(np.flip, manipulation.flip, "m", "axis")
_register(np.matrix_transpose, linalg.matrix_transpose, "x")
_register(np.max, statistical.max, "a", "axis keepdims")
_register(np.mean, statistical.mean, "a", "axis keepdims")
_register(np.min, statistical.min, "a", "axis keepdims")
_register(np.moveaxis, manipulation.moveaxis, "a source destination")
_register(np.prod, statistical.prod, "a", "axis dtype keepdims")
_register(np.ravel, _ravel, "a")
_register(np.reshape, manipulation.reshape, "a shape", "copy")
_register(np.roll, manipulation.roll, "a shift", "axis")
_register(np.squeeze, _squeeze, "a", "axis")
_register(np.stack, manipulation.stack, "arrays", "axis")
_register(np.std, statistical.std, "a", "axis keepdims correction", correction="ddof")
_register(np.sum, statistical.sum, "a", "axis dtype keepdims")
_register(np.take, _take, "a indices", "axis")
_register(np.tensordot, linalg.tensordot, "a b", "axes")
_register(np.transpose, _transpose, "a", "axes")
_register(np.unstack, manipulation.unstack, "x", "axis")
_register(np.var, statistical.var, "a", "axis keepdims correction", correction="ddof")
