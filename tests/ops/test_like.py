"""Ops that take the shape of another value, which may be known only when it runs: `broadcast_like` and `sum_to`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.op import CONSTANT
from asyncgraph._graph.rules.tables import VIEWS
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecError, SpecTypeError
from asyncgraph.ops.manipulation import broadcast_like
from asyncgraph.ops.statistical import sum_to

from .helpers import evaluate, needed
from .oracle import QUICK, SHAPES, Array, check, check_rows, integers, placeholder, same, says_rowwise, vaguer
from .strategies import arrays


def summed_to(x: Array, like: Array) -> Array:
    if np.broadcast_shapes(x.shape, like.shape) != x.shape:
        raise ValueError("it is not broadcast to that")
    lead = x.ndim - like.ndim
    axes = [axis for axis, size in enumerate(x.shape) if axis < lead or size != like.shape[axis - lead]]
    return x if x.shape == like.shape else x.sum(tuple(axes), dtype=x.dtype, keepdims=True).reshape(like.shape)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """One that is broadcast to the other; now and then one that is not."""
    large = draw(SHAPES)
    small = [draw(st.sampled_from([dim, dim, 1])) for dim in large[draw(st.integers(0, len(large))) :]]
    if small and not draw(st.integers(0, 9)):
        small[0] += 1
    return tuple(small), large


@settings(QUICK, max_examples=150)
@given(data=st.data())
def test_broadcast_like_is_numpys_broadcast_to_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    small, large = data.draw(shapes())
    x, like = data.draw(arrays(st.just(small))), data.draw(arrays(st.just(large)))
    check(data, broadcast_like, lambda x, like: np.broadcast_to(x, like.shape), x, like)


@settings(QUICK, max_examples=150)
@given(data=st.data())
def test_sum_to_is_numpys_sum_over_what_was_broadcast_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    small, large = data.draw(shapes())
    x, like = data.draw(arrays(st.just(large))), data.draw(arrays(st.just(small)))
    check(data, sum_to, summed_to, x, like)


@settings(QUICK, max_examples=100)
@given(data=st.data())
def test_sum_to_has_the_same_bits_whatever_is_known_of_the_shapes(data: st.DataObject) -> None:
    small, large = data.draw(shapes())
    x, like = data.draw(hnp.arrays("float32", large)), np.zeros(small)
    values: list[Any] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"), Graph() as graph:
        warnings.simplefilter("ignore")
        for specs in ([ArraySpec("float32", None)] * 2, [vaguer(data, x), vaguer(data, like)]):
            nodes = [placeholder(graph, one) for one in specs]
            try:
                values.append(evaluate(sum_to(*nodes), dict(zip(nodes, (x, like), strict=True))))
            except ValueError:
                return
    assert same(*values)


def test_of_one_known_shape_both_are_the_value_itself() -> None:
    with Graph() as graph:
        x, like = placeholder(graph, ArraySpec("int8", ("n", 3))), placeholder(graph, ArraySpec("bool", ("n", 3)))
        unknown = placeholder(graph, ArraySpec("int8", (None, 3)))

        assert sum_to(x, like) is x
        assert broadcast_like(x, like) is x
        assert sum_to(x, like, name="same").name == "same"
        assert broadcast_like(x, like, name="other").name == "other"
        assert sum_to(unknown, unknown) is not unknown
        assert broadcast_like(unknown, unknown) is not unknown


@pytest.mark.parametrize(
    ("x", "like", "runs"),
    [
        (("n", 3), (3,), ["sum"]),
        (("n", 3), ("n", 1), ["sum"]),
        (("m", "n", 3), (1, 3), ["squeeze", "sum"]),
        (("n", 3), (), ["sum"]),
        (("n", 3), ("m", 3), ["sum_to"]),
        ((4, 3), ("n", 3), ["sum_to"]),
        ((None, 3), (None, 3), ["sum_to"]),
        (None, (3,), ["sum_to"]),
    ],
)
def test_where_the_axes_are_known_sum_to_needs_no_value_to_take_the_shape_of(
    x: Any, like: Any, runs: list[str]
) -> None:
    with Graph() as graph:
        nodes = [placeholder(graph, ArraySpec("float32", one)) for one in (x, like)]
        made = sum_to(*nodes)

    ran = needed(made, {nodes[0]: None})
    assert sorted(node.op.name for node in ran if node is not nodes[1]) == runs
    assert (nodes[1] in set(ran)) is (runs == ["sum_to"])
    assert made.shape == like


def test_of_a_known_shape_broadcast_like_needs_no_value() -> None:
    with Graph() as graph:
        x, like = placeholder(graph, ArraySpec("int8", ("n", 3))), placeholder(graph, ArraySpec("bool", (2, 4, 3)))

        assert [node.op.name for node in needed(broadcast_like(x, like), {x: None})] == ["broadcast_to"]


def test_numbers_and_arrays_have_shapes_too() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", ("n",)))
        ones = broadcast_like(1.5, x)
        total = sum_to(x, 0.0)

    assert same(evaluate(ones, {x: np.zeros(3, "float32")}), np.full(3, 1.5))
    assert same(evaluate(total, {x: np.ones(3, "float32")}), np.float32(3))
    assert [node.op is CONSTANT for node in ones.inputs] == [True, False]


def test_the_dtype_is_that_of_the_value_also_of_small_integers_and_booleans() -> None:
    for dtype, expected in (("int8", -56), ("uint8", 200), ("bool", True), ("float16", 200.0), ("int64", 200)):
        for shape in ((100, 2), (None, None)):
            with Graph() as graph:
                x, like = placeholder(graph, ArraySpec(dtype, shape)), placeholder(graph, ArraySpec("int8", ()))
                made = sum_to(x, like)

            assert same(
                evaluate(made, {x: np.ones((100, 2), dtype), like: np.zeros((), "int8")}), np.array(expected, dtype)
            )


def test_what_never_fits_is_an_error_that_shows_the_specs() -> None:
    with Graph() as graph:
        x, like = placeholder(graph, ArraySpec("float32", ("n", 3))), placeholder(graph, ArraySpec("float32", (4,)))
        text = placeholder(graph, ArraySpec("U3", (3,)))

        with pytest.raises(SpecError) as summed:
            sum_to(x, like)
        with pytest.raises(SpecError) as repeated:
            broadcast_like(like, x)
        with pytest.raises(SpecTypeError):
            sum_to(text, placeholder(graph, ArraySpec("float32", None)))
        assert str(summed.value) == "sum_to cannot take float32[n,3], float32[4]\n  [4] cannot be broadcast to [n,3]"
        assert str(repeated.value) == (
            "broadcast_like cannot take float32[4], float32[n,3]\n  [4] cannot be broadcast to [n,3]"
        )


def test_results_that_share_memory_with_the_value_are_in_the_table_of_views() -> None:
    x = integers((2, 3))
    with Graph() as graph:
        nodes = [placeholder(graph, ArraySpec("int64", None)) for _ in range(2)]
        for made in (sum_to(*nodes), broadcast_like(*nodes)):
            assert np.shares_memory(evaluate(made, {nodes[0]: x, nodes[1]: x}), x)
            assert VIEWS[made.op.name] == (0,)


@pytest.mark.parametrize(
    ("build", "shapes", "carries", "apart"),
    [
        (sum_to, [(3, 4), (3, 1)], [True, True], True),
        (sum_to, [(3, 4), (4,)], [True, False], False),
        (sum_to, [(3, 4), (1, 4)], [True, False], False),
        (sum_to, [(2, 3), (3,)], [True, True], False),
        (broadcast_like, [(3, 1), (3, 4)], [True, True], True),
        (broadcast_like, [(4,), (3, 4)], [False, True], True),
        (broadcast_like, [(1, 4), (3, 4)], [False, True], True),
        (broadcast_like, [(4,), (3, 4)], [True, True], False),
        (broadcast_like, [(3, 1), (3, 4)], [True, False], False),
    ],
)
def test_rows_are_apart_where_both_have_them(
    build: Any, shapes: list[tuple[int, ...]], carries: list[bool], apart: bool
) -> None:
    def as_ops(x: Any, like: Any) -> Any:
        # By the op itself, which is not built where the shapes are known.
        return x.graph.apply(build.__name__, (x, like))

    if not apart:
        with Graph() as graph:
            dims = [("n", *one[1:]) if carried else one for one, carried in zip(shapes, carries, strict=True)]
            nodes = [placeholder(graph, ArraySpec("int64", one)) for one in dims]
            assert not says_rowwise(as_ops(*nodes), carries)
        return
    assert check_rows(as_ops, [integers(one) for one in shapes], carries)
