from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecTypeError

from .helpers import evaluate
from .oracle import listed, placeholder, same

A = np.arange(6.0).reshape(1, 2, 3)
W = np.arange(12.0).reshape(3, 4)

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "all": lambda a, w: np.all(a, 1, None, True),
    "amax": lambda a, w: np.amax(a, -1),
    "amin": lambda a, w: np.amin(a, axis=(0, 1)),
    "any": lambda a, w: np.any(a, axis=0, keepdims=False),
    "argmax": lambda a, w: np.argmax(a, 2),
    "argmin": lambda a, w: np.argmin(a, keepdims=True),
    "broadcast_arrays": lambda a, w: np.broadcast_arrays(a, 2.0),
    "broadcast_to": lambda a, w: np.broadcast_to(a, (2, 2, 3)),
    "concatenate": lambda a, w: np.concatenate((a, a), -1),
    "concat along none": lambda a, w: np.concat([a, w], axis=None),
    "dot of matrices": lambda a, w: np.dot(w.T, w),
    "dot of stacks": lambda a, w: np.dot(a, np.ones((2, 3, 4))),
    "dot of a scalar": lambda a, w: np.dot(w, 2),
    "dot of a vector": lambda a, w: np.dot(a, np.ones(3)),
    "expand_dims": lambda a, w: np.expand_dims(a, 0),
    "flip": lambda a, w: np.flip(a, 1),
    "matmul": lambda a, w: np.matmul(a, w),
    "matrix_transpose": lambda a, w: np.matrix_transpose(a),
    "max": lambda a, w: np.max(w, 0),
    "mean": lambda a, w: np.mean(a, axis=-1, keepdims=True),
    "min": lambda a, w: np.min(w),
    "moveaxis": lambda a, w: np.moveaxis(a, 0, -1),
    "prod": lambda a, w: np.prod(w, 0, np.float32),
    "ravel": lambda a, w: np.ravel(w),
    "reshape": lambda a, w: np.reshape(w, (2, -1), order="C"),
    "reshape to a vector": lambda a, w: np.reshape(w, -1),
    "roll": lambda a, w: np.roll(w, 1, 0),
    "squeeze": lambda a, w: np.squeeze(a),
    "squeeze an axis": lambda a, w: np.squeeze(a, 0),
    "stack": lambda a, w: np.stack([a, a], 1),
    "std": lambda a, w: np.std(w, 0, ddof=1),
    "sum": lambda a, w: np.sum(w, 1),
    "take": lambda a, w: np.take(w, [1, 0], 1),
    "take from all": lambda a, w: np.take(w, [[1], [11]], mode="raise"),
    "tensordot": lambda a, w: np.tensordot(a, w, 1),
    "transpose": lambda a, w: np.transpose(a),
    "transpose by axes": lambda a, w: np.transpose(a, (1, 0, -1)),
    "unstack": lambda a, w: np.unstack(w, axis=1),
    "var": lambda a, w: np.var(w, correction=1),
    "vecdot": lambda a, w: np.vecdot(a, a),
    "where": lambda a, w: np.where(w > 3, w, 0.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_numpys_function_on_nodes_builds_what_it_gives_on_arrays(name: str) -> None:
    with Graph() as graph:
        a, w = [placeholder(graph, ArraySpec(one.dtype, one.shape)) for one in (A, W)]
        made, expected = listed(CALLS[name](a, w)), listed(CALLS[name](A, W))

        assert len(made) == len(expected)
        for node, wanted in zip(made, expected, strict=True):
            assert isinstance(node, Node)
            assert (node.dtype, node.shape) == (wanted.dtype, wanted.shape)
            assert same(evaluate(node, {a: A, w: W}), wanted)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: np.sum(x, initial=1), "np.sum with initial= has no op"),
        (lambda x: np.sum(x, out=np.zeros(())), "np.sum with out= has no op"),
        (lambda x: np.mean(x, dtype="float32"), "np.mean with dtype= has no op"),
        (lambda x: np.max(x, where=x > 0), "np.max with where= has no op"),
        (lambda x: np.reshape(x, (-1,), order="F"), "np.reshape with order= has no op"),
        (lambda x: np.concatenate([x, x], dtype="float32"), "np.concatenate with dtype= has no op"),
        (lambda x: np.concatenate([x, x], out=np.zeros((2, 3))), "np.concatenate with out= has no op"),
        (lambda x: np.broadcast_arrays(x, x, subok=True), "np.broadcast_arrays with subok= has no op"),
        (lambda x: np.dot(x, x, out=np.zeros(3)), "np.dot with out= has no op"),
        (lambda x: np.where(x > 0), "np.where of a condition alone has no op"),
        (lambda x: np.vstack([x, x]), "np.vstack has no op"),
        (lambda x: np.linalg.norm(x), "np.linalg.norm has no op"),
        (lambda x: np.fft.fft(x), "np.fft.fft has no op"),
        (lambda x: np.shape(x), r"np.shape builds no node\n  write node.shape"),
        (lambda x: np.ndim(x), r"np.ndim builds no node\n  write node.ndim"),
        (lambda x: np.size(x), r"np.size builds no node\n  write node.size"),
        (lambda x: np.squeeze(x), "which dimensions are 1 is not known"),
    ],
)
def test_what_no_op_can_do_is_an_error_that_names_it(call: Callable[[Node], Any], text: str) -> None:
    with Graph() as graph, pytest.raises(SpecTypeError, match=text):
        call(placeholder(graph, ArraySpec("float64", ("n", 3))))


@pytest.mark.parametrize("call", [np.transpose, np.squeeze, lambda x: np.dot(x, x)])
def test_what_needs_the_rank_says_so(call: Callable[[Node], Any]) -> None:
    with Graph() as graph, pytest.raises(SpecTypeError, match="rank"):
        call(placeholder(graph, ArraySpec("float64", None)))
