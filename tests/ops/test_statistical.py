from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecError, SpecOverflowError, SpecTypeError
from asyncgraph.ops import statistical

from .helpers import evaluate
from .oracle import QUICK, SHAPES, axes, check, check_rows, integers, is_rowwise, placeholder, same, says_rowwise
from .strategies import DTYPES, arrays

REDUCTIONS = ["max", "mean", "min", "prod", "std", "sum", "var"]


def run(name: str, array: np.ndarray[Any, Any], **params: Any) -> Any:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec(array.dtype, array.shape))
        return evaluate(vars(statistical)[name](x, **params), {x: array})


@pytest.mark.parametrize("name", REDUCTIONS)
@QUICK
@given(data=st.data())
def test_a_reduction_is_numpys_in_dtype_shape_values_and_errors(name: str, data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    params: dict[str, Any] = {"axis": data.draw(axes(x.ndim)), "keepdims": data.draw(st.booleans())}
    if name in ("std", "var"):
        params["correction"] = data.draw(st.sampled_from([0, 1, 0.5, 1.0, 9]))
    check(data, lambda x: vars(statistical)[name](x, **params), lambda x: vars(np)[name](x, **params), x)


@pytest.mark.parametrize("name", ["prod", "sum"])
@QUICK
@given(data=st.data())
def test_sums_and_products_are_accumulated_in_the_dtype_given(name: str, data: st.DataObject) -> None:
    x, dtype = data.draw(arrays(SHAPES)), data.draw(st.sampled_from(DTYPES))
    params: dict[str, Any] = {"axis": data.draw(axes(x.ndim)), "dtype": dtype}
    check(data, lambda x: vars(statistical)[name](x, **params), lambda x: vars(np)[name](x, **params), x)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_of_any_dtype_has_numpys(name: str) -> None:
    for dtype in DTYPES:
        x = np.ones((2, 3), dtype)
        assert same(run(name, x, axis=0), vars(np)[name](x, axis=0))


def test_small_integers_are_summed_in_64_bits_unless_asked_otherwise() -> None:
    """AG-162: https://github.com/data-apis/array-api-tests/issues/160."""
    x = np.array([200, 100], np.uint8)

    assert same(run("sum", x), np.uint64(300))
    assert same(run("sum", x, dtype="uint8"), np.uint8(44))


def test_the_mean_of_integers_is_of_their_values_in_float64() -> None:
    """AG-163: https://github.com/tensorflow/tensorflow/pull/126012."""
    assert same(run("mean", np.array([2147483647, 2147483647], np.int32)), np.float64(2147483647.0))
    assert same(run("mean", np.array([0, 1, 1])), np.float64(0.6666666666666666))


@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((0, 0), None), ((0, 3), 0)])
@pytest.mark.parametrize(("name", "ufunc"), [("max", "maximum"), ("min", "minimum")])
def test_the_largest_of_no_elements_is_an_error_when_it_runs(
    name: str, ufunc: str, shape: tuple[int, ...], axis: int | None
) -> None:
    """AG-164: https://github.com/numpy/numpy/issues/13582."""
    with pytest.raises(ValueError, match=f"zero-size array to reduction operation {ufunc} which has no identity"):
        run(name, np.zeros(shape), axis=axis)


def test_the_largest_of_no_rows_is_no_rows() -> None:
    """AG-164: https://github.com/numpy/numpy/issues/13582."""
    assert same(run("max", np.zeros((0, 3)), axis=1), np.zeros(0))


@pytest.mark.parametrize("keepdims", [False, True])
def test_a_mean_of_more_numbers_than_float32_can_count_is_numpys(keepdims: bool) -> None:
    x = np.broadcast_to(np.float32(0.7), 2**24 + 3)
    assert same(run("mean", x, keepdims=keepdims), np.mean(x, keepdims=keepdims))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_a_mean_over_an_axis_of_an_array_that_turns_out_to_have_none_is_numpys_error(dtype: str) -> None:
    x = np.ones((), dtype)
    with Graph() as graph:
        mean = statistical.mean(placeholder(graph, ArraySpec(x.dtype, None)), axis=0)
    with pytest.raises(np.exceptions.AxisError, match="axis 0 is out of bounds for array of dimension 0"):
        evaluate(mean, {graph.nodes[0]: x})


