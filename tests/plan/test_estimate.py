"""What a node costs before it has run: by op, dtype, and the sizes that are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._graph.spec import ArraySpec
from asyncgraph._plan.estimate import NOTHING, Estimate, Estimates, estimate
from asyncgraph._plan.sizes import Size, Sizes
from asyncgraph.ops._build import build, build_several

ops = ag.ops
BUDGET_S = 500e-6
BETAS = {"beta1": 0.9, "beta2": 0.999}


def microseconds(build: Callable[..., Any], *specs: str) -> float:
    """The estimate of an op on values of known sizes, whose call it is if there are several results."""
    with ag.Graph():
        made = build(*[placeholder(spec) for spec in specs])
    node = made[0].inputs[0] if isinstance(made, tuple) else made
    work = estimate(node)
    assert work.per_element_s == 0
    return work.seconds(10**9) * 1e6


def placeholder(spec: str) -> ag.Node:
    parsed = ArraySpec.parse(spec)
    return ag.placeholder(parsed.dtype, parsed.shape)


@pytest.mark.parametrize(
    ("build", "specs", "least", "most"),
    [
        (ops.add, ["float64[100000]"] * 2, 50, 150),
        (ops.add, ["int8[100000]"] * 2, 7, 30),
        (ops.add, ["float16[100000]"] * 2, 650, 1950),
        (ops.add, ["complex128[100000]"] * 2, 130, 390),
        (ops.divide, ["complex128[100000]"] * 2, 800, 2400),
        (ops.sin, ["float64[100000]"], 2200, 6600),
        (ops.sin, ["float32[100000]"], 300, 900),
        (ops.sin, ["int64[100000]"], 2200, 6600),
        (ops.pow, ["float64[100000]"] * 2, 2200, 6600),
        (lambda x: x**2, ["float64[100000]"], 40, 120),
        (lambda x: x**0.5, ["float64[100000]"], 140, 420),
        (lambda x: x**3, ["float64[100000]"], 2100, 6300),
        (ops.floor_divide, ["int64[100000]"] * 2, 200, 600),
        (ops.floor_divide, ["float64[100000]"] * 2, 2200, 6600),
        (ops.where, ["bool[100000]", "float64[100000]", "float64[100000]"], 400, 1200),
        (lambda x: ops.take(x, [0] * 100_000, axis=0), ["float64[100000]"], 160, 480),
        (lambda x, y: ops.at(x).take_add([0] * 100_000, y), ["float64[100000]"] * 2, 300, 900),
        (lambda x, y: ops.at(x)[:].add(y), ["float64[100000]"] * 2, 60, 180),
        (ag.nn.relu, ["float32[100000]"], 40, 120),
        (lambda x, y: build("where_positive", (x, y)), ["float32[100000]"] * 2, 40, 120),
        (lambda *xs: build_several("adam", xs, BETAS), ["float32[100000]"] * 4 + ["float32[]"] * 2, 210, 650),
        (lambda *xs: build_several("adam", xs, BETAS), ["float64[100000]"] * 4 + ["float64[]"] * 2, 450, 1350),
        (lambda *xs: build_several("softmax_cross_entropy", xs), ["float32[10000,10]", "int64[10000]"], 390, 1170),
        (lambda *xs: build_several("softmax_cross_entropy", xs), ["float32[100,1000]", "int64[100]"], 230, 690),
        (ops.sum, ["float64[100000]"], 30, 90),
        (ops.std, ["float64[100000]"], 110, 330),
        (ops.std, ["float16[100000]"], 2600, 7800),
        (lambda x: ops.sum(x, axis=1), ["float64[25000,4]"], 500, 1500),
        (lambda x: ops.sum(x, axis=0), ["float64[25000,4]"], 450, 1400),
        (ops.sum, ["float64[25000,4]"], 30, 90),
        (ops.add, ["float64[25000,4]", "float64[4]"], 200, 600),
        (ops.matmul, ["float64[300,300]"] * 2, 1700, 5100),
        (ops.matmul, ["float32[300,300]"] * 2, 780, 2400),
        (ops.matmul, ["int64[300,300]"] * 2, 25_000, 75_000),
        (ops.matmul, ["float64[1000,1000]", "float64[1000]"], 190, 570),
        (ops.matmul, ["float64[100,32,32]"] * 2, 230, 1000),
        (ops.vecdot, ["float64[1000,300]"] * 2, 57, 171),
        (lambda x, y: ops.tensordot(x, y, axes=2), ["float64[400,400]"] * 2, 40, 130),
        (lambda x, y: ops.tensordot(x, y, axes=([0], [0])), ["float64[300,300]"] * 2, 1700, 5100),
        (ops.meshgrid, ["float64[1000]", "float64[300]"], 100, 500),
        (lambda x: ops.zeros((1000, 1000)), ["float64[]"], 400, 1200),
    ],
)
def test_an_estimate_is_between_what_numpy_took_and_three_times_that(
    build: Callable[..., Any], specs: list[str], least: float, most: float
) -> None:
    assert least <= microseconds(build, *specs) <= most


@pytest.mark.parametrize(
    "build",
    [lambda x: x[0], lambda x: x.T, ops.matrix_transpose, lambda x: ops.reshape(x[:, 0], (1000, 1)).T, ops.unstack],
)
def test_views_are_free(build: Callable[..., Any]) -> None:
    assert microseconds(build, "float64[1000,1000]") == 0


# -- sizes that are not known ------------------------------------------------------------------------


def per_element_ns(fed: list[str], build: Callable[..., ag.Node]) -> float:
    """What the estimate grows by for each element of the largest fed array."""
    with ag.Graph():
        feeds = [placeholder(spec) for spec in fed]
        work = Estimates([feed.spec for feed in feeds]).of(build(*feeds))
    return work.per_element_s * 1e9


def test_an_unknown_size_is_taken_to_be_the_largest_fed_arrays() -> None:
    for spec in ("float64[n]", "float64[?,?]", "float64[...]", "float64[n,256]"):
        assert per_element_ns([spec], ops.negative) == pytest.approx(1.0)


def test_a_named_dimension_is_as_large_as_the_fed_array_that_has_it_allows() -> None:
    once = per_element_ns(["float64[n,256]"], lambda x: ops.negative(x))
    wider = per_element_ns(["float64[n,256]"], lambda x: ops.negative(ops.matmul(x, ops.zeros((256, 1024)))))
    narrow = per_element_ns(["float64[n,256]"], lambda x: ops.negative(x[:, :64]))
    assert [wider, narrow] == pytest.approx([4 * once, once / 4])
    both = per_element_ns(["float64[n]", "float64[n,256]"], lambda a, b: ops.negative(a))
    assert both == pytest.approx(once / 256)


def test_rows_against_rows_cost_what_their_result_has() -> None:
    distances = per_element_ns(["float64[n,8]"], lambda x: ops.subtract(x[:, None, :], ops.zeros((1, 100, 8))))
    assert distances == pytest.approx(100 * (1 + 8 / 8))


def test_an_outer_product_that_fits_into_the_budget_by_its_estimate_does_fit() -> None:
    with ag.Graph():
        x, y = placeholder("float64[n]"), placeholder("float64[m]")
        work = Estimates([x.spec, y.spec]).of(ops.multiply(x[:, None], y[None, :]))
    most = work.most_elements(BUDGET_S)
    assert 100 < most < 1000
    assert estimate_of_square(int(most)).seconds(0) < BUDGET_S


def estimate_of_square(side: int) -> Estimate:
    with ag.Graph():
        return estimate(ops.negative(ops.zeros((side, side))))


def test_a_product_of_matrices_of_unknown_depth_is_estimated_by_its_width() -> None:
    def rows(fed: list[str]) -> float:
        return per_element_ns(fed, ops.matmul)

    assert 100 * 0.07 < rows(["float64[n,k]", "float64[k,100]"]) < 600  # most of it writes the result, if k is 1
    assert rows(["float64[n,k]", "float64[k]"]) < 15
    assert per_element_ns(["float64[n]"], lambda x: ops.vecdot(x, x)) < 1
    assert rows(["float64[...]", "float64[...]"]) > 60


def test_what_is_asked_twice_is_the_same_and_numbers_do_not_matter_but_to_pow() -> None:
    with ag.Graph():
        x = placeholder("float64[n]")
        estimates = Estimates([x.spec])
        assert estimates.of(x + 1) is estimates.of(x + 2)
        assert estimates.of(x**2) != estimates.of(x**3)
        assert estimates.of(x**2) == estimates.of(ops.square(x))


# -- what it is used for -----------------------------------------------------------------------------


def test_the_most_elements_are_those_at_which_the_budget_is_spent() -> None:
    work = Estimate(100e-6, 1e-9)
    assert work.most_elements(500e-6) == pytest.approx(400_000)
    assert work.seconds(400_000) == pytest.approx(500e-6)
    assert Estimate(1e-3, 0).most_elements(500e-6) == -1
    assert Estimate(1e-6, 0).most_elements(500e-6) == math.inf
    assert NOTHING + work == work


def test_sizes_of_dimensions_that_nothing_fed_has_are_those_of_the_narrowest_fed_array() -> None:
    sizes = Sizes([ArraySpec.parse("float32[n,16]"), ArraySpec.parse("float32[m,4]")])
    found = [
        sizes.of(ArraySpec.parse(text)) for text in ("float32[3,5]", "float32[k,8]", "float32[n,m,4]", "float32[0]")
    ]
    assert found == [Size(15.0), Size(0.0, 2.0), Size(0.0, 4 / 16 * 1000), Size(0.0)]


@pytest.mark.parametrize(("length", "where"), [(1000, "inline_segments"), (5_000_000, "offloaded_segments")])
async def test_what_a_user_op_returned_counts_like_what_is_fed(length: int, where: str) -> None:
    @ag.op(spec="float64[n]")
    async def loaded() -> Any:
        return np.zeros(length)

    with ag.Graph() as graph:
        total = ops.sum(ops.negative(loaded.node()))
    async with ag.Session(graph) as session:
        await session.run(total)
        statistics = session.statistics()
    assert getattr(statistics, where) == 1
    assert statistics.inline_segments + statistics.offloaded_segments == 1
