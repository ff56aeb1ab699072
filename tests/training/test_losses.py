"""Losses and activations are what their formulas say, also where these would overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import nn, ops
from asyncgraph.testing import check_gradients

from .helpers import run

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
LOGITS = RNG.normal(size=(6, 4)) * 3
LABELS = np.array([0, 3, 1, 1, 2, 0])


async def with_gradient(make: Callable[[ag.Node], ag.Node], x: Array) -> tuple[Array, Array]:
    """What is made of `x`, and the gradient of its sum."""
    with ag.Graph() as graph:
        fed = ag.placeholder(x.dtype, x.shape)
        made = make(fed)
        (slope,) = ag.gradients(made, fed)
    value, gradient = await run(graph, [made, slope], {fed: x})
    return value, gradient


def softmax(x: Array) -> Array:
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


# -- softmax cross-entropy ---------------------------------------------------------------------------


async def test_softmax_cross_entropy_is_the_logarithm_of_the_chance_of_the_label() -> None:
    loss, gradient = await with_gradient(lambda x: nn.softmax_cross_entropy(x, LABELS), LOGITS)

    chances = softmax(LOGITS)
    np.testing.assert_allclose(loss, -np.log(chances[np.arange(6), LABELS]), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(gradient, chances - np.eye(4)[LABELS], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
async def test_softmax_cross_entropy_of_one_hot_vectors_is_that_of_their_classes(dtype: str) -> None:
    one_hot = np.eye(4)[LABELS].astype(dtype)
    loss, gradient = await with_gradient(lambda x: nn.softmax_cross_entropy(x, one_hot), LOGITS)

    expected = await with_gradient(lambda x: nn.softmax_cross_entropy(x, LABELS), LOGITS)
    np.testing.assert_allclose(loss, expected[0], rtol=1e-13)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12, atol=1e-15)


async def test_softmax_cross_entropy_takes_how_probable_classes_are() -> None:
    labels = softmax(RNG.normal(size=(6, 4)))
    loss, gradient = await with_gradient(lambda x: nn.softmax_cross_entropy(x, labels), LOGITS)

    np.testing.assert_allclose(loss, -(labels * np.log(softmax(LOGITS))).sum(axis=-1), rtol=1e-13)
    np.testing.assert_allclose(gradient, softmax(LOGITS) - labels, rtol=1e-12, atol=1e-15)


async def test_softmax_cross_entropy_has_a_loss_for_each_label_of_any_rank() -> None:
    logits, labels = LOGITS.reshape(2, 3, 4), LABELS.reshape(2, 3)
    with ag.Graph() as graph:
        loss = nn.softmax_cross_entropy(logits, labels)

    flat, _ = await with_gradient(lambda x: nn.softmax_cross_entropy(x, LABELS), LOGITS)
    np.testing.assert_array_equal(await run(graph, loss), flat.reshape(2, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
async def test_softmax_cross_entropy_is_exact_where_exponentials_overflow(dtype: str) -> None:
    logits = np.array([[1000.0, -1000.0, 0.0], [-1e4, -1e4, -1e4], [30.0, -70.0, 0.0]], dtype)
    loss, gradient = await with_gradient(lambda x: nn.softmax_cross_entropy(x, [1, 0, 0]), logits)

    np.testing.assert_allclose(loss, np.array([2000.0, math.log(3), math.log1p(math.exp(-30))]), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(gradient[:2], [[1, -1, 0], [-2 / 3, 1 / 3, 1 / 3]], rtol=1e-6)
    assert loss.dtype == gradient.dtype == dtype


@pytest.mark.parametrize("labels", [np.array([1]), np.array([[0.0, 1.0, 0.0]])], ids=["class", "one-hot"])
async def test_a_class_that_is_ruled_out_by_minus_infinity_takes_no_part(labels: Array) -> None:
    loss, gradient = await with_gradient(lambda x: nn.softmax_cross_entropy(x, labels), np.array([[-np.inf, 1.0, 1.0]]))

    np.testing.assert_allclose(loss, [math.log(2)], rtol=1e-15)
    np.testing.assert_allclose(gradient, [[0.0, -0.5, 0.5]], rtol=1e-15)


@pytest.mark.parametrize("label", [4, -1, 255])
@pytest.mark.parametrize("dtype", ["int64", "int16"])
async def test_a_label_that_is_no_class_is_an_error_and_no_number(label: int, dtype: str) -> None:
    with ag.Graph() as graph:
        labels = ag.placeholder(dtype, ("n",))
        loss = nn.softmax_cross_entropy(LOGITS, labels)

    with pytest.raises(IndexError):
        await run(graph, loss, {labels: [0, 3, 1, 1, 2, label]})


def test_softmax_cross_entropy_has_right_gradients_of_gradients() -> None:
    check_gradients(lambda x: nn.softmax_cross_entropy(x, LABELS), LOGITS, order=2)


@pytest.mark.parametrize("shape", [("n", "classes"), (None, None), None])
async def test_softmax_cross_entropy_needs_no_size_and_no_rank(shape: Any) -> None:
    with ag.Graph() as graph:
        x, labels = ag.placeholder("float64", shape), ag.placeholder("int64", shape and shape[:1])
        loss = ops.mean(nn.softmax_cross_entropy(x, labels))
        (slope,) = ag.gradients(loss, x)

    found = await run(graph, [loss, slope], {x: LOGITS, labels: LABELS})
    expected = await with_gradient(lambda x: nn.softmax_cross_entropy(x, LABELS), LOGITS)
    np.testing.assert_allclose(found[0], expected[0].mean(), rtol=1e-13)
    np.testing.assert_allclose(found[1], expected[1] / 6, rtol=1e-13, atol=1e-16)


async def test_softmax_cross_entropy_of_integers_and_booleans_is_that_of_floats() -> None:
    for logits in (np.array([[3, -1, 0]], "int8"), np.array([[True, False, False]])):
        with ag.Graph() as graph:
            losses = [nn.softmax_cross_entropy(one, [1]) for one in (logits, logits.astype("float64"))]
        found, expected = await run(graph, losses)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.float64


# -- other losses ------------------------------------------------------------------------------------


async def test_sigmoid_cross_entropy_is_the_logarithm_of_the_chance_of_the_label() -> None:
    logits, labels = RNG.normal(size=5) * 3, np.array([0.0, 1.0, 1.0, 0.0, 0.25])
    loss, gradient = await with_gradient(lambda x: nn.sigmoid_cross_entropy(x, labels), logits)

    chances = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(loss, -labels * np.log(chances) - (1 - labels) * np.log(1 - chances), rtol=1e-12)
    np.testing.assert_allclose(gradient, chances - labels, rtol=1e-12)


async def test_sigmoid_cross_entropy_is_exact_for_large_numbers_and_its_gradient_at_zero() -> None:
    loss, gradient = await with_gradient(
        lambda x: nn.sigmoid_cross_entropy(x, [True, False, True, False]), np.array([1000.0, 1000.0, 50.0, 0.0])
    )

    np.testing.assert_allclose(loss, [0.0, 1000.0, math.exp(-50), math.log(2)], rtol=1e-14)
    np.testing.assert_allclose(gradient, [0.0, 1.0, -math.exp(-50), 0.5], rtol=1e-12, atol=1e-16)


async def test_mean_squared_error_has_a_number_for_each_row() -> None:
    predictions, targets = RNG.normal(size=(3, 2, 2)), RNG.normal(size=(3, 2, 2))
    loss, gradient = await with_gradient(lambda x: nn.mean_squared_error(x, targets), predictions)

    np.testing.assert_allclose(loss, ((predictions - targets) ** 2).mean(axis=(1, 2)), rtol=1e-14)
    np.testing.assert_allclose(gradient, (predictions - targets) / 2, rtol=1e-14)
    of_a_vector, _ = await with_gradient(lambda x: nn.mean_squared_error(x, [0.0, 1.0]), np.array([3.0, 3.0]))
    assert of_a_vector.tolist() == [9.0, 4.0]


@pytest.mark.parametrize(
    "loss", [nn.mean_squared_error, nn.sigmoid_cross_entropy, nn.softmax_cross_entropy], ids=lambda one: one.__name__
)
async def test_whole_predictions_do_not_make_whole_numbers_of_labels(loss: Callable[..., ag.Node]) -> None:
    labels = np.array([[0.25, 0.75]])
    with ag.Graph() as graph:
        whole, real = loss(np.array([[1, 2]]), labels), loss(np.array([[1.0, 2.0]]), labels)
    found, expected = await run(graph, [whole, real])
    np.testing.assert_array_equal(found, expected)


LOSSES: dict[str, Callable[[ag.Node, ag.Node], ag.Node]] = {
    "mean_squared_error": nn.mean_squared_error,
    "sigmoid_cross_entropy": nn.sigmoid_cross_entropy,
    "softmax_cross_entropy": nn.softmax_cross_entropy,
    "is_right": ag.metrics.is_right,
}


@pytest.mark.parametrize(("name", "loss"), LOSSES.items(), ids=LOSSES)
def test_predictions_and_labels_are_not_broadcast(name: str, loss: Callable[[ag.Node, ag.Node], ag.Node]) -> None:
    with ag.Graph():
        predictions, labels = ag.placeholder("float32", ("n", 1)), ag.placeholder("float32", ("n", 3))
        with pytest.raises(ag.errors.SpecError, match=f"^{name}: .* nothing is broadcast"):
            loss(predictions, labels)


def test_a_mean_over_rows_needs_the_rank() -> None:
    with ag.Graph(), pytest.raises(ag.errors.SpecError, match="the rank of .* is not known"):
        nn.mean_squared_error(ag.placeholder("float32"), ag.placeholder("float32"))


@pytest.mark.parametrize("loss", [nn.mean_squared_error, nn.sigmoid_cross_entropy])
async def test_a_loss_has_the_dtype_of_the_predictions(loss: Callable[..., ag.Node]) -> None:
    with ag.Graph():
        assert loss(np.zeros(2, "float32"), np.zeros(2, "float64")).dtype == np.float32
        assert loss(np.zeros(2, "float32"), np.zeros(2, "int64")).dtype == np.float32


# -- activations -------------------------------------------------------------------------------------

X = np.array([-800.0, -30.0, -2.0, -1e-3, 0.0, 1e-3, 0.5, 3.0, 30.0, 800.0])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


ACTIVATIONS: dict[str, tuple[Callable[[ag.Node], ag.Node], Callable[[float], float]]] = {
    "relu": (nn.relu, lambda x: max(x, 0.0)),
    "leaky_relu": (lambda x: nn.leaky_relu(x, 0.1), lambda x: x if x > 0 else 0.1 * x),
    "gelu": (nn.gelu, lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    "sigmoid": (nn.sigmoid, sigmoid),
    "silu": (nn.silu, lambda x: x * sigmoid(x)),
    "softplus": (nn.softplus, lambda x: x if x > 700 else math.log1p(math.exp(x))),
}


@pytest.mark.parametrize(("activation", "formula"), ACTIVATIONS.values(), ids=ACTIVATIONS)
async def test_an_activation_is_its_formula_and_never_overflows(activation: Any, formula: Any) -> None:
    value, gradient = await with_gradient(activation, X)

    np.testing.assert_allclose(value, [formula(one) for one in X], rtol=1e-13, atol=1e-15)
    assert np.isfinite(gradient).all()
    step = 1e-6
    differences = [(formula(one + step) - formula(one - step)) / (2 * step) for one in X[[1, 2, 6, 7]]]
    np.testing.assert_allclose(gradient[[1, 2, 6, 7]], differences, rtol=1e-7, atol=1e-9)


async def test_sigmoid_is_exact_where_it_is_small() -> None:
    value, _ = await with_gradient(nn.sigmoid, np.array([-50.0, -700.0]))
    np.testing.assert_allclose(value, [math.exp(-50), math.exp(-700)], rtol=1e-12)


async def test_relu_lets_nan_and_infinity_through_and_has_no_gradient_where_nothing_is_positive() -> None:
    value, gradient = await with_gradient(nn.relu, np.array([-np.inf, -1.0, 0.0, 1.0, np.inf, np.nan]))

    np.testing.assert_array_equal(value, [0.0, 0.0, 0.0, 1.0, np.inf, np.nan])
    np.testing.assert_array_equal(gradient, [0.0, 0.0, 0.0, 1.0, 1.0, 0.0])


@pytest.mark.parametrize("axis", [-1, 0])
async def test_softmax_and_its_logarithm_along_any_axis(axis: int) -> None:
    x = np.array([[1000.0, 0.0], [-1000.0, 1.0]])
    with ag.Graph() as graph:
        both = [nn.softmax(x, axis=axis), nn.log_softmax(x, axis=axis)]

    found, logarithm = await run(graph, both)
    moved = x if axis == -1 else x.T
    expected = np.array([[a - np.logaddexp(*row) for a in row] for row in moved])
    np.testing.assert_allclose(logarithm, expected if axis == -1 else expected.T, rtol=1e-14)
    np.testing.assert_allclose(found, np.exp(logarithm), rtol=1e-14)


def test_softmax_has_right_gradients() -> None:
    check_gradients(lambda x: [nn.softmax(x), nn.log_softmax(x)], LOGITS, order=2)


@pytest.mark.parametrize("dtype", ["float32", "bool", "<U1"])
def test_classes_that_are_no_integers_are_refused_with_what_to_write(dtype: str) -> None:
    with ag.Graph(), pytest.raises(ag.errors.SpecError, match="classes are integers: write ops.astype"):
        ag.nn.softmax_cross_entropy(ag.placeholder("float32", ("n", 3)), ag.placeholder(dtype, ("n",)))
