from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph import ops
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.op import NO_PARAMS, PLACEHOLDER
from asyncgraph._graph.rules.elementwise import ELEMENTWISE
from asyncgraph._graph.rules.tables import COSTS, ROWS, SPECS, VIEWS, RowQuestion
from asyncgraph._graph.spec import ANY, ArraySpec
from asyncgraph.errors import GraphError, SpecError, SpecOverflowError, SpecTypeError

from .helpers import evaluate
from .strategies import DTYPES, NUMBERS, arrays, placeholder

QUICK = settings(max_examples=15, derandomize=True, deadline=None)
BINARY = sorted(name for name in ELEMENTWISE if getattr(vars(np)[name], "nin", 1) == 2)
UNARY = sorted(ELEMENTWISE - set(BINARY) - {"clip"})
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def same(ours: Any, numpys: Any) -> bool:
    """The same dtype, shape and bits."""
    ours, numpys = np.asarray(ours), np.asarray(numpys)
    return (ours.dtype, ours.shape, ours.tobytes()) == (numpys.dtype, numpys.shape, numpys.tobytes())


def outcome(name: str, operands: list[Any]) -> np.ndarray[Any, Any] | type[Exception]:
    """What NumPy's function makes of the operands, or the type of error it raises."""
    try:
        result = np.asarray(vars(np)[name](*operands))
    except (TypeError, OverflowError, ValueError) as error:
        return next(kind for kind in (TypeError, OverflowError, ValueError) if isinstance(error, kind))
    # Of an integer that no dtype holds, some functions make an array of objects.
    return OverflowError if result.dtype.hasobject else result


def check(name: str, operands: list[Any]) -> None:
    """The op `name` does what NumPy's function does: its dtype, shape and bits, or its type of error."""
    graph = Graph()
    called = [placeholder(graph, one) if isinstance(one, np.ndarray) else one for one in operands]
    feeds = {node: value for node, value in zip(called, operands, strict=True) if isinstance(node, Node)}
    with graph, np.errstate(all="ignore"):
        expected = outcome(name, operands)
        if expected is ValueError:
            # Shapes are refused when it is built; powers that are arrays, when it runs.
            with pytest.raises(expected):
                evaluate(vars(ops)[name](*called), feeds)
        elif isinstance(expected, type):
            with pytest.raises(expected) as raised:
                vars(ops)[name](*called)
            assert isinstance(raised.value, GraphError)
        else:
            node = vars(ops)[name](*called)
            assert (node.dtype, node.shape) == (expected.dtype, expected.shape)
            assert same(evaluate(node, feeds), expected)


def pairs() -> st.SearchStrategy[list[Any]]:
    """Two operands: arrays whose shapes broadcast, now and then not; or Python numbers."""
    fitting = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3)
    shapes = st.one_of(fitting.map(lambda drawn: drawn.input_shapes), st.tuples(SHAPES, SHAPES))
    return shapes.flatmap(lambda drawn: st.tuples(*[st.one_of(arrays(st.just(one)), NUMBERS) for one in drawn])).map(
        list
    )


@pytest.mark.parametrize("name", UNARY)
@QUICK
@given(data=st.data())
def test_a_function_of_one_operand_is_numpys_in_dtype_shape_values_and_errors(name: str, data: st.DataObject) -> None:
    check(name, [data.draw(st.one_of(arrays(SHAPES), NUMBERS))])


@pytest.mark.parametrize("name", BINARY)
@QUICK
@given(operands=pairs())
def test_a_function_of_two_operands_is_numpys_in_dtype_shape_values_and_errors(name: str, operands: list[Any]) -> None:
    check(name, operands)


@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_operand_takes_the_dtypes_that_numpys_takes(name: str) -> None:
    for dtype in DTYPES:
        check(name, [np.ones((2,), dtype)])


@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_operands_takes_the_dtypes_that_numpys_takes(name: str) -> None:
    for dtype in DTYPES:
        for other in (*(np.ones(2, one) for one in DTYPES), True, 1, -1, 300, 2**63, 0.5, 1j):
            check(name, [np.ones((2,), dtype), other])
            check(name, [other, np.ones((2,), dtype)])


@QUICK
@given(data=st.data())
def test_clip_is_numpys_whichever_bounds_are_given(data: st.DataObject) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=2, max_side=3)).input_shapes
    x = data.draw(arrays(st.just(shapes[0])))
    bounds = [data.draw(st.one_of(st.none(), NUMBERS, arrays(st.just(one)))) for one in shapes[1:]]
    check("clip", [x, *bounds])


