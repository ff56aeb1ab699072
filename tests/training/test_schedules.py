"""Schedules are the functions of the step that their papers give."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import schedules

from .helpers import runs


async def rates(make: Callable[[ag.Node], ag.Node], steps: Any, dtype: str = "int64") -> list[float]:
    """The learning rate at each of `steps`."""
    with ag.Graph() as graph:
        step = ag.placeholder(dtype, ())
        rate = make(step)
    assert rate.dtype == np.float64
    return [float(value) for value in await runs(graph, rate, [{step: one} for one in steps])]


async def test_exponential_decay_multiplies_by_the_rate_every_so_many_steps() -> None:
    found = await rates(lambda step: schedules.exponential_decay(step, 0.1, 10, 0.5), [0, 5, 10, 25])
    np.testing.assert_allclose(found, [0.1, 0.1 * 0.5**0.5, 0.05, 0.1 * 0.5**2.5], rtol=1e-15)


async def test_exponential_decay_by_a_staircase_waits_for_the_next_stair() -> None:
    found = await rates(lambda step: schedules.exponential_decay(step, 0.1, 10, 0.5, staircase=True), [0, 9, 10, 29])
    np.testing.assert_allclose(found, [0.1, 0.1, 0.05, 0.025], rtol=1e-15)


async def test_cosine_decay_goes_down_half_a_cosine_and_stays_there() -> None:
    found = await rates(lambda step: schedules.cosine_decay(step, 0.5, 100, floor=0.1), [0, 25, 50, 100, 1000])
    np.testing.assert_allclose(found, [0.5, 0.1 + 0.4 * (1 + np.sqrt(0.5)) / 2, 0.3, 0.1, 0.1], rtol=1e-15)


async def test_piecewise_constant_changes_after_its_boundaries() -> None:
    found = await rates(lambda step: schedules.piecewise_constant(step, [2, 4], [1.0, 0.5, 0.1]), range(7))
    assert found == [1.0, 1.0, 1.0, 0.5, 0.5, 0.1, 0.1]


async def test_warm_up_goes_up_in_a_straight_line() -> None:
    found = await rates(lambda step: schedules.warm_up(step, 0.3, 4, start=0.1), range(7))
    np.testing.assert_allclose(found, [0.1, 0.15, 0.2, 0.25, 0.3, 0.3, 0.3], rtol=1e-15)
    assert found[4:] == [0.3] * 3


async def test_warm_up_leads_into_another_schedule() -> None:
    def both(step: ag.Node) -> ag.Node:
        return schedules.warm_up(step, schedules.exponential_decay(step, 1.0, 1, 0.5), 2)

    assert await rates(both, range(4)) == [0.0, 0.25, 0.25, 0.125]


@pytest.mark.parametrize("dtype", ["int32", "float32"])
async def test_a_step_may_be_of_any_real_dtype(dtype: str) -> None:
    assert await rates(lambda step: schedules.exponential_decay(step, 1.0, 2, 0.25), [0, 1, 2], dtype) == [1, 0.5, 0.25]


MISTAKES: dict[str, Callable[[ag.Node], ag.Node]] = {
    "decay_steps=0": lambda step: schedules.exponential_decay(step, 0.1, 0, 0.5),
    "decay_steps=-1": lambda step: schedules.cosine_decay(step, 0.1, -1),
    "steps=nan": lambda step: schedules.warm_up(step, 0.1, float("nan")),
    "boundaries [1, 1]": lambda step: schedules.piecewise_constant(step, [1, 1], [0.1, 0.2, 0.3]),
    "decay_rate=-0.5": lambda step: schedules.exponential_decay(step, 0.1, 10, -0.5),
    "boundaries [nan]": lambda step: schedules.piecewise_constant(step, [float("nan")], [0.1, 0.2]),
    "boundaries [1]": lambda step: schedules.piecewise_constant(step, [1], [0.1]),
}


@pytest.mark.parametrize(("message", "make"), MISTAKES.items(), ids=MISTAKES)
def test_a_schedule_that_means_nothing_is_an_error(message: str, make: Callable[[ag.Node], ag.Node]) -> None:
    with ag.Graph(), pytest.raises(ValueError, match=re.escape(message)):
        make(ag.global_step())
