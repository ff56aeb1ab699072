"""NumPy's functions, called on nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import asyncgraph.ops
from asyncgraph._graph.building import placeholder
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.protocols import ARRAY_FUNCTIONS, UFUNC_OPS
from asyncgraph.errors import NodeValueError, SpecTypeError


@pytest.fixture
def x() -> Node:
    with Graph():
        return placeholder("float64", ("n", 3), name="x")


@pytest.mark.parametrize(("ufunc", "op"), [(np.sqrt, "sqrt"), (np.add, "add"), (np.isnan, "isnan")])
def test_a_ufunc_builds_the_node_of_its_op(x: Node, ufunc: np.ufunc, op: str) -> None:
    node = ufunc(*[x] * ufunc.nin)
    assert isinstance(node, Node)
    assert node.op.name == op
    assert node.spec is (x + x if op == "add" else node).spec


def test_a_ufunc_takes_an_array_and_a_node_in_any_order(x: Node) -> None:
    for node in (np.add(x, np.ones(3)), np.add(np.ones(3), x)):
        assert isinstance(node, Node)
        assert repr(node.spec) == "float64[n,3]"


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x: np.add.reduce(x), "np.add.reduce"),
        (lambda x: np.add(x, x, out=np.ones(3)), "np.add with out="),
        (lambda x: np.add(x, x, where=True), "np.add with where="),
        (lambda x: np.spacing(x), "np.spacing"),
        (lambda x: np.cov(x), "np.cov"),
    ],
)
def test_a_call_without_an_op_is_an_error_that_says_what_to_use(
    x: Node, call: Callable[[Node], object], what: str
) -> None:
    with pytest.raises(SpecTypeError) as caught:
        call(x)
    assert str(caught.value) == (
        f"{what} has no op that could build a node\n"
        "  use a function of asyncgraph.ops, or wrap the call in a function with @asyncgraph.op"
    )
    assert len(x.graph) == 1


def test_adding_to_an_array_in_place_is_an_error_and_leaves_it_alone(x: Node) -> None:
    array = np.ones(3)
    with pytest.raises(SpecTypeError, match="np.add with out="):
        array += x
    np.testing.assert_array_equal(array, 1.0)


def test_every_ufunc_and_function_of_the_tables_is_numpys() -> None:
    assert all(isinstance(ufunc, np.ufunc) for ufunc in UFUNC_OPS)
    assert all(callable(function) for function in ARRAY_FUNCTIONS)
    assert UFUNC_OPS
    assert ARRAY_FUNCTIONS


def test_a_node_in_a_list_is_no_array_and_the_error_says_how_to_get_one(x: Node) -> None:
    with pytest.raises(NodeValueError, match="await session.run"):
        np.array([x, x])


@pytest.mark.parametrize("version", [None, "2021.12", "2025.12"])
def test_the_array_namespace_of_a_node_is_ops(x: Node, version: str | None) -> None:
    assert x.__array_namespace__(api_version=version) is asyncgraph.ops


def test_a_later_version_of_the_standard_is_refused(x: Node) -> None:
    with pytest.raises(ValueError, match="no Array API version '2099.12'\n  known: 2021.12, "):
        x.__array_namespace__(api_version="2099.12")
