"""Gradients of user ops: `register_gradient`."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph.errors import GradientError, GraphError, SpecError, SpecTypeError
from asyncgraph.testing import check_gradients

from .helpers import values


@ag.op(spec="float64[n]", pure=True)
def cube(x: np.ndarray) -> np.ndarray:
    return x**3


@ag.register_gradient(cube)
def by_cube(node: ag.Node, gradient: ag.Node) -> ag.Node:
    return gradient * 3 * node.inputs[0] ** 2


class Parts(NamedTuple):
    scaled: str
    number: str
    total: str


@ag.op(spec=Parts("float64[n]", "int64[]", "float64[]"))
def parts(xs: list[np.ndarray], *, scale: np.ndarray) -> tuple[np.ndarray, int, float]:
    return xs[0] * scale, xs[0].size, float(xs[1].sum())


@ag.register_gradient(parts)
def by_parts(node: ag.Node, scaled: ag.Node, count: ag.Node | None, total: ag.Node) -> list[ag.Node | None]:
    assert count is None
    first, second, scale = node.inputs
    return [scaled * scale, ops.broadcast_like(total, second), ops.sum(scaled * first)]


def test_a_user_op_has_the_gradient_that_is_registered_and_so_has_that_gradient() -> None:
    check_gradients(cube, np.array([0.5, -1.0, 2.0]), order=3)
    check_gradients(lambda x: ops.sin(cube(cube(x) + x)), np.array([0.5, -0.7]), order=2)


@pytest.mark.parametrize("picked", [[0], [2], [0, 2]])
def test_an_op_with_several_outputs_is_given_zeros_for_those_that_do_not_matter(picked: list[int]) -> None:
    def build(first: ag.Node, second: ag.Node, scale: ag.Node) -> list[ag.Node]:
        made = parts([first, second], scale=scale)
        return [made[at] for at in picked]

    check_gradients(build, np.array([0.5, -1.0]), np.ones((2, 2)), np.array(3.0), order=2)


def test_an_output_of_integers_has_no_gradient() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (2,))
        assert ag.gradients(parts([x, x], scale=x).number * 1.5, x) == [None]


def test_a_user_op_without_a_gradient_is_an_error_that_says_how_to_register_one() -> None:
    @ag.op(spec="float64[n]")
    def unknown(x: np.ndarray) -> np.ndarray:
        return x

    with ag.Graph():
        x = ag.placeholder("float64", (2,))
        with pytest.raises(GradientError, match=r"'unknown' has no gradient\n.*test_custom") as caught:
            ag.gradients(ops.sum(unknown(x)), x)
        assert "@ag.register_gradient(unknown)" in str(caught.value)
        assert ag.gradients(ops.floor(unknown(x)), x) == [None]
        assert values(ag.gradients(unknown(ag.stop_gradient(x)) * x, x), {x: [1.0, 2.0]})[0].tolist() == [1.0, 2.0]


def test_a_user_op_that_has_the_name_of_an_op_of_the_vocabulary_has_not_its_gradient() -> None:
    @ag.op(name="negative", spec="float64[n]")
    def other(x: np.ndarray) -> np.ndarray:
        return x * 5

    with ag.Graph():
        x = ag.placeholder("float64", (2,))
        with pytest.raises(GradientError, match="user op 'negative' has no gradient"):
            ag.gradients(other(x), x)


def test_what_is_registered_last_counts() -> None:
    @ag.op(spec="float64[n]")
    def double(x: np.ndarray) -> np.ndarray:
        return x * 2

    ag.register_gradient(double)(lambda node, gradient: gradient)
    ag.register_gradient(double)(lambda node, gradient: gradient * 2)
    check_gradients(double, np.ones(2))


def test_a_graph_that_was_pickled_has_the_gradients_of_its_user_ops() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (1,), name="x")
        cube(x, name="y")
    again = pickle.loads(pickle.dumps(graph))
    (made,) = ag.gradients(again["y"], again["x"])
    assert values(made, {again["x"]: [2.0]}).tolist() == [12.0]


def test_a_method_has_the_gradient_that_is_registered_for_it_in_its_class() -> None:
    class Scale:
        factor = 3.0

        @ag.op(spec="float64[n]")
        def apply(self, x: np.ndarray) -> np.ndarray:
            return x * self.factor

        @ag.register_gradient(apply)
        @staticmethod
        def by_apply(node: ag.Node, gradient: ag.Node) -> ag.Node:
            return gradient * Scale.factor

    check_gradients(Scale().apply, np.ones(2))


def test_inputs_that_are_not_asked_for_may_have_any_gradient() -> None:
    @ag.op(spec="float64[n]")
    def scale(x: np.ndarray, by: np.ndarray) -> np.ndarray:
        return x * by

    @ag.register_gradient(scale)
    def by_scale(node: ag.Node, gradient: ag.Node) -> tuple[ag.Node, None]:
        return gradient * node.inputs[1], None

    check_gradients(lambda x, by: scale(x, by), np.ones(2), np.array(3))
    with ag.Graph():
        x, by = ag.placeholder("float64", (2,)), ag.placeholder("float64", ())
        assert ag.gradients(scale(x, by), by) == [None]


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (lambda node, g: [g, g], SpecError, "gave 2 values for 1 inputs"),
        (lambda node, g: 1.0, SpecTypeError, "give a node, or None"),
        (lambda node, g: ops.sum(g), SpecError, "the shapes differ"),
        (lambda node, g: foreign(), GraphError, "belongs to another graph"),
    ],
)
def test_a_rule_that_gives_what_is_no_gradient_is_told_on(given: Any, error: type[Exception], match: str) -> None:
    @ag.op(spec="float64[n]")
    def same(x: np.ndarray) -> np.ndarray:
        return x

    ag.register_gradient(same)(given)
    with ag.Graph():
        x = ag.placeholder("float64", (2,))
        with pytest.raises(error, match=match) as caught:
            ag.gradients(same(x), x)
        assert any("while the gradient of <same 'same': float64[n]> was built" in one for one in caught.value.__notes__)


def foreign() -> ag.Node:
    with ag.Graph():
        return ag.constant([1.0, 2.0])


def test_only_ops_of_users_take_a_gradient() -> None:
    wrong: list[Any] = [ops.sin, np.sin, "sin"]
    for one in wrong:
        with pytest.raises(SpecTypeError, match="register_gradient takes what @op has made"):
            ag.register_gradient(one)
