"""Gradients where a function has none, or more than one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph.testing import check_gradients

from .helpers import values

Build = Callable[..., Any]


def gradients_at(build: Build, *inputs: Any) -> list[Any]:
    """The gradients of what `build` builds, as lists, by each input; floating-point warnings are off."""
    with ag.Graph(), np.errstate(all="ignore"):
        xs = [ag.placeholder("float64", np.shape(one)) for one in inputs]
        made = ag.gradients(build(*xs), xs)
        return [one.tolist() for one in values(made, dict(zip(xs, inputs, strict=True)))]


@pytest.mark.parametrize(
    ("build", "inputs", "expected"),
    [
        (ops.maximum, ([1.0, 2.0], [1.0, 3.0]), [[0.5, 0.0], [0.5, 1.0]]),
        (ops.minimum, ([1.0, 2.0], [1.0, 3.0]), [[0.5, 1.0], [0.5, 0.0]]),
        (lambda x: ops.maximum(x, 0), ([-1.0, 0.0, 1.0],), [[0.0, 0.5, 1.0]]),
        (lambda x: ops.maximum(x, x), ([2.0],), [[1.0]]),
        (lambda x: ops.clip(x, -1, 1), ([-2.0, -1.0, 0.0, 1.0, 2.0],), [[0.0, 0.5, 1.0, 0.5, 0.0]]),
        (ops.clip, (0.0, 1.0, 2.0), [0.0, 1.0, 0.0]),
        (ops.clip, (3.0, 1.0, 2.0), [0.0, 0.0, 1.0]),
        (ops.clip, (1.5, 2.0, 1.0), [0.0, 0.0, 1.0]),
        (ops.max, ([3.0, 1.0, 3.0, 3.0],), [[1 / 3, 0.0, 1 / 3, 1 / 3]]),
        (lambda x: ops.min(x, axis=1), ([[3.0, 1.0], [2.0, 2.0]],), [[[0.0, 1.0], [0.5, 0.5]]]),
    ],
)
def test_those_that_tie_share(build: Build, inputs: tuple[Any, ...], expected: list[Any]) -> None:
    assert gradients_at(build, *inputs) == expected


@pytest.mark.parametrize(
    ("build", "inputs", "expected"),
    [
        (ops.abs, ([0.0, -0.0],), [[0.0, 0.0]]),
        (ops.hypot, (0.0, 0.0), [0.0, 0.0]),
        (ops.sqrt, (0.0,), [np.inf]),
        (lambda x: x**2, (0.0,), [0.0]),
        (lambda x: x**0, (0.0,), [0.0]),
        (lambda x: x**1, (0.0,), [1.0]),
        (ops.pow, (0.0, 0.0), [0.0, 0.0]),
        (ops.pow, (0.0, 2.0), [0.0, 0.0]),
        (ops.pow, (0.0, 1.0), [1.0, 0.0]),
        (lambda x: 0.0**x, (2.0,), [0.0]),
        (ops.logaddexp, (-np.inf, 1.0), [0.0, 1.0]),
    ],
)
def test_at_zero_derivatives_are_zero_unless_they_are_infinite(
    build: Build, inputs: tuple[Any, ...], expected: list[Any]
) -> None:
    assert gradients_at(build, *inputs) == expected


def test_what_has_a_square_root_of_zero_in_it_has_infinity_or_nan() -> None:
    assert np.isnan(gradients_at(lambda c, x: c * ops.sqrt(4 * x), 0.0, 0.0)[1])
    assert np.isnan(gradients_at(ops.std, [2.0, 2.0])).all()
    assert gradients_at(lambda x: ops.sqrt(x + 1e-12), 0.0) == [pytest.approx(5e5)]


def test_where_keeps_what_it_does_not_choose_out_of_the_gradient() -> None:
    assert gradients_at(lambda x, y: ops.where(x > 0, x, y), [1.0, -1.0], [np.nan, 2.0]) == [[1.0, 0.0], [0.0, 1.0]]
    # An infinite gradient that comes to it stays on its side.
    infinite = gradients_at(lambda x, y: ops.sqrt(ops.where([True, False], x, y)), [0.0, 5.0], [5.0, 1.0])
    assert infinite == [[np.inf, 0.0], [0.0, 0.5]]


def test_where_cannot_keep_out_the_infinite_derivative_of_what_it_does_not_choose_unless_it_chose_before() -> None:
    def once(x: ag.Node) -> ag.Node:
        return ops.where(x > 0, ops.sqrt(x), 0.0)

    def twice(x: ag.Node) -> ag.Node:
        return ops.where(x > 0, ops.sqrt(ops.where(x > 0, x, 1.0)), 0.0)

    assert np.isnan(gradients_at(once, [4.0, 0.0])[0]).tolist() == [False, True]
    assert gradients_at(twice, [4.0, 0.0]) == [[0.25, 0.0]]


def test_a_nan_gets_no_gradient_where_it_is_compared_and_spoils_no_other() -> None:
    assert gradients_at(ops.maximum, [np.nan, 1.0], [2.0, 2.0]) == [[0.0, 0.0], [0.0, 1.0]]
    assert gradients_at(lambda x: ops.clip(x, 0, 1), [np.nan, 0.5]) == [[0.0, 1.0]]


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_products_with_factors_of_zero_have_their_gradients_and_second_derivatives(zeros: int) -> None:
    factors = np.array([0.0] * zeros + [2.0, -3.0, 0.5][: 4 - zeros])
    check_gradients(ops.prod, factors, order=2)
    check_gradients(lambda x: ops.prod(x, axis=0, keepdims=True), np.stack([factors, factors[::-1]], axis=1), order=2)


def test_products_with_one_factor_of_zero_can_be_differentiated_as_often_as_one_likes() -> None:
    check_gradients(ops.prod, np.array([2.0, 0.0, -3.0]), order=3)


def test_rows_that_are_taken_twice_add_up() -> None:
    def build(x: ag.Node) -> ag.Node:
        return ops.take(x, [2, 0, 2, -1], axis=0) * np.array([[1.0], [10.0], [100.0], [1000.0]])

    assert gradients_at(build, np.zeros((3, 2))) == [[[10.0, 10.0], [0.0, 0.0], [1101.0, 1101.0]]]


def test_products_of_complex_numbers_and_the_absolute_value_give_the_direction_of_growth() -> None:
    with ag.Graph():
        z = ag.placeholder("complex128", ())
        (by_abs,) = ag.gradients(ops.abs(z), z)
        (by_square,) = ag.gradients(ops.real(z * ops.conj(z)), z)
        (by_imag,) = ag.gradients(ops.imag(z), z)
        (holomorphic,) = ag.gradients(z**2, z)
    assert values([by_abs, by_square, by_imag, holomorphic], {z: 3 + 4j}) == [0.6 + 0.8j, 6 + 8j, 1j, 6 - 8j]
    assert values(by_abs, {z: 0}) == 0
