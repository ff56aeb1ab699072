"""Calls whose values a backend must get right: each is written once, for `asyncgraph.ops` and for NumPy.

A case is a function of a namespace and of operands: `lambda xp, x: xp.sum(x, axis=0)`. With NumPy, as `reference` has
it, and arrays it gives what is right, with `asyncgraph.ops` and nodes what is run. It is tried on dtypes of one kind at
a time, so that what a library does not do has a name: "sin-int", "add-mixed".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from ... import ops
from ..._graph.building import placeholder
from ..._graph.graph import Graph
from ..._graph.op import NO_PARAMS
from ...errors import GraphError
from ...ops._build import build, build_several

Array = np.ndarray[Any, Any]
Shapes = tuple[tuple[int, ...], ...]
Dtypes = tuple[str, ...]

DTYPES: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
"""What the Array API standard names, and float16."""

_ONE: Final = {
    "bool": ("bool",),
    "int": DTYPES[1:9],
    "float": DTYPES[9:12],
    "complex": DTYPES[12:],
    "special": DTYPES[9:12],
    "limits": ("int8", "int32", "int64", "uint8", "uint64"),
}
_TWO: Final = {
    "bool": ("bool bool",),
    "int": ("int8 int8", "int16 int8", "int32 int64", "int64 int64", "uint8 uint8", "uint32 uint16", "int16 uint8"),
    "float": ("float16 float16", "float32 float32", "float64 float64", "float64 float32", "float16 float32"),
    "complex": ("complex64 complex64", "complex128 complex64"),
    "mixed": ("bool int8", "int32 float32", "float16 int16", "float32 complex64", "complex128 int64", "uint64 int8"),
    "special": ("float16 float16", "float32 float32", "float64 float64"),
    "limits": ("int8 int8", "int32 int32", "int64 int64", "uint8 uint8", "uint64 uint64"),
}
KINDS: Final[tuple[dict[str, Sequence[str]], ...]] = ({"none": ("",)}, {**_ONE}, {**_TWO})
"""For cases of no, one and two operands: the dtypes that are tried, by kind. "special" has infinities, NaN, signed
zeros and a subnormal number; "limits" the least and greatest integers."""

EDGES: Final = ("special", "limits")
"""The kinds that only some cases are tried on."""


@final
@dataclass(frozen=True, slots=True)
class Case:
    """A call.

    Fields:
        op: what is called.
        call: calls it, in a namespace, with operands.
        shapes: those of the operands: one set after the other.
        edges: which of `EDGES` it is tried on.
    """

    op: str
    call: Callable[..., Any]
    shapes: tuple[Shapes, ...]
    edges: tuple[str, ...] = ()

    def dtypes(self, kind: str) -> list[Dtypes]:
        """The dtypes of the operands that are tried."""
        return [tuple(one.split()) for one in KINDS[len(self.shapes[0])].get(kind, ())]

    def operands(self, kind: str, dtypes: Dtypes, flushed: Sequence[str] = ()) -> Iterator[list[Array]]:
        """The operands that are tried, in those dtypes: read-only, and the first in reverse order of memory.

        There are no subnormal numbers of the dtypes in `flushed`.
        """
        if kind in EDGES:
            values = [_EDGE_VALUES[kind](dtype, flushed) for dtype in dtypes]
            yield [_crossed(one, position, len(dtypes)) for position, one in enumerate(values)]
            return
        for shapes in self.shapes:
            yield [_ordinary(dtype, shapes[position], position) for position, dtype in enumerate(dtypes)]

    def accepts(self, kind: str) -> bool:
        """Whether there is such a call of any of these dtypes."""
        return (kind in self.edges or kind not in EDGES) and any(self._builds(one) for one in self.dtypes(kind))

    def _builds(self, dtypes: Dtypes) -> bool:
        with Graph():
            nodes = [placeholder(one, shape) for one, shape in zip(dtypes, self.shapes[0], strict=True)]
            try:
                self.call(ops, *nodes)
            except GraphError:
                return False
        return True


def _ordinary(dtype: str, shape: tuple[int, ...], position: int) -> Array:
    count = int(np.prod(shape))
    steps = np.arange(count)
    if dtype == "bool":
        values = (steps + position) % 2
    elif position:
        # Divisors, exponents and shifts: positive.
        values = 1 + steps % 4
    elif dtype.startswith("uint"):
        values = steps % 7
    else:
        values = steps % 7 - 2
    array = values.astype(dtype)
    if array.dtype.kind in "fc":
        array = (array * 0.75 + 0.125).astype(dtype)
    if array.dtype.kind == "c":
        array += (1j * (0.5 - steps % 3 * 0.375)).astype(dtype)
    array = array.reshape(shape)
    if shape and not position:
        array = array[::-1]
    array.flags.writeable = False
    return array


def _special(dtype: str, flushed: Sequence[str]) -> Array:
    subnormal = [] if dtype in flushed else [3 * np.finfo(dtype).smallest_subnormal]
    return np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0, *subnormal], dtype)


def _limits(dtype: str, flushed: Sequence[str]) -> Array:
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return np.array([least, most, 0, 1, most - 1, *([-1, least + 1] if least else [])], dtype)


_EDGE_VALUES: Final[dict[str, Callable[[str, Sequence[str]], Array]]] = {"special": _special, "limits": _limits}


def _crossed(array: Array, position: int, count: int) -> Array:
    """So that each value of the first of two operands meets each of the second."""
    if count > 1 and not position:
        array = array[:, None]
    array.flags.writeable = False
    return array


_UNARY: Final = """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log
    log10 log1p log2 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh
    trunc"""
_BINARY: Final = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
    floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum
    minimum multiply nextafter not_equal pow remainder subtract"""
