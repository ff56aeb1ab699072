from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecError, SpecTypeError
from asyncgraph.ops import indexing

from .oracle import QUICK, SHAPES, Array, check, check_rows, integers, is_rowwise, one_axis, placeholder, says_rowwise
from .strategies import DTYPES, arrays

BOUNDS = st.one_of(st.none(), st.integers(-4, 4))
SLICES = st.builds(slice, BOUNDS, BOUNDS, st.sampled_from([None, 1, 2, 3, -1, -2]))


@st.composite
def keys(draw: st.DrawFn, ndim: int) -> Any:
    """An index of any parts, most of them in bounds; alone if it has one, and now and then one part too many."""
    too_many = not draw(st.integers(0, 9))
    parts: list[Any] = draw(st.lists(st.one_of(SLICES, st.integers(-2, 1)), max_size=ndim + too_many))
    for extra in draw(st.lists(st.sampled_from([None, None, Ellipsis]), max_size=2)):
        parts.insert(draw(st.integers(0, len(parts))), extra)
    return parts[0] if len(parts) == 1 and draw(st.booleans()) else tuple(parts)


@settings(QUICK, max_examples=200)
@given(data=st.data())
def test_an_index_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    key = data.draw(keys(x.ndim))
    check(data, lambda x: x[key], lambda x: x[key], x)


@settings(QUICK, max_examples=300)
@given(part=SLICES)
def test_a_slice_of_a_named_dimension_has_a_size_only_if_all_runs_agree_on_it(part: slice) -> None:
    sizes = {len(range(*part.indices(n))) for n in range(20)}
    with Graph() as graph:
        shape = placeholder(graph, ArraySpec("int8", ("n",)))[part].shape
        assert shape is not None
        dim = shape[0]
    if dim == "n":
        assert all(len(range(*part.indices(n))) == n for n in range(20))
    elif dim is None:
        assert len(sizes) > 1
    else:
        assert sizes == {dim}


@pytest.mark.parametrize(
    ("key", "spec"),
    [
        ((), "int8[n,m,4]"),
        (0, "int8[m,4]"),
        (-7, "int8[m,4]"),
        (slice(None), "int8[n,m,4]"),
        (slice(0, None), "int8[n,m,4]"),
        (slice(None, None, -1), "int8[n,m,4]"),
        (slice(1, None), "int8[?,m,4]"),
        (slice(None, 3), "int8[?,m,4]"),
        (slice(None, 0), "int8[0,m,4]"),
        (slice(2, 1), "int8[0,m,4]"),
        ((Ellipsis, slice(1, 3)), "int8[n,m,2]"),
        ((Ellipsis, slice(None, None, 3)), "int8[n,m,2]"),
        ((None, Ellipsis, None, -1), "int8[1,n,m,1]"),
    ],
)
def test_an_index_says_what_is_known_in_all_runs(key: Any, spec: str) -> None:
    with Graph() as graph:
        assert repr(placeholder(graph, ArraySpec("int8", ("n", "m", 4)))[key].spec) == spec


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (4, "index cannot take int8[4]\n  index 4 is out of bounds for axis 0 with size 4"),
        (-5, "index cannot take int8[4]\n  index -5 is out of bounds for axis 0 with size 4"),
        ((0, 0), "index cannot take int8[4]\n  too many indices: 2 for a value of rank 1"),
        ((Ellipsis, Ellipsis), "index cannot take int8[4]\n  an index can have one '...' only"),
        (slice(None, None, 0), "index cannot take int8[4]\n  the step of a slice cannot be zero"),
    ],
)
def test_an_index_that_can_never_be_is_an_error_that_shows_the_spec(key: Any, text: str) -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("int8", (4,)))

        with pytest.raises(SpecError) as raised:
            x[key]
        assert str(raised.value) == text
        assert len(graph) == 1


@pytest.mark.parametrize(
    ("key", "apart"),
    [
        ((), True),
        (Ellipsis, True),
        (slice(None), True),
        ((slice(None), 0), True),
        ((slice(0, None, 1), slice(2)), True),
        ((Ellipsis, 1), True),
        ((slice(None), None, 1), True),
        (0, False),
        (slice(1, None), False),
        (slice(None, None, -1), False),
        (slice(None, None, 2), False),
        (None, False),
        ((Ellipsis, 0, 0), False),
        ((Ellipsis, slice(1, None), 0), False),
    ],
)
def test_rows_are_apart_in_an_index_that_takes_them_whole_and_in_front(key: Any, apart: bool) -> None:
    assert check_rows(lambda x: x[key], [integers((3, 4))], [True]) is apart


@settings(QUICK, max_examples=100)
@given(data=st.data())
def test_an_index_that_says_rows_are_apart_gives_the_same_row_by_row(data: st.DataObject) -> None:
    key = data.draw(keys(2))
    check_rows(lambda x: x[key], [integers((3, 2))], [True])


@QUICK
@given(data=st.data())
def test_take_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    axis = data.draw(one_axis(x.ndim)) if x.ndim and data.draw(st.booleans()) else None
    drawn = st.lists(st.integers(-3, 3), max_size=3).map(np.array)
    indices: Array = data.draw(st.one_of(drawn, st.integers(-1, 0).map(np.array))).astype("int32")
    if axis is None and x.ndim != 1:
        x = x.ravel()
    check(data, lambda x, i: indexing.take(x, i, axis=axis), lambda x, i: np.take(x, i, axis=axis), x, indices)


def test_take_picks_by_integers_of_any_size() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", ("n", 3)))
        for dtype in DTYPES:
            indices = placeholder(graph, ArraySpec(dtype, (2,)))
            if dtype.kind in "iu":
                assert repr(indexing.take(x, indices, axis=1).spec) == "float32[n,2]"
            else:
                with pytest.raises(SpecTypeError, match=f"the indices are ints, not {dtype}"):
                    indexing.take(x, indices, axis=1)
        assert repr(indexing.take(x, [0, 1], axis=0).spec) == "float32[2,3]"
        assert repr(indexing.take(x, 0, axis=0).spec) == "float32[3]"


def test_take_of_a_matrix_needs_an_axis_in_bounds() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", ("n", 3)))

        with pytest.raises(SpecError, match="axis= can be left out only for a vector"):
            indexing.take(x, [0])
        with pytest.raises(SpecError, match="axis 2 is out of bounds"):
            indexing.take(x, [0], axis=2)


@pytest.mark.parametrize(
    ("axis", "carries", "apart"),
    [(1, (True, False), True), (-1, (True, False), True), (0, (True, False), False), (1, (True, True), False)],
)
def test_rows_are_apart_in_take_along_another_axis_of_the_same_for_all(
    axis: int, carries: tuple[bool, bool], apart: bool
) -> None:
    operands = [integers((3, 4)), np.array([0, 1, 2])]
    assert check_rows(lambda x, i: indexing.take(x, i, axis=axis), operands, carries) is apart


def test_rows_are_not_apart_in_take_by_rows() -> None:
    assert not is_rowwise(lambda x, i: indexing.take(x, i, axis=0), [(4,), (3,)], [False, True])


def test_rows_of_an_unknown_rank_are_not_apart() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("int8", None))
        assert not says_rowwise(x[:, 0], [True])
        assert not says_rowwise(indexing.take(x, [0], axis=1), [True, False])
