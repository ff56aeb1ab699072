"""Graphs in pickles: flat tables that bring everything back, and errors that name the node."""

from __future__ import annotations

import copy
import functools
import math
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncgraph._graph.building import constant, group, item, placeholder
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.op import CONSTANT, NO_PARAMS, Retry
from asyncgraph._graph.pickling import NodeRow, Table, graph_from_table
from asyncgraph._graph.scopes import control_dependencies, device, name_scope
from asyncgraph._graph.spec import ANY, ArraySpec
from asyncgraph.errors import GraphError, GraphFinalizedError, GraphPicklingError
from asyncgraph.ops.custom import op

from . import pickled_functions as functions


def through_a_pickle(graph: Graph) -> Graph:
    return pickle.loads(pickle.dumps(graph))


@pytest.fixture
def graph() -> Graph:
    return Graph()


# -- what comes back ---------------------------------------------------------------------------------


def test_everything_that_a_node_is_comes_back(graph: Graph) -> None:
    with graph:
        x = placeholder("float32", ("n", 3), name="x", default=np.zeros((1, 3), "float32"))
        with name_scope("a"), device("gpu:1"), control_dependencies([x]):
            y = x + 1
            z = y * [1.0, 2.0, 3.0]
        group(y, z, name="both")
        item(placeholder(None, name="any"), "key")
    other = through_a_pickle(graph)

    assert str(other) == str(graph)
    for node, original in zip(other.nodes, graph.nodes, strict=True):
        assert node.graph is other
        assert node.index == original.index
        assert node.op is original.op
        assert node.spec is original.spec
        assert node.site == original.site
        assert node.requested_device == original.requested_device
        assert [one.index for one in node.inputs] == [one.index for one in original.inputs]
        assert [one.index for one in node.after] == [one.index for one in original.after]
        assert other[node.name] is node
    assert other["a/add"].operands[1] == 1
    assert type(other["a/add"].operands[1]) is int


def test_arrays_come_back_with_their_values_and_read_only(graph: Graph) -> None:
    source = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    with graph:
        constant(source, name="c")
        placeholder("float64", (2, 3), name="x", default=source)
        functions.doubled.node(source, name="f")
    other = through_a_pickle(graph)
    template: Any = other["f"].params["template"]
    for array in (other["c"].params["value"], other["x"].params["default"], template.fill(())[0][0]):
        assert isinstance(array, np.ndarray)
        np.testing.assert_array_equal(array, source)
        assert array.strides == source.strides
        assert not array.flags.writeable


def test_names_go_on_where_they_were(graph: Graph) -> None:
    with graph:
        placeholder("int8", name="x")
        with name_scope("a"):
            pass
    other = through_a_pickle(graph)
    with other:
        assert placeholder("int8", name="x").name == "x_1"
        with name_scope("a") as prefix:
            assert prefix == "a_1/"


