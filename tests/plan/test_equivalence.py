"""A plan computes what NumPy does: the same bits, shapes and strides, interpreted and emitted, in both sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import asyncgraph as ag

Array = np.ndarray[Any, Any]

FEEDS: list[Array] = [
    np.arange(-3.0, 9.0).reshape(3, 4).T,
    np.arange(24.0, dtype=np.float32).reshape(4, 6)[:, ::2],
    np.arange(-5, 7, dtype=np.int32).reshape(4, 3),
    np.array([[250, 1, 2]], dtype=np.uint8),
    np.array([0.5, -0.0, np.inf], dtype=np.float64),
    np.array([True, False, True]),
    np.array(2, dtype=np.int64),
    np.array([1 + 2j, -0.5j, np.nan], dtype=np.complex64),
    np.array([[1.5], [-2.0], [60000.0], [0.1]], dtype=np.float16),
    np.zeros((0, 3)),
]
CONSTANTS: list[Any] = [np.array([1.0, -1.0, 3.0]), np.array([[1], [2], [3], [4]], dtype=np.int16), np.array(0.25)]
NUMBERS: list[Any] = [2, -1.5, True]


def _transposed(xp: Any, a: Any) -> Any:
    return a.T if xp is np else ag.ops.permute_dims(a, tuple(reversed(range(a.ndim))))


def _first(xp: Any, a: Any) -> Any:
    return a[:1] if a.ndim else a


def _broadcast(xp: Any, a: Any) -> Any:
    return xp.broadcast_to(a, (2, *a.shape))


def _joined(xp: Any, a: Any, b: Any) -> Any:
    return xp.concat([xp.reshape(a, (-1,)), xp.reshape(b, (-1,))])


@ag.op
def doubled(value: Any) -> Any:
    return value * 2


@ag.op(pure=True)
async def negated(value: Any) -> Any:
    return np.negative(value)


def _called(function: Any) -> Callable[..., Any]:
    def call(xp: Any, a: Any) -> Any:
        # What is known of the result is said, so that further ops can be applied to it.
        return np.asarray(function_of[function](a)) if xp is np else _told(function, a)

    return call


function_of: dict[Any, Callable[[Any], Any]] = {doubled: lambda value: value * 2, negated: np.negative}


def _told(function: Any, a: ag.Node) -> ag.Node:
    spec = (a * 2 if function is doubled else ag.ops.negative(a)).spec
    return ag.op(name=function.op.name, spec=spec, pure=function.op.pure)(function.op.call.function).node(a)


def _by_name(name: str, **params: Any) -> Callable[..., Any]:
    return lambda xp, *operands: getattr(xp, name)(*operands, **params)


UNARY: list[Callable[..., Any]] = [
    *[_by_name(name) for name in ("negative", "abs", "square", "sign", "sum", "isnan", "sqrt")],
    *[_by_name(name, axis=0) for name in ("max", "any", "flip", "prod")],
    _transposed, _first, _broadcast, _called(doubled), _called(negated),
]  # fmt: skip
BINARY: list[Callable[..., Any]] = [
    *[_by_name(name) for name in ("add", "subtract", "multiply", "divide", "maximum", "less")] * 2,
    _joined,
]  # fmt: skip
OPS = UNARY + BINARY


@dataclass(frozen=True)
class Step:
    """An op on values before it, by index from the end.

    Fields:
        op, a, b: which op, of which values.
        after: the node that it has a control dependency on, if it is a node and not negative.
        twice: whether there is another node of the same.
    """

    op: int
    a: int
    b: int
    after: int
    twice: bool


STEPS = st.lists(
    st.builds(
        Step, st.integers(0, len(OPS) - 1), st.integers(1, 16), st.integers(1, 16), st.integers(-12, 6), st.booleans()
    ),
    min_size=12,
    max_size=40,
)


def described(steps: Sequence[Step]) -> tuple[list[Any], list[Any]]:
    """The nodes of the steps that can be built, feeds first, and how NumPy computes each from those before."""
    nodes: list[Any] = [ag.placeholder(one.dtype, one.shape) for one in FEEDS]
    nodes += [*map(ag.constant, CONSTANTS), *NUMBERS]
    recipes: list[Any] = [None] * len(nodes)
    values: list[Any] = [*FEEDS, *CONSTANTS, *NUMBERS]
    for step in steps:
        function = OPS[step.op]
        places = [len(nodes) - 1 - one for one in (step.a, step.b)][: 1 if function in UNARY else 2]
        after = [nodes[-step.after]] if step.after > 0 and isinstance(nodes[-step.after], ag.Node) else []
        try:
            with ag.control_dependencies(after):
                made = [function(ag.ops, *[nodes[place] for place in places]) for _ in range(1 + step.twice)]
            value = function(np, *[values[place] for place in places])
        except (TypeError, ValueError, AttributeError):
            continue  # No such op, of such operands.
        nodes += made
        values += [value] * len(made)
        recipes += [(function, places)] * len(made)
    return nodes, recipes


def evaluated(recipes: Sequence[Any], fed: dict[int, Any]) -> list[Any]:
    values: list[Any] = [*FEEDS, *CONSTANTS, *NUMBERS]
    for place, recipe in enumerate(recipes):
        if recipe is None:
            continue
        function, places = recipe
        values.append(fed[place] if place in fed else function(np, *[values[one] for one in places]))
    return values


def agree(ours: Any, numpys: Any) -> bool:
    expected = np.asarray(numpys)
    if (ours.dtype, ours.shape, ours.tobytes()) != (expected.dtype, expected.shape, expected.tobytes()):
        return False
    # A view may be handed out as a copy, which is laid out anew.
    return expected.base is not None or ours.strides == expected.strides


@given(STEPS, st.lists(st.integers(0, 60), min_size=2, max_size=6), st.lists(st.integers(0, 60), max_size=2))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_a_plan_gives_the_bits_and_strides_that_numpy_gives(
    steps: list[Step], wanted: list[int], replaced: list[int]
) -> None:
    with ag.Graph() as graph, np.errstate(all="ignore"):
        nodes, recipes = described(steps)
        computed = [place for place, recipe in enumerate(recipes) if recipe is not None]
        assume(computed)
        plain = evaluated(recipes, {})
        # Fed with what it would be, turned around: other values of the same spec.
        fed = {place: np.flip(plain[place]) for place in (computed[one % len(computed)] for one in replaced)}
        fetches = [computed[one % len(computed)] for one in wanted] + [wanted[0] % len(FEEDS + CONSTANTS)]
        expected = [evaluated(recipes, fed)[place] for place in fetches]
        feeds = dict(enumerate(FEEDS)) | fed
        args = ag.RunArgs([nodes[place] for place in fetches], {nodes[place]: feeds[place] for place in feeds})
        for results in [*asyncio.run(_async_results(graph, args)), *_blocking_results(graph, args)]:
            assert [agree(a, b) for a, b in zip(results, expected, strict=True)] == [True] * len(fetches)


async def _async_results(graph: ag.Graph, args: ag.RunArgs[list[Any]]) -> list[list[Any]]:
    async with ag.Session(graph) as session:
        interpreted = (await session.run(args)).results
        _emit(session.explain(args))
        return [interpreted, (await session.run(args)).results]


def _blocking_results(graph: ag.Graph, args: ag.RunArgs[list[Any]]) -> list[list[Any]]:
    with ag.BlockingSession(graph) as session:
        interpreted = session.run(args).results
        _emit(session.explain(args))
        return [interpreted, session.run(args).results]


def _emit(explained: Any) -> None:
    while not all(chunk.emitted for chunks in explained.plan.chunks for chunk in chunks):
        explained.plan.count_run()
