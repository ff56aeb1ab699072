from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph import ops
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.op import CONSTANT, NO_PARAMS, PLACEHOLDER
from asyncgraph._graph.rules.tables import ROWS, RowQuestion
from asyncgraph._graph.spec import ANY, ArraySpec
from asyncgraph.errors import GraphError, NodeValueError, SpecError, SpecOverflowError, SpecTypeError

from .helpers import evaluate
from .strategies import DTYPES, arrays, placeholder

SETTINGS = settings(max_examples=60, derandomize=True, deadline=None)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
MAYBE_DTYPE = st.one_of(st.none(), st.sampled_from(DTYPES))
NUMBERS = st.one_of(st.integers(-20, 20), st.floats(-20, 20, width=16), st.booleans())


def of(graph: Graph, spec: str) -> Node:
    return graph.add(PLACEHOLDER, (), NO_PARAMS, ArraySpec.parse(spec))


def agree(build: Callable[[], Node], numpys: Callable[[], Any], feeds: dict[Node, Any] | None = None) -> None:
    """Both give the same dtype, shape and bits, or raise the same type of error, ours when it is built."""
    kinds = (TypeError, OverflowError, ValueError)
    with np.errstate(all="ignore"):
        try:
            expected = np.asarray(numpys())
        except ZeroDivisionError:
            expected = ValueError
        except kinds as error:
            expected = next(kind for kind in kinds if isinstance(error, kind))
        if isinstance(expected, type):
            with pytest.raises(expected) as raised:
                build()
            assert isinstance(raised.value, GraphError)
            return
        node = build()
        assert (node.dtype, node.shape) == (expected.dtype, expected.shape)
        value = np.asarray(evaluate(node, feeds))
        assert (value.dtype, value.shape, value.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


@SETTINGS
@given(shape=SHAPES, dtype=MAYBE_DTYPE)
def test_zeros_ones_and_empty_are_numpys_and_empty_is_zeros(shape: tuple[int, ...], dtype: Any) -> None:
    with Graph():
        agree(lambda: ops.zeros(shape, dtype=dtype), lambda: np.zeros(shape, dtype))
        agree(lambda: ops.ones(shape, dtype=dtype), lambda: np.ones(shape, dtype))
        agree(lambda: ops.empty(shape, dtype=dtype), lambda: np.zeros(shape, dtype))


@SETTINGS
@given(shape=SHAPES, dtype=MAYBE_DTYPE, value=st.one_of(NUMBERS, st.sampled_from([300, -1, 2**64, 1e300, np.nan])))
def test_full_is_numpys_and_refuses_what_does_not_fit(shape: tuple[int, ...], dtype: Any, value: Any) -> None:
    with Graph():
        if dtype is None and value == 2**64:
            with pytest.raises(SpecOverflowError, match="no integer dtype holds 18446744073709551616"):
                ops.full(shape, value)
        else:
            agree(lambda: ops.full(shape, value, dtype=dtype), lambda: np.full(shape, value, dtype))


def test_a_fill_value_that_does_not_fit_is_refused_when_it_is_built() -> None:
    with Graph() as graph:
        x = of(graph, "uint8[n]")
        for build in (lambda: ops.full(3, 300, dtype="uint8"), lambda: ops.full_like(x, 300)):
            with pytest.raises(SpecOverflowError, match="Python integer 300 out of bounds for uint8"):
                build()


@SETTINGS
@given(x=arrays(SHAPES), dtype=MAYBE_DTYPE, known=st.booleans(), value=st.sampled_from([0, 1, 7, True, 1.5, 300, -1]))
def test_functions_like_another_are_numpys_whether_its_spec_is_known_or_not(
    x: np.ndarray[Any, Any], dtype: Any, known: bool, value: Any
) -> None:
    graph = Graph()
    node = placeholder(graph, x) if known else graph.add(PLACEHOLDER, (), NO_PARAMS, ANY)
    for name in ("zeros_like", "ones_like"):
        made = vars(ops)[name](node, dtype=dtype)
        expected = vars(np)[name](x, dtype=dtype)
        value_made = evaluate(made, {node: x})
        assert (value_made.dtype, value_made.shape) == (expected.dtype, expected.shape)
        assert (value_made == expected).all()
        if known:
            assert made.spec is ArraySpec(expected.dtype, x.shape)
    if known:
        agree(lambda: ops.full_like(node, value, dtype=dtype), lambda: np.full_like(x, value, dtype=dtype), {node: x})


@SETTINGS
@given(start=NUMBERS, stop=st.one_of(st.none(), NUMBERS), step=NUMBERS, dtype=MAYBE_DTYPE)
def test_arange_is_numpys(start: Any, stop: Any, step: Any, dtype: Any) -> None:
    with Graph():
        # Of booleans NumPy computes with integers, and calls the result so only where that is the default.
        numbers: list[Any] = [one if one is None else +one for one in (start, stop, step)]
        agree(lambda: ops.arange(start, stop, step, dtype=dtype), lambda: np.arange(*numbers, dtype=dtype))


@pytest.mark.parametrize(
    "numbers",
    [
        (10,), (-1,), (5, 1), (5, 1, -2), (0, 1, 0.1), (0, 1, np.inf), (0, 3, 1e-1), (1, 0, np.inf), (1e16, 1e16 + 4),
        (0.5, 1.3, 0.4), (0, np.nan), (0, np.inf), (0, -np.inf), (0, 1, 0), (2**62, 2**62 + 3), (1e300, -1e300, 1e299),
        (0, 5e-324, 2), (0, 1, -np.inf), (2**63, 2**63 + 5000, 2048),
    ],
)  # fmt: skip
def test_the_length_of_arange_is_numpys_at_the_edges(numbers: tuple[float, ...]) -> None:
    with Graph():
        agree(lambda: ops.arange(*numbers), lambda: np.arange(*numbers))


@SETTINGS
@given(
    start=st.one_of(NUMBERS, st.just(1 - 2j)), stop=NUMBERS, num=st.integers(0, 5), dtype=MAYBE_DTYPE,
    endpoint=st.booleans(),
)  # fmt: skip
def test_linspace_is_numpys(start: Any, stop: Any, num: int, dtype: Any, endpoint: bool) -> None:
    if isinstance(start, complex) and dtype is not None and dtype.kind != "c":
        dtype = np.dtype("complex64")  # NumPy would warn of what it discards
    with Graph():
        agree(
            lambda: ops.linspace(start, stop, num, dtype=dtype, endpoint=endpoint),
            lambda: np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint),
        )


