from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecError, SpecTypeError
from asyncgraph.ops import linalg

from .oracle import QUICK, SHAPES, check, check_rows, integers, is_rowwise, placeholder, says_rowwise
from .strategies import DTYPES, arrays

MATMUL = "(m?,k),(k,n?)->(m?,n?)"


def signed_shapes(signature: str) -> st.SearchStrategy[tuple[tuple[int, ...], ...]]:
    """Shapes that fit a generalized ufunc, of vectors, matrices and stacks; now and then any shapes."""
    fitting = hnp.mutually_broadcastable_shapes(signature=signature, max_dims=2, min_side=0, max_side=3)
    return st.one_of(fitting.map(lambda drawn: drawn.input_shapes), st.tuples(SHAPES, SHAPES))


@QUICK
@given(data=st.data())
def test_matmul_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    check(
        data, linalg.matmul, np.matmul, *[data.draw(arrays(st.just(one))) for one in data.draw(signed_shapes(MATMUL))]
    )


@QUICK
@given(data=st.data())
def test_vecdot_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    shapes = data.draw(signed_shapes("(k),(k)->()"))
    axis = data.draw(st.integers(-max(1, *map(len, shapes)), -1))
    operands = [data.draw(arrays(st.just(one))) for one in shapes]
    check(
        data, lambda a, b: linalg.vecdot(a, b, axis=axis), lambda a, b: vars(np)["vecdot"](a, b, axis=axis), *operands
    )


@QUICK
@given(data=st.data())
def test_tensordot_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    axes, shapes = data.draw(tensordot_cases())
    operands = [data.draw(arrays(st.just(one))) for one in shapes]
    check(data, lambda a, b: linalg.tensordot(a, b, axes=axes), lambda a, b: np.tensordot(a, b, axes=axes), *operands)


