from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.rules.tables import VIEWS
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import NodeValueError, SpecError, SpecTypeError
from asyncgraph.ops import manipulation

from .helpers import evaluate
from .oracle import (
    QUICK,
    SHAPES,
    Array,
    axes,
    check,
    check_rows,
    integers,
    is_rowwise,
    listed,
    one_axis,
    placeholder,
    same,
    says_rowwise,
)
from .strategies import DTYPES, arrays

Params = dict[str, Any]
ParamsOf = Callable[[tuple[int, ...]], st.SearchStrategy[Params]]


# -- functions of one array: what hypothesis draws for their params, given its shape -----------------


@st.composite
def reshapes(draw: st.DrawFn, shape: tuple[int, ...]) -> Params:
    """A shape of as many elements, often with a -1 for one of its dimensions; now and then any shape."""
    if not draw(st.integers(0, 4)):
        return {"shape": draw(st.lists(st.integers(-1, 4), max_size=3).map(tuple))}
    size, dims = prod(shape), []
    while size > 1 and len(dims) < 2:
        dims.append(draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0])))
        size //= dims[-1]
    dims.append(size)
    if draw(st.booleans()):
        dims[draw(st.integers(0, len(dims) - 1))] = -1
    return {"shape": tuple(dims)}


@st.composite
def moves(draw: st.DrawFn, shape: tuple[int, ...]) -> Params:
    count = draw(st.integers(0, len(shape)))
    places = [draw(st.permutations(range(-len(shape), 0)))[:count] for _ in range(2)]
    return {"source": tuple(places[0]), "destination": tuple(places[1])}


@st.composite
def rolls(draw: st.DrawFn, shape: tuple[int, ...]) -> Params:
    if shape and draw(st.booleans()):
        several = tuple(draw(st.lists(one_axis(len(shape)), min_size=1, max_size=3)))
        return {"shift": tuple(draw(st.integers(-4, 4)) for _ in several), "axis": several}
    return {
        "shift": draw(st.integers(-4, 4)),
        "axis": draw(st.one_of(st.none(), one_axis(len(shape)))) if shape else None,
    }


@st.composite
def expansions(draw: st.DrawFn, shape: tuple[int, ...]) -> Params:
    if draw(st.booleans()):
        return {"axis": draw(one_axis(len(shape) + 1))}
    count = draw(st.integers(0, 2))
    rank = len(shape) + count
    return {"axis": tuple(axis - rank for axis in draw(st.permutations(range(rank)))[:count])}


def squeezes(shape: tuple[int, ...]) -> st.SearchStrategy[Params]:
    ones = [axis for axis, dim in enumerate(shape) if dim == 1]
    some = st.lists(st.sampled_from(ones), unique=True) if ones else st.just([])
    any_axis = [one_axis(len(shape))] if shape else []
    return st.one_of(some.map(tuple), *any_axis).map(lambda axis: {"axis": axis})


@st.composite
def broadcasts(draw: st.DrawFn, shape: tuple[int, ...]) -> Params:
    dims = [draw(st.integers(0, 3)) if dim == 1 or not draw(st.integers(0, 9)) else dim for dim in shape]
    return {"shape": (*draw(st.lists(st.integers(0, 3), max_size=1)), *dims)}


def axis_params(
    drawn: Callable[[int], st.SearchStrategy[Any]],
) -> Callable[[tuple[int, ...]], st.SearchStrategy[Params]]:
    return lambda shape: drawn(len(shape)).map(lambda axis: {"axis": axis})


PARAMS: dict[str, ParamsOf] = {
    "broadcast_to": broadcasts,
    "expand_dims": expansions,
    "flip": axis_params(axes),
    "moveaxis": moves,
    "permute_dims": lambda shape: st.permutations(range(len(shape))).map(lambda axes: {"axes": tuple(axes)}),
    "reshape": reshapes,
    "roll": rolls,
    "squeeze": squeezes,
    "unstack": axis_params(lambda ndim: one_axis(max(ndim, 1))),
}


def called(name: str, params: Params) -> Callable[[Any], Any]:
    """The op as a function of one node."""
    if name == "moveaxis":
        return lambda x: manipulation.moveaxis(x, params["source"], params["destination"])
    return lambda x: vars(manipulation)[name](x, **params)