_REDUCTIONS: Final = "all any max mean min prod std sum var"
_UNLIMITED: Final = ("bitwise_left_shift", "bitwise_right_shift", "mean", "pow", "std", "var")
"""What says nothing of the greatest integers: it is not defined for them, or their differences are lost in it."""

_SHAPES: Final[tuple[Shapes, ...]] = (((),), ((0,),), ((5,),), ((2, 3),))
_PAIRS: Final[tuple[Shapes, ...]] = (((), ()), ((2, 3), (2, 3)), ((2, 1), (3,)), ((0,), (1,)), ((), (2, 2)))
_ALIKE: Final[tuple[Shapes, ...]] = (((), ()), ((2, 3), (2, 3)), ((0,), (0,)))
_MATRICES: Final[tuple[Shapes, ...]] = (((2, 3),), ((3, 0),), ((1, 1),))
_STACKS: Final[tuple[Shapes, ...]] = (((2, 1, 3),),)


def _of_none(op: str, call: Callable[[Any], Any]) -> Case:
    return Case(op, call, ((),))


def _of_one(
    op: str, call: Callable[[Any, Any], Any], shapes: tuple[Shapes, ...] = _SHAPES, edges: tuple[str, ...] = ()
) -> Case:
    return Case(op, call, shapes, edges)


def _of_two(
    op: str, call: Callable[[Any, Any, Any], Any], shapes: tuple[Shapes, ...] = _PAIRS, edges: tuple[str, ...] = ()
) -> Case:
    return Case(op, call, shapes, edges)


def _plain(op: str, shapes: tuple[Shapes, ...]) -> Case:
    return Case(op, _named(op), shapes, ("special",) if op in _UNLIMITED else EDGES)


def _named(op: str) -> Callable[..., Any]:
    def call(xp: Any, *operands: Any) -> Any:
        return getattr(xp, op)(*operands)

    return call


def _over(op: str, *numbers: complex, **options: Any) -> Callable[..., Any]:
    def call(xp: Any, x: Any) -> Any:
        return getattr(xp, op)(x, *numbers, **options)

    return call


def _itself(op: str, **params: Any) -> Callable[..., Any]:
    """The op itself, where there is no function, or it builds other ops of what is known of the operands."""

    def call(xp: Any, *operands: Any) -> Any:
        return build(op, operands, params or NO_PARAMS) if xp is ops else getattr(xp, op)(*operands, **params)

    return call


def _several(op: str, *numbers: complex, **params: Any) -> Callable[..., Any]:
    """As `_itself`, of an op with several results; the numbers are its last operands."""

    def call(xp: Any, *operands: Any) -> Any:
        if xp is ops:
            return build_several(op, (*operands, *numbers), params or NO_PARAMS)
        return getattr(xp, op)(*operands, *numbers, **params)

    return call


def _classify(xp: Any, logits: Any) -> Any:
    """The loss of the classes that are the least probable."""
    return _several("softmax_cross_entropy")(xp, logits, xp.argmin(logits, axis=-1))


def _adam_rates(*rate: float) -> Callable[..., Any]:
    def call(xp: Any, *operands: Any) -> Any:
        numbers = [xp.max(one) for one in operands]
        return _several("adam_rates", *rate, **_BETAS, epsilon=1e-3, dtype=np.dtype("float32"))(xp, *numbers)

    return call


