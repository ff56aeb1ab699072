"""What functions that draw random numbers build. What is drawn is tested with their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncgraph import ops
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.op import RANDOM_OPS, op_named
from asyncgraph._graph.rules.tables import COSTS, ROWS
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import GraphError, NodeValueError, SpecError, SpecTypeError
from asyncgraph.ops import random

from .oracle import placeholder, says_rowwise

DRAWS: dict[str, Callable[..., Node]] = {
    "uniform": random.uniform,
    "normal": random.normal,
    "bernoulli": lambda shape, **options: random.bernoulli(0.5, shape, **options),
}


def of(graph: Graph, spec: str) -> Node:
    return placeholder(graph, ArraySpec.parse(spec))


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("shape", [(2, 3), [2, 3], (), 4, np.int64(4), (0, 2)])
def test_a_shape_is_made_of_ints(draw: Callable[..., Node], shape: Any) -> None:
    with Graph():
        assert draw(shape).shape == tuple(np.atleast_1d(np.asarray(shape, int)).tolist())


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize(
    ("like", "moved"),
    [("int8[2,3]", []), ("int8[n,3]", ["size_of"]), ("int8[n,?,4]", ["size_of"] * 2), ("int8[...]", ["placeholder"])],
)
def test_of_a_node_it_takes_the_shape_and_needs_only_the_sizes_that_are_not_known(
    draw: Callable[..., Node], like: str, moved: list[str]
) -> None:
    with Graph() as graph:
        node = of(graph, like)
        made = draw(node)

    assert made.shape == node.shape
    assert [one.op.name for one in made.inputs] == moved


def test_floats_are_float64_or_float32() -> None:
    with Graph():
        for draw in (random.uniform, random.normal):
            assert [draw(3).dtype, draw(3, dtype="float32").dtype] == ["float64", "float32"]
            for dtype in ("float16", "int64", "complex64"):
                with pytest.raises(SpecTypeError, match=f"{dtype} is not drawn"):
                    draw(3, dtype=dtype)
        assert random.bernoulli(0.5, 3).dtype == "bool"


def test_a_draw_is_a_node_of_its_own_kind_that_no_pass_may_merge_or_compute() -> None:
    with Graph():
        made = {random.uniform(3), random.normal(3), random.bernoulli(0.5, 3), random.permutation(3)}

    assert {node.op for node in made} == RANDOM_OPS
    for op in RANDOM_OPS:
        assert not op.pure
        assert op_named(op.name) is op
        assert op.name in ROWS
        assert op.name in COSTS


def test_no_rows_are_apart_in_a_draw() -> None:
    with Graph() as graph:
        assert not says_rowwise(random.uniform(of(graph, "int8[n]")), [True])


def test_a_draw_is_built_in_the_graph_of_its_shape_or_else_in_the_current_one() -> None:
    with Graph() as graph:
        like = of(graph, "int8[n]")

    assert random.normal(like).graph is graph
    assert random.permutation(like).graph is graph
    with pytest.raises(GraphError, match="no graph to build the node in"):
        random.normal(3)


def test_a_name_is_the_draws_own_or_begins_its_name() -> None:
    with Graph() as graph:
        x = of(graph, "float32[n,3]")

        assert random.uniform(3, name="noise").name == "noise"
        assert random.bernoulli(x, name="mask").inputs[0].name == "mask_uniform"
        assert random.permutation(x, name="shuffled").inputs[1].name == "shuffled_order"


def test_the_probability_may_be_a_node_whose_shape_is_taken_or_broadcast() -> None:
    with Graph() as graph:
        p, x = of(graph, "float32[n,1]"), of(graph, "float32[n,3]")

        assert repr(random.bernoulli(p).spec) == "bool[n,1]"
        assert repr(random.bernoulli(p, x).spec) == "bool[n,3]"
        assert repr(random.bernoulli(p, (4, 3)).spec) == "bool[4,3]"
        assert repr(random.bernoulli(0.5).spec) == "bool[]"
        with pytest.raises(SpecError, match="cannot be broadcast to"):
            random.bernoulli(of(graph, "float32[5]"), (4, 3))


@pytest.mark.parametrize(
    ("x", "spec", "order"),
    [
        (5, "int64[5]", None),
        (np.int32(0), "int64[0]", None),
        ("float32[n,3]", "float32[n,3]", "int64[n]"),
        ("float32[4]", "float32[4]", "int64[4]"),
        ("float32[...]", "float32[...]", "int64[?]"),
        (np.zeros((2, 3)), "float64[2,3]", "int64[2]"),
    ],
)
def test_a_permutation_is_one_of_ints_or_of_rows(x: Any, spec: str, order: str | None) -> None:
    with Graph() as graph:
        made = random.permutation(of(graph, x) if isinstance(x, str) else x)

    assert repr(made.spec) == spec
    assert (None if made.op in RANDOM_OPS else repr(made.inputs[1].spec)) == order


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda x: random.uniform(x.shape), SpecTypeError, "the shape ('n', 3) is not made of ints"),
        (lambda x: random.uniform((2, -1)), SpecError, "a dimension cannot be negative"),
        (lambda x: random.uniform(3, 1.0, 1.0), SpecError, "give low < high"),
        (lambda x: random.uniform(3, float("nan"), 1.0), SpecError, "low=nan is not finite"),
        (lambda x: random.uniform(3, -3e38, 3e38, dtype="float32"), SpecError, "not too far apart for float32"),
        (lambda x: random.uniform(3, x, 1.0), SpecTypeError, "low takes a number"),
        (lambda x: random.normal(3, std=-1.0), SpecError, "std=-1.0: it cannot be negative"),
        (lambda x: random.normal(3, mean=float("inf")), SpecError, "mean=inf is not finite"),
        (lambda x: random.normal(3, mean=10**400), SpecError, "is not finite"),
        (lambda x: random.bernoulli(1.5), SpecError, "p=1.5: a probability is from 0 to 1"),
        (lambda x: random.bernoulli(True), SpecTypeError, "p takes a number, not True"),
        (lambda x: random.permutation(-1), SpecError, "x=-1: it cannot be negative"),
        (lambda x: random.permutation(True), SpecTypeError, "x takes ints, not True"),
        (lambda x: random.permutation(x[0, 0]), SpecError, "has no rows"),
        (lambda x: random.permutation(np.array(3)), SpecError, "an int of Python's"),
        (lambda x: random.bernoulli(ops.astype(x, "complex64")), SpecTypeError, "a probability is a real number"),
        (lambda x: random.normal(3, std=1e39, dtype="float32"), SpecError, "std=1e+39 is not finite in float32"),
        (lambda x: random.uniform(3, seed=x), NodeValueError, "seed="),
    ],
)
def test_what_cannot_be_drawn_is_refused_when_it_is_built(
    build: Callable[[Node], Node], error: type[Exception], text: str
) -> None:
    with Graph() as graph, np.errstate(all="raise"):
        x = of(graph, "float32[n,3]")
        with pytest.raises(error) as raised:
            build(x)
        assert text in str(raised.value)
