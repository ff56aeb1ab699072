"""Graphs: names are labels, lists only grow, and what cannot be built leaves nothing behind."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from asyncgraph._graph.building import constant, current_graph, group, item, placeholder
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.op import CONSTANT, NO_PARAMS
from asyncgraph._graph.scopes import control_dependencies, device
from asyncgraph._graph.spec import ANY, ArraySpec
from asyncgraph.errors import GraphError, GraphFinalizedError, NodeNotFoundError, SpecError, SpecTypeError


@pytest.fixture
def graph() -> Graph:
    return Graph()


# -- names -------------------------------------------------------------------------------------------


def test_a_name_that_is_taken_gets_a_number(graph: Graph) -> None:
    with graph:
        names = [placeholder("int8", name="x").name for _ in range(3)]
    assert names == ["x", "x_1", "x_2"]


def test_a_number_that_somebody_asked_for_is_passed_over(graph: Graph) -> None:
    with graph:
        names = [placeholder("int8", name=name).name for name in ("x", "x_1", "x", "x_1", "x")]
    assert names == ["x", "x_1", "x_2", "x_1_1", "x_3"]


def test_without_a_name_a_node_is_called_what_its_op_is(graph: Graph) -> None:
    with graph:
        x = placeholder("int8")
        names = [x.name, constant(1).name, (x + x).name, (x + x).name, group(x).name, item(placeholder(None), 0).name]
    assert names == ["placeholder", "constant", "add", "add_1", "group", "item"]


def test_two_graphs_name_their_nodes_apart() -> None:
    with Graph():
        a = placeholder("int8", name="x")
    with Graph():
        b = placeholder("int8", name="x")
    assert a.name == b.name == "x"
    assert a is not b


def test_a_node_is_found_by_its_name(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")
    assert graph["x"] is x
    assert "x" in graph
    assert "y" not in graph
    assert x in graph
    assert x not in Graph()


def test_a_name_that_nothing_has_is_an_error_that_shows_the_near_ones(graph: Graph) -> None:
    with graph:
        placeholder("int8", name="weights")
        placeholder("int8", name="bias")
    with pytest.raises(NodeNotFoundError) as caught:
        graph["weight"]
    assert str(caught.value) == "no node is named 'weight' in <Graph of 2 nodes>\n  near: 'weights'"
    with pytest.raises(KeyError):
        graph["nothing like it"]


# -- the list of nodes -------------------------------------------------------------------------------


def test_nodes_are_a_view_that_grows_and_cannot_be_changed(graph: Graph) -> None:
    nodes = graph.nodes
    assert len(nodes) == len(graph) == 0
    with graph:
        x = placeholder("int8")
        y = x + x
    assert [one.index for one in nodes] == [0, 1]
    assert nodes[0] is x
    assert nodes[-1] is y
    assert nodes[y.index] is y
    assert [one.name for one in nodes[:1]] == ["placeholder"]
    assert repr(nodes) == "<2 nodes>"
    with pytest.raises(TypeError):
        nodes[0] = y  # pyright: ignore[reportIndexIssue]  # the promise is that this fails


def test_nodes_are_looked_for_by_identity_so_that_looking_builds_none(graph: Graph) -> None:
    with graph:
        a, b = constant(1.0), constant(1.0)
    with Graph():
        other = constant(1.0)
    with Graph() as longer:
        last = [constant(1.0) for _ in range(5)][-1]
    assert a in graph.nodes
    assert b in graph.nodes
    for stranger in (other, last, 1.0, "constant", None):
        assert stranger not in graph.nodes
        assert graph.nodes.count(stranger) == 0
        with pytest.raises(ValueError, match="not among these nodes"):
            graph.nodes.index(stranger)
    assert (graph.nodes.index(a), graph.nodes.index(b), graph.nodes.count(b)) == (0, 1, 1)
    assert graph.nodes.index(b, -1) == 1
    with pytest.raises(ValueError, match="not among these nodes"):
        graph.nodes.index(b, 0, 1)
    assert (len(graph), len(longer)) == (2, 5)


def test_a_name_of_a_tensor_is_told_to_leave_out_its_output(graph: Graph) -> None:
    with graph:
        placeholder("int8", name="y")
    with pytest.raises(NodeNotFoundError) as caught:
        graph["y:0"]
    assert str(caught.value) == "no node is named 'y:0' in <Graph of 1 nodes>\n  names have no ':0' here; write 'y'"
    with pytest.raises(NodeNotFoundError) as caught:
        graph["z:0"]
    assert "write" not in str(caught.value)


@pytest.mark.parametrize("key", [0, None, b"x"])
def test_a_key_that_is_no_name_is_an_error_that_says_so(graph: Graph, key: object) -> None:
    with pytest.raises(NodeNotFoundError, match=r"is no name of a node\n.*graph\.nodes\[0\]"):
        graph[key]  # pyright: ignore[reportArgumentType]  # the promise is that this fails


def test_a_name_is_text(graph: Graph) -> None:
    with graph, pytest.raises(SpecTypeError, match="placeholder: name=3: give a text"):
        placeholder("float32", (), name=3)  # pyright: ignore[reportArgumentType]  # the promise is that this fails
    assert len(graph) == 0


def test_a_graph_is_true_even_when_it_is_empty(graph: Graph) -> None:
    assert graph


def test_inputs_stand_before_what_uses_them(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")
        y = x + [1, 2, 3]
        z = group(y)
    assert [one.name for one in graph.nodes] == ["x", "constant", "add", "group"]
    assert [one.index for one in y.inputs] == [0, 1]
    assert [one.index for one in z.after] == [2]


def test_nodes_built_by_threads_at_once_are_all_there_with_names_of_their_own(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")
    start = threading.Barrier(8)

    def build() -> list[str]:
        start.wait()
        return [(x + x).name for _ in range(200)]

    with ThreadPoolExecutor(8) as pool:
        names = [name for future in [pool.submit(build) for _ in range(8)] for name in future.result()]
    assert len(set(names)) == len(names) == 1600
    assert len(graph) == 1601
    assert [one.index for one in graph.nodes] == list(range(1601))
    assert all(graph[name].name == name for name in names)


def test_a_graph_and_its_nodes_go_when_nobody_holds_them() -> None:
    with Graph() as graph:
        placeholder("int8", name="x")
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None


# -- building ----------------------------------------------------------------------------------------


def test_the_innermost_graph_is_the_current_one(graph: Graph) -> None:
    inner = Graph()
    with graph:
        with inner:
            assert current_graph() is inner
        assert current_graph() is graph


def test_without_a_current_graph_building_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(GraphError) as caught:
        placeholder("int8")
    assert str(caught.value) == (
        "there is no current graph\n"
        "  build inside `with graph:`; a thread has its own context, so enter the graph there again"
    )


def test_a_node_joins_the_graph_of_its_inputs_whatever_graph_is_current(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")
    with Graph() as other:
        y = x + x
    assert y.graph is graph
    assert len(other) == 0


def test_a_node_of_another_graph_is_no_operand(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", ("n",), name="x")
    with Graph() as other:
        y = placeholder("int8", name="y")
        with pytest.raises(GraphError) as caught:
            x + y
        with pytest.raises(GraphError, match="another graph"):
            group(x, y)
    assert str(caught.value) == (
        "add: <placeholder 'y': int8[...]> belongs to another graph\n"
        "  build both operands in one graph; a value of another graph can be fed to a placeholder"
    )
    assert len(graph) == len(other) == 1


def test_a_call_that_cannot_be_built_adds_no_node(graph: Graph) -> None:
    with graph:
        x = placeholder("float32", (2,), name="x")
        y = placeholder("float32", (3,), name="y")
    with pytest.raises(SpecError):
        x + y
    assert len(graph) == 2
    assert (x + x).name == "add"


def test_a_finalized_graph_takes_no_node_and_says_which(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")
    assert not graph.finalized
    graph.finalize()
    with pytest.raises(GraphFinalizedError) as caught:
        x + x
    assert str(caught.value) == (
        "the graph is finalized: it takes no node 'add'\n"
        "  build everything before finalize(), or fetch a node that exists already"
    )
    assert graph.finalized
    assert len(graph) == 1
    assert repr(graph) == "<Graph of 1 nodes, finalized>"


def test_a_group_needs_its_nodes_and_has_no_value(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")
        both = group(x, x, name="both")
        nothing = group()
    assert [one.name for one in both.after] == ["x"]
    assert both.inputs == nothing.inputs == ()
    assert both.spec is ANY
    with pytest.raises(SpecTypeError, match="group takes nodes, not 1"):
        group(1)  # pyright: ignore[reportArgumentType]  # callers are not all typed


# -- constants ---------------------------------------------------------------------------------------


def test_a_constant_is_a_copy_that_later_changes_do_not_reach(graph: Graph) -> None:
    # AG-040, https://github.com/Theano/Theano/issues/2469
    source = np.array([1.0, 2.0, 3.0])
    with graph:
        node = constant(source)
        operand = (placeholder("float64", (3,)) + source).inputs[1]
    source[0] = 99
    assert node.op is operand.op is CONSTANT
    for one in (node, operand):
        np.testing.assert_array_equal(one.params["value"], [1.0, 2.0, 3.0])


def test_a_constant_cannot_be_written_to(graph: Graph) -> None:
    with graph:
        value = constant([1, 2]).params["value"]
    assert isinstance(value, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 5


@pytest.mark.parametrize("dtype", [">i8", ">f4", ">c16", ">M8[s]", ">U3"])
def test_a_constant_in_foreign_byte_order_keeps_its_values_in_native_order(graph: Graph, dtype: str) -> None:
    # AG-034, https://github.com/dask/dask/issues/1647
    source = np.arange(3).astype(dtype)
    with graph:
        node = constant(source)
    value = node.params["value"]
    assert isinstance(value, np.ndarray)
    assert value.dtype.isnative
    np.testing.assert_array_equal(value, source)
    assert node.spec is ArraySpec(np.dtype(dtype).newbyteorder("="), (3,))


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        (1, "int64[]"),
        (1.5, "float64[]"),
        (True, "bool[]"),
        ([[1, 2]], "int64[1,2]"),
        (np.float32(1), "float32[]"),
        (np.zeros((0, 3), "int8"), "int8[0,3]"),
        ("text", "<U4[]"),
        (np.datetime64("2024-01-01"), "datetime64[D][]"),
    ],
    ids=repr,
)
def test_a_constant_has_the_dtype_that_numpy_gives_it(graph: Graph, value: object, spec: str) -> None:
    with graph:
        assert repr(constant(value).spec) == spec


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_constant_keeps_the_memory_order_of_its_array(graph: Graph, order: str) -> None:
    source = np.ones((3, 4), order="F" if order == "F" else "C")
    with graph:
        value = constant(source).params["value"]
    assert isinstance(value, np.ndarray)
    assert value.strides == source.strides


def test_what_is_no_array_is_no_constant_and_the_error_says_where_it_goes(graph: Graph) -> None:
    with graph, pytest.raises(SpecTypeError) as caught:
        constant({"a": 1})
    assert str(caught.value) == (
        "{'a': 1} cannot be a constant: it is no array of numbers\n"
        "  give a Python object to a user op as an argument, or feed it to placeholder(dtype=None)"
    )
    with graph, pytest.raises(SpecTypeError, match=r"\[\[1\], \[1, 2\]\] cannot be a constant: .*inhomogeneous"):
        constant([[1], [1, 2]])
    assert len(graph) == 0


# -- printing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.ma.array([1.0, 2.0], mask=[False, True]), "masked array, whose mask would be lost"),
        (2**70, "holds the integer 1180591620717411303424"),
        ([1, -(2**63) - 1], "holds the integer -9223372036854775809"),
    ],
)
def test_a_constant_whose_value_would_change_is_refused(graph: Graph, value: object, reason: str) -> None:
    with graph, pytest.raises(SpecTypeError, match=reason):
        constant(value)
    assert len(graph) == 0


def test_an_operand_that_cannot_be_a_constant_is_an_error_that_names_the_op(graph: Graph) -> None:
    with graph:
        x = placeholder("float64", ("n",))
    for wrong in (None, np.ma.array([1.0], mask=[True])):
        with pytest.raises(SpecTypeError, match=r"(?s)^add: .* cannot be a constant"):
            x + wrong


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_matrix_is_no_operand_since_its_operators_mean_something_else(graph: Graph) -> None:
    with graph:
        x = placeholder("float64", (2, 2))
    matrix = np.matrix([[1, 2], [3, 4]])
    for build in (lambda: x * matrix, lambda: matrix * x):
        with pytest.raises(SpecTypeError, match=r"multiply: an operand is an np\.matrix"):
            build()
    assert (x * np.asarray(matrix)).op.name == "multiply"


def test_a_graph_prints_a_line_for_each_node(graph: Graph) -> None:
    with graph:
        x = placeholder("float32", ("n", 2), name="x")
        with device("gpu"), control_dependencies([x]):
            y = x + 1
        y[0]
        y + [1.0, 2.0]
        constant(np.arange(10), name="ten")
    assert str(graph) == (
        "x: float32[n,2] = placeholder()\n"
        "add: float32[n,2] = add(x, 1)  on gpu:0  after x\n"
        "index: float32[2] = index(add, key=(0,))\n"
        "constant: float64[2] = constant(value=[1.0, 2.0])\n"
        "add_1: float64[n,2] = add(add, constant)\n"
        "ten: int64[10] = constant(value=...)"
    )


def test_a_chain_of_a_hundred_thousand_nodes_builds_prints_and_goes() -> None:
    spec = ArraySpec("int8", ())
    graph = Graph()
    node = graph.constant(np.int8(0), "n")
    for _ in range(100_000):
        node = graph.add(node.op, (node,), NO_PARAMS, spec, "n")
    assert str(graph).endswith("\nn_100000: int8[] = constant(n_99999)")
    gone = weakref.ref(node)
    del graph, node
    gc.collect()
    assert gone() is None