@SETTINGS
@given(rows=st.integers(0, 4), columns=st.one_of(st.none(), st.integers(0, 4)), k=st.integers(-5, 5), dtype=MAYBE_DTYPE)
def test_eye_is_numpys(rows: int, columns: int | None, k: int, dtype: Any) -> None:
    with Graph():
        agree(
            lambda: ops.eye(rows, columns, k=k, dtype=dtype),
            lambda: np.eye(rows, columns, k=k, dtype=dtype or np.float64),
        )


@SETTINGS
@given(x=arrays(hnp.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=3)), k=st.integers(-4, 4))
def test_tril_and_triu_are_numpys(x: np.ndarray[Any, Any], k: int) -> None:
    node = placeholder(Graph(), x)
    agree(lambda: ops.tril(node, k=k), lambda: np.tril(x, k), {node: x})
    agree(lambda: ops.triu(node, k=k), lambda: np.triu(x, k), {node: x})


def test_tril_takes_no_vector() -> None:
    with pytest.raises(SpecError) as raised:
        ops.tril(of(Graph(), "float32[n]"))
    assert str(raised.value) == "tril cannot take float32[n]\n  it takes a matrix, or a stack of matrices"


def test_rows_of_a_stack_of_triangles_stay_apart_and_those_of_one_do_not() -> None:
    for spec, apart in (("float32[n,3]", False), ("float32[n,3,3]", True), ("float32[...]", False)):
        x = ArraySpec.parse(spec)
        assert ROWS["tril"](RowQuestion((x,), (True,), {"k": 0}, x)) is apart


@SETTINGS
@given(vectors=st.lists(arrays(hnp.array_shapes(min_dims=0, max_dims=1, min_side=0, max_side=3)), max_size=3))
@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_is_numpys(vectors: list[np.ndarray[Any, Any]], indexing: Any) -> None:
    graph = Graph()
    nodes = [placeholder(graph, one) for one in vectors]
    feeds = dict(zip(nodes, vectors, strict=True))

    grids = ops.meshgrid(*nodes, indexing=indexing)

    expected = np.meshgrid(*vectors, indexing=indexing)
    assert len(grids) == len(expected)
    for made, right in zip(grids, expected, strict=True):
        agree(lambda made=made: made, lambda right=right: right, feeds)