@pytest.mark.parametrize("name", PARAMS)
@settings(QUICK, max_examples=80)
@given(data=st.data())
def test_a_function_of_one_array_is_numpys_in_dtype_shape_values_and_errors(name: str, data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    params = data.draw(PARAMS[name](x.shape))
    check(data, called(name, params), lambda x: vars(np)[name](x, **params), x, counts=name == "unstack")


@pytest.mark.parametrize("name", PARAMS)
@settings(QUICK, max_examples=80)
@given(data=st.data())
def test_a_function_of_one_array_that_says_rows_are_apart_gives_the_same_row_by_row(
    name: str, data: st.DataObject
) -> None:
    x = integers((data.draw(st.integers(2, 3)), *data.draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))))
    check_rows(called(name, data.draw(PARAMS[name](x.shape))), [x], [True])


@pytest.mark.parametrize(
    ("name", "params", "apart"),
    [
        ("broadcast_to", {"shape": (3, 2, 4)}, False),
        ("expand_dims", {"axis": 1}, True),
        ("expand_dims", {"axis": (-1, 2)}, True),
        ("expand_dims", {"axis": 0}, False),
        ("expand_dims", {"axis": -4}, False),
        ("flip", {"axis": (1, -1)}, True),
        ("flip", {"axis": -3}, False),
        ("flip", {"axis": None}, False),
        ("moveaxis", {"source": 1, "destination": -1}, True),
        ("moveaxis", {"source": 1, "destination": 0}, False),
        ("permute_dims", {"axes": (0, 2, 1)}, True),
        ("permute_dims", {"axes": (-3, -1, -2)}, True),
        ("permute_dims", {"axes": (1, 0, 2)}, False),
        ("reshape", {"shape": (-1, 8)}, True),
        ("reshape", {"shape": (-1, 2, 2, 2)}, True),
        ("reshape", {"shape": (-1, 4)}, False),
        ("reshape", {"shape": (-1,)}, False),
        ("reshape", {"shape": (8, -1)}, False),
        ("roll", {"shift": 1, "axis": -1}, True),
        ("roll", {"shift": (1, 1), "axis": (1, 2)}, True),
        ("roll", {"shift": (1, 1), "axis": (1, 0)}, False),
        ("roll", {"shift": 1, "axis": None}, False),
        ("unstack", {"axis": 1}, True),
        ("unstack", {"axis": -1}, True),
    ],
)
def test_rows_are_apart_in_a_function_of_one_array_if_they_stay_as_they_are(
    name: str, params: Params, apart: bool
) -> None:
    assert check_rows(called(name, params), [integers((3, 2, 4))], [True]) is apart


@pytest.mark.parametrize(("axis", "apart"), [(1, True), (-1, True), (0, False), (-3, False)])
def test_rows_are_apart_in_squeeze_if_they_do_not_go(axis: int, apart: bool) -> None:
    assert is_rowwise(lambda x: manipulation.squeeze(x, axis), [(1, 1, 1)], [True]) is apart


# -- functions of several arrays ---------------------------------------------------------------------


@st.composite
def equal_shapes(draw: st.DrawFn, free: int | None) -> list[tuple[int, ...]]:
    """One to three shapes that are equal, but for the axis `free`; now and then any shapes."""
    if not draw(st.integers(0, 6)):
        return draw(st.lists(SHAPES, min_size=1, max_size=3))
    shape = draw(hnp.array_shapes(min_dims=0 if free is None else 1, max_dims=3, min_side=0, max_side=3))
    shapes = [list(shape) for _ in range(draw(st.integers(1, 3)))]
    for one in shapes:
        if free is not None:
            one[free] = draw(st.integers(0, 3))
    return [tuple(one) for one in shapes]


@settings(QUICK, max_examples=100)
@given(data=st.data())
def test_concat_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from([None, 0, -1, 0, -1]))
    shapes = data.draw(equal_shapes(axis))
    operands = [data.draw(arrays(st.just(one))) for one in shapes]
    check(data, lambda *a: manipulation.concat(a, axis=axis), lambda *a: np.concat(a, axis=axis), *operands)


@settings(QUICK, max_examples=100)
@given(data=st.data())
def test_stack_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    shapes = data.draw(equal_shapes(None))
    axis = data.draw(one_axis(len(shapes[0]) + 1))
    operands = [data.draw(arrays(st.just(one))) for one in shapes]
    check(data, lambda *a: manipulation.stack(a, axis=axis), lambda *a: np.stack(a, axis=axis), *operands)