_BETAS: Final = {"beta1": 0.75, "beta2": 0.9}


def _split(axis: int | None) -> Callable[..., Any]:
    """What was joined, taken apart again."""

    def call(xp: Any, *parts: Any) -> Any:
        joined = xp.concat(list(parts), axis=axis)
        if xp is ops:
            return build_several("split_like", (joined, *parts), {"axis": axis})
        return xp.split_like(joined, *parts, axis=axis)

    return call


def _astype(dtype: str) -> Case:
    return _of_one("astype", lambda xp, x: xp.astype(x, np.dtype(dtype)))


_CASES: Final[dict[str, Case]] = {
    **{op: _plain(op, _SHAPES) for op in [*_UNARY.split(), *_REDUCTIONS.split()]},
    **{op: _plain(op, _PAIRS) for op in _BINARY.split()},
    **{f"{op}:number": _of_one(op, _over(op, 2)) for op in ("add", "multiply", "pow", "remainder", "less")},
    "divide:number": _of_one("divide", lambda xp, x: xp.divide(1.5, x), (((3,),),)),
    "clip": _of_two("clip", lambda xp, x, y: xp.clip(x, y, xp.add(y, y)), edges=("special",)),
    "clip:number": _of_one("clip", lambda xp, x: xp.clip(x, 1, 2), edges=EDGES),
    **{f"{op}:axis": _of_one(op, _over(op, axis=-1, keepdims=True), _MATRICES) for op in _REDUCTIONS.split()},
    "std:correction": _of_one("std", _over("std", axis=(0, 1), correction=1), _MATRICES),
    "sum:dtype": _of_one("sum", _over("sum", dtype="float64")),
    "argmax": _of_one("argmax", _over("argmax"), edges=EDGES),
    "argmax:axis": _of_one("argmax", _over("argmax", axis=1, keepdims=True), _MATRICES),
    "argmin": _of_one("argmin", _over("argmin"), edges=EDGES),
    "argmin:axis": _of_one("argmin", _over("argmin", axis=0), _MATRICES),
    "where": _of_two("where", lambda xp, x, y: xp.where(xp.not_equal(x, y), x, y), edges=EDGES),
    "take": _of_one("take", lambda xp, x: xp.take(x, xp.asarray([1, 0, -1]), axis=0), (((3,),), ((2, 3),))),
    "take_add": _of_two(
        "take_add",
        lambda xp, x, y: xp.at(x).take_add(xp.asarray([1, 0, -1, 0]), y),
        (((2,), (4,)), ((2, 3), (4, 3)), ((3, 2), (2,)), ((2, 0), (4, 0))),
    ),
    "take_add:axis": _of_two(
        "take_add",
        lambda xp, x, y: xp.at(x).take_add(xp.asarray([[1], [1]], dtype=np.dtype("int8")), y, axis=-2),
        (((2, 3), (2, 1, 3)), ((2, 2, 1), (2, 2, 1, 1)), ((2, 3), ())),
    ),
    "take_add:number": _of_one(
        "take_add", lambda xp, x: xp.at(x).take_add(xp.asarray([1, 1]), 1), (((3,),), ((2, 3),))
    ),
    "matmul": _of_two(
        "matmul",
        _named("matmul"),
        (((2, 3), (3, 2)), ((3,), (3,)), ((2, 2, 3), (3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 2))),
    ),
    "tensordot": _of_two("tensordot", lambda xp, x, y: xp.tensordot(x, y, axes=1), (((2, 3), (3, 2)), ((3,), (3,)))),
    "vecdot": _of_two("vecdot", lambda xp, x, y: xp.vecdot(x, y), (((2, 3), (3,)), ((3,), (3,)))),
    "vecdot:axis": _of_two("vecdot", lambda xp, x, y: xp.vecdot(x, y, axis=-2), (((3, 2), (3, 2)),)),
    "matrix_transpose": _of_one("matrix_transpose", _named("matrix_transpose"), _MATRICES),
    "permute_dims": _of_one("permute_dims", lambda xp, x: xp.permute_dims(x, (2, 0, 1)), _STACKS),
    "moveaxis": _of_one("moveaxis", lambda xp, x: xp.moveaxis(x, 0, -1), _STACKS),
    "reshape": _of_one("reshape", lambda xp, x: xp.reshape(x, (-1, 2)), (((4,),), ((2, 3),))),
    "expand_dims": _of_one("expand_dims", _over("expand_dims", axis=-1)),
    "squeeze": _of_one("squeeze", _over("squeeze", axis=1), _STACKS),
    "broadcast_to": _of_one("broadcast_to", lambda xp, x: xp.broadcast_to(x, (2, 2, 3)), (((),), ((2, 3),), ((1, 3),))),
    "broadcast_arrays": _of_two("broadcast_arrays", _named("broadcast_arrays")),
    "concat": _of_two("concat", lambda xp, x, y: xp.concat([x, y]), (((2, 3), (1, 3)), ((0,), (2,)))),
    "concat:axis": _of_two("concat", lambda xp, x, y: xp.concat([x, y], axis=None), (((2, 3), (3,)), ((), ()))),
    "stack": _of_two("stack", lambda xp, x, y: xp.stack([x, y], axis=-1), (((2, 3), (2, 3)), ((), ()))),
    "unstack": _of_one("unstack", _over("unstack"), (((3,),), ((2, 3),))),
    "flip": _of_one("flip", _over("flip")),
    "flip:axis": _of_one("flip", _over("flip", axis=1), _MATRICES),
    "roll": _of_one("roll", lambda xp, x: xp.roll(x, 2)),
    "roll:axis": _of_one("roll", lambda xp, x: xp.roll(x, (1, -1), axis=(0, 1)), _MATRICES),
    "index": _of_one("index", lambda xp, x: x[::-1, None, 1], (((2, 3),), ((0, 2),))),
    "index:int": _of_one("index", lambda xp, x: x[-1], (((3,),), ((2, 3),))),
    "index:ellipsis": _of_one("index", lambda xp, x: x[..., 1:], (((3,),), ((2, 3),))),
    "index_set": _of_two(
        "index_set",
        lambda xp, x, y: xp.at(x)[::-1, None, 1].set(y),
        (((2, 3), (2, 1)), ((0, 2), (0, 1)), ((2, 2, 2), (2, 1, 2)), ((2, 2), ())),
    ),
    "index_set:int": _of_two("index_set", lambda xp, x, y: xp.at(x)[-1].set(y), (((3,), ()), ((2, 3), (3,)))),
    "index_set:all": _of_two("index_set", lambda xp, x, y: xp.at(x)[...].set(y), (((), ()), ((2, 3), (2, 1)))),
    "index_set:number": _of_one("index_set", lambda xp, x: xp.at(x)[..., 1:].set(1), (((3,),), ((2, 3),))),
    "index_add": _of_two(
        "index_add",
        lambda xp, x, y: xp.at(x)[::-1, None, 1].add(y),
        (((2, 3), (2, 1)), ((0, 2), (0, 1)), ((2, 2, 2), (2, 1, 2)), ((2, 2), ())),
    ),
    "index_add:int": _of_two("index_add", lambda xp, x, y: xp.at(x)[-1].add(y), (((3,), ()), ((2, 3), (3,)))),
    "index_add:number": _of_one("index_add", lambda xp, x: xp.at(x)[..., 1:].add(1), (((3,),), ((2, 3),))),
    "broadcast_like": _of_two(
        "broadcast_like", _itself("broadcast_like"), (((3,), (2, 3)), ((), (2,)), ((2, 1), (2, 3)), ((1,), (0,)))
    ),
    "sum_to": _of_two(
        "sum_to",
        _itself("sum_to"),
        (((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 3), ()), ((2, 2, 3), (1, 3)), ((0, 3), (3,))),
    ),
    "sum_to:same": _of_two("sum_to", _itself("sum_to"), (((2, 3), (2, 3)), ((), ()))),
    "reshape_like": _of_two(
        "reshape_like", _itself("reshape_like"), (((6,), (2, 3)), ((0, 2), (3, 0)), ((1, 1), ()), ((), (1,)))
    ),
    "size_of": _of_one("size_of", _itself("size_of")),
    "size_of:axis": _of_one("size_of", _itself("size_of", axis=-1), _MATRICES),
    "split_like": _of_two("split_like", _split(0), (((2, 3), (1, 3)), ((0,), (2,)))),
    "split_like:axis": _of_two("split_like", _split(-1), (((2, 1), (2, 3)), ((2, 1, 2), (2, 1, 0)))),
    "split_like:flat": _of_two("split_like", _split(None), (((2, 3), (3,)), ((), ()))),
    "stop_gradient": _of_one("stop_gradient", _itself("stop_gradient"), edges=EDGES),
    "where_larger": _of_two(
        "where_larger", lambda xp, x, y: _itself("where_larger")(xp, xp.add(x, y), x, y), edges=("special",)
    ),
    "where_larger:number": _of_one("where_larger", lambda xp, x: _itself("where_larger")(xp, x, x, 0)),
    "where_positive": _of_two("where_positive", _itself("where_positive"), edges=("special",)),
    "divide_by_size": _of_two("divide_by_size", _itself("divide_by_size"), (((2, 3), (4,)), ((), (3,)), ((2,), ()))),
    "divide_by_size:axis": _of_two("divide_by_size", _itself("divide_by_size", axis=-1), (((2, 1), (2, 3)),)),
    "relu": _of_one("relu", _itself("relu"), edges=EDGES),
    "softmax_cross_entropy": _of_one("softmax_cross_entropy", _classify, (((3,),), ((2, 3),), ((0, 2),), ((2, 1, 4),))),
    "softmax_cross_entropy:few": _of_one("softmax_cross_entropy", _classify, (((9, 2),), ((3, 2, 3),))),
    "adam": _of_two(
        "adam", lambda xp, x, y: _several("adam", 0.5, 1e-3, **_BETAS)(xp, x, xp.multiply(x, y), x, y), _ALIKE
    ),
    "adam:shrink": _of_two("adam", lambda xp, x, y: _several("adam", 0.5, 0.0, 0.25, **_BETAS)(xp, x, y, x, y), _ALIKE),
    "adam_rates": _of_two("adam_rates", _adam_rates(), (((5,), (2,)),)),
    "adam_rates:number": _of_one("adam_rates", _adam_rates(0.5), (((5,),),)),
    "tril": _of_one("tril", _over("tril", k=1), _MATRICES),
    "triu": _of_one("triu", _over("triu"), _MATRICES),
    "meshgrid": _of_one("meshgrid", lambda xp, x: xp.meshgrid(x, x[1:], indexing="ij"), (((3,),), ((1,),))),
    **{f"astype:{dtype}": _astype(dtype) for dtype in ("bool", "int32", "float32", "complex128")},
    "astype:copy": _of_one("astype", lambda xp, x: xp.astype(x, np.dtype("float64"), copy=False)),
    "ones_like": _of_one("ones_like", _named("ones_like")),
    "zeros_like": _of_one("zeros_like", _over("zeros_like", dtype="float32")),
    "full_like": _of_one("full_like", lambda xp, x: xp.full_like(x, 1)),
    "arange": _of_none("arange", lambda xp: xp.arange(1, 9, 2)),
    "arange:float": _of_none("arange", lambda xp: xp.arange(0.0, 1.0, 0.25, dtype="float32")),
    "eye": _of_none("eye", lambda xp: xp.eye(2, 3, k=1)),
    "full": _of_none("full", lambda xp: xp.full((2, 0, 1), 7)),
    "full:dtype": _of_none("full", lambda xp: xp.full((2,), 1.5, dtype="float32")),
    "linspace": _of_none("linspace", lambda xp: xp.linspace(0, 1, 5)),
    "linspace:endpoint": _of_none("linspace", lambda xp: xp.linspace(0.0, 2.0, 4, endpoint=False)),
    "ones": _of_none("ones", lambda xp: xp.ones((2, 3), dtype="int16")),
    "zeros": _of_none("zeros", lambda xp: xp.zeros(())),
    "sin:numbers": _of_none("sin", lambda xp: xp.sin(0.5)),
    "add:numbers": _of_none("add", lambda xp: xp.add(1, 2.5)),
}
"""Every op of the vocabulary has one at least."""

CASES: Final[dict[str, tuple[Case, str]]] = {
    f"{name}-{kind}": (case, kind)
    for name, case in _CASES.items()
    for kind in KINDS[len(case.shapes[0])]
    if case.accepts(kind)
}
"""The cases and kinds of dtype there are, by the name of both."""

OPS: Final[dict[str, list[str]]] = {}
"""The names of the cases of each op, those of floats first."""

LAID_OUT: Final[dict[str, list[str]]] = {}
"""The same of each call that has operands: the kinds of dtypes that it is tried on."""

for _name, (_case, _kind) in sorted(CASES.items(), key=lambda one: one[1][1] != "float"):
    OPS.setdefault(_case.op, []).append(_name)
    if _case.shapes[0]:
        LAID_OUT.setdefault(_name.rpartition("-")[0], []).append(_name)