def test_means_over_an_axis_without_elements_are_nan_and_sums_zero() -> None:
    """AG-166: https://github.com/scikit-hep/awkward/issues/1320."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(run("mean", np.zeros((3, 0)), axis=1), [np.nan, np.nan, np.nan])
    assert same(run("sum", np.zeros((3, 0)), axis=1), np.zeros(3))


def test_half_precision_means_are_accumulated_in_float32_and_sums_are_not() -> None:
    """AG-178: https://github.com/numpy/numpy/issues/7930."""
    x = np.ones(65520, np.float16)

    with np.errstate(over="ignore"):
        assert same(run("sum", x), np.float16(np.inf))
    assert same(run("mean", x), np.float16(1.0))
    assert same(run("sum", x, dtype="float64"), np.float64(65520.0))
    assert same(run("mean", np.ones(100000, np.float16)), np.float16(1.0))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_an_axis_out_of_bounds_or_twice_is_an_error_that_shows_the_spec(name: str) -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", ("n", 3)))

        with pytest.raises(SpecError) as raised:
            vars(statistical)[name](x, axis=2)
        assert str(raised.value) == (
            f"{name} cannot take float32[n,3]\n  axis 2 is out of bounds for a value of rank 2"
        )
        with pytest.raises(SpecError, match="one axis twice"):
            vars(statistical)[name](x, axis=(1, -1))
        with pytest.raises(SpecTypeError, match="axis takes ints, not 1.0"):
            vars(statistical)[name](x, axis=1.0)
        assert len(graph) == 1


def test_what_numpy_cannot_sum_is_an_error_when_it_is_built() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("datetime64[s]", (3,)))

        with pytest.raises(SpecTypeError, match="sum cannot take datetime64"):
            statistical.sum(x)


def test_a_number_is_reduced_as_the_array_made_of_it() -> None:
    with Graph():
        assert same(evaluate(statistical.sum(True)), np.sum(True))
        assert same(evaluate(statistical.mean(3)), np.mean(3))
        with pytest.raises(SpecOverflowError, match="the number fits no dtype"):
            statistical.sum(2**70)


def test_a_correction_is_a_number() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", (3,)))

        with pytest.raises(SpecTypeError, match="correction takes an int or a float, not '1'"):
            vars(statistical)["std"](x, correction="1")
        assert statistical.std(x, correction=np.float64(1.0)).params == {"correction": 1.0}


def test_defaults_are_no_params_so_that_equal_calls_are_equal_nodes() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", (3,)))

        assert not statistical.sum(x, axis=None, dtype=None, keepdims=False).params
        assert not statistical.var(x, correction=0).params


@pytest.mark.parametrize("name", REDUCTIONS)
@QUICK
@given(data=st.data())
def test_a_reduction_that_says_rows_are_apart_gives_the_same_row_by_row(name: str, data: st.DataObject) -> None:
    x = integers((data.draw(st.integers(2, 3)), *data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))))
    params = {"axis": data.draw(axes(3)), "keepdims": data.draw(st.booleans())}
    check_rows(lambda x: vars(statistical)[name](x, **params), [x], [True])


@pytest.mark.parametrize(
    ("axis", "apart"), [(1, True), (-1, True), ((1, 2), True), ((), True), (0, False), (-3, False), (None, False)]
)
def test_rows_are_apart_unless_they_are_reduced(axis: Any, apart: bool) -> None:
    assert is_rowwise(lambda x: statistical.sum(x, axis=axis), [(2, 3, 4)], [True]) is apart


def test_rows_of_an_unknown_rank_are_not_apart() -> None:
    with Graph() as graph:
        node = statistical.sum(placeholder(graph, ArraySpec("float32", None)), axis=1)

        assert not says_rowwise(node, [True])