@QUICK
@given(data=st.data())
def test_broadcast_arrays_is_numpys_in_dtype_shape_values_and_errors(data: st.DataObject) -> None:
    fitting = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3)
    shapes = data.draw(st.one_of(fitting.map(lambda drawn: drawn.input_shapes), st.tuples(SHAPES, SHAPES)))
    operands = [data.draw(arrays(st.just(one))) for one in shapes]
    check(data, manipulation.broadcast_arrays, np.broadcast_arrays, *operands)


@pytest.mark.parametrize("name", ["concat", "stack"])
def test_arrays_of_any_two_dtypes_are_joined_in_numpys(name: str) -> None:
    with Graph() as graph:
        for a in DTYPES:
            for b in DTYPES:
                node = vars(manipulation)[name]([placeholder(graph, ArraySpec(one, (2,))) for one in (a, b)])
                assert node.dtype == vars(np)[name]([np.zeros(2, a), np.zeros(2, b)]).dtype


@pytest.mark.parametrize(
    ("name", "axis", "carries", "apart"),
    [
        ("concat", 1, (True, True), True),
        ("concat", -1, (True, True), True),
        ("concat", 1, (True, False), False),
        ("concat", 0, (True, True), False),
        ("concat", -2, (True, True), False),
        ("concat", None, (True, True), False),
        ("stack", 1, (True, True), True),
        ("stack", -1, (True, True), True),
        ("stack", 1, (True, False), False),
        ("stack", 0, (True, True), False),
        ("stack", -3, (True, True), False),
    ],
)
def test_rows_are_apart_in_what_is_joined_along_another_axis_if_all_have_them(
    name: str, axis: int | None, carries: tuple[bool, bool], apart: bool
) -> None:
    operands = [integers((3, 2)), integers((3, 2)) + 10]
    assert check_rows(lambda a, b: vars(manipulation)[name]([a, b], axis=axis), operands, carries) is apart


@pytest.mark.parametrize(
    ("shapes", "carries", "apart"),
    [
        ([(3, 2), (3, 2)], (True, True), True),
        ([(3, 1), (1, 2)], (True, False), True),
        ([(3, 2), (2,)], (True, False), True),
        ([(3, 2), (3, 2)], (True, False), False),
        ([(2, 2), (2,)], (False, True), False),
    ],
)
def test_rows_are_apart_in_arrays_that_are_broadcast_if_they_meet(
    shapes: list[tuple[int, ...]], carries: tuple[bool, bool], apart: bool
) -> None:
    assert is_rowwise(manipulation.broadcast_arrays, shapes, carries) is apart


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: manipulation.reshape(3, (1,)), np.reshape(3, (1,))),
        (lambda: manipulation.expand_dims(True, 0), np.expand_dims(True, 0)),
        (lambda: manipulation.broadcast_to(2.5, (2,)), np.broadcast_to(2.5, (2,))),
        (lambda: manipulation.stack([1, 2.5]), np.stack([1, 2.5])),
        (lambda: manipulation.concat([[1, 2], [2.5]]), np.concat([[1, 2], [2.5]])),
    ],
)
def test_numbers_and_lists_are_arrays(build: Callable[[], Node], expected: Array) -> None:
    with Graph():
        node = build()
        assert (node.dtype, node.shape) == (expected.dtype, expected.shape)
        assert same(evaluate(node), expected)


# -- names -------------------------------------------------------------------------------------------


def spec_of(build: Callable[..., Node], *texts: str) -> str:
    with Graph() as graph:
        return repr(build(*[placeholder(graph, ArraySpec.parse(text)) for text in texts]).spec)


