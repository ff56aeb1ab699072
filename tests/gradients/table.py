"""Calls of every op that has a derivative, with inputs where it has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from asyncgraph import ops
from asyncgraph._gradients.fitting import reshaped
from asyncgraph._graph.node import Node
from asyncgraph.ops._build import build, build_several

Array = np.ndarray[Any, Any]
Shapes = tuple[tuple[int, ...], ...]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def between(low: float, high: float) -> Draw:
    return lambda rng, shape: np.asarray(rng.uniform(low, high, shape))


def apart(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers of both signs that differ by far more than a step, from each other and from 0."""
    count = int(np.prod(shape))
    return ((rng.permutation(count) - count / 3 + 0.1) / 2).reshape(shape)


def complexes(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.uniform(0.3, 1.2, shape) * np.exp(1j * rng.uniform(-1, 1, shape)))


SOME: Final = between(-1.5, 1.5)
POSITIVE: Final = between(0.3, 2.0)


@dataclass(frozen=True)
class Case:
    """A call.

    Fields:
        op: the row that it is for.
        call: builds it, given a node for each input.
        shapes: those of the inputs: one set after the other.
        draw: makes each input; a sequence has one for each.
        ranks: whether it can be built where the inputs' ranks are not known.
        order: how often it can be differentiated.
    """

    op: str
    call: Callable[..., Any]
    shapes: tuple[Shapes, ...]
    draw: Draw | Sequence[Draw] = SOME
    ranks: bool = True
    order: int = 2

    def inputs(self, shapes: Shapes, seed: int) -> list[Array]:
        rng = np.random.default_rng(seed)
        draws = self.draw if isinstance(self.draw, Sequence) else [self.draw] * len(shapes)
        return [draw(rng, shape) for draw, shape in zip(draws, shapes, strict=True)]


ONE: Final[tuple[Shapes, ...]] = (((),), ((2, 3),), ((0,),))
TWO: Final[tuple[Shapes, ...]] = (((2, 3), (2, 3)), ((2, 1), (3,)), ((), (2,)), ((3,), (1, 1)), ((1, 2), (0, 1)))
THREE: Final[tuple[Shapes, ...]] = (((2, 3), (2, 3), (2, 3)), ((3,), (), (2, 1)), ((1,), (2, 3), (1, 3)))
MATRICES: Final[tuple[Shapes, ...]] = (((2, 3),), ((3, 1),), ((0, 2),))
LOGITS: Final[tuple[Shapes, ...]] = (((2, 3),), ((3,),), ((2, 1, 2),), ((0, 2),))
STACKS: Final[tuple[Shapes, ...]] = (((2, 1, 3),),)


def of_one(op: str, draw: Draw = SOME, **options: Any) -> Case:
    return Case(op, getattr(ops, op), ONE, draw, **options)


def of_two(op: str, *draws: Draw, **options: Any) -> Case:
    return Case(op, getattr(ops, op), TWO, draws or SOME, **options)


def reduction(op: str, draw: Draw = SOME, **params: Any) -> Case:
    shapes = (((2, 3),), ((3, 2),), ((2, 2, 2),))
    return Case(op, lambda x: getattr(ops, op)(x, **params), shapes, draw)


def classified(logits: Node) -> tuple[Node, ...]:
    """What the op gives of a label for each row."""
    return build_several("softmax_cross_entropy", (logits, ops.argmin(logits, axis=-1)))


_UNARY: Final[Mapping[str, Draw]] = {
    "abs": apart, "acos": between(-0.8, 0.8), "acosh": between(1.2, 3), "asin": between(-0.8, 0.8), "asinh": SOME,
    "atan": SOME, "atanh": between(-0.8, 0.8), "conj": SOME, "cos": SOME, "cosh": SOME, "exp": SOME, "expm1": SOME,
    "log": POSITIVE, "log10": POSITIVE, "log1p": POSITIVE, "log2": POSITIVE, "negative": SOME, "positive": SOME,
    "real": SOME, "reciprocal": POSITIVE, "sin": SOME, "sinh": SOME, "sqrt": POSITIVE, "square": SOME,
    "tan": between(-1, 1), "tanh": SOME,
}  # fmt: skip
_COMPLEX: Final = """
    abs acos acosh asin asinh atan atanh conj cos cosh exp expm1 imag log log10 log1p log2 negative positive real
    reciprocal sign sin sinh sqrt square tan tanh"""
