"""Ops that only gradients are built of: the identity that stops them, and shapes as they are in a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph import stop_gradient
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecError, SpecTypeError
from asyncgraph.ops import where
from asyncgraph.ops._build import build, build_several

from .helpers import evaluate
from .oracle import QUICK, SHAPES, Array, axes, check, check_rows, integers, is_rowwise, placeholder, same
from .strategies import arrays


def reshape_like(x: Node, like: Node) -> Node:
    return build("reshape_like", (x, like))


@QUICK
@given(data=st.data())
def test_stop_gradient_is_the_identity_and_leaves_rows_apart(data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    check(data, stop_gradient, np.asarray, x)
    if x.ndim and len(x) > 1:
        assert check_rows(stop_gradient, [integers(x.shape)], [True])


@QUICK
@given(data=st.data())
def test_where_larger_is_numpys_where_twice(data: st.DataObject) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3)).input_shapes
    a, b = [data.draw(arrays(st.just(shape))) for shape in shapes[1:]]
    x = data.draw(
        st.sampled_from(["float16", "float32", "float64", "complex64", "complex128"]).flatmap(
            lambda dtype: hnp.arrays(dtype, shapes[0])
        )
    )

    def numpys(x: Array, a: Array, b: Array) -> Array:
        return np.where(np.greater(a, b), x, np.where(np.equal(a, b), x * 0.5, 0))

    check(data, lambda *nodes: build("where_larger", nodes), numpys, x, a, b)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", "int32", "longdouble"])
@pytest.mark.parametrize(
    "layout", ["C", "mask turned", "both turned", "mask broadcast", "value broadcast", "no booleans"]
)
def test_what_is_chosen_beside_0_has_the_bits_and_strides_of_numpys_where(dtype: str, layout: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(90, 120)) * 10).astype(dtype)
    if x.dtype.kind in "fc":
        x[:, :4] = [np.nan, np.inf, -np.inf, -0.0]
    mask = rng.random((90, 120)) < 0.5
    if "turned" in layout:
        mask = np.asfortranarray(mask)
    if layout == "both turned":
        x = np.asfortranarray(x)
    mask = mask[:, :1] if layout == "mask broadcast" else mask * 1.5 if layout == "no booleans" else mask
    x = x[0] if layout == "value broadcast" else x
    for choose in (lambda x: (x, 0), lambda x: (0, x), lambda x: (x, 0.0), lambda x: (-0.0, x), lambda x: (x, False)):
        with Graph() as graph:
            nodes = [placeholder(graph, ArraySpec(one.dtype, one.shape)) for one in (mask, x)]
            made = evaluate(where(nodes[0], *choose(nodes[1])), dict(zip(nodes, (mask, x), strict=True)))
        expected = np.where(mask, *choose(x))
        assert same(made, expected)
        assert made.strides == expected.strides


def test_where_larger_of_many_has_the_bits_of_numpys_where() -> None:
    x, a = np.random.default_rng(0).normal(size=(2, 20_000)).astype("float32")
    for b in (0, a[::-1].copy(), np.where(a > 1, a, 0)):
        with Graph() as graph:
            nodes = [placeholder(graph, ArraySpec(one.dtype, one.shape)) for one in (x, a)]
            made = evaluate(build("where_larger", (*nodes, b)), dict(zip(nodes, (x, a), strict=True)))
        assert same(made, np.where(a > b, x, np.where(a == b, x * 0.5, 0)))


@QUICK
@given(data=st.data())
def test_reshape_like_is_numpys_reshape_to_the_shape_of_another(data: st.DataObject) -> None:
    x, like = data.draw(arrays(SHAPES)), data.draw(arrays(SHAPES))
    check(data, reshape_like, lambda x, like: np.reshape(x, like.shape), x, like)
    check(data, reshape_like, lambda x, like: np.reshape(x, like.shape), x, x.T)


@QUICK
@given(data=st.data())
def test_size_of_is_the_product_of_the_sizes_of_axes(data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    axis = data.draw(axes(x.ndim))

    def size(x: Array) -> Any:
        along = range(x.ndim) if axis is None else np.atleast_1d(axis)
        return np.asarray(np.prod([x.shape[one] for one in along], dtype=np.int64), np.float64)

    check(data, lambda x: build("size_of", (x,), {} if axis is None else {"axis": axis}), size, x)


@QUICK
@given(data=st.data())
def test_what_is_divided_by_a_size_stays_in_its_dtype(data: st.DataObject) -> None:
    like = data.draw(arrays(SHAPES))
    axis = data.draw(axes(like.ndim))
    dtypes = st.sampled_from(["float16", "float32", "float64", "complex64", "complex128"])
    x = data.draw(dtypes.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES)))

    def divided(x: Array, like: Array) -> Any:
        along = range(like.ndim) if axis is None else np.atleast_1d(axis)
        size = np.prod([like.shape[one] for one in along], dtype=np.float64)
        return np.asarray(x / size, x.dtype)

    params = {} if axis is None else {"axis": axis}
    check(data, lambda x, like: build("divide_by_size", (x, like), params), divided, x, like)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_size_that_is_no_number_of_the_dtype_divides_all_the_same(dtype: Any) -> None:
    with Graph() as graph:
        like = placeholder(graph, ArraySpec("bool", (None,)))
        share = build("divide_by_size", (np.ones((), dtype), like))
    for count in (70_000, 2**24 + 1):
        result = evaluate(share, {like: np.broadcast_to(True, count)})
        assert result == np.asarray(1 / count, dtype)
        assert result.dtype == dtype


@QUICK
@given(data=st.data())
def test_split_like_takes_apart_what_was_joined(data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none())
    at = data.draw(st.integers(0, x.size if axis is None else x.shape[axis]))
    whole = x.ravel() if axis is None else x
    first, second = np.split(whole, [at], axis or 0)
    if axis is None and data.draw(st.booleans()):
        second = second[None]

    def build_split(x: Node, first: Node, second: Node) -> Any:
        return build_several("split_like", (x, first, second), {"axis": axis})

    check(data, build_split, lambda x, first, second: [first, second], whole, first, second)


def test_what_can_never_have_the_shape_is_refused_when_it_is_built() -> None:
    with Graph() as graph:
        x, y = [placeholder(graph, ArraySpec("float64", shape)) for shape in ((2, 3), (5,))]
        with pytest.raises(SpecError, match="6 elements do not have the shape of 5"):
            reshape_like(x, y)
        with pytest.raises(SpecError, match="axis 2 is out of bounds"):
            build("size_of", (x,), {"axis": 2})
        with pytest.raises(SpecError, match="axis 2 is out of bounds"):
            build("divide_by_size", (1.0, x), {"axis": 2})
        with pytest.raises(SpecTypeError, match="there are no fractions of int64"):
            build("divide_by_size", ([1], x))
        with pytest.raises(SpecTypeError, match="there is no half of int64"):
            build("where_larger", ([1], x, x))
        with pytest.raises(SpecError, match="axis 2 is out of bounds"):
            build_several("split_like", (x, x), {"axis": 2})


def test_what_depends_on_the_number_of_rows_is_never_said_to_leave_them_apart() -> None:
    assert not is_rowwise(lambda x: build("size_of", (x,)), [(2, 3)], [True])
    assert not is_rowwise(reshape_like, [(2, 3), (2, 3)], [True, True])
    assert not is_rowwise(lambda x, y: build_several("split_like", (x, y), {"axis": 0}), [(2, 3), (2, 3)], [True, True])
