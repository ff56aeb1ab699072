"""Gradients are made shorter together, by one factor."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.optimizers import clip_by_global_norm

from .helpers import run


@pytest.mark.parametrize(("limit", "factor"), [(1.0, 1 / 13), (13.0, 1.0), (20.0, 1.0)])
async def test_gradients_together_are_made_as_short_as_the_limit_and_no_shorter(limit: float, factor: float) -> None:
    given = [np.array([3.0, 4.0]), np.array([[12.0]])]
    with ag.Graph() as graph:
        clipped, norm = clip_by_global_norm([ag.constant(given[0]), None, ag.constant(given[1])], limit)

    assert clipped[1] is None
    first, last, length = await run(graph, [clipped[0], clipped[2], norm])
    np.testing.assert_allclose(first, given[0] * factor, rtol=1e-15)
    np.testing.assert_allclose(last, given[1] * factor, rtol=1e-15)
    assert length == 13.0


@pytest.mark.parametrize("odd", [np.inf, np.nan])
async def test_gradients_that_cannot_be_clipped_become_nan(odd: float) -> None:
    with ag.Graph() as graph:
        clipped, _ = clip_by_global_norm([ag.constant([1.0, odd]), ag.constant(2.0)], 1.0)

    assert np.isnan(np.concatenate([np.ravel(one) for one in await run(graph, clipped)])).all()


async def test_a_clipped_gradient_keeps_its_dtype() -> None:
    with ag.Graph():
        clipped, _ = clip_by_global_norm([ag.constant(np.float32(3.0)), ag.constant(4.0)], ag.constant(1.0))

    assert [one.dtype for one in clipped if one is not None] == [np.float32, np.float64]


def test_there_is_something_to_clip_and_a_limit() -> None:
    with ag.Graph(), pytest.raises(ag.errors.GradientError):
        clip_by_global_norm([None], 1.0)
    with ag.Graph(), pytest.raises(ValueError, match="max_norm=0"):
        clip_by_global_norm([ag.constant(1.0)], 0)


@pytest.mark.parametrize("given", [np.array([3, 4]), np.array([3.0, 4j])], ids=["integers", "complex"])
def test_what_is_clipped_is_of_real_numbers(given: np.ndarray) -> None:
    with (
        ag.Graph(),
        pytest.raises(ag.errors.SpecTypeError, match="a gradient is of real numbers"),
    ):
        clip_by_global_norm([ag.constant(1.0), ag.constant(given)], 1.0)


def test_large_gradients_of_float16_have_a_norm() -> None:
    with ag.Graph() as graph:
        clipped, norm = ag.optimizers.clip_by_global_norm([ag.constant(np.array([3000, 4000], "float16"))], 5.0)

    with ag.BlockingSession(graph) as session:
        values, length = session.run([clipped[0], norm]).results
    assert length == 5000
    assert values.dtype == "float16"
    np.testing.assert_allclose(values, [3, 4], rtol=1e-3)
