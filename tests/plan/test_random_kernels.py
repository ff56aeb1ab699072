"""What is drawn: it depends on seed, run and stream alone, and has the distribution that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from math import erf, sqrt
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._graph.op import RANDOM_OPS
from asyncgraph._plan.random_kernels import RANDOM_KERNELS, Key

random = ag.ops.random

Array = np.ndarray[Any, Any]
Draw = Callable[..., Array]
"""Draws of a node: called with the key of the run, and what its operands are."""

MANY = 20_000


def drawn(build: Callable[..., ag.Node], *args: Any, **options: Any) -> Draw:
    """The kernel of what is built, in a graph of its own."""
    with ag.Graph():
        node = build(*args, **options)
    return RANDOM_KERNELS[node.op.name](node)


def reference(key: Key, stream: str) -> np.random.Generator:
    """NumPy's own generator at the start of a stream."""
    digest = blake2b(f"{' '.join(map(str, key))} {stream}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def test_every_op_that_draws_has_a_kernel() -> None:
    assert set(RANDOM_KERNELS) == {op.name for op in RANDOM_OPS}


# -- streams -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_stream_is_that_of_philox_by_a_hash_of_seed_run_and_name_in_any_process(dtype: Any) -> None:
    for key in ((17, 5), (2**200, 0), (-3, 2**70), (1, 2, 3, 0)):
        uniform = drawn(random.uniform, 7, dtype=dtype, name="größe/x")(key)
        normal = drawn(random.normal, (7,), dtype=dtype, seed=12)(key)

        np.testing.assert_array_equal(uniform, reference(key, "name größe/x").random(7, dtype))
        chosen = (max(key[0], 0), *key[1:])  # A negative seed is one that nobody chose.
        np.testing.assert_array_equal(normal, reference(chosen, "seed 12").standard_normal(7, dtype))
    order = drawn(random.permutation, 9, name="order")((1, 2))
    np.testing.assert_array_equal(order, reference((1, 2), "name order").permutation(9))


def test_a_draw_is_the_same_whatever_was_drawn_before() -> None:
    # Of an odd number of 32 bits, a generator keeps half of what it has drawn.
    odd, others = drawn(random.uniform, 3, dtype="float32", name="odd"), drawn(random.normal, 5, name="other")
    coins = drawn(random.bernoulli, 0.5, 7, name="coins")
    alone = [draw((1, 1)) for draw in (odd, others, coins)]

    for _ in range(3):
        for draw, expected in zip((odd, others, coins), alone, strict=True):
            np.testing.assert_array_equal(draw((1, 1)), expected)


def test_threads_that_draw_at_once_draw_what_each_would_draw_alone() -> None:
    draws = [drawn(random.normal, 1000, name=f"n{index}") for index in range(4)]
    expected = [[draw((3, run)) for run in range(20)] for draw in draws]
    together = Barrier(4)

    def all_runs(draw: Draw) -> list[Array]:
        together.wait(timeout=30)
        return [draw((3, run)) for run in range(20)]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(all_runs, draws))
    np.testing.assert_array_equal(found, expected)


def test_seed_run_and_stream_each_change_all_numbers() -> None:
    keys = [(1, 1), (1, 2), (2, 1), (11, 1), (1, 11), (12, 1), (1, 1, 1), (1, 1, 0), (1, 1, 1, 1)]
    streams = [{"name": "a"}, {"name": "b"}, {"name": "1 a"}, {"seed": 0}, {"seed": 1}, {"name": "seed 1"}]
    numbers = [drawn(random.uniform, 50, **stream)(key) for key in keys for stream in streams]

    assert len(np.unique(numbers)) == 50 * len(keys) * len(streams)


def test_nodes_with_one_seed_draw_the_same_whatever_their_names() -> None:
    first, second = (drawn(random.uniform, 5, name=name, seed=8) for name in ("a", "b"))

    np.testing.assert_array_equal(first((1, 1)), second((1, 1)))


def test_streams_of_neighbouring_runs_nodes_and_seeds_are_not_correlated() -> None:
    by_run = [drawn(random.normal, MANY)((0, run)) for run in range(10)]
    by_name = [drawn(random.normal, MANY, name=f"n{index}")((0, 0)) for index in range(10)]
    by_seed = [drawn(random.normal, MANY, name="x")((seed, 0)) for seed in range(10)]

    correlations = np.corrcoef([*by_run, *by_name, *by_seed]) - np.eye(30)
    assert np.abs(correlations).max() < 4.5 / sqrt(MANY)


# -- shapes and what belongs to whom -----------------------------------------------------------------


def test_a_shape_is_completed_by_sizes_or_taken_from_a_value() -> None:
    with ag.Graph():
        some, none = ag.placeholder("float32", ("n", 3, None)), ag.placeholder("float32")
        for build in (random.uniform, random.normal, lambda like: random.bernoulli(0.5, like)):
            partly, whole = build(some), build(none)

            assert RANDOM_KERNELS[partly.op.name](partly)((1, 1), np.float64(2), np.array(4.0)).shape == (2, 3, 4)
            assert RANDOM_KERNELS[whole.op.name](whole)((1, 1), np.zeros((5, 0, 2))).shape == (5, 0, 2)
        order = random.permutation(some).inputs[1]
        assert sorted(RANDOM_KERNELS[order.op.name](order)((1, 1), np.float64(3))) == [0, 1, 2]