@pytest.mark.parametrize(
    ("operand", "shape", "result"),
    [
        ("int8[n,2,3]", (-1, 6), "int8[n,6]"),
        ("int8[n,2,3]", (6, -1), "int8[6,n]"),
        ("int8[2,n]", (-1, 2), "int8[n,2]"),
        ("int8[n]", (-1,), "int8[n]"),
        ("int8[n,6]", (-1, 3), "int8[?,3]"),
        ("int8[n,m]", (-1, 3), "int8[?,3]"),
        ("int8[n,?]", (-1,), "int8[?]"),
        ("int8[n,0]", (-1, 3), "int8[0,3]"),
        ("int8[n]", (2, 3), "int8[2,3]"),
        ("int8[...]", (-1, 3), "int8[?,3]"),
        ("int8[4,6]", (-1, 3), "int8[8,3]"),
    ],
)
def test_reshape_keeps_the_name_of_what_stays_and_claims_no_other(
    operand: str, shape: tuple[int, ...], result: str
) -> None:
    assert spec_of(lambda x: manipulation.reshape(x, shape), operand) == result


@pytest.mark.parametrize(
    ("operands", "axis", "result"),
    [
        (("int8[n,2]", "int8[n,3]"), 1, "int8[n,5]"),
        (("int8[n,2]", "int8[n,2]"), 0, "int8[?,2]"),
        (("int8[n,2]", "int8[4,2]"), 1, "int8[4,4]"),
        (("int8[n,2]", "int8[m,2]"), 1, "int8[?,4]"),
        (("int8[n,2]", "int8[?,k]"), 1, "int8[?,?]"),
        (("int8[n,2]", "int8[...]"), 0, "int8[?,2]"),
        (("int8[n,2]",), 0, "int8[n,2]"),
        (("int8[3,2]", "int8[2,2]"), None, "int8[10]"),
    ],
)
def test_concat_keeps_names_along_other_axes(operands: tuple[str, ...], axis: int | None, result: str) -> None:
    assert spec_of(lambda *a: manipulation.concat(a, axis=axis), *operands) == result


def test_names_move_with_their_axes() -> None:
    assert spec_of(lambda x: manipulation.permute_dims(x, (2, 0, 1)), "int8[n,3,m]") == "int8[m,n,3]"
    assert spec_of(lambda x: manipulation.moveaxis(x, 0, -1), "int8[n,3,m]") == "int8[3,m,n]"
    assert spec_of(lambda x: manipulation.expand_dims(x, (0, -1)), "int8[n]") == "int8[1,n,1]"
    assert spec_of(lambda x: manipulation.squeeze(x, 1), "int8[n,m,3]") == "int8[n,3]"
    assert spec_of(lambda x: manipulation.stack([x, x], axis=1), "int8[n]") == "int8[n,2]"
    assert spec_of(lambda x: manipulation.unstack(x, axis=1)[1], "int8[n,2]") == "int8[n]"
    assert spec_of(lambda x: manipulation.broadcast_to(x, (5, 3)), "int8[n]") == "int8[5,3]"


# -- errors ------------------------------------------------------------------------------------------


IMPOSSIBLE: list[tuple[str, Callable[[Node], Any], str]] = [
    (
        "reshape",
        lambda x: manipulation.reshape(x, (4,)),
        "its elements, of which there are 3·n, cannot have the shape (4,)",
    ),
    (
        "reshape",
        lambda x: manipulation.reshape(x, (-1, -1)),
        "(-1, -1) is not a shape: its dimensions are ints from 0, and at most one -1",
    ),
    (
        "reshape",
        lambda x: manipulation.reshape(x, (0, -1)),
        "the -1 in (0, -1) could be anything: the other dimensions make no elements",
    ),
    ("permute_dims", lambda x: manipulation.permute_dims(x, (0,)), "axes=(0,) name 1 axes of a value of rank 2"),
    ("squeeze", lambda x: manipulation.squeeze(x, 1), "axis 1 has the size 3, and only axes of size 1 can go"),
    ("broadcast_to", lambda x: manipulation.broadcast_to(x, (2, 2)), "[n,3] cannot be broadcast to [2,2]"),
    ("moveaxis", lambda x: manipulation.moveaxis(x, (0, 1), 0), "2 axes cannot be moved to 1 places"),
    (
        "unstack",
        manipulation.unstack,
        "how many values there will be is not known before it runs\n"
        "  give the placeholder a literal dimension there, or pick with x[i] or ops.take",
    ),
]


@pytest.mark.parametrize(("name", "build", "text"), IMPOSSIBLE)
def test_what_can_never_be_is_an_error_that_shows_the_spec(name: str, build: Callable[[Node], Any], text: str) -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("int8", ("n", 3)))
        with pytest.raises(SpecError) as raised:
            build(x)
        assert str(raised.value) == f"{name} cannot take int8[n,3]\n  {text}"
        assert len(graph) == 1


