"""Gradients by variables and through what reads and assigns them; beside random numbers, and at loops."""

from __future__ import annotations

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph.errors import GradientError

from .helpers import values


def test_a_gradient_by_a_variable_adds_up_over_all_reads_of_it() -> None:
    with ag.Graph():
        v = ag.variable([1.0, 2.0], name="v")
        with ag.control_dependencies([ag.constant(0.0)]):
            later = v * 3  # a read of its own
        (made,) = ag.gradients(ops.sum(v * v) + ops.sum(later) + ops.sum(v.read()), v)
    assert values(made).tolist() == [2 + 3 + 1, 4 + 3 + 1]


def test_there_is_none_by_a_variable_that_does_not_matter_nor_by_what_it_begins_with() -> None:
    with ag.Graph():
        start = ag.placeholder("float64", (), default=2.0)
        v, w = ag.variable(start), ag.variable(1.0)
        assert ag.gradients(v * v, [start, w]) == [None, None]


def test_an_assignment_is_differentiated_by_what_it_assigns() -> None:
    with ag.Graph():
        v, x = ag.variable(5.0), ag.placeholder("float64", ())
        by_value, by_variable = ag.gradients(v.assign(x * x) * 2, [x, v])
        assert by_variable is None
        assert values(by_value, {x: 3.0}) == 12.0
        # What is added goes on top of what it was.
        assert values(ag.gradients(v.assign_add(x * x), [x, v]), {x: 3.0}) == [6.0, 1.0]
        assert values(ag.gradients(v.assign_sub(x * x), [x, v]), {x: 3.0}) == [-6.0, 1.0]


def test_a_read_after_an_assignment_is_of_the_variable_and_not_of_what_was_assigned() -> None:
    with ag.Graph():
        v, x = ag.variable(5.0), ag.placeholder("float64", ())
        with ag.control_dependencies([v.assign(x * 2)]):
            by_variable, by_value = ag.gradients(v * v, [v, x])
        assert by_value is None
        assert values(by_variable, {x: 3.0}) == 12.0


def test_descending_along_the_gradient_finds_the_smallest_value() -> None:
    with ag.Graph() as graph:
        v = ag.variable([5.0, -3.0])
        loss = ops.sum(ops.square(v - [1.0, 2.0]))
        (slope,) = ag.gradients(loss, v)
        assert slope is not None
        step = v.assign_sub(0.4 * slope)
    with ag.BlockingSession(graph) as session:
        for _ in range(30):
            session.run(step)
        assert session.run(v).results == pytest.approx([1.0, 2.0])


def test_all_trainable_variables_can_be_differentiated_by_at_once() -> None:
    with ag.Graph() as graph:
        a, b = ag.variable(2.0), ag.variable([[3.0]])
        count = ag.variable(0, trainable=False)
        made = ag.gradients(a * b, [one for one in graph.variables if one.trainable])
    assert count.dtype != a.dtype
    assert [one.tolist() for one in values(made)] == [3.0, [[2.0]]]


def test_random_numbers_are_constants_for_gradients() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", ("n",))
        drawn = ops.random.uniform(x)
        assert ag.gradients(drawn * 2, x) == [None]
        slope, factor = values([*ag.gradients(ops.sum(drawn * x), x), drawn], {x: np.ones(5)})
    assert slope.tolist() == factor.tolist()


def test_what_was_put_in_another_order_has_its_gradient_in_that() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", ("n",))
        weights = ag.constant([1.0, 2.0, 3.0])
        shuffled = ops.random.permutation(x)
        slope, order = values([*ag.gradients(ops.sum(shuffled * weights), x), shuffled], {x: [0.0, 1.0, 2.0]})
    assert slope[order.astype(int)].tolist() == [1.0, 2.0, 3.0]


def test_no_gradient_goes_through_a_loop_yet_which_is_an_error_that_says_so() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", ())
        _, y = ag.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))
        with pytest.raises(GradientError, match="no gradient goes through while_loop yet"):
            ag.gradients(y, x)
        assert values(ag.gradients(ag.stop_gradient(y) * x, x), {x: 2.0}) == [16.0]