@pytest.mark.parametrize(
    ("draw", "spec"),
    [
        (drawn(random.uniform, ()), "float64[]"),
        (drawn(random.uniform, (2, 3), -1, 1, dtype="float32"), "float32[2,3]"),
        (drawn(random.normal, (), 1.0, 2.0), "float64[]"),
        (drawn(random.normal, (0, 3), dtype="float32"), "float32[0,3]"),
        (drawn(random.bernoulli, 0.5), "bool[]"),
        (drawn(random.bernoulli, 0.5, (3, 5)), "bool[3,5]"),
        (drawn(random.bernoulli, 0.5, (0,)), "bool[0]"),
        (drawn(random.permutation, 4), "int64[4]"),
        (drawn(random.permutation, 0), "int64[0]"),
    ],
)
def test_a_draw_is_a_new_array_of_the_nodes_dtype_and_shape(draw: Draw, spec: str) -> None:
    first, second = draw((1, 1)), draw((1, 1))

    assert type(first) is np.ndarray
    assert f"{first.dtype}[{','.join(map(str, first.shape))}]" == spec
    assert first.flags.writeable
    assert not np.shares_memory(first, second)


# -- distributions -----------------------------------------------------------------------------------


def furthest(values: Array, cumulative: Callable[[Array], Array]) -> float:
    """Kolmogorov's and Smirnov's distance to a distribution, times the root of the number of values."""
    expected = cumulative(np.sort(values))
    steps = np.arange(len(values) + 1) / len(values)
    return sqrt(len(values)) * max(float(np.max(steps[1:] - expected)), float(np.max(expected - steps[:-1])))


FURTHEST = 1.95
"""What one in a thousand samples exceeds. These are always the same ones."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.5, 7.0), (1e6, 1e6 + 4)])
def test_uniform_numbers_are_spread_evenly_from_low_to_before_high(low: float, high: float, dtype: str) -> None:
    values = drawn(random.uniform, MANY, low, high, dtype=dtype)((3, 1))

    assert values.dtype == dtype
    assert low <= values.min()
    assert values.max() < high
    distance = furthest(values.astype("float64"), lambda x: (x - low) / (high - low))
    # Numbers of float32 around 1e6 are a 16th apart.
    assert distance < FURTHEST + (dtype == "float32" and low == 1e6) * sqrt(MANY) / 64
    assert abs(values.mean(dtype="float64") - (low + high) / 2) < 4 * (high - low) / sqrt(12 * MANY)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_numbers_never_are_high_although_they_are_rounded(dtype: str) -> None:
    low, high = 1.0, float(np.nextafter(np.dtype(dtype).type(1), np.dtype(dtype).type(2)))
    assert set(drawn(random.uniform, 1000, low, high, dtype=dtype)((1, 1)).tolist()) == {low}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (-3.0, 0.25), (5.0, 0.0)])
def test_normal_numbers_have_the_mean_and_the_deviation(mean: float, std: float, dtype: str) -> None:
    values = drawn(random.normal, MANY, mean, std, dtype=dtype)((3, 1))

    assert values.dtype == dtype
    if not std:
        assert (values == mean).all()
        return
    standard = (values.astype("float64") - mean) / std
    assert furthest(standard, np.vectorize(lambda x: 0.5 + erf(x / sqrt(2)) / 2)) < FURTHEST
    moments = [float(np.mean(standard**power)) for power in (1, 2, 3, 4)]
    np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=4 * sqrt(96 / MANY))


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.3, 0.5, 0.999, 1.0])
def test_coins_are_true_with_the_probability_and_alone(p: float) -> None:
    values = drawn(random.bernoulli, p, MANY)((3, 1))

    assert abs(float(values.mean()) - p) <= 4 * sqrt(p * (1 - p) / MANY)
    # Neighbours are of one draw of 64 bits.
    both = float((values[::2] & values[1::2]).mean())
    assert abs(both - p**2) <= 4 * sqrt(p**2 * (1 - p**2) / (MANY / 2))


def test_every_permutation_is_as_likely() -> None:
    draw = drawn(random.permutation, 4)
    found, counts = np.unique([draw((1, run)) for run in range(4800)], axis=0, return_counts=True)

    assert len(found) == 24
    assert (((counts - 200) ** 2) / 200).sum() < 49.7  # what one in a thousand samples exceeds


def test_a_value_of_rank_0_has_no_rows_to_put_in_order_and_the_error_names_the_node() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float32", name="x")
        shuffled = random.permutation(x, name="shuffled")

    with ag.BlockingSession(graph) as session:
        assert sorted(session.run(shuffled, {x: [1.0, 2.0, 3.0]}).results) == [1.0, 2.0, 3.0]
        with pytest.raises(ValueError, match="a value of rank 0 has no rows") as raised:
            session.run(shuffled, {x: 1.0})
    assert raised.value.__notes__[0].startswith("asyncgraph: node 'shuffled_order' (random_permutation) failed")
