"""Gradients of networks are those of another library, to ten digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import autograd
import autograd.numpy
import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops

from .helpers import values

Array = np.ndarray[Any, Any]

anp: Any = autograd.numpy
grad: Any = autograd.grad
# What it has under NumPy's old names only.
RENAMED = {
    "concat": anp.concatenate,
    "matrix_transpose": lambda x: anp.swapaxes(x, -1, -2),
    "take": lambda x, indices, axis: x[indices],
}
THEIRS = SimpleNamespace(**{**vars(autograd.numpy), **RENAMED})


def classifier(xp: Any, x: Any, labels: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    """Softmax cross-entropy, stable in log space, and weight decay."""
    hidden = xp.tanh(x @ w1 + b1)
    logits = hidden @ w2 + b2
    highest = xp.max(logits, axis=1, keepdims=True)
    log_sum = xp.log(xp.sum(xp.exp(logits - highest), axis=1, keepdims=True)) + highest
    return -xp.mean(xp.sum(labels * (logits - log_sum), axis=1)) + 1e-2 * (xp.sum(w1**2) + xp.sum(w2**2))


def normalized(xp: Any, x: Any, scale: Any, shift: Any, w: Any) -> Any:
    """Batch normalisation, a leaky rectifier, and a skip connection."""
    y = (x - xp.mean(x, axis=0)) / xp.sqrt(xp.var(x, axis=0) + 1e-3) * scale + shift
    y = xp.where(y > 0, y, 0.1 * y)
    return xp.sum(xp.logaddexp(xp.concat([y, x], axis=1) @ w, 0.0) ** 2)


def attention(xp: Any, tokens: Any, table: Any, wq: Any, wk: Any, wv: Any) -> Any:
    """One head over embedded tokens, some of which occur twice."""
    x = xp.take(table, tokens, axis=0)
    scores = (x @ wq) @ xp.matrix_transpose(x @ wk) / 2.0
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    weights = weights / xp.sum(weights, axis=-1, keepdims=True)
    return xp.mean(xp.tanh(weights @ (x @ wv)))


def drawn(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape) for shape in shapes]


LABELS = np.eye(4)[[0, 3, 1, 1, 2, 0, 3, 2]]
NETWORKS: dict[str, tuple[Callable[..., Any], Array | None, list[Array]]] = {
    "classifier": (
        lambda xp, labels, x, *w: classifier(xp, x, labels, *w),
        LABELS,
        drawn((8, 6), (6, 5), (5,), (5, 4), (4,)),
    ),
    "normalized": (lambda xp, _, *w: normalized(xp, *w), None, drawn((8, 3), (3,), (3,), (6, 2))),
    "attention": (attention, np.array([[1, 0, 1, 4], [2, 2, 3, 0]]), drawn((5, 4), (4, 3), (4, 3), (4, 3))),
}


@pytest.mark.parametrize("known", [True, False], ids=["known sizes", "unknown sizes"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradients_of_a_network_are_those_of_autograd(name: str, known: bool) -> None:
    network, fixed, weights = NETWORKS[name]
    theirs = grad(lambda arrays: network(THEIRS, fixed, *arrays))(tuple(weights))

    with ag.Graph():
        xs = [ag.placeholder("float64", one.shape if known else (None,) * one.ndim) for one in weights]
        ours = values(ag.gradients(network(ops, fixed, *xs), xs), dict(zip(xs, weights, strict=True)))

    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(ours_one, theirs_one, rtol=1e-10, atol=1e-13)


def test_the_product_of_a_hessian_and_a_vector_is_that_of_autograd() -> None:
    network, fixed, weights = NETWORKS["classifier"]
    directions = drawn(*[one.shape for one in weights])

    def along(gradients: Sequence[Any], xp: Any) -> Any:
        return sum(xp.sum(one * direction) for one, direction in zip(gradients, directions, strict=True))

    first = grad(lambda arrays: network(THEIRS, fixed, *arrays))
    theirs = grad(lambda arrays: along(first(arrays), anp))(tuple(weights))

    with ag.Graph():
        xs = [ag.placeholder("float64", one.shape) for one in weights]
        slopes = [one for one in ag.gradients(network(ops, fixed, *xs), xs) if one is not None]
        ours = values(ag.gradients(along(slopes, ops), xs), dict(zip(xs, weights, strict=True)))

    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(ours_one, theirs_one, rtol=1e-9, atol=1e-12)
