"""Gradients: integers, square roots at zero, what was broadcast, and what optimizers remember of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops

from .helpers import run


@pytest.mark.parametrize("initial", [3, True])
async def test_ag_192_a_gradient_by_integers_is_an_error_that_names_the_variable_and_its_dtype(initial: Any) -> None:
    """https://github.com/tensorflow/tensorflow/issues/27378."""
    with ag.Graph():
        v = ag.variable(initial, name="weights")
        with pytest.raises(TypeError, match=rf"there is no gradient by 'weights', whose dtype is {v.dtype}"):
            ag.gradients(v * v, v)


async def test_ag_192_what_is_cast_to_integers_has_no_gradient_on_that_path() -> None:
    """https://github.com/tensorflow/tensorflow/issues/27378."""
    with ag.Graph() as graph:
        v = ag.variable(3.7)
        whole = ops.astype(ops.astype(v * v, "int64"), "float64")
        assert ag.gradients(whole * 2, v) == [None]
        (beside,) = ag.gradients(whole * v, v)

    assert await run(graph, beside) == 13.0


async def test_ag_194_the_gradient_of_a_square_root_at_zero_is_nan_where_it_is_multiplied_by_zero() -> None:
    """https://github.com/tensorflow/tensorflow/issues/4914."""
    with ag.Graph() as graph:
        c0, k, x = [ag.placeholder("float64", (), name=name) for name in ("c0", "k", "x")]
        y = c0 * ops.sqrt(k * x)
        (slope,) = ag.gradients(y, x)

    with np.errstate(all="ignore"):
        value, gradient = await run(graph, [y, slope], {c0: 0.0, k: 4.0, x: 0.0})

    assert value == 0.0
    assert np.isnan(gradient)


async def test_ag_194_the_warning_names_the_node_that_divides_by_zero() -> None:
    """https://github.com/tensorflow/tensorflow/issues/4914."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        (slope,) = ag.gradients(ops.sqrt(x), x)

    with np.errstate(all="raise"), pytest.raises(FloatingPointError) as caught:
        await run(graph, slope, {x: 0.0})

    assert "node 'gradients/divide' (divide) failed" in str(caught.value.__notes__)


@pytest.mark.parametrize("literal", [True, False])
async def test_ag_195_gradients_have_the_shapes_that_inputs_had_before_they_were_broadcast(literal: bool) -> None:
    """https://github.com/deeplearning4j/nd4j/issues/2424, https://github.com/aesara-devs/aesara/issues/1089.

    Also https://github.com/HIPS/autograd/issues/376.
    """
    with ag.Graph() as graph:
        a = ag.placeholder("float64", (3, 4) if literal else (None, None))
        b = ag.placeholder("float64", (1, 4) if literal else (None, None))
        s = ag.placeholder("float64", ())
        by_b, by_s = ag.gradients(ops.sum((a + b) * s), [b, s])

    results = await run(graph, [by_b, by_s], {a: np.ones((3, 4)), b: np.zeros((1, 4)), s: 1.0})

    assert [one.tolist() for one in results] == [[[3.0, 3.0, 3.0, 3.0]], 12.0]


async def test_ag_195_inputs_without_elements_have_gradients_without_elements() -> None:
    """https://github.com/HIPS/autograd/issues/376."""
    with ag.Graph() as graph:
        a, b = ag.placeholder("float64", (None, None)), ag.placeholder("float64", (None, None))
        made = ag.gradients(ops.sum(a * b), [a, b])

    by_a, by_b = await run(graph, made, {a: np.ones((0, 4)), b: np.ones((1, 4))})

    assert by_a.shape == (0, 4)
    assert by_b.tolist() == [[0.0, 0.0, 0.0, 0.0]]


async def test_ag_195_a_value_used_twice_has_the_sum_of_both_gradients() -> None:
    """https://github.com/aesara-devs/aesara/issues/1089."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        (slope,) = ag.gradients(x * x + 3 * x, x)

    assert await run(graph, slope, {x: 2.0}) == 7.0


@pytest.mark.parametrize("kind", [ag.optimizers.Adam, ag.optimizers.Momentum])
async def test_ag_196_what_an_optimizer_remembers_goes_by_the_variable_and_not_by_the_order(kind: Any) -> None:
    """https://github.com/tensorflow/tfjs/issues/8379."""
    results: list[Any] = []
    for second in (slice(None), slice(None, None, -1)):
        with ag.Graph() as graph:
            variables = ag.variable([1.0, 2.0]), ag.variable([3.0, 4.0, 5.0])
            fed = ag.placeholder("float64", (2,)), ag.placeholder("float64", (3,))
            pairs, optimizer = list(zip(fed, variables, strict=True)), kind(0.1)
            steps = [optimizer.apply_gradients(pairs), optimizer.apply_gradients(pairs[second])]
        async with ag.Session(graph) as session:
            await session.run(steps[0], dict(zip(fed, ([0.1, 0.2], [0.3, 0.4, 0.5]), strict=True)))
            await session.run(steps[1], dict(zip(fed, ([-1.0, 2.0], [-3.0, 4.0, -5.0]), strict=True)))
            results.append((await session.run(variables)).results)

    assert [one.tobytes() for one in results[0]] == [one.tobytes() for one in results[1]]


async def test_ag_197_rows_that_are_taken_twice_are_added_up_before_they_are_applied() -> None:
    """https://github.com/Qihoo360/tensornet/issues/29, https://github.com/ooples/AiDotNet/pull/1526."""
    with ag.Graph() as graph:
        w = ag.variable([0.0])
        loss = ops.sum(ops.take(w, [0, 0]))
        step = ag.optimizers.Adagrad(1.0, initial=0.0, epsilon=0.0).minimize(loss)

    async with ag.Session(graph) as session:
        await session.run(step)
        assert (await session.run(w)).results.tolist() == [-1.0]


def test_ag_197_a_variable_that_is_listed_twice_is_an_error_that_names_it() -> None:
    """https://github.com/Qihoo360/tensornet/issues/29."""
    with ag.Graph():
        w = ag.variable([0.0], name="w")
        optimizer = ag.optimizers.SGD(1.0)
        with pytest.raises(ValueError, match="given more than once: 'w'"):
            optimizer.minimize(ops.sum(w), [w, w])
        with pytest.raises(ValueError, match="given more than once: 'w'"):
            optimizer.apply_gradients([(w * 1.0, w), (w * 2.0, w)])