def test_clip_is_numpys_for_each_dtype_and_bounds_out_of_its_range() -> None:
    for dtype in DTYPES:
        x = np.array([0, 1, 100], dtype)
        for low in (None, False, 0, 1, -1, -300, -(2**70), 0.5):
            for high in (None, True, 3, 300, 2**70, 1.5, 1j):
                check("clip", [x, low, high])


def test_clip_keeps_the_zero_and_the_nan_that_numpy_keeps() -> None:
    x = np.array([0.0, -0.0, np.nan, -np.nan])
    for bound in (0.0, -0.0, float("nan")):
        check("clip", [x, None, bound])
        check("clip", [x, bound, None])


def test_clip_of_an_unknown_dtype_meets_its_bounds_when_it_runs() -> None:
    x = untyped(Graph(), (2,))

    node = ops.clip(x, -5, 300)

    assert node.spec is ArraySpec(None, (2,))
    assert same(evaluate(node, {x: np.array([0, 255], "uint8")}), np.array([0, 255], "uint8"))


def untyped(graph: Graph, shape: Any = None) -> Node:
    return graph.add(PLACEHOLDER, (), NO_PARAMS, ArraySpec(None, shape))


def of(graph: Graph, spec: str) -> Node:
    return graph.add(PLACEHOLDER, (), NO_PARAMS, ArraySpec.parse(spec))


# -- specs -------------------------------------------------------------------------------------------


def test_an_unknown_dtype_makes_the_results_unknown_and_shapes_are_checked_nevertheless() -> None:
    graph = Graph()

    assert (of(graph, "float32[n,3]") + untyped(graph, (1, 3))).spec is ArraySpec(None, ("n", 3))
    assert (untyped(graph) + 1).spec is ANY
    with pytest.raises(SpecError):
        of(graph, "float32[3]") + untyped(graph, (2,))


def test_names_and_unknown_dimensions_broadcast() -> None:
    graph = Graph()
    x = of(graph, "float32[n,1]")

    assert repr((x + of(graph, "float64[4]")).spec) == "float64[n,4]"
    assert repr((x * of(graph, "float32[m,4]")).spec) == "float32[?,4]"
    assert repr((x < of(graph, "float32[...]")).spec) == "bool[...]"
    assert repr((1 - x).spec) == "float32[n,1]"


def test_the_kind_and_the_value_of_a_python_number_are_told_apart_after_another_was_seen() -> None:
    x = of(Graph(), "uint8[n]")

    assert [(x + one).dtype for one in (1, True, 1.0, 1j, 255)] == ["uint8", "uint8", "float64", "complex128", "uint8"]
    for wrong in (256, -1):
        with pytest.raises(SpecOverflowError):
            x + wrong


def test_a_result_of_python_numbers_alone_promotes_as_an_array() -> None:
    x = of(Graph(), "float32[1]")
    with x.graph:
        for made in (ops.real(3) + x, ops.imag(3) + x, ops.abs(3) + x):
            assert made.dtype == np.float64
            assert evaluate(made, {x: np.zeros(1, "float32")}).dtype == np.float64


# -- errors ------------------------------------------------------------------------------------------


def test_an_integer_out_of_range_is_refused_in_numpys_words_when_it_is_built() -> None:
    """AG-173 (https://github.com/google/jaxite/issues/80): NumPy 2 raises where older versions widened."""
    graph = Graph()
    x, y = of(graph, "uint8[n]"), of(graph, "uint32[]")

    with pytest.raises(SpecOverflowError) as raised:
        x + 300
    assert str(raised.value) == (
        "add cannot take uint8[n], 300\n"
        "  Python integer 300 out of bounds for uint8\n"
        "  give a number that fits, or convert the array first: ops.astype(x, 'int64')"
    )
    with pytest.raises(SpecOverflowError, match="Python integer -1 out of bounds for uint8"):
        x + -1
    with pytest.raises(SpecOverflowError, match="Python integer 4294967296 out of bounds for uint32"):
        y * 2**32
    assert len(graph) == 2


def test_an_integer_out_of_range_can_be_compared() -> None:
    x = of(Graph(), "uint8[3]")

    assert evaluate(x < 300, {x: np.array([0, 1, 255], "uint8")}).all()
    assert not evaluate(x == -1, {x: np.array([0, 1, 255], "uint8")}).any()


