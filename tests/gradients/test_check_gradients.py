"""`check_gradients`, the public check, tells right gradients from wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph.errors import SpecTypeError
from asyncgraph.testing import check_gradients

X = np.array([[0.5, -1.0], [2.0, 0.25]])


def square_with(rule: Callable[..., Any]) -> Any:
    """An op that squares, and says that its gradient is what `rule` builds."""

    @ag.op(spec="float64[...]", pure=True)
    def square(x: np.ndarray) -> np.ndarray:
        return x * x

    ag.register_gradient(square)(rule)
    return square


def test_right_gradients_pass_to_the_order_that_is_asked_for() -> None:
    check_gradients(square_with(lambda node, g: 2 * g * node.inputs[0]), X, order=3)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            lambda node, g: g * node.inputs[0],
            r"derivative 1 by input 0 is .* at \[0, 0\], and central differences give",
        ),
        (lambda node, g: 2 * g * ops.abs(node.inputs[0]), r"derivative 1 by input 0 is .* at \[0, 1\]"),
        (lambda node, g: ops.at(2 * g * node.inputs[0])[1, 1].set(0.0), r"is 0.0 at \[1, 1\]"),
        (lambda node, g: ops.astype(g, "float64") * np.nan, "is nan at"),
        (lambda node, g: None, r"is 0.0 at \[0, 0\]"),
    ],
)
def test_a_wrong_gradient_is_an_error_that_says_where(rule: Callable[..., Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_gradients(square_with(rule), X)


def test_a_gradient_of_another_shape_is_an_error() -> None:
    def rule(node: ag.Node, gradient: ag.Node) -> ag.Node:
        return ops.sum(2 * gradient * node.inputs[0], axis=0)

    with pytest.raises(AssertionError, match=r"of float64 and shape \(2,\), and the input of float64 and \(2, 2\)"):
        check_gradients(square_with(rule), X, specs=["float64[...]"])


def test_a_wrong_second_derivative_is_found_where_the_first_is_right() -> None:
    square = square_with(lambda node, g: 2 * g * ag.stop_gradient(node.inputs[0]))
    check_gradients(square, X)
    with pytest.raises(AssertionError, match="derivative 2"):
        check_gradients(square, X, order=2)


def test_mistakes_that_cancel_in_the_sum_are_found() -> None:
    with pytest.raises(AssertionError, match="derivative 1"):
        check_gradients(square_with(lambda node, g: 2 * g * node.inputs[0] + (g - ops.flip(g))), X)


def test_what_is_built_knows_of_its_inputs_what_specs_say() -> None:
    seen: list[str] = []

    def build(x: ag.Node, y: ag.Node) -> list[ag.Node]:
        seen.extend([repr(x.spec), repr(y.spec)])
        return [x * y, ops.sum(x)]

    check_gradients(build, X, X[0], specs=[ag.ArraySpec("float64", ("n", 2)), "float64[?]"])
    check_gradients(build, X, X[0])
    assert seen[:2] == ["float64[n,2]", "float64[?]"]
    assert seen[-2:] == ["float64[2,2]", "float64[2]"]


def test_inputs_of_integers_are_fed_and_not_differentiated_by() -> None:
    check_gradients(lambda x, rows: ops.take(x, rows, axis=0), X, np.array([0, 1, 1]), order=2)


def test_derivatives_that_are_constant_have_none_further() -> None:
    check_gradients(lambda x: x * 3, X, order=4)


def test_numbers_that_are_too_coarse_for_differences_are_refused() -> None:
    with pytest.raises(SpecTypeError, match="differences of float32 are too coarse"):
        check_gradients(lambda x: x, X.astype("float32"))


def test_how_exact_it_is_can_be_said() -> None:
    nearly = square_with(lambda node, g: 2.001 * g * node.inputs[0])
    check_gradients(nearly, X, rtol=1e-3)
    with pytest.raises(AssertionError):
        check_gradients(nearly, X, rtol=1e-4)
    check_gradients(nearly, X, rtol=0.0, atol=0.1)