@pytest.mark.parametrize(
    ("name", "operands", "text"),
    [
        ("concat", ("int8[n,3]", "int8[3]"), "the ranks 1 and 2 differ"),
        ("concat", ("int8[n,3]", "int8[n,2]"), "the dimensions 3 and 2 differ"),
        ("stack", ("int8[n,3]", "int8[4,2]"), "the dimensions 3 and 2 differ"),
        (
            "concat",
            ("int8[]", "int8[]"),
            "a value of rank 0 has no axis to be joined along\n  use ops.stack, or reshape it to (1,)",
        ),
    ],
)
def test_what_can_never_be_joined_is_an_error_that_shows_the_specs(
    name: str, operands: tuple[str, ...], text: str
) -> None:
    with pytest.raises(SpecError) as raised:
        spec_of(lambda *a: vars(manipulation)[name](a), *operands)
    assert str(raised.value) == f"{name} cannot take {', '.join(operands)}\n  {text}"


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda x: manipulation.concat([]), SpecError, "there is nothing to join"),
        (lambda x: manipulation.stack(x), SpecTypeError, "stack takes a list or a tuple of arrays, not <placeholder"),
        (
            lambda x: vars(manipulation)["squeeze"](x, None),
            SpecTypeError,
            "squeeze takes an int or a tuple of ints, not None",
        ),
        (lambda x: vars(manipulation)["reshape"](x, ("n", 3)), SpecTypeError, "reshape: shape takes ints, not 'n'"),
        (lambda x: manipulation.flip(x, axis=True), SpecTypeError, "flip: axis takes ints, not True"),
        (lambda x: manipulation.flip(x, axis=x), NodeValueError, "flip: axis=<.*> must be a Python int"),
        (lambda x: manipulation.concat([x, x], axis=x), NodeValueError, "concat: axis=<.*> must be a Python int"),
        (lambda x: manipulation.roll(x, x), NodeValueError, "roll: shift=<.*> must be a Python int"),
        (lambda x: manipulation.broadcast_to(x, (-1, 3)), SpecError, "a dimension is negative"),
        (
            lambda x: manipulation.broadcast_arrays(*[x] * 65),
            SpecError,
            "at most 64 arrays .*, not 65",
        ),
        (
            lambda x: manipulation.roll(x, (1, 2), axis=0),
            SpecError,
            r"takes as many axes, not axis=0",
        ),
    ],
)
def test_arguments_of_another_kind_are_an_error(build: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("int8", ("n", 3)))
        with pytest.raises(error, match=text):
            build(x)
        assert len(graph) == 1


# -- outputs, memory ---------------------------------------------------------------------------------


def test_unstack_is_one_call_with_an_output_for_each_part() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("int8", (2, "n")))
        first, second = manipulation.unstack(x, name="parts")

    assert first.inputs == second.inputs == (graph["parts"],)
    assert same(evaluate(second, {x: np.array([[1], [2]], np.int8)}), np.array([2], np.int8))


def test_rows_of_an_unknown_rank_are_not_apart() -> None:
    with Graph() as graph:
        x = placeholder(graph, ArraySpec("int8", None))
        for build in (
            lambda x: manipulation.flip(x, axis=1),
            lambda x: manipulation.roll(x, 1, axis=1),
            lambda x: manipulation.moveaxis(x, 1, 2),
            lambda x: manipulation.expand_dims(x, 1),
            lambda x: manipulation.reshape(x, (-1, 3)),
            lambda x: manipulation.stack([x], axis=1),
        ):
            assert not says_rowwise(build(x), [True])


@pytest.mark.parametrize("name", sorted(PARAMS))
@QUICK
@given(data=st.data())
def test_what_may_share_memory_with_its_operand_says_so(name: str, data: st.DataObject) -> None:
    x: Array = integers(data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=3)))
    params = data.draw(PARAMS[name](x.shape))
    with Graph() as graph:
        node = placeholder(graph, ArraySpec(x.dtype, x.shape))
        try:
            results = listed(called(name, params)(node))
        except SpecError:
            return
        shares = any(np.may_share_memory(evaluate(one, {node: x}), x) for one in results)
    assert not shares or VIEWS.get(name) == (0,)
