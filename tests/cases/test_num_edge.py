"""Empty arrays, rank 0, NaN and infinity."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

from .helpers import run


@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((0, 0), None), ((0, 3), 0)])
@pytest.mark.parametrize("op", ["max", "min"])
async def test_ag_164_the_largest_of_nothing_is_an_error_that_names_the_node(op: str, shape: Any, axis: Any) -> None:
    """https://github.com/numpy/numpy/issues/13582, https://github.com/numpy/numpy/issues/5032."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None,) * len(shape))
        y = getattr(ag.ops, op)(x, axis=axis, name="largest")

    message = f"zero-size array to reduction operation {op}imum which has no identity"
    with pytest.raises(ValueError, match=message) as caught:
        await run(graph, y, {x: np.zeros(shape)})
    assert any("'largest'" in note for note in caught.value.__notes__)


async def test_ag_164_the_largest_along_an_axis_of_an_empty_array() -> None:
    """https://github.com/numpy/numpy/issues/13582."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None, None))
        y = ag.ops.max(x, axis=1)

    assert (await run(graph, y, {x: np.zeros((0, 3))})).shape == (0,)


async def test_ag_166_the_mean_along_an_empty_axis_is_nan_and_warns_as_numpy_does() -> None:
    """https://github.com/scikit-hep/awkward/issues/1320, https://github.com/numpy/numpy/issues/5484."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None, None))
        mean, total = ag.ops.mean(x, axis=1), ag.ops.sum(x, axis=1)
    fed = np.zeros((3, 0))

    with pytest.warns(RuntimeWarning) as by_numpy:
        fed.mean(axis=1)
    with pytest.warns(RuntimeWarning) as warned:
        results = await run(graph, [mean, total], {x: fed})
    assert sorted(str(one.message) for one in warned) == sorted(str(one.message) for one in by_numpy)
    np.testing.assert_array_equal(results[0], [np.nan] * 3)
    np.testing.assert_array_equal(results[1], [0.0] * 3)


ZEROS: dict[str, Any] = {"number": 1.0, "array": np.array(1.0), "scalar": np.float64(1.0)}


@pytest.mark.parametrize("fed", ZEROS.values(), ids=ZEROS)
async def test_ag_169_a_value_of_rank_0_is_an_array_wherever_it_is_seen(fed: Any) -> None:
    """https://github.com/numpy/numpy/issues/6051, https://github.com/numpy/numpy/issues/4563, https://github.com/numpy/numpy/issues/13105."""
    seen: list[tuple[type, int]] = []

    @ag.op
    def look(value: Any) -> None:
        seen.append((type(value), value.ndim))

    with ag.Graph() as graph:
        x, v, preset = (
            ag.placeholder("float64", ()),
            ag.placeholder("float64", (3,)),
            ag.placeholder("float64", (), default=1.0),
        )
        constant = ag.constant(np.float64(1.0))
        nodes = [
            x, ag.ops.cos(x), ag.ops.sum(v), v[0], ag.ops.reshape(x, ()), ag.ops.real(x), x + 1,  # fed and computed
            constant, ag.ops.cos(constant), constant + 1, preset, ag.ops.sin(preset), ag.ops.zeros(()),  # known before
        ]  # fmt: skip
        looks = [look(node) for node in nodes]

    results = await run(graph, [*nodes, *looks], {x: fed, v: [1, 2, 3]})

    assert [(type(one), one.ndim) for one in results[: len(nodes)]] == [(np.ndarray, 0)] * len(nodes)
    assert seen == [(np.ndarray, 0)] * len(nodes)
    assert [float(one) for one in results[:3]] == [1.0, math.cos(1.0), 6.0]


async def test_ag_170_division_by_zero_and_remainders_of_infinity() -> None:
    """https://github.com/numpy/numpy/issues/14900, https://github.com/cupy/cupy/issues/9111."""
    with ag.Graph() as graph:
        x, y = ag.placeholder("float64", None), ag.placeholder("float64", None)
        quotient, remainder = x // y, x % y

    with pytest.warns(RuntimeWarning, match="divide by zero encountered in floor_divide"):
        assert await run(graph, quotient, {x: [1.0], y: [0.0]}) == [np.inf]
    with pytest.warns(RuntimeWarning, match="invalid value encountered in remainder"):
        assert np.isnan(await run(graph, remainder, {x: [1.0], y: [0.0]})).all()
    assert await run(graph, remainder, {x: 1.0, y: np.inf}) == 1.0


async def test_ag_170_errstate_is_the_callers() -> None:
    """https://github.com/numpy/numpy/issues/14900."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", None)
        known = ag.constant(1.0) / 0.0
        nodes = [x / 0.0, known]

    for node in nodes:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            assert await run(graph, node, {x: 1.0}) == np.inf
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero") as caught:
            await run(graph, node, {x: 1.0})
        assert any(re.search("divide|truediv", note) for note in caught.value.__notes__)
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide"):
            assert await run(graph, node, {x: 1.0}) == np.inf


async def test_ag_171_nan_is_the_largest_and_the_first_of_the_largest() -> None:
    """https://github.com/pytorch/pytorch/issues/61901, https://github.com/numpy/numpy/pull/3534."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        nodes = [ag.ops.max(x), ag.ops.min(x), ag.ops.argmax(x), ag.ops.argmin(x)]

    largest, smallest, *places = await run(graph, nodes, {x: [1, np.nan, 3]})
    assert np.isnan(largest)
    assert np.isnan(smallest)
    assert places == [1, 1]