@st.composite
def tensordot_cases(draw: st.DrawFn) -> tuple[Any, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Axes, and shapes that fit them, most of the time."""
    a = draw(SHAPES)
    count = draw(st.integers(0, len(a)))
    rest = draw(hnp.array_shapes(min_dims=0, max_dims=1, min_side=0, max_side=3))
    if draw(st.booleans()):
        b = a[len(a) - count :] + rest
        return count, (a, b if draw(st.integers(0, 4)) else draw(SHAPES))
    from_a = draw(st.permutations(range(len(a))))[:count]
    b = tuple(a[axis] for axis in from_a) + rest
    order = draw(st.permutations(range(len(b))))
    from_b = [order.index(axis) - draw(st.sampled_from([0, len(b)])) for axis in range(count)]
    return (from_a, from_b), (a, tuple(b[axis] for axis in order))


@QUICK
@given(data=st.data())
def test_a_matrix_transpose_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    check(data, linalg.matrix_transpose, np.matrix_transpose, data.draw(arrays(SHAPES)))


@pytest.mark.parametrize("name", ["matmul", "vecdot"])
def test_a_product_of_any_two_dtypes_has_numpys(name: str) -> None:
    with Graph() as graph:
        for a in DTYPES:
            for b in DTYPES:
                node = vars(linalg)[name](*[placeholder(graph, ArraySpec(one, (2,))) for one in (a, b)])
                assert node.dtype == vars(np)[name](np.zeros(2, a), np.zeros(2, b)).dtype


def test_operators_build_products_and_transposes() -> None:
    with Graph() as graph:
        x, w = placeholder(graph, ArraySpec("float32", ("n", 3))), placeholder(graph, ArraySpec("float32", (3, 4)))

        assert repr((x @ w).spec) == "float32[n,4]"
        assert repr(np.matmul(np.ones((2, 3)), w).spec) == "float64[2,4]"
        assert repr((w.mT @ x.T).spec) == "float32[4,n]"
        assert repr(np.matmul(x, w).spec) == "float32[n,4]"


def test_dimensions_that_cannot_be_contracted_are_an_error_that_shows_the_specs() -> None:
    with Graph() as graph:
        x, w = placeholder(graph, ArraySpec("float32", ("n", 3))), placeholder(graph, ArraySpec("int8", (4, 5)))

        with pytest.raises(SpecError) as raised:
            x @ w
        assert str(raised.value) == (
            "matmul cannot take float32[n,3], int8[4,5]\n  the dimensions to be contracted differ: 3 and 4"
        )
        with pytest.raises(SpecError, match="vecdot cannot take"):
            linalg.vecdot(x, w)
        with pytest.raises(SpecError, match="tensordot cannot take"):
            linalg.tensordot(x, w, axes=1)
        with pytest.raises(SpecError, match="rank 0 cannot be multiplied as a matrix\n  write x \\* y"):
            x @ 2


@pytest.mark.parametrize(
    ("axes", "error", "text"),
    [
        (-1, SpecError, "cannot be negative"),
        (3, SpecError, "axes=3 are more than a value of rank 2 has"),
        (1.0, SpecTypeError, "axes takes ints, not 1.0"),
        (((0,),), SpecTypeError, "an int, or two sequences of ints"),
        (((0,), (0, 1)), SpecError, "name 1 axes of x1 and 2 of x2"),
        (((0, 0), (0, 1)), SpecError, "one axis twice"),
    ],
)
def test_axes_of_a_tensordot_that_make_no_sense_are_an_error(axes: Any, error: type[Exception], text: str) -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", (2, 2)))

        with pytest.raises(error, match=text):
            linalg.tensordot(x, x, axes=axes)


def test_vecdot_counts_its_axis_from_the_end() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("float32", (2, 2)))

        with pytest.raises(SpecError, match="vecdot: axis=0: count it from the end"):
            linalg.vecdot(x, x, axis=0)


@pytest.mark.parametrize("name", ["matmul", "vecdot", "tensordot"])
@QUICK
@given(data=st.data())
def test_a_product_that_says_rows_are_apart_gives_the_same_row_by_row(name: str, data: st.DataObject) -> None:
    side = data.draw(st.integers(2, 3))
    shapes = [(side,) * data.draw(st.integers(1, 4)) for _ in range(2)]
    carries = data.draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    params: dict[str, Any] = {}
    if name == "vecdot":
        params["axis"] = data.draw(st.integers(-min(map(len, shapes)), -1))
    if name == "tensordot":
        params["axes"] = data.draw(st.integers(0, min(map(len, shapes))))
    check_rows(lambda a, b: vars(linalg)[name](a, b, **params), [integers(one) for one in shapes], carries)


@pytest.mark.parametrize(
    ("shapes", "carries", "apart"),
    [
        ([(2, 3), (3, 4)], (True, False), True),
        ([(2, 3), (3,)], (True, False), True),
        ([(2, 5, 3), (3, 4)], (True, False), True),
        ([(2, 5, 3), (1, 3, 4)], (True, False), True),
        ([(5, 3), (2, 3, 4)], (False, True), True),
        ([(3,), (2, 3, 4)], (False, True), True),
        ([(2, 5, 3), (2, 3, 4)], (True, True), True),
        ([(2, 5, 3), (2, 3, 4)], (True, False), False),
        ([(2, 3), (6, 3, 4)], (True, False), False),
        ([(3, 3), (3, 3)], (False, True), False),
        ([(3, 3), (3, 3)], (True, True), False),
        ([(3,), (3, 4)], (True, False), False),
    ],
)
def test_rows_are_apart_in_matmul_if_they_are_a_stack_or_the_matrix_on_the_left(
    shapes: list[tuple[int, ...]], carries: tuple[bool, bool], apart: bool
) -> None:
    assert is_rowwise(linalg.matmul, shapes, carries) is apart
    assert check_rows(linalg.matmul, [integers(one) for one in shapes], carries) is apart


@pytest.mark.parametrize(
    ("axes", "carries", "apart"),
    [
        (1, (True, False), True),
        (0, (True, False), True),
        (((-1,), (-1,)), (True, False), True),
        (2, (True, False), False),
        (((0,), (0,)), (True, False), False),
        (1, (True, True), False),
        (1, (False, True), False),
    ],
)
def test_rows_are_apart_in_tensordot_if_they_are_the_first_operands_and_not_contracted(
    axes: Any, carries: tuple[bool, bool], apart: bool
) -> None:
    shapes = [(3, 3), (3, 3)]
    assert (
        check_rows(lambda a, b: linalg.tensordot(a, b, axes=axes), [integers(one) for one in shapes], carries) is apart
    )


@pytest.mark.parametrize(
    ("shapes", "axis", "carries", "apart"),
    [
        ([(2, 3), (2, 3)], -1, (True, True), True),
        ([(2, 3), (3,)], -1, (True, False), True),
        ([(2, 3, 4), (3, 4)], -2, (True, False), True),
        ([(2, 3), (2, 3)], -2, (True, True), False),
        ([(2, 3), (2, 3)], -1, (True, False), False),
        ([(2,), (2,)], -1, (True, True), False),
    ],
)
def test_rows_are_apart_in_vecdot_if_they_meet_and_are_not_contracted(
    shapes: list[tuple[int, ...]], axis: int, carries: tuple[bool, bool], apart: bool
) -> None:
    assert check_rows(lambda a, b: linalg.vecdot(a, b, axis=axis), [integers(one) for one in shapes], carries) is apart


@pytest.mark.parametrize(("shape", "apart"), [((2, 3, 4), True), ((2, 3), False)])
def test_rows_are_apart_in_a_transpose_of_a_stack(shape: tuple[int, ...], apart: bool) -> None:
    assert check_rows(linalg.matrix_transpose, [integers(shape)], [True]) is apart


def test_rows_of_an_unknown_rank_are_not_apart() -> None:
    with Graph() as graph:
        x, w = placeholder(graph, ArraySpec("int8", None)), placeholder(graph, ArraySpec("int8", (3, 3)))
        for build in (linalg.matmul, linalg.vecdot, linalg.tensordot):
            assert not says_rowwise(build(x, w), [True, False])
        assert not says_rowwise(linalg.matrix_transpose(x), [True])
