"""What a step of training costs: a digits network, 64 to 64 to 10, batches of 64 rows, Adam, float32."""

from __future__ import annotations

from typing import Any

import numpy as np

import asyncgraph as ag
from asyncgraph import nn, ops

from .measure import Ratio, compare

ROWS, PIXELS, HIDDEN, CLASSES = 64, 64, 64, 10
TURNS = 101
RATE, BETA1, BETA2, EPSILON = 1e-3, 0.9, 0.999, 1e-8

Array = np.ndarray[Any, np.dtype[np.float32]]


class ByHand:
    """The same step in NumPy, as one writes it who wants it fast: in place, with buffers that are made once."""

    def __init__(self, weights: list[Array]) -> None:
        self.weights = [one.copy() for one in weights]
        self.m = [np.zeros_like(one) for one in weights]
        self.v = [np.zeros_like(one) for one in weights]
        self.gradients = [np.empty_like(one) for one in weights]
        self.buffers = [(np.empty_like(one), np.empty_like(one)) for one in weights]
        self.hidden = np.empty((ROWS, HIDDEN), np.float32)
        self.by_hidden = np.empty((ROWS, HIDDEN), np.float32)
        self.active = np.empty((ROWS, HIDDEN), np.bool_)
        self.logits = np.empty((ROWS, CLASSES), np.float32)
        self.rows = np.arange(ROWS)
        self.steps = 0

    def step(self, x: Array, labels: np.ndarray[Any, Any]) -> np.float32:
        """Changes the weights, and gives the loss before that."""
        w1, b1, w2, b2 = self.weights
        hidden, logits, rows, by_hidden = self.hidden, self.logits, self.rows, self.by_hidden
        np.matmul(x, w1, out=hidden)
        hidden += b1
        np.maximum(hidden, 0, out=hidden)
        np.matmul(hidden, w2, out=logits)
        logits += b2
        logits -= logits.max(axis=1, keepdims=True)
        picked = logits[rows, labels]
        chances = np.exp(logits, out=logits)
        total = chances.sum(axis=1)
        loss = (np.log(total) - picked).mean()
        chances /= total[:, None]
        chances[rows, labels] -= 1
        chances *= 1 / ROWS
        by_w1, by_b1, by_w2, by_b2 = self.gradients
        np.matmul(hidden.T, chances, out=by_w2)
        chances.sum(axis=0, out=by_b2)
        np.matmul(chances, w2.T, out=by_hidden)
        by_hidden *= np.greater(hidden, 0, out=self.active)
        np.matmul(x.T, by_hidden, out=by_w1)
        by_hidden.sum(axis=0, out=by_b1)
        self._adam()
        return loss

    def _adam(self) -> None:
        self.steps += 1
        correction = (1 - BETA2**self.steps) ** 0.5
        factor, epsilon = RATE * correction / (1 - BETA1**self.steps), EPSILON * correction
        for w, g, m, v, (one, other) in zip(self.weights, self.gradients, self.m, self.v, self.buffers, strict=True):
            np.subtract(g, m, out=one)
            one *= 1 - BETA1
            m += one
            np.square(g, out=one)
            one -= v
            one *= 1 - BETA2
            v += one
            np.sqrt(v, out=one)
            one += epsilon
            np.multiply(m, factor, out=other)
            other /= one
            w -= other


def digits() -> tuple[list[Array], Array, np.ndarray[Any, Any]]:
    """First weights, a batch of images, and its labels."""
    rng = np.random.default_rng(0)
    shapes = [(PIXELS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
    weights = [(rng.normal(size=shape) * 0.1).astype(np.float32) for shape in shapes]
    return weights, rng.random((ROWS, PIXELS), np.float32), rng.integers(0, CLASSES, ROWS)


def network(weights: list[Array]) -> tuple[ag.Graph, list[ag.Node], list[ag.Node]]:
    """A graph, what is fed to it, and the loss and the step to fetch."""
    with ag.Graph() as graph:
        x, labels = ag.placeholder("float32", ("n", PIXELS)), ag.placeholder("int64", ("n",))
        w1, b1, w2, b2 = (ag.variable(one) for one in weights)
        logits = nn.dense(nn.relu(nn.dense(x, w1, b1)), w2, b2)
        loss = ops.mean(nn.softmax_cross_entropy(logits, labels))
        return graph, [x, labels], [loss, ag.optimizers.Adam(RATE, BETA1, BETA2, EPSILON).minimize(loss)]


async def rows() -> list[list[str]]:
    weights, x, labels = digits()
    graph, feeds, fetches = network(weights)
    by_hand = ByHand(weights)
    table = [["a step of training", "ratio", "quartiles", "ours", "NumPy by hand"]]
    async with ag.Session(graph) as session:
        prepared = session.prepare(fetches, feeds)
        losses = [((await prepared(x, labels)).results[0], by_hand.step(x, labels)) for _ in range(300)]
        np.testing.assert_allclose(*zip(*losses, strict=True), rtol=1e-3)
        images, digit = feeds
        by_run = await compare(
            lambda: session.run(ag.RunArgs(fetches, {images: x, digit: labels})),
            lambda: by_hand.step(x, labels),
            TURNS,
        )
        table.append(_row("await session.run(RunArgs([loss, step], ...))", by_run))
        by_call = await compare(lambda: prepared(x, labels), lambda: by_hand.step(x, labels), TURNS)
        table.append(_row("await prepared(images, labels)", by_call))
    return table


def _row(name: str, found: Ratio) -> list[str]:
    return [
        name,
        f"{found.ratio:.2f}",
        f"{found.low:.2f}..{found.high:.2f}",
        f"{found.ours_s * 1e6:.0f} µs",
        f"{found.theirs_s * 1e6:.0f} µs",
    ]