def test_an_integer_too_long_to_print_is_refused_like_others() -> None:
    with pytest.raises(SpecOverflowError, match="add cannot take uint8\\[n\\], <int of 16610 bits>"):
        of(Graph(), "uint8[n]") + 10**5000


def test_booleans_are_not_subtracted() -> None:
    """AG-176 (https://github.com/IntelPython/dpnp/pull/2233): + is the logical or, - is an error."""
    t = of(Graph(), "bool[2]")

    assert (t + t).dtype == np.bool
    with pytest.raises(SpecTypeError, match="numpy boolean subtract") as raised:
        t - t
    assert str(raised.value).startswith("subtract cannot take bool[2], bool[2]\n  numpy boolean subtract, the `-`")


def test_shapes_that_never_fit_are_refused_with_the_specs() -> None:
    graph = Graph()

    with pytest.raises(SpecError) as raised:
        of(graph, "float32[n,2]") + of(graph, "float64[3]")

    assert str(raised.value) == "add cannot take float32[n,2], float64[3]\n  2 and 3 cannot be broadcast"


def test_a_negative_power_of_integers_is_refused_unless_there_may_be_no_integers() -> None:
    graph = Graph()
    x = of(graph, "int32[n]")

    with pytest.raises(SpecError, match="Integers to negative integer powers are not allowed"):
        of(graph, "int32[3]") ** -1
    assert same(evaluate(x**-1, {x: np.empty(0, "int32")}), np.empty(0, "int32"))
    assert (x**-1.0).dtype == np.float64


def test_without_a_graph_the_error_says_where_to_get_one() -> None:
    with pytest.raises(GraphError) as raised:
        ops.add(1, 2)
    assert str(raised.value) == (
        "add: no graph to build the node in\n  write `with graph:` around the call, or give it a node"
    )


def test_text_and_times_are_numpys_to_decide() -> None:
    graph = Graph()
    text, time = of(graph, "U3[n]"), of(graph, "datetime64[s][n]")

    assert repr((text + text).spec) == "<U6[n]"
    assert (time - time).dtype == np.dtype("timedelta64[s]")
    for build in (lambda: text + 1, lambda: text < 1, lambda: ops.sin(time), lambda: time + time):
        with pytest.raises(SpecTypeError):
            build()


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        # AG-156 (https://github.com/numpy/numpy/issues/21289)
        ("abs", [np.array([-128, -127], "int8")], np.array([-128, 127], "int8")),
        # AG-159 (https://github.com/numpy/numpy/issues/10782)
        ("multiply", [np.array([182], "int16")] * 2, np.array([-32412], "int16")),
        # AG-170 (https://github.com/numpy/numpy/issues/14900)
        ("floor_divide", [np.array([1.0]), np.array([0.0])], np.array([np.inf])),
        ("remainder", [np.array([1.0]), np.array([np.inf])], np.array([1.0])),
        # AG-174 (https://github.com/TileDB-Inc/TileDB-Py/pull/2000)
        ("add", [np.array([2**63 + 1], "uint64"), np.array([0])], np.array([9.223372036854775808e18])),
        # AG-177 (https://github.com/numpy/numpy/pull/21103)
        ("multiply", [np.array([1, 2], "float32"), 1e200], np.array([np.inf, np.inf], "float32")),
    ],
)
def test_edges_are_numpys_and_not_widened(name: str, operands: list[Any], expected: Any) -> None:
    check(name, operands)
    with np.errstate(all="ignore"):
        assert same(vars(np)[name](*operands), expected)


# -- rows, views, protocols --------------------------------------------------------------------------