def test_a_finalized_graph_comes_back_finalized(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")
    assert not through_a_pickle(graph).finalized
    graph.finalize()
    assert through_a_pickle(graph).finalized
    with pytest.raises(GraphFinalizedError):
        x + 1


def test_nodes_of_one_pickle_come_back_in_one_graph(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")
    y = x + x
    nodes: dict[Node, str] = pickle.loads(pickle.dumps({x: "x", y: "y"}))
    (first, _), (second, _) = nodes.items()
    assert first.graph is second.graph
    assert second.inputs[0] is first
    assert nodes[first] == "x"


def test_a_copied_graph_grows_apart_from_its_original(graph: Graph) -> None:
    with graph:
        placeholder("int8", name="x")
    for other in (copy.copy(graph), copy.deepcopy(graph)):
        with other:
            assert placeholder("int8", name="x").name == "x_1"
    assert len(graph) == 1
    with graph:
        assert placeholder("int8", name="x").name == "x_1"


def test_a_graph_can_be_pickled_while_threads_extend_it(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")

    def extend() -> None:
        for _ in range(3000):
            x + x

    thread = threading.Thread(target=extend)
    thread.start()
    sizes = [0]
    while thread.is_alive():
        sizes.append(len(through_a_pickle(graph)))
    assert sizes == sorted(sizes)
    assert len(through_a_pickle(graph)) == 3001


def test_a_chain_of_a_hundred_thousand_nodes_is_pickled(graph: Graph) -> None:
    spec = ArraySpec("int8", ())
    node = graph.constant(np.int8(0), "n")
    for _ in range(100_000):
        node = graph.add(CONSTANT, (node,), NO_PARAMS, spec, "n")
    other = through_a_pickle(graph)
    assert len(other) == 100_001
    assert other.nodes[-1].inputs[0] is other.nodes[-2]


# -- user functions ----------------------------------------------------------------------------------

FUNCTIONS: list[Callable[..., Any]] = [
    functions.plain,
    math.sqrt,
    np.sqrt,
    functools.partial(math.pow, 2),
    functions.Scaler(3),
    functions.Scaler(3).method,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: getattr(one, "__qualname__", type(one).__name__))
def test_a_function_that_other_processes_find_comes_back(graph: Graph, function: Callable[..., Any]) -> None:
    with graph:
        op(name="f")(function).node(placeholder(None))
    call = through_a_pickle(graph)["f"].op.call
    assert call is not None
    assert call.function(2) == function(2)


@pytest.mark.parametrize("function", [functions.doubled, functions.wrapped.__wrapped__], ids=["bare", "decorated"])  # pyright: ignore[reportFunctionMemberAccess]  # functools.wraps sets it
def test_a_function_that_stands_behind_decorators_comes_back(graph: Graph, function: Any) -> None:
    # The module's attribute is what the decorators made; the op calls what they wrap.
    with graph:
        node = function.node(placeholder(None))
    call = through_a_pickle(graph)[node.name].op.call
    assert call is not None
    assert call.function is node.op.call.function
    assert call.function is not function


def test_an_op_comes_back_with_its_options_once_for_all_its_nodes(graph: Graph) -> None:
    with graph:
        functions.described.node(placeholder(None), name="a")
        functions.described.node(placeholder(None), name="b")
    other = through_a_pickle(graph)
    made = other["a"].op
    assert made is other["b"].op
    assert (made.name, made.pure) == ("described", True)
    assert made.call is not None
    assert made.call.retry == Retry(attempts=2)
    assert (made.call.timeout_s, made.call.where) == (1.5, "inline")
    assert made.call.spec == (ArraySpec("float64", ("n",)), ArraySpec("int64", ()))


def test_arguments_come_back_in_their_containers(graph: Graph) -> None:
    with graph:
        x = placeholder(None)
        functions.doubled.node({"a": [x, 1], "b": (x, {2})}, name="f")
    template: Any = through_a_pickle(graph)["f"].params["template"]
    assert template.fill(("value",)) == ([{"a": ["value", 1], "b": ("value", {2})}], {})


def test_a_graph_pickled_here_is_read_in_a_fresh_process(graph: Graph) -> None:
    with graph:
        op(name="root")(math.sqrt).node(placeholder("float64", (), name="x") + 1)
    program = "import pickle, sys; graph = pickle.load(sys.stdin.buffer); print(graph['root'].op.call.function(9))"
    run = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(graph), capture_output=True, check=False, timeout=30
    )
    assert (run.stdout, run.stderr) == (b"3.0\n", b"")


# -- what cannot be pickled --------------------------------------------------------------------------


def test_a_lambda_is_an_error_that_names_node_function_and_line(graph: Graph) -> None:
    with graph:
        node = op(name="score")(lambda value: value).node(placeholder(None))
    with pytest.raises(GraphPicklingError) as caught:
        pickle.dumps(graph)
    message = str(caught.value)
    assert message.startswith(
        f"the node 'score' cannot be pickled, because of the function {__name__}."
        "test_a_lambda_is_an_error_that_names_node_function_and_line.<locals>.<lambda>: "
    )
    assert message.endswith(
        f"\n  built at {node.site}\n"
        "  use a function defined at the top level of a module, and values that can be pickled"
    )
    assert caught.value.__cause__ is not None


def test_a_closure_is_an_error_that_names_it(graph: Graph) -> None:
    def closure(value: object) -> object:
        return graph, value

    with graph:
        op(closure).node(placeholder(None))
    with pytest.raises(GraphPicklingError, match=r"the node 'closure' .*<locals>\.closure"):
        pickle.dumps(graph)


def test_an_argument_that_cannot_be_pickled_is_an_error_that_names_the_node(graph: Graph) -> None:
    with graph:
        functions.doubled.node(threading.Lock(), name="locked")
    with pytest.raises(GraphPicklingError, match=r"the node 'locked' .* its parameters: cannot pickle '_thread\.lock'"):
        pickle.dumps(graph)


def test_a_function_that_is_gone_is_an_error_that_says_where_it_was(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with graph:
        functions.doubled.node(1)
    pickled = pickle.dumps(graph)
    monkeypatch.delattr(functions, "doubled")
    with pytest.raises(GraphPicklingError) as caught:
        pickle.loads(pickled)
    assert str(caught.value) == (
        f"the graph calls {functions.__name__}.doubled, which this process cannot find: "
        f"module {functions.__name__!r} has no attribute 'doubled'\n"
        "  it must be importable here as it was where the graph was pickled"
    )


# -- tables that are no graphs -----------------------------------------------------------------------


def table(**needs: str) -> Table:
    """A row for each name, which needs the rows named in its text."""
    names = list(needs)
    rows = [
        NodeRow("add", tuple((names.index(one),) for one in text.split()), {}, (), ANY, None, name, None)
        for name, text in needs.items()
    ]
    return Table(rows, [], {}, finalized=False)


def test_a_table_with_a_cycle_is_an_error_that_lists_the_cycle_and_nothing_else() -> None:
    # AG-058, https://github.com/dask/dask/pull/9057: `b` is only an input of the cycle.
    with pytest.raises(GraphError) as caught:
        graph_from_table(table(b="", a="b c", c="a"))
    assert str(caught.value) == "not a graph: a cycle, in which each node needs the next: a -> c -> a"


def test_a_node_that_needs_itself_is_a_cycle() -> None:
    with pytest.raises(GraphError, match=r"needs the next: a -> a$"):
        graph_from_table(table(a="a"))


def test_a_cycle_of_control_dependencies_is_a_cycle() -> None:
    rows = table(a="", b="a").nodes
    with pytest.raises(GraphError, match=r"needs the next: a -> b -> a$"):
        graph_from_table(Table([rows[0]._replace(after=(1,)), rows[1]], [], {}, finalized=False))


def test_a_cycle_of_ten_thousand_nodes_is_found() -> None:
    n = 10_000
    rows = [NodeRow("add", (((i + 1) % n,),), {}, (), ANY, None, f"n{i}", None) for i in range(n)]
    with pytest.raises(GraphError, match=r"needs the next: n0 -> n1 -> .* -> n9999 -> n0$"):
        graph_from_table(Table(rows, [], {}, finalized=False))


def test_a_table_out_of_order_without_a_cycle_is_an_error_that_says_so() -> None:
    with pytest.raises(GraphError, match=r"^not a graph: 'a' stands before 'c', which it needs$"):
        graph_from_table(table(a="c", b="a", c=""))


@pytest.mark.parametrize("index", [-1, 1, 7])
def test_a_row_that_needs_a_row_that_is_not_there_is_an_error(index: int) -> None:
    row = NodeRow("add", ((index,),), {}, (), ANY, None, "a", None)
    with pytest.raises(GraphError, match=f"^not a graph: 'a' needs row {index}, of 1$"):
        graph_from_table(Table([row], [], {}, finalized=False))


def test_two_rows_of_one_name_are_an_error() -> None:
    row = table(a="").nodes[0]
    with pytest.raises(GraphError, match="^not a graph: two nodes are named 'a'$"):
        graph_from_table(Table([row, row], [], {}, finalized=False))
