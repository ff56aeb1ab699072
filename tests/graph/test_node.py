"""Nodes: operators build more of them, identity tells them apart, and none is a value."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph.ops
from asyncgraph._graph.building import item, placeholder
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph.errors import NodeValueError, SpecError, SpecTypeError

BINARY = {
    operator.add: "add",
    operator.sub: "subtract",
    operator.mul: "multiply",
    operator.truediv: "divide",
    operator.floordiv: "floor_divide",
    operator.mod: "remainder",
    operator.pow: "pow",
    operator.and_: "bitwise_and",
    operator.or_: "bitwise_or",
    operator.xor: "bitwise_xor",
    operator.lshift: "bitwise_left_shift",
    operator.rshift: "bitwise_right_shift",
    operator.lt: "less",
    operator.le: "less_equal",
    operator.gt: "greater",
    operator.ge: "greater_equal",
    operator.eq: "equal",
    operator.ne: "not_equal",
}
MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
UNARY = {
    operator.neg: "negative",
    operator.pos: "positive",
    operator.abs: "abs",
    operator.invert: "bitwise_invert",
}


@pytest.fixture
def graph() -> Graph:
    return Graph()


@pytest.fixture
def x(graph: Graph) -> Node:
    with graph:
        return placeholder("int64", ("n", 3), name="x")


# -- operators ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "op"), BINARY.items(), ids=BINARY.values())
def test_an_operator_builds_the_node_of_its_op(x: Node, function: Callable[..., Node], op: str) -> None:
    node = function(x, x)
    assert node.op.name == op
    assert node.operands == node.inputs
    assert [one is x for one in node.inputs] == [True, True]


@pytest.mark.parametrize(("function", "op"), BINARY.items(), ids=BINARY.values())
def test_a_number_on_either_side_stays_a_number_in_its_place(x: Node, function: Callable[..., Node], op: str) -> None:
    right, left = function(x, 2), function(2, x)
    assert right.op.name == op
    assert right.operands[0] is x
    assert right.operands[1] == 2
    assert right.inputs[0] is x
    # Python mirrors comparisons; the others keep their order.
    mirrored = MIRRORED.get(op)
    assert left.op.name == (mirrored or op)
    number_at = 1 if mirrored or op in ("equal", "not_equal") else 0
    assert left.operands[number_at] == 2
    assert left.operands[1 - number_at] is x


@pytest.mark.parametrize(("function", "op"), UNARY.items(), ids=UNARY.values())
def test_a_sign_builds_the_node_of_its_op(x: Node, function: Callable[..., Node], op: str) -> None:
    node = function(x)
    assert node.op.name == op
    assert node.inputs[0] is x


@pytest.mark.parametrize(
    "other", [np.arange(3), [1, 2, 3], (1, 2, 3), np.float64(2)], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("function", [operator.add, operator.lt, operator.eq])
def test_an_array_on_either_side_becomes_a_constant(
    x: Node, function: Callable[[Any, Any], Node], other: object
) -> None:
    for node in (function(x, other), function(other, x)):
        assert isinstance(node, Node)
        assert sorted(one.op.name for one in node.inputs) == ["constant", "placeholder"]


def test_matmul_keeps_the_order_of_its_operands(graph: Graph) -> None:
    with graph:
        a = placeholder("float64", (2, 3), name="a")
        b = placeholder("float64", (3, 2), name="b")
    assert [one.name for one in (a @ b).inputs] == ["a", "b"]
    product: Any = np.ones((2, 2)) @ a  # typed as an array, which it is not
    assert [one.op.name for one in product.inputs] == ["constant", "placeholder"]


def test_the_kind_of_a_number_is_kept(x: Node) -> None:
    assert [type((x + number).operands[1]) for number in (True, 1, 1.0, 1j)] == [bool, int, float, complex]


def test_a_numpy_scalar_takes_part_with_its_own_dtype(graph: Graph) -> None:
    with graph:
        x = placeholder("float32", (), name="x")
    assert repr((x + 1.0).spec) == "float32[]"
    assert repr((x + np.float64(1)).spec) == "float64[]"
    assert repr((np.float64(1) + x).spec) == "float64[]"


# -- identity ----------------------------------------------------------------------------------------


def test_nodes_are_keys_and_members_by_identity(graph: Graph) -> None:
    with graph:
        a, b = placeholder("int8", name="a"), placeholder("int8", name="b")
    before = len(graph)
    assert {a: 1, b: 2}[a] == 1
    assert a in {a}
    assert a not in {b}
    assert len({a, b, a}) == 2
    assert len(graph) == before, "nothing compared nodes"


def test_equality_builds_a_node_and_numpys_rules_apply(graph: Graph) -> None:
    with graph:
        a, b = placeholder("int8", (3,), name="a"), placeholder("int8", name="b")
    node = a == b
    assert isinstance(node, Node)
    assert (node.op.name, repr(node.spec)) == ("equal", "bool[...]")
    assert repr((a == np.arange(3)).spec) == "bool[3]"


@pytest.mark.parametrize("other", [None, "text", object(), {}], ids=lambda one: type(one).__name__)
def test_a_node_is_not_equal_to_what_is_no_array(x: Node, other: object) -> None:
    assert (x == other) is False
    assert (x != other) is True
    assert (other == x) is False


@pytest.mark.parametrize("dtype", ["U4", "S4", None])
def test_text_compares_with_what_may_be_text(graph: Graph, dtype: str | None) -> None:
    with graph:
        word = placeholder(dtype, ("n",))
    text: object = b"text" if dtype == "S4" else "text"
    assert (word == text).op.name == "equal"
    assert (text != word).op.name == "not_equal"  # pyright: ignore[reportAttributeAccessIssue]  # reflected


def test_a_copy_of_a_node_is_the_node(x: Node) -> None:
    assert copy.copy(x) is x


def test_a_deep_copy_of_nodes_is_in_one_deep_copy_of_their_graph(x: Node) -> None:
    y = x + 1
    copies = copy.deepcopy([x, y])
    assert copies[0].graph is copies[1].graph
    assert copies[0].graph is not x.graph
    assert copies[1].inputs[0] is copies[0]


# -- what is known of a value ------------------------------------------------------------------------


def test_a_node_tells_what_its_spec_says(x: Node) -> None:
    assert (x.dtype, x.shape, x.ndim, x.size) == (np.dtype("int64"), ("n", 3), 2, None)
    assert repr(x) == "<placeholder 'x': int64[n,3]>"


def test_a_node_cannot_be_changed_into_another(x: Node) -> None:
    with pytest.raises(AttributeError):
        x.colour = "red"  # pyright: ignore[reportAttributeAccessIssue]  # the promise is that this fails
    for field in ("name", "graph", "spec", "after", "raw_site", "__class__"):
        with pytest.raises(AttributeError, match=f"nodes are immutable: '{field}' cannot be set"):
            setattr(x, field, None)
        with pytest.raises(AttributeError, match=f"nodes are immutable: '{field}' cannot be deleted"):
            delattr(x, field)
    assert x.name == "x"


def test_an_item_of_a_node_cannot_be_written_and_the_error_says_what_to_build(x: Any) -> None:
    with pytest.raises(NodeValueError, match=r"never written\n.*ops\.at\(x\)\[key\]\.set.*ops\.where"):
        x[0] = 1
    with pytest.raises(NodeValueError):
        x[0] += 1


@pytest.mark.parametrize("name", ["reshape", "sum", "mean", "astype"])
def test_a_method_of_arrays_is_an_attribute_error_that_names_the_function_of_ops(x: Any, name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(x, name)
    assert str(caught.value) == f"nodes have no method {name}\n  write asyncgraph.ops.{name}(x, ...)"


def test_every_method_of_arrays_with_a_function_in_ops_is_told_its_name(x: Any) -> None:
    for name in sorted(set(asyncgraph.ops.__all__) & set(dir(np.ndarray))):
        with pytest.raises(AttributeError, match=rf"write asyncgraph\.ops\.{name}\("):
            getattr(x, name)


def test_a_node_formats_as_its_repr_and_with_no_format(x: Node) -> None:
    assert f"{x}" == str(x) == repr(x)
    with pytest.raises(NodeValueError, match=r"^format\(node, '\.2f'\): .* has no value before a run\n  run it first"):
        format(x, ".2f")


# -- what a node cannot do ---------------------------------------------------------------------------

NO_VALUE = {
    "bool(node)": (bool, "`if node:` cannot be decided; use ops.where(condition, a, b), or `a is b` to compare nodes"),
    "float(node)": (float, "run it first: float((await session.run(node)).results)"),
    "int(node)": (int, "run it first: int((await session.run(node)).results)"),
    "complex(node)": (complex, "run it first: complex((await session.run(node)).results)"),
    "a node as an index": (lambda node: [0][node], "use ops.take(x, indices, axis=...)"),
    "`x in node`": (lambda node: 1 in node, "use ops.any(node == x)"),
    "len(node)": (len, "its length is not known before a run; give the placeholder a literal one"),
    "iteration over a node": (list, "its length is not known before a run; give the placeholder a literal one"),
    "np.asarray(node)": (
        np.asarray,
        "await session.run(node) to get its array; to join nodes, write ops.stack([a, b])",
    ),
}


@pytest.mark.parametrize("what", NO_VALUE)
def test_a_node_used_as_a_value_is_an_error_that_says_what_to_write(x: Node, what: str) -> None:
    use, instead = NO_VALUE[what]
    with pytest.raises(NodeValueError) as caught:
        use(x)
    assert str(caught.value) == f"{what}: <placeholder 'x': int64[n,3]> has no value before a run\n  {instead}"


def test_an_error_of_use_is_a_type_error_as_for_any_object_without_a_value(x: Node) -> None:
    with pytest.raises(TypeError):
        round(x)  # pyright: ignore[reportArgumentType]  # the promise is that this fails
    with pytest.raises(TypeError):
        float(x)


def test_chained_comparison_is_an_error_and_not_its_second_half(x: Node) -> None:
    with pytest.raises(NodeValueError, match="ops.where"):
        assert 0 < x < 1


def test_a_node_of_known_length_has_it_and_iterates_over_its_rows(graph: Graph) -> None:
    with graph:
        x = placeholder("float32", (3, "n"), name="x")
        rows = list(x)
        a, *rest = x
    assert len(x) == len(rows) == 3
    assert [repr(row.spec) for row in rows] == ["float32[n]"] * 3
    assert [row.params["key"] for row in [a, *rest]] == [(0,), (1,), (2,)]


def test_a_scalar_has_no_length(graph: Graph) -> None:
    with graph:
        scalar = placeholder("float32", ())
    with pytest.raises(NodeValueError, match=r"^len\(node\).*\n.*rank 0 has no length"):
        len(scalar)


# -- indexing and transposing ------------------------------------------------------------------------


def test_an_index_is_kept_as_a_tuple_of_plain_ints_and_slices(x: Node) -> None:
    node = x[np.int64(0), ..., None, np.int8(1) : 3]
    assert node.op.name == "index"
    key = node.params["key"]
    assert key == (0, ..., None, slice(1, 3, None))
    assert isinstance(key, tuple)
    assert type(key[0]) is int


@pytest.mark.parametrize("key", [True, [0, 1], np.arange(2), 1.0, "a", slice(None, 1.5)], ids=repr)
def test_an_index_of_anything_else_is_an_error_that_says_what_to_write(x: Node, key: object) -> None:
    with pytest.raises(SpecTypeError, match=r"ops\.take|only ints can"):
        x[key]


def test_a_node_cannot_index_another_and_the_error_names_take(x: Node) -> None:
    with pytest.raises(SpecTypeError, match=r"use ops\.take\(x, indices, axis=\.\.\.\)"):
        x[x]


def test_an_object_is_indexed_by_any_key(graph: Graph) -> None:
    with graph:
        anything = placeholder(None, name="anything")
    for node in (anything["key"], item(anything, "key")):
        assert (node.op.name, node.params, repr(node.spec)) == ("item", {"key": "key"}, "any")
    with pytest.raises(SpecTypeError, match="give both to a function with @asyncgraph.op"):
        anything[anything]


def test_the_transpose_of_a_matrix_is_t_and_of_a_stack_mt(graph: Graph) -> None:
    with graph:
        matrix = placeholder("int8", ("n", 2), name="m")
        stack = placeholder("int8", (5, "n", 2), name="s")
    assert matrix.T.op.name == "matrix_transpose"
    assert repr(matrix.T.spec) == "int8[2,n]"
    assert repr(stack.mT.spec) == "int8[5,2,n]"
    with pytest.raises(SpecError) as caught:
        _ = stack.T
    assert str(caught.value) == (
        "<placeholder 's': int8[5,n,2]>.T: only a matrix has T\n  write ops.permute_dims(x, axes), or x.mT for a stack"
    )
