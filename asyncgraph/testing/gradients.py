"""Gradients compared with what the values themselves do when what they depend on changes by little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from .._graph.building import placeholder
from .._graph.graph import Graph
from .._graph.node import Node
from .._graph.spec import ArraySpec
from .._session.blocking import BlockingSession
from ..errors import SpecTypeError
from ..gradients import gradients

_Array = np.ndarray[Any, Any]
_Rng = np.random.Generator
_Spec = ArraySpec | str
_Build = Callable[..., Node | Sequence[Node]]

_STEP: Final = 6e-6
"""Of an element, or of 1 if it is less: near the cube root of the rounding error, where differences are best."""


def check_gradients(
    build: _Build,
    *inputs: ArrayLike,
    specs: Sequence[_Spec] | None = None,
    order: int = 1,
    rtol: float = 1e-6,
    atol: float = 1e-7,
    seed: int = 0,
) -> None:
    """Nothing, if the gradients of what `build` builds are what central differences say.

        check_gradients(lambda x, w: ag.ops.tanh(x @ w), np.ones((2, 3)), np.ones(3))

    The values of each node are weighted at random and summed, so that a mistake in one element does not cancel
    another. The sum is computed twice for each element of the inputs: keep these small, and their values away from
    corners such as 0 for `abs`. Not for a thread whose event loop is running.

    Args:
        build: given a node for each input, builds a node, or a list of them, of real or complex numbers.
        inputs: float64 or complex128 arrays, by which gradients are taken; others are fed as they are.
        specs: what is known of the inputs when `build` is called: float64[n,?], say. Left out: all.
        order: how often to differentiate: 2 compares the gradients of the gradients, too.
        rtol: how far gradients may be from the differences, in parts of these.
        atol: how far they may be besides.
        seed: of the weights.

    Raises:
        AssertionError: a gradient has another value, shape or dtype. The message says which.
        SpecTypeError: an input is of floats that are too short for differences.
    """
    arrays = [np.asarray(one) for one in inputs]
    for array in arrays:
        if array.dtype.kind in "fc" and array.dtype.name not in ("float64", "complex128"):
            raise SpecTypeError(
                f"check_gradients: differences of {array.dtype} are too coarse\n  give float64 or complex128"
            )
    known = [ArraySpec(one.dtype, one.shape) for one in arrays] if specs is None else specs
    rng = np.random.default_rng(seed)
    derivative = build
    for number in range(order):
        weights = _compare(derivative, arrays, known, rng, rtol, atol, f"derivative {number + 1}")
        derivative = _gradients_of(derivative, weights)


def _compare(
    build: _Build, arrays: list[_Array], specs: Sequence[_Spec], rng: _Rng, rtol: float, atol: float, what: str
) -> list[_Array]:
    """Compares the gradients of what `build` builds, weighted at random; gives the weights."""
    with Graph() as graph:
        xs = [placeholder(one.dtype, one.shape) for one in map(_as_spec, specs)]
        ys = _listed(build(*xs))
    with BlockingSession(graph) as session:
        weights = [_like(np.asarray(y), rng) for y in session.run(ys, dict(zip(xs, arrays, strict=True))).results]
        by = [at for at, array in enumerate(arrays) if array.dtype.kind in "fc"]
        made = gradients(ys, [xs[at] for at in by], weights)

        def total(changed: int, array: _Array) -> float:
            feeds = {**dict(zip(xs, arrays, strict=True)), xs[changed]: array}
            values = session.run(ys, feeds).results
            return sum(float(np.sum(np.conj(w) * y).real) for w, y in zip(weights, values, strict=True))

        feeds = dict(zip(xs, arrays, strict=True))
        for at, node in zip(by, made, strict=True):
            gradient = np.zeros_like(arrays[at]) if node is None else session.run(node, feeds).results
            _check_one(gradient, arrays[at], lambda array, at=at: total(at, array), rtol, atol, f"{what} by input {at}")
    return weights


def _check_one(
    gradient: _Array, x: _Array, total: Callable[[_Array], float], rtol: float, atol: float, what: str
) -> None:
    if (gradient.dtype, gradient.shape) != (x.dtype, x.shape):
        raise AssertionError(
            f"{what} is of {gradient.dtype} and shape {gradient.shape}, and the input of {x.dtype} and {x.shape}"
        )
    for index in np.ndindex(x.shape):
        difference = _difference(x, index, total)
        if not abs(gradient[index] - difference) <= atol + rtol * abs(difference):
            raise AssertionError(
                f"{what} is {gradient[index]} at {list(index)}, and central differences give {difference}"
            )


def _difference(x: _Array, index: tuple[int, ...], total: Callable[[_Array], float]) -> complex:
    """d/da of the total, of an element a; d/da + i d/db of a + bi."""
    slopes: list[float] = []
    for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
        ends: list[float] = []
        step = _STEP * max(1.0, abs(x[index]))
        for sign in (1, -1):
            moved = x.copy()
            moved[index] += sign * step * unit
            ends.append(total(moved))
        slopes.append((ends[0] - ends[1]) / (2 * step))
    return slopes[0] if len(slopes) == 1 else complex(*slopes)


def _gradients_of(build: _Build, weights: list[_Array]) -> _Build:
    def built(*xs: Node) -> list[Node]:
        ys = _listed(build(*xs))
        by = [x for x in xs if x.dtype is not None and x.dtype.kind in "fc"]
        return [one for one in gradients(ys, by, weights) if one is not None]

    return built


def _listed(built: Node | Sequence[Node]) -> list[Node]:
    return [built] if isinstance(built, Node) else list(built)


def _like(value: _Array, rng: _Rng) -> _Array:
    shape: tuple[int, ...] = value.shape
    weights = rng.standard_normal(shape)
    return weights + 1j * rng.standard_normal(shape) if value.dtype.kind == "c" else weights


def _as_spec(spec: _Spec) -> ArraySpec:
    return ArraySpec.parse(spec) if isinstance(spec, str) else spec
