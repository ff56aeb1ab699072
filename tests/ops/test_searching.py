from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecError, SpecOverflowError, SpecTypeError
from asyncgraph.ops import searching

from .helpers import evaluate
from .oracle import QUICK, SHAPES, check, check_rows, integers, is_rowwise, one_axis, placeholder, same
from .strategies import NUMBERS, arrays


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@QUICK
@given(data=st.data())
def test_the_place_of_an_extreme_is_numpys_in_dtype_shape_values_and_errors(name: str, data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    axis = data.draw(st.one_of(st.none(), one_axis(x.ndim))) if x.ndim else None
    params: dict[str, Any] = {"axis": axis, "keepdims": data.draw(st.booleans())}
    check(data, lambda x: vars(searching)[name](x, **params), lambda x: vars(np)[name](x, **params), x)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_an_arg_reduction_takes_one_axis(name: str) -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", ("n", 3)))

        with pytest.raises(SpecTypeError, match=f"{name}: axis takes ints, not "):
            vars(searching)[name](x, axis=(0, 1))
        with pytest.raises(SpecError, match="axis 2 is out of bounds"):
            vars(searching)[name](x, axis=2)


@pytest.mark.parametrize(("axis", "apart"), [(1, True), (-1, True), (0, False), (None, False)])
def test_rows_are_apart_in_arg_reductions_unless_they_are_compared(axis: int | None, apart: bool) -> None:
    assert is_rowwise(lambda x: searching.argmax(x, axis=axis), [(2, 3)], [True]) is apart
    assert check_rows(lambda x: searching.argmax(x, axis=axis), [integers((2, 3)) % 4], [True]) is apart


@QUICK
@given(data=st.data())
def test_where_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    fitting = hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=0, max_side=3)
    drawn = st.one_of(fitting.map(lambda drawn: drawn.input_shapes), st.tuples(SHAPES, SHAPES, SHAPES))
    condition, *choices = data.draw(drawn)
    operands = [data.draw(hnp.arrays("bool", condition)), *[data.draw(arrays(st.just(one))) for one in choices]]
    check(data, searching.where, np.where, *operands)


@QUICK
@given(data=st.data())
def test_where_takes_python_numbers_as_numpy_does(data: st.DataObject) -> None:
    x, number = data.draw(arrays(SHAPES)), data.draw(NUMBERS)
    condition = data.draw(hnp.arrays("bool", x.shape))
    with Graph() as graph, np.errstate(all="ignore"):
        nodes = [placeholder(graph, ArraySpec(one.dtype, one.shape)) for one in (condition, x)]
        try:
            expected = np.where(condition, x, number)
        except OverflowError:
            with pytest.raises(SpecOverflowError):
                searching.where(nodes[0], nodes[1], number)
            return
        node = searching.where(nodes[0], nodes[1], number)
        assert (node.dtype, node.shape) == (expected.dtype, expected.shape)
        assert same(evaluate(node, dict(zip(nodes, (condition, x), strict=True))), expected)


def test_a_number_that_fits_no_dtype_is_an_error() -> None:
    with Graph() as graph, pytest.raises(SpecOverflowError, match="where cannot take"):
        searching.where(True, placeholder(graph, ArraySpec("uint8", ())), 2**70)


def test_where_of_shapes_that_do_not_fit_is_an_error_that_shows_the_specs() -> None:
    with Graph() as graph, pytest.raises(SpecError) as raised:
        searching.where(placeholder(graph, ArraySpec("bool", ("n", 3))), placeholder(graph, ArraySpec("int8", (4,))), 1)
    assert str(raised.value) == "where cannot take bool[n,3], int8[4], 1\n  3 and 4 cannot be broadcast"


@QUICK
@given(data=st.data())
def test_where_that_says_rows_are_apart_gives_the_same_row_by_row(data: st.DataObject) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=2, min_side=2, max_side=3)).input_shapes
    carries = [bool(shape) and shape[0] > 1 and data.draw(st.booleans()) for shape in shapes]
    if any(carries):
        check_rows(searching.where, [integers(one) % 3 for one in shapes], carries)


@pytest.mark.parametrize(
    ("shapes", "carries", "apart"),
    [
        ([(2, 3), (2, 3), (2, 3)], [True, True, True], True),
        ([(2, 3), (3,), ()], [True, False, False], True),
        ([(2, 1), (1, 3), ()], [True, False, False], True),
        ([(2, 3), (2, 3), ()], [True, False, False], False),
        ([(3, 3), (3,), ()], [True, True, False], False),
        ([(2,), (1, 2), ()], [True, False, False], False),
    ],
)
def test_rows_are_apart_in_where_if_they_meet_rows_or_what_all_rows_have(
    shapes: list[tuple[int, ...]], carries: list[bool], apart: bool
) -> None:
    assert is_rowwise(searching.where, shapes, carries) is apart