@settings(max_examples=150, derandomize=True, deadline=None)
@given(data=st.data())
def test_where_the_row_rule_agrees_each_row_of_the_result_can_be_computed_alone(data: st.DataObject) -> None:
    rows = data.draw(st.sampled_from([1, 2, 3]))
    drawn = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=1, max_side=3)).input_shapes
    carries = tuple([data.draw(st.booleans()) for _ in drawn])
    shapes = [(rows, *shape[1:]) if carried and shape else shape for shape, carried in zip(drawn, carries, strict=True)]
    carries = tuple([carried and bool(shape) for shape, carried in zip(shapes, carries, strict=True)])
    values = [np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7 for shape in shapes]
    try:
        whole = np.clip(*values)
    except ValueError:
        return
    # A name for the rows, where a literal 1 would say more than a batch does.
    specs = [ArraySpec("int64", ("n", *s[1:]) if c else s) for s, c in zip(shapes, carries, strict=True)]
    result = SPECS["clip"]("clip", tuple(specs), NO_PARAMS)
    assert isinstance(result, ArraySpec)
    question = RowQuestion(tuple(specs), carries, NO_PARAMS, result)
    if any(carries) and ROWS["clip"](question):
        assert whole.shape[0] == rows
        for i in range(rows):
            alone = [value[i : i + 1] if carried else value for value, carried in zip(values, carries, strict=True)]
            assert same(np.clip(*alone), whole[i : i + 1])


@pytest.mark.parametrize(
    ("operands", "carries", "apart"),
    [
        ("float32[n,3] float32[n,3]", (True, True), True),
        ("float32[n,3] float32[3]", (True, False), True),
        ("float32[n,3] float32[1,3]", (True, False), True),
        ("float32[n,3] float32[n]", (True, True), False),
        ("float32[n,3] float32[m,3]", (True, False), False),
        ("float32[n] float32[4,n]", (True, False), False),
        ("float32[n,3] float32[...]", (True, False), False),
        ("float32[...] float32[]", (True, False), False),
    ],
)
def test_rows_stay_apart_where_broadcasting_aligns_them(operands: str, carries: tuple[bool, ...], apart: bool) -> None:
    specs = tuple([ArraySpec.parse(one) for one in operands.split()])
    result = SPECS["add"]("add", specs, NO_PARAMS)

    assert isinstance(result, ArraySpec)
    assert ROWS["add"](RowQuestion(specs, carries, NO_PARAMS, result)) is apart


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_a_result_shares_memory_with_no_operand_but_those_the_table_names(name: str) -> None:
    for dtype in DTYPES:
        graph, values = Graph(), [np.ones(2, dtype) for _ in range(1 if name in UNARY else 2)]
        nodes = [placeholder(graph, value) for value in values]
        try:
            made = vars(ops)[name](*nodes)
        except SpecTypeError:
            continue
        with np.errstate(all="ignore"):
            result = evaluate(made, dict(zip(nodes, values, strict=True)))
        shared = {i for i, value in enumerate(values) if np.shares_memory(value, result)}
        assert shared <= set(VIEWS.get(name, ()))


def test_every_elementwise_op_has_a_function_and_a_row_in_each_table() -> None:
    for name in ELEMENTWISE:
        assert name in SPECS
        assert name in ROWS
        assert name in COSTS
        assert callable(vars(ops)[name])


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_numpys_function_called_on_a_node_builds_the_same_node(name: str) -> None:
    x = of(Graph(), "int8[2]")
    try:
        ours = vars(ops)[name](*[x] * (2 if name in BINARY else 1), name="it")
    except SpecTypeError:
        x = of(Graph(), "float32[2]")
        ours = vars(ops)[name](*[x] * (2 if name in BINARY else 1), name="it")

    numpys = vars(np)[name](*ours.operands)

    assert ours.name == "it"
    assert (numpys.op, numpys.operands, numpys.spec) == (ours.op, ours.operands, ours.spec)


def test_numpys_old_names_and_its_round_and_clip_build_nodes() -> None:
    x: Any = of(Graph(), "float64[2]")
    value = np.array([-1.2345, 9.75])

    assert np.absolute(x).op is ops.abs(x).op
    assert np.power(x, 2).op is ops.pow(x, 2).op
    assert np.true_divide(x, 2).op is ops.divide(x, 2).op
    for made, expected in (
        (np.round(x, 2), np.round(value, 2)),
        (np.around(x), np.around(value)),
        (np.clip(x, 0, 5), np.clip(value, 0, 5)),
        (np.clip(x, min=0), np.clip(value, min=0)),
        (np.real(x), value),
    ):
        assert same(evaluate(made, {x: value}), expected)


def test_no_warning_filter_is_touched_and_nothing_warns_while_dtypes_are_asked() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filters = list(warnings.filters)
        x = of(Graph(), "float16[n]")
        assert (x * 1e30).dtype == np.float16
        assert (x / 0).dtype == np.float16
        with x.graph:
            assert ops.divide(1, 0).dtype == np.float64
        assert warnings.filters == filters
