"""`ops.at`: elements replaced, or added to, in new values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecError, SpecOverflowError, SpecTypeError
from asyncgraph.ops.indexing import at

from .helpers import evaluate
from .oracle import (
    QUICK,
    SHAPES,
    Array,
    check,
    check_rows,
    integers,
    is_rowwise,
    one_axis,
    placeholder,
    same,
    says_rowwise,
)
from .strategies import DTYPES, arrays
from .test_indexing import keys


def set_at(x: Array, key: Any, y: Any) -> Array:
    made = x.copy()
    made[key] = np.broadcast_to(y, made[key].shape)
    return made


def added_at(x: Array, key: Any, y: Any) -> Array:
    made = x.copy()
    into = made[(*key, ...)] if isinstance(key, tuple) and Ellipsis not in key else made[key]
    into += y
    return made


def taken_and_added(x: Array, indices: Any, updates: Any, axis: int) -> Array:
    made = x.copy()
    key: Any = (slice(None),) * (axis % x.ndim) + (indices,)
    with warnings.catch_warnings():
        # What is out of bounds where nothing is there at all: before 2.4, NumPy only warned of it.
        warnings.filterwarnings("error", "Out of bound index", DeprecationWarning)
        try:
            np.add.at(made, key, updates)
        except DeprecationWarning as error:
            raise IndexError(str(error)) from error
    return made


def broadcast_back(data: st.DataObject, shape: tuple[int, ...], dtype: Any) -> Array:
    """An array that is broadcast to `shape`: some of its dimensions are 1, or are not there."""
    dims = [data.draw(st.sampled_from([dim, 1])) for dim in shape[data.draw(st.integers(0, len(shape))) :]]
    return data.draw(hnp.arrays(dtype, tuple(dims)))


# -- by a key ----------------------------------------------------------------------------------------


@settings(QUICK, max_examples=200)
@given(data=st.data())
def test_set_is_numpys_assignment_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    key = data.draw(keys(x.ndim))
    try:
        y = broadcast_back(data, np.shape(x[key]), x.dtype)
    except (IndexError, ValueError):
        y = np.zeros((), x.dtype)
    check(data, lambda x, y: at(x)[key].set(y), lambda x, y: set_at(x, key, y), x, y)


@settings(QUICK, max_examples=100)
@given(data=st.data())
def test_add_is_numpys_in_dtype_shape_and_values(data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    key = data.draw(keys(x.ndim))
    key = key if isinstance(key, tuple) else (key,)
    try:
        y = broadcast_back(data, np.shape(x[key]), x.dtype)
    except (IndexError, ValueError):
        y = np.zeros((), x.dtype)
    check(data, lambda x, y: at(x)[key].add(y), lambda x, y: added_at(x, key, y), x, y)


def test_what_is_updated_stays_as_it_is() -> None:
    x = integers((3, 2))
    with Graph() as graph:
        node = placeholder(graph, ArraySpec("int64", ("n", 2)))
        made = [at(node)[0].set(7), at(node)[0].add(7), at(node).take_add([0], 7)]

    for one in made:
        value = evaluate(one, {node: x})
        assert value.flags.writeable
        assert not np.shares_memory(value, x)
    np.testing.assert_array_equal(x, integers((3, 2)))


@pytest.mark.parametrize("x", DTYPES)
def test_what_is_put_in_has_the_dtype_or_becomes_it_without_loss(x: Any) -> None:
    with Graph() as graph:
        into = placeholder(graph, ArraySpec(x, (3,)))
        for dtype in DTYPES:
            y = placeholder(graph, ArraySpec(dtype, ()))
            for build in (at(into)[0].set, at(into)[:1].add, lambda y: at(into).take_add([0], y)):
                if np.can_cast(dtype, x, "safe"):
                    made = build(y)
                    assert (made.dtype, made.shape) == (x, (3,))
                    assert evaluate(made, {into: np.zeros(3, x), y: np.ones((), dtype)})[0] == 1
                else:
                    with pytest.raises(SpecTypeError, match=f"{dtype} does not become {x} without loss"):
                        build(y)


@pytest.mark.parametrize(
    ("dtype", "number", "error"),
    [
        ("float32", 1.5, None),
        ("float32", 1, None),
        ("int8", True, None),
        ("complex64", 1.5, None),
        ("bool", True, None),
        ("int8", 1.0, SpecTypeError),
        ("int8", 300, SpecOverflowError),
        ("uint8", -1, SpecOverflowError),
        ("bool", 1, SpecTypeError),
        ("float32", 1j, SpecTypeError),
    ],
)
def test_a_python_number_is_put_in_if_its_kind_allows_it(
    dtype: str, number: complex, error: type[Exception] | None
) -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec(dtype, (3,)))
        unknown = placeholder(graph, ArraySpec(None, None))
        for build in (
            lambda x: at(x)[0].set(number),
            lambda x: at(x)[0].add(number),
            lambda x: at(x).take_add([0], number),
        ):
            if error is None:
                expected = np.array([number, 0, 0], dtype)
                assert same(evaluate(build(x), {x: np.zeros(3, dtype)}), expected)
                assert same(evaluate(build(unknown), {unknown: np.zeros(3, dtype)}), expected)
            else:
                with pytest.raises(error):
                    build(x)
                with pytest.raises((TypeError, OverflowError)):
                    evaluate(build(unknown), {unknown: np.zeros(3, dtype)})


def test_of_an_unknown_dtype_what_would_lose_something_is_refused_when_it_runs() -> None:
    with Graph() as graph:
        x, y = placeholder(graph, ArraySpec(None, (3,))), placeholder(graph, ArraySpec(None, ()))
        feeds = {x: np.zeros(3, "float32"), y: np.zeros((), "float64")}

        for made in (at(x)[0].set(y), at(x)[0].add(y), at(x).take_add([0], y)):
            with pytest.raises(TypeError, match="float64"):
                evaluate(made, feeds)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (
            lambda x: at(x)[0].set(np.zeros(4, "int8")),
            "index_set cannot take int8[n,3], int8[4]\n  [4] cannot be broadcast to [3]",
        ),
        (
            lambda x: at(x)[0].add(np.zeros((1, 3), "int8")),
            "index_add cannot take int8[n,3], int8[1,3]\n  [1,3] cannot be broadcast to [3]",
        ),
        (
            lambda x: at(x)[0, 3].set(1),
            "index_set cannot take int8[n,3], 1\n  index 3 is out of bounds for axis 1 with size 3",
        ),
        (
            lambda x: at(x).take_add([0, 1], np.zeros((3, 3), "int8")),
            "take_add cannot take int8[n,3], int64[2], int8[3,3]\n  [3,3] cannot be broadcast to [2,3]",
        ),
        (
            lambda x: at(x).take_add([0], 1, axis=2),
            "take_add cannot take int8[n,3], int64[1], 1\n  axis 2 is out of bounds for a value of rank 2",
        ),
    ],
)
def test_what_never_fits_is_an_error_that_shows_the_specs(build: Callable[[Node], Node], text: str) -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("int8", ("n", 3)))

        with pytest.raises(SpecError) as raised:
            build(x)
        assert str(raised.value) == text


def test_a_key_with_arrays_is_refused() -> None:
    with Graph() as graph, pytest.raises(SpecTypeError, match="only ints, slices"):
        at(placeholder(graph, ArraySpec("int8", (3,))))[[0, 1]].set(1)


@pytest.mark.parametrize(
    ("key", "shape", "carries", "apart"),
    [
        (slice(None), (3, 4), (True, True), True),
        ((slice(None), 0), (3,), (True, True), True),
        ((slice(None), 0), (), (True, False), True),
        ((Ellipsis, slice(1, 3)), (2,), (True, False), True),
        ((Ellipsis, slice(1, 3)), (1, 2), (True, False), True),
        ((Ellipsis, slice(1, 3)), (3, 2), (True, False), False),
        (slice(None), (3, 4), (False, True), False),
        (slice(1, None), (4,), (True, False), False),
        (0, (4,), (True, False), False),
    ],
)
@pytest.mark.parametrize("update", ["set", "add"])
def test_rows_are_apart_where_they_are_taken_whole_and_in_front(
    update: str, key: Any, shape: tuple[int, ...], carries: tuple[bool, bool], apart: bool
) -> None:
    def build(x: Node, y: Node) -> Node:
        return getattr(at(x)[key], update)(y)

    assert check_rows(build, [integers((3, 4)), integers(shape)], carries) is apart


def test_rows_are_not_apart_if_only_what_is_put_in_has_them() -> None:
    assert not is_rowwise(lambda x, y: at(x)[:].set(y), [(1, 4), (3, 4)], [False, True])


# -- along an axis -----------------------------------------------------------------------------------


@settings(QUICK, max_examples=150)
@given(data=st.data())
def test_take_add_is_numpys_add_at_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    x = data.draw(arrays(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3)))
    axis = data.draw(one_axis(x.ndim))
    drawn = st.lists(st.integers(-3, 3), max_size=4).map(np.array)
    indices: Array = data.draw(st.one_of(drawn, st.integers(-1, 0).map(np.array))).astype("int8")
    at_axis = axis % x.ndim
    updates = broadcast_back(data, x.shape[:at_axis] + indices.shape + x.shape[at_axis + 1 :], x.dtype)
    check(
        data,
        lambda x, i, y: at(x).take_add(i, y, axis=axis),
        lambda x, i, y: taken_and_added(x, i, y, axis),
        *(x, indices, updates),
    )


@pytest.mark.parametrize("width", [1, 7, 511, 512, 70_000])
@pytest.mark.parametrize("axis", [0, 1])
def test_take_add_of_many_rows_has_the_bits_of_numpys_add_at(width: int, axis: int) -> None:
    draw = np.random.default_rng(0)
    count = min(100_000 // width + 3, 20_000)
    x, indices = draw.normal(size=(2, 5, width)[1 - axis :]), draw.integers(-5, 5, count)
    updates = draw.normal(size=(2, count, width)[1 - axis :])
    with Graph() as graph:
        nodes = [placeholder(graph, ArraySpec(one.dtype, one.shape)) for one in (x, indices, updates)]
        made = at(nodes[0]).take_add(*nodes[1:], axis=axis)

    value = evaluate(made, dict(zip(nodes, (x, indices, updates), strict=True)))

    assert same(value, taken_and_added(x, indices, updates, axis))


@pytest.mark.parametrize("dtype", [one for one in DTYPES if one.kind in "iu"])
def test_take_add_counts_indices_of_any_integers(dtype: Any) -> None:
    with Graph() as graph:
        x, indices = placeholder(graph, ArraySpec("int64", (300,))), placeholder(graph, ArraySpec(dtype, (2,)))
        made = at(x).take_add(indices, 1)

    picks = np.array([127, -1 if dtype.kind == "i" else 127], dtype)
    expected = np.bincount(picks.astype("int64") % 300, minlength=300)
    assert same(evaluate(made, {x: np.zeros(300, "int64"), indices: picks}), expected)


@pytest.mark.parametrize("index", [3, -4, 2**63])
def test_take_add_out_of_bounds_is_an_index_error_when_it_runs(index: int) -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", (2, 3)))
        made = at(x).take_add([index], 1, axis=1)

    with pytest.raises(IndexError, match=f"index {index} is out of bounds for axis 1 with size 3"):
        evaluate(made, {x: np.zeros((2, 3), "float32")})


@pytest.mark.parametrize(
    ("axis", "shape", "carries", "apart"),
    [
        (1, (3, 3), (True, False, True), True),
        (-1, (3,), (True, False, False), True),
        (1, (3, 3), (True, False, False), False),
        (0, (3, 4), (True, False, False), False),
        (1, (3, 3), (True, True, True), False),
        (1, (3, 3), (False, False, True), False),
    ],
)
def test_rows_are_apart_in_take_add_along_another_axis_at_the_same_places(
    axis: int, shape: tuple[int, ...], carries: tuple[bool, ...], apart: bool
) -> None:
    operands = [integers((3, 4)), np.array([0, 1, 0]), integers(shape)]
    assert check_rows(lambda x, i, y: at(x).take_add(i, y, axis=axis), operands, carries) is apart


def test_rows_of_an_unknown_rank_are_not_apart() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("int8", None))
        assert not says_rowwise(at(x)[:, 0].set(1), [True, False])
        assert not says_rowwise(at(x).take_add([0], 1, axis=1), [True, False, False])