def test_the_results_of_meshgrid_are_outputs_of_one_call() -> None:
    graph = Graph()

    rows, columns = ops.meshgrid(of(graph, "float32[n]"), of(graph, "?[m]"), indexing="ij", name="grid")

    assert rows.inputs == columns.inputs
    assert (rows.name, columns.name, rows.inputs[0].name) == ("grid:0", "grid:1", "grid")
    assert (repr(rows.spec), repr(columns.spec)) == ("float32[n,m]", "?[n,m]")
    with pytest.raises(SpecError, match="write 'xy' or 'ij'"):
        ops.meshgrid(rows, indexing="yx")  # pyright: ignore[reportArgumentType]  # callers are not all typed
    with pytest.raises(SpecError, match="it takes vectors"):
        ops.meshgrid(rows)


# -- asarray, devices, names, errors -----------------------------------------------------------------


def test_asarray_of_a_node_is_that_node_and_of_anything_else_a_constant() -> None:
    with Graph() as graph:
        x = of(graph, "float32[n]")
        assert ops.asarray(x) is x
        assert ops.asarray(x, dtype="float32", copy=True) is x
        assert repr(ops.asarray(x, dtype="int8").spec) == "int8[n]"

        values = np.array([1.0, 2.0])
        constant = ops.asarray(values, name="values")
        values[:] = 0
        assert constant.op is CONSTANT
        assert constant.name == "values"
        assert evaluate(constant).tolist() == [1.0, 2.0]
        assert repr(ops.asarray([[1, 2]], dtype="float32").spec) == "float32[1,2]"
        with pytest.raises(SpecOverflowError, match="asarray cannot take 300"):
            ops.asarray(300, dtype="uint8")
        with pytest.raises(SpecTypeError, match="asarray cannot take 'a'"):
            ops.asarray("a", dtype="uint8")


def test_the_device_keyword_asks_for_that_device_and_leaves_the_scope_as_it_was() -> None:
    from asyncgraph._graph.scopes import device

    with Graph(), device("cpu:0"):
        assert ops.zeros(3, device="/gpu:1").requested_device == "gpu:1"
        assert ops.zeros(3).requested_device == "cpu:0"
        assert ops.asarray(1, device="gpu").requested_device == "gpu:0"
        with pytest.raises(GraphError, match="is not the name of a device"):
            ops.ones(3, device="!")


def test_each_function_takes_a_name() -> None:
    with Graph() as graph:
        x = of(graph, "float32[2,2]")
        for made in (
            ops.arange(3, name="it"), ops.empty(3, name="it"), ops.empty_like(x, name="it"), ops.eye(3, name="it"),
            ops.full(3, 1, name="it"), ops.full_like(x, 1, name="it"), ops.linspace(0, 1, 3, name="it"),
            ops.ones(3, name="it"), ops.ones_like(x, name="it"), ops.tril(x, name="it"), ops.triu(x, name="it"),
            ops.zeros(3, name="it"), ops.zeros_like(x, name="it"),
        ):  # fmt: skip
            assert made.name.startswith("it")


def test_a_shape_is_made_of_ints_that_are_not_negative() -> None:
    with Graph():
        for wrong in (("n", 3), None, (None,), "n"):
            with pytest.raises(SpecTypeError, match="is not made of ints"):
                ops.zeros(wrong)  # pyright: ignore[reportArgumentType]  # callers are not all typed
        with pytest.raises(SpecError, match="cannot be negative"):
            ops.eye(-1)
        with pytest.raises(SpecError, match="cannot be negative"):
            ops.linspace(0, 1, -1)


def test_numbers_are_numbers_and_not_nodes() -> None:
    with Graph() as graph:
        x: Any = of(graph, "float32[]")
        for build in (lambda: ops.full(3, x), lambda: ops.arange(x), lambda: ops.linspace(x, 1, 3)):
            with pytest.raises(SpecTypeError, match="takes Python numbers, not <placeholder"):
                build()
        with pytest.raises(SpecOverflowError, match="no integer dtype holds 0, 18446744073709551616, 1"):
            ops.arange(2**64)
        with pytest.raises(SpecTypeError, match="takes real numbers"):
            ops.arange(1j)  # pyright: ignore[reportArgumentType]  # callers are not all typed
        one: Any = np.float32(1)
        assert ops.full(3, one).dtype == np.float32


