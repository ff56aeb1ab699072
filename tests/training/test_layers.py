"""Layers compute what they say, in training and where they are served, over the same variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import layers, nn, ops

from .helpers import run, runs

RNG = np.random.default_rng(4)

# -- dense and embedding -----------------------------------------------------------------------------


async def test_dense_is_a_product_and_an_offset_for_rows_of_any_rank() -> None:
    x, kernel, offset = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 5)), RNG.normal(size=5)
    with ag.Graph() as graph:
        made = [nn.dense(ag.constant(x), kernel, offset), nn.dense(ag.constant(x), kernel)]

    both, alone = await run(graph, made)
    np.testing.assert_allclose(both, x @ kernel + offset, rtol=1e-14)
    np.testing.assert_allclose(alone, x @ kernel, rtol=1e-14)


async def test_the_gradient_of_a_row_that_is_embedded_twice_is_the_sum() -> None:
    with ag.Graph() as graph:
        table = ag.variable(np.zeros((3, 2)))
        taken = nn.embedding(table, [[2, 0], [2, 2]])
        (slope,) = ag.gradients(ops.sum(taken * ag.constant([[[1.0, 2.0], [3, 4]], [[5, 6], [7, 8]]])), table)

    assert (await run(graph, slope)).tolist() == [[3, 4], [0, 0], [13, 16]]


# -- dropout -----------------------------------------------------------------------------------------


async def test_dropout_drops_at_its_rate_and_keeps_the_mean() -> None:
    x = np.full((100, 100), 3.0, "float32")
    with ag.Graph() as graph:
        dropped = nn.dropout(x, 0.25, training=True)

    found = await run(graph, dropped)
    assert set(np.unique(found)) == {np.float32(0), np.float32(4)}
    assert found.dtype == np.float32
    assert abs((found == 0).mean() - 0.25) < 0.02


async def test_dropout_is_another_in_each_run_and_the_same_with_the_same_seed() -> None:
    with ag.Graph() as graph:
        dropped = nn.dropout(np.ones(50), 0.5, training=True)

    first, second = await runs(graph, dropped, [None] * 2, seed=7)
    again = await runs(graph, dropped, [None] * 2, seed=7)
    assert (first != second).any()
    np.testing.assert_array_equal([first, second], again)


async def test_what_is_dropped_has_no_gradient_and_the_rest_is_scaled() -> None:
    with ag.Graph() as graph:
        x = ag.variable(np.ones(50))
        dropped = nn.dropout(x, 0.5, training=True)
        (slope,) = ag.gradients(dropped, x)

    value, gradient = await run(graph, [dropped, slope])
    np.testing.assert_array_equal(value, gradient)
    assert set(value) == {0.0, 2.0}


async def test_dropout_gives_zero_for_what_is_infinite() -> None:
    with ag.Graph() as graph:
        dropped = nn.dropout(np.full(50, np.inf), 0.5, training=True)

    assert set(await run(graph, dropped)) == {0.0, np.inf}


def test_dropout_is_nothing_where_nothing_is_dropped() -> None:
    with ag.Graph():
        x = ag.placeholder("float32", ("n",))
        assert nn.dropout(x, 0.5, training=False) is x
        assert nn.dropout(x, 0.0, training=True) is x


@pytest.mark.parametrize("rate", [1.0, -0.1, float("nan")])
def test_dropout_cannot_drop_everything(rate: float) -> None:
    with ag.Graph(), pytest.raises(ValueError, match=r"^dropout: rate="):
        nn.dropout(np.ones(2), rate, training=True)


def test_whether_in_training_is_known_when_it_is_built() -> None:
    with ag.Graph():
        training: Any = ag.placeholder("bool", ())
        with pytest.raises(ag.errors.SpecTypeError, match="build the network twice over the same variables"):
            nn.dropout(np.ones(2), 0.5, training=training)


# -- batch normalization -----------------------------------------------------------------------------


def moments(size: int) -> tuple[ag.Variable, ag.Variable]:
    return (
        ag.variable(np.zeros(size), "mean", trainable=False),
        ag.variable(np.ones(size), "variance", trainable=False),
    )


@pytest.mark.parametrize(("shape", "axis"), [((6, 3), -1), ((4, 5, 3), 2), ((4, 3, 5), 1), ((3, 6), 0)])
async def test_batch_norm_in_training_normalizes_by_the_batch_and_moves_the_averages(shape: Any, axis: int) -> None:
    x, scale, offset = RNG.normal(size=shape) * 3 + 2, RNG.normal(size=3), RNG.normal(size=3)
    with ag.Graph() as graph:
        mean, variance = moments(3)
        made = nn.batch_norm(x, mean, variance, scale, offset, training=True, momentum=0.9, epsilon=0.01, axis=axis)

    (value, *first), (_, *moved) = await runs(graph, [made, mean, variance], [None] * 2)

    last = np.moveaxis(x, axis, -1).reshape(-1, 3)
    expected = (last - last.mean(axis=0)) / np.sqrt(last.var(axis=0) + 0.01) * scale + offset
    np.testing.assert_allclose(np.moveaxis(value, axis, -1).reshape(-1, 3), expected, rtol=1e-12)
    np.testing.assert_array_equal(first, [np.zeros(3), np.ones(3)])
    np.testing.assert_allclose(moved, [0.1 * last.mean(axis=0), 0.9 + 0.1 * last.var(axis=0)], rtol=1e-12)


@pytest.mark.parametrize("axis", [-1, 1])
async def test_batch_norm_where_it_is_served_uses_the_averages_and_leaves_them(axis: int) -> None:
    x = RNG.normal(size=(4, 3, 3))
    with ag.Graph() as graph:
        mean, variance = ag.variable([1.0, 2.0, 3.0]), ag.variable([4.0, 9.0, 16.0])
        served = nn.batch_norm(x, mean, variance, training=False, epsilon=0.0, axis=axis)

    async with ag.Session(graph) as session:
        value = (await session.run(served)).results
        assert "assigns" not in str(session.explain(served))
    moved = np.moveaxis(x, axis, -1)
    np.testing.assert_allclose(np.moveaxis(value, axis, -1), (moved - [1, 2, 3]) / [2, 3, 4], rtol=1e-12)


async def test_a_step_of_training_moves_the_averages_of_batch_norm_without_being_told_to() -> None:
    with ag.Graph() as graph:
        mean, variance = moments(2)
        kernel = ag.variable(np.eye(2))
        # Linear in what is normalized: no gradient depends on that itself.
        loss = ops.sum(nn.batch_norm(nn.dense(np.ones((3, 2)) * 5, kernel), mean, variance, training=True))
        step = ag.optimizers.SGD(0.1).minimize(loss)

    async with ag.Session(graph) as session:
        await session.run(step)
        np.testing.assert_allclose((await session.run(mean)).results, [0.05, 0.05], rtol=1e-12)


async def test_batch_norm_has_the_gradient_of_the_batch_s_own_mean_and_variance() -> None:
    def build(x: ag.Node, scale: ag.Node, offset: ag.Node) -> ag.Node:
        return nn.batch_norm(x, *moments(3), scale, offset, training=True)

    x, scale, offset = RNG.normal(size=(5, 3)), RNG.normal(size=3), RNG.normal(size=3)
    weights = RNG.normal(size=(5, 3))
    with ag.Graph() as graph:
        fed = [ag.placeholder("float64", one.shape) for one in (x, scale, offset)]
        slopes = ag.gradients(ops.sum(build(*fed) * weights), fed)
    found = await run(graph, slopes, dict(zip(fed, (x, scale, offset), strict=True)))

    # arXiv:1502.03167, section 3.
    root = np.sqrt(x.var(axis=0) + 1e-3)
    normal = (x - x.mean(axis=0)) / root
    by_normal = weights * scale
    by_x = (by_normal - by_normal.mean(axis=0) - normal * (by_normal * normal).mean(axis=0)) / root
    np.testing.assert_allclose(found[0], by_x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found[1], (weights * normal).sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found[2], weights.sum(axis=0), rtol=1e-12)


async def test_batch_norm_used_twice_in_a_run_moves_the_averages_one_step_after_the_other() -> None:
    with ag.Graph() as graph:
        mean, variance = moments(1)
        made = [nn.batch_norm(np.full((2, 1), x), mean, variance, training=True, momentum=0.25) for x in (8.0, 16.0)]

    _, (_, *moved) = await runs(graph, [made, mean, variance], [None] * 2)
    np.testing.assert_allclose(moved, [[6.0 * 0.25 + 16.0 * 0.75], [0.25**2]], rtol=1e-12)


def test_batch_norm_says_what_it_cannot_move() -> None:
    with ag.Graph():
        with pytest.raises(ag.errors.SpecTypeError, match="in training mean and variance are variables"):
            nn.batch_norm(np.ones((2, 2)), *np.eye(2), training=True)  # pyright: ignore[reportArgumentType]  # what is tested
        with pytest.raises(ValueError, match="momentum=1.5: give a number from 0 to 1"):
            nn.batch_norm(np.ones((2, 2)), *moments(2), training=True, momentum=1.5)
        with pytest.raises(ag.errors.SpecTypeError, match=r"axis takes ints, not 1\.5"):
            nn.batch_norm(np.ones((2, 2)), *moments(2), training=True, axis=1.5)  # pyright: ignore[reportArgumentType]  # what is tested


@pytest.mark.parametrize("axis", [2, -3])
def test_batch_norm_has_an_axis(axis: int) -> None:
    with ag.Graph(), pytest.raises(ag.errors.SpecError, match=f"axis={axis} is out of the bounds"):
        nn.batch_norm(np.ones((2, 2)), *moments(2), training=True, axis=axis)


# -- initial values ----------------------------------------------------------------------------------

VARIANCES: dict[str, float] = {
    "glorot_uniform": 2 / (300 + 200),
    "glorot_normal": 2 / (300 + 200),
    "he_uniform": 2 / 300,
    "he_normal": 2 / 300,
}


@pytest.mark.parametrize(("name", "variance"), VARIANCES.items(), ids=VARIANCES)
@pytest.mark.parametrize("shape", [(300, 200), (3, 100, 200)])
async def test_a_kernel_begins_with_the_variance_of_its_paper(name: str, variance: float, shape: Any) -> None:
    if len(shape) == 3 and name.startswith("glorot"):
        variance = 2 / (300 + 600)
    with ag.Graph() as graph:
        kernel = ag.variable(getattr(nn, name)(shape))

    found = await run(graph, kernel)
    assert found.dtype == np.float32
    assert found.shape == shape
    assert abs(found.mean()) < 0.02 * np.sqrt(variance)
    assert abs(found.var() / variance - 1) < 0.02
    if name.endswith("uniform"):
        assert 0.99 < abs(found).max() / np.sqrt(3 * variance) <= 1


async def test_kernels_begin_with_other_values_in_each_session_unless_the_seed_is_the_same() -> None:
    with ag.Graph() as graph:
        kernels = [ag.variable(nn.glorot_uniform((3, 3))) for _ in range(2)]
        fixed = ag.variable(nn.glorot_uniform((3, 3), seed=1, dtype="float64"))

    (one, other, first), (one_again, _, _), (_, _, second) = [
        (await runs(graph, [*kernels, fixed], [None], seed))[0] for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(one, one_again)
    assert (one != other).any()
    assert (first != second).any()
    assert first.dtype == np.float64


@pytest.mark.parametrize("name", VARIANCES)
def test_a_kernel_has_two_axes(name: str) -> None:
    with ag.Graph(), pytest.raises(ag.errors.SpecError, match=f"^{name}: the shape of a kernel"):
        getattr(nn, name)((3,))


# -- layers that make their variables ----------------------------------------------------------------


async def test_a_layer_has_the_same_variables_wherever_it_is_applied() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n", 3))
        dense = layers.Dense(2, ops.tanh).build(x)
        made = dense(x, True), dense(x + 0.0, False)

    assert [one.name for one in graph.variables] == ["kernel", "offset"]
    one, other = await run(graph, made, {x: np.ones((4, 3))})
    np.testing.assert_array_equal(one, other)


BUILT: dict[str, tuple[layers.Layer, Any, Any, list[str]]] = {
    "Dense": (layers.Dense(5), ("n", 3), ("n", 5), ["kernel", "offset"]),
    "Dense without offset": (layers.Dense(5, offset=False, kernel=nn.he_normal), (7, 3), (7, 5), ["kernel"]),
    "Dropout": (layers.Dropout(0.5), ("n", 3), ("n", 3), []),
    "BatchNorm": (layers.BatchNorm(), ("n", 3), ("n", 3), ["mean", "variance", "scale", "offset"]),
    "Flatten": (layers.Flatten(), ("n", 3, 4), ("n", 12), []),
    "Flatten a vector": (layers.Flatten(), ("n",), ("n", 1), []),
}


@pytest.mark.parametrize(("layer", "shape", "expected", "names"), BUILT.values(), ids=BUILT)
@pytest.mark.parametrize("training", [True, False])
def test_a_layer_makes_the_variables_that_it_needs_in_the_dtype_of_its_inputs(
    layer: layers.Layer, shape: Any, expected: Any, names: list[str], training: bool
) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", shape)
        made = layer.build(x)(x, training)

    assert [one.name for one in graph.variables] == names
    assert {one.dtype for one in graph.variables} <= {np.dtype("float64")}
    assert made.shape == expected
    assert made.dtype == np.float64


def test_an_embedding_takes_integers_and_gives_vectors() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("int64", ("n", 7))
        made = layers.Embedding(10, 3).build(x)(x, True)

    assert made.shape == ("n", 7, 3)
    assert graph["table"].shape == (10, 3)
    assert made.dtype == np.float32


UNKNOWN: dict[str, Callable[[], object]] = {
    "Dense of an unknown size": lambda: layers.Dense(1).build(ag.placeholder("float32", ("n", None))),
    "Dense of an unknown rank": lambda: layers.Dense(1).build(ag.placeholder("float32")),
    "Dense of integers": lambda: layers.Dense(1).build(ag.placeholder("int64", (2, 2))),
    "Flatten of an unknown size": lambda: layers.Flatten().build(ag.placeholder("float32", ("n", None))),
    "Flatten of a number": lambda: layers.Flatten().build(ag.placeholder("float32", ())),
}


@pytest.mark.parametrize("make", UNKNOWN.values(), ids=UNKNOWN)
def test_a_layer_that_cannot_be_built_is_an_error(make: Callable[[], object]) -> None:
    with ag.Graph(), pytest.raises(ag.errors.SpecError):
        make()


@pytest.mark.parametrize("activation", ["relu", layers.Dense(2)])
def test_an_activation_that_is_no_function_is_refused_when_it_is_built(activation: Any) -> None:
    with pytest.raises(ag.errors.SpecTypeError, match="give a function of one node"):
        ag.Sequential([layers.Dense(3, activation)], (4,))


@pytest.mark.parametrize("epsilon", [-1e-3, float("nan")])
def test_a_normalization_takes_no_negative_epsilon(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        ag.Sequential([layers.BatchNorm(epsilon=epsilon)], (4,))