_REDUCED: Final[Mapping[str, Draw]] = {
    "max": apart, "mean": SOME, "min": apart, "prod": SOME, "std": SOME, "sum": SOME, "var": SOME,
}  # fmt: skip
_AXES: Final[Mapping[str, dict[str, Any]]] = {
    "": {}, "-axis": {"axis": -1}, "-kept": {"axis": 0, "keepdims": True}, "-axes": {"axis": (0, -1)},
    "-none": {"axis": ()},
}  # fmt: skip


CASES: Final[dict[str, Case]] = {
    **{op: of_one(op, draw) for op, draw in _UNARY.items()},
    **{f"{op}-complex": of_one(op, complexes) for op in _COMPLEX.split()},
    # Two operands
    "add": of_two("add"),
    "atan2": of_two("atan2", POSITIVE, apart),
    "copysign": of_two("copysign", apart, POSITIVE, order=1),
    "divide": of_two("divide", SOME, POSITIVE),
    "hypot": of_two("hypot", POSITIVE, POSITIVE),
    "logaddexp": of_two("logaddexp"),
    "maximum": of_two("maximum", apart, between(0.02, 0.04)),
    "minimum": of_two("minimum", apart, between(0.02, 0.04)),
    "multiply": of_two("multiply"),
    "pow": of_two("pow", POSITIVE, SOME),
    "remainder": of_two("remainder", between(1.1, 1.9), between(0.9, 1.0), order=1),
    "subtract": of_two("subtract"),
    **{f"{op}-complex": of_two(op, complexes, complexes) for op in ("add", "divide", "multiply", "pow", "subtract")},
    **{f"{op}-mixed": of_two(op, POSITIVE, complexes) for op in ("add", "divide", "multiply", "pow", "subtract")},
    **{f"pow-{n}": Case("pow", lambda x, n=n: x**n, ONE, POSITIVE) for n in (-1, 0, 1, 2, 3, 0.5, 1 + 1j)},
    "pow-of-2": Case("pow", lambda x: 2**x, ONE),
    "pow-by-ints": Case("pow", lambda x: x ** np.array([0, 1, 3]), (((3,),), ((2, 1),))),
    "divide-number": Case("divide", lambda x: 2 / x / 3, ONE, POSITIVE),
    "same-twice": Case("multiply", lambda x: x * x, ONE),
    # Three operands
    "clip": Case("clip", ops.clip, THREE, (apart, between(-0.35, -0.3), between(0.62, 0.64))),
    "clip-numbers": Case("clip", lambda x: ops.clip(x, -0.3, 0.7), ONE, apart),
    "where": Case("where", lambda c, a, b: ops.where(c > 0, a, b), THREE),
    "where_larger": Case(
        "where_larger", lambda *xs: build("where_larger", xs), THREE, (SOME, apart, between(0.02, 0.04))
    ),
    "where_positive": Case("where_positive", lambda *xs: build("where_positive", xs), TWO, (SOME, apart)),
    "relu": Case("relu", lambda x: build("relu", (x,)), ONE, apart),
    "where-number": Case("where", lambda x: ops.where(x > 0, x, 1), ONE, apart),
    # Data types
    "astype": Case("astype", lambda x: ops.astype(x, "complex128"), ONE),
    "astype-copy": Case("astype", lambda x: ops.astype(x, "float64", copy=False), ONE),
    # Reductions
    **{
        f"{op}{name}": reduction(op, draw, **params)
        for op, draw in _REDUCED.items()
        for name, params in _AXES.items()
        if name != "-none" or op in ("sum", "mean")
    },
    **{f"{op}-correction": reduction(op, axis=0, correction=0.5) for op in ("std", "var")},
    **{f"{op}-complex": reduction(op, complexes, axis=-1) for op in ("mean", "prod", "std", "sum", "var")},
    "sum-dtype": reduction("sum", dtype="complex128"),
    "divide_by_size": Case(
        "divide_by_size", lambda x, y: build("divide_by_size", (x, y)), (((), (2, 3)), ((3,), (2,)), ((2,), ()))
    ),
    "divide_by_size-axis": Case(
        "divide_by_size", lambda x, y: build("divide_by_size", (x, y), {"axis": 0}), (((3,), (2, 3)),)
    ),
    "softmax_cross_entropy": Case("softmax_cross_entropy", lambda x: classified(x)[0], LOGITS),
    "softmax_cross_entropy-residual": Case("softmax_cross_entropy", lambda x: classified(x)[1], LOGITS),
    "softmax_cross_entropy-both": Case("softmax_cross_entropy", lambda x: classified(x), LOGITS),
    "softmax_cross_entropy-mean": Case("softmax_cross_entropy", lambda x: ops.mean(classified(x)[0]), LOGITS[:3]),
    "softmax_cross_entropy-weighted": Case("softmax_cross_entropy", lambda x: classified(x)[0] * ops.sum(x), LOGITS),
    # Products
    "matmul": Case(
        "matmul",
        ops.matmul,
        (((2, 3), (3, 2)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((0, 2), (2, 3))),
        ranks=False,
    ),
    "matmul-stacks": Case(
        "matmul",
        ops.matmul,
        (
            ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 1)), ((2, 1, 2, 3), (3, 3, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,)),
            ((1, 2, 3), (2, 3, 1)),
        ),
        ranks=False,
    ),
    "matmul-complex": Case("matmul", ops.matmul, (((2, 3), (3, 2)), ((2, 2, 2), (2,))), complexes, ranks=False),
    "matrix_transpose": Case("matrix_transpose", ops.matrix_transpose, (*MATRICES, *STACKS)),
    "tensordot": Case("tensordot", ops.tensordot, (((2, 2, 3), (2, 3, 2)), ((2, 3), (2, 3))), ranks=False),
    "tensordot-none": Case(
        "tensordot", lambda a, b: ops.tensordot(a, b, axes=0), (((2,), (3,)), ((), (2, 2))), ranks=False
    ),
    "tensordot-axes": Case(
        "tensordot",
        lambda a, b: ops.tensordot(a, b, axes=((2, 0), (0, -1))),
        (((2, 3, 2), (2, 1, 2)), ((3, 1, 2), (2, 2, 3))),
        ranks=False,
    ),
    "tensordot-complex": Case(
        "tensordot", lambda a, b: ops.tensordot(a, b, axes=1), (((2, 3), (3, 2)),), complexes, ranks=False
    ),
    "vecdot": Case("vecdot", ops.vecdot, (((2, 3), (2, 3)), ((3,), (2, 3)), ((2, 1, 3), (2, 3)))),
    "vecdot-axis": Case("vecdot", lambda a, b: ops.vecdot(a, b, axis=-2), (((3, 2), (3, 1)), ((2, 3, 1), (3, 2)))),
    "vecdot-complex": Case("vecdot", ops.vecdot, (((2, 3), (3,)),), complexes),
    # Moved
    "expand_dims": Case("expand_dims", lambda x: ops.expand_dims(x, -1), ONE),
    "expand_dims-two": Case("expand_dims", lambda x: ops.expand_dims(x, (0, 2)), MATRICES),
    "flip": Case("flip", ops.flip, (*ONE, *STACKS)),
    "flip-axis": Case("flip", lambda x: ops.flip(x, axis=-1), MATRICES),
    "moveaxis": Case("moveaxis", lambda x: ops.moveaxis(x, (0, 1), (-1, 0)), STACKS),
    "permute_dims": Case("permute_dims", lambda x: ops.permute_dims(x, (2, 0, -2)), STACKS),
    "reshape": Case("reshape", lambda x: ops.reshape(x, (-1,)), (((2, 3),), ((0, 3),), ((),))),
    "reshape_like": Case("reshape_like", lambda x, y: reshaped(x, y) * 1, (((2, 3), (3, 2)), ((0, 3), (2, 0)))),
    "roll": Case("roll", lambda x: ops.roll(x, 2), MATRICES),
    "roll-axes": Case("roll", lambda x: ops.roll(x, (1, -2), axis=(0, -1)), MATRICES),
    "squeeze": Case("squeeze", lambda x: ops.squeeze(x, -2), STACKS),
    "squeeze-two": Case("squeeze", lambda x: ops.squeeze(x, (0, 2)), (((1, 2, 1),),)),
    "tril": Case("tril", lambda x: ops.tril(x, k=-1), MATRICES),
    "triu": Case("triu", lambda x: ops.triu(x, k=1), (*MATRICES, *STACKS)),
    # Repeated
    "broadcast_to": Case("broadcast_to", lambda x: ops.broadcast_to(x, (2, 2, 3)), (((),), ((2, 3),), ((2, 1, 1),))),
    "broadcast_arrays": Case("broadcast_arrays", ops.broadcast_arrays, TWO),
    "broadcast_like": Case("broadcast_like", ops.broadcast_like, (((3,), (2, 3)), ((2, 1), (2, 3)), ((), (0,)))),
    "sum_to": Case("sum_to", ops.sum_to, (((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 2), ()), ((0, 2), (2,)))),
    "meshgrid": Case("meshgrid", ops.meshgrid, (((2,), (3,)), ((), (3,)), ((0,), (2,)))),
    "meshgrid-ij": Case("meshgrid", lambda *xs: ops.meshgrid(*xs, indexing="ij")[1:], (((2,), (3,), (1,)),)),
    "meshgrid-one": Case("meshgrid", ops.meshgrid, (((2,),),)),
    # Joined and taken apart
    "concat": Case("concat", lambda *xs: ops.concat(xs), (((2, 3), (1, 3)), ((2,), (0,), (1,)))),
    "concat-axis": Case("concat", lambda *xs: ops.concat(xs, axis=-1), (((2, 1), (2, 3)), ((1, 2, 2), (1, 2, 1)))),
    "concat-flat": Case("concat", lambda *xs: ops.concat(xs, axis=None), (((2, 3), (2,)), ((), (1, 1)))),
    "split_like": Case(
        "split_like",
        lambda x, y: build_several("split_like", (ops.concat([x, y]), x, y), {"axis": 0})[1],
        (((2,), (3,)),),
    ),
    "stack": Case("stack", lambda *xs: ops.stack(xs), (((2, 3), (2, 3)), ((), (), ()))),
    "stack-axis": Case("stack", lambda *xs: ops.stack(xs, axis=-2), (((2, 3), (2, 3)), ((2,), (2,)))),
    "unstack": Case("unstack", lambda x: ops.unstack(ops.reshape(x, (2, 3)), axis=-1), (((2, 3),),)),
    "unstack-some": Case("unstack", lambda x: ops.unstack(ops.reshape(x, (3, 2)))[1], (((2, 3),),)),
    # Picked and put in
    "index": Case("index", lambda x: x[::-1, None, 1], (((2, 3),), ((0, 2),))),
    "index-ellipsis": Case("index", lambda x: x[..., 1:], MATRICES[:1]),
    "take": Case("take", lambda x: ops.take(x, [1, 0, 1, -1]), (((2,),), ((3,),))),
    "take-axis": Case("take", lambda x: ops.take(x, [[1], [1]], axis=-2), (((2, 3),), ((1, 2, 2),))),
    "index_set": Case(
        "index_set", lambda x, y: ops.at(x)[1:, 0].set(y), (((3, 2), (2,)), ((2, 2), ()), ((3, 1, 2), (2, 1)))
    ),
    "index_add": Case(
        "index_add", lambda x, y: ops.at(x)[1:, 0].add(y), (((3, 2), (2,)), ((2, 2), ()), ((3, 1, 2), (2, 1)))
    ),
    "take_add": Case(
        "take_add", lambda x, y: ops.at(x).take_add([1, 0, 1], y), (((2,), (3,)), ((2, 2), (3, 2)), ((2, 2), ()))
    ),
    "take_add-axis": Case("take_add", lambda x, y: ops.at(x).take_add([0, 0], y, axis=-1), (((2, 1), (2, 2)),)),
}  # fmt: skip
"""By name; a name begins with the op's."""