def test_numpys_functions_called_on_a_node_build_nodes() -> None:
    value = np.arange(4.0).reshape(2, 2)
    x: Any = placeholder(Graph(), value)
    for name, args in (
        ("zeros_like", ()), ("ones_like", ()), ("empty_like", ()), ("full_like", (7,)), ("tril", ()), ("triu", (1,)),
    ):  # fmt: skip
        function = vars(np)["zeros_like" if name == "empty_like" else name]
        made: Any = vars(np)[name](x, *args)
        assert isinstance(made, Node)
        assert (evaluate(made, {x: value}) == function(value, *args)).all()
    grids: Any = np.meshgrid(x[0], x[1])
    assert [repr(one.spec) for one in grids] == ["float64[2,2]"] * 2


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda n: ops.linspace(0, 1, 2.5), SpecTypeError, "linspace: num takes ints, not 2.5"),  # pyright: ignore[reportArgumentType]  # the promise is that this fails
        (lambda n: ops.linspace(0, 1, -1), SpecError, "linspace: num=-1: it cannot be negative"),
        (lambda n: ops.linspace(0, 1, n), NodeValueError, "linspace: num=<.*> must be a Python int"),
        (lambda n: ops.eye(-1), SpecError, "eye: n_rows=-1: it cannot be negative"),
        (lambda n: ops.eye(2, -1), SpecError, "eye: n_cols=-1: it cannot be negative"),
        (lambda n: ops.eye(2, k=n), NodeValueError, "eye: k=<.*> must be a Python int"),
        (lambda n: ops.tril(n, k=1.5), SpecTypeError, "tril: k takes ints, not 1.5"),  # pyright: ignore[reportArgumentType]  # the promise is that this fails
        (lambda n: ops.triu(n, k=1.5), SpecTypeError, "triu: k takes ints, not 1.5"),  # pyright: ignore[reportArgumentType]  # the promise is that this fails
    ],
)
def test_a_number_that_does_not_fit_is_an_error_that_names_op_and_parameter(
    build: Callable[[Any], Any], error: type[Exception], text: str
) -> None:
    with Graph() as graph, pytest.raises(error, match=f"^{text}"):
        build(graph.constant(np.ones((2, 2), "int64"), None))


def test_from_dlpack_takes_arrays_of_other_libraries_and_copies_them() -> None:
    source = np.arange(6.0).reshape(2, 3)
    foreign = array_api_strict.asarray(source)
    with Graph():
        node = ops.from_dlpack(foreign, name="foreign")
        source[0, 0] = 9.0
        assert (node.name, repr(node.spec)) == ("foreign", "float64[2,3]")
        np.testing.assert_array_equal(evaluate(node), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
        with pytest.raises(SpecTypeError, match="from_dlpack cannot take int"):
            ops.from_dlpack(3)


# -- one_hot -----------------------------------------------------------------------------------------


def test_one_hot_has_a_one_at_each_index_and_zeros_elsewhere() -> None:
    indices = np.array([[0, 2], [1, 1]], "uint8")
    with Graph() as graph:
        node = placeholder(graph, indices)
        for dtype in (None, "float32", "bool", "int8"):
            made = ops.one_hot(node, 3, dtype=dtype, name="hot")

            assert (made.name.startswith("hot"), made.shape) == (True, (2, 2, 3))
            value, expected = evaluate(made, {node: indices}), np.eye(3, dtype=dtype or "float64")[indices]
            assert (value.dtype, value.tolist()) == (expected.dtype, expected.tolist())


def test_one_hot_of_an_index_that_is_out_of_range_is_zeros() -> None:
    with Graph():
        np.testing.assert_array_equal(evaluate(ops.one_hot([-1, 3, 0], 3)), [[0, 0, 0], [0, 0, 0], [1, 0, 0]])
        assert evaluate(ops.one_hot(1, 0)).shape == (0,)


def test_one_hot_takes_integers_and_a_depth() -> None:
    with Graph():
        with pytest.raises(SpecTypeError, match="one_hot: the indices are ints, not float64"):
            ops.one_hot([0.5], 3)
        with pytest.raises(SpecTypeError, match="one_hot: depth takes ints"):
            ops.one_hot([0], 3.0)  # pyright: ignore[reportArgumentType]  # an error is expected
        with pytest.raises(SpecError, match="one_hot: depth=-1: it cannot be negative"):
            ops.one_hot([0], -1)


def test_one_hot_is_built_in_the_graph_of_its_indices_and_has_their_rows() -> None:
    with Graph() as graph:
        indices = of(graph, "int32[n]")

    assert repr(ops.one_hot(indices, 10, dtype="float32").spec) == "float32[n,10]"
