"""Gradients through `cond`: those of the taken branch. There are none through loops yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph.errors import GradientError
from asyncgraph.testing import check_gradients

from .helpers import Calls, values

RNG = np.random.default_rng(0)


@pytest.fixture
def x(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("float64", ("n",), name="x")


def somewhere(sign: float = 1.0) -> Any:
    return sign * RNG.uniform(0.5, 1.0, 3)


# -- values ----------------------------------------------------------------------------------------------


def one_of_two(x: ag.Node, y: ag.Node) -> Any:
    return ag.cond(ops.sum(x) > 0, lambda: ops.sin(x) * y, lambda: x * y * y)


def several(x: ag.Node, y: ag.Node) -> Any:
    a, b = ag.cond(ops.sum(x) > 0, lambda: (ops.exp(y), ops.sum(x) * y), lambda: (x, x * y))
    return [a * b, b]


def of_what_was_computed_before(x: ag.Node, y: ag.Node) -> Any:
    k = ops.exp(x)
    m = ops.sin(k) * y
    return ag.cond(ops.sum(x) > 0, lambda: x * k * m, lambda: k - m)


def nested(x: ag.Node, y: ag.Node) -> Any:
    def true() -> ag.Node:
        k = ops.exp(x)
        return ag.cond(ops.sum(y) > 0, lambda: ops.sin(k) * y * k, lambda: k * k) * k

    return ag.cond(ops.sum(x) > 0, true, lambda: x * y)


def one_after_another(x: ag.Node, y: ag.Node) -> Any:
    first = ag.cond(ops.sum(x) > 0, lambda: ops.exp(x), lambda: y * y)
    return ag.cond(ops.sum(y) > 0, lambda: first * y, lambda: ops.sin(first) + first)


def broadcast(x: ag.Node, y: ag.Node) -> Any:
    return ag.cond(ops.sum(x) > 0, lambda: ops.sum(x) * ops.ones((2, 1)) * y, lambda: ops.stack([x, y]))


@pytest.mark.parametrize(
    "build", [one_of_two, several, of_what_was_computed_before, nested, one_after_another, broadcast]
)
@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_a_gradient_is_what_central_differences_give_and_so_is_its_own(build: Any, signs: tuple[int, int]) -> None:
    check_gradients(build, somewhere(signs[0]), somewhere(signs[1]), order=2)


def test_a_gradient_is_right_where_sizes_are_not_known() -> None:
    for sign in (1, -1):
        check_gradients(nested, somewhere(sign), somewhere(), specs=["float64[n]", "float64[n]"])
        check_gradients(nested, somewhere(sign), somewhere(), specs=["float64[?]", "float64[?]"])


@pytest.mark.parametrize("taken", [True, False])
def test_the_branch_that_is_not_taken_gives_exactly_0(p: ag.Node, x: ag.Node, taken: bool) -> None:
    # Where `where` would multiply 0 by infinity.
    y = ag.placeholder("float64", ("n",))
    chosen = ag.cond(p, lambda: ops.sqrt(x), lambda: y)
    first, other = ag.gradients(chosen, [x, y])
    assert first is not None
    second = ag.gradients(first, x)

    results = values([first, other, *second], {p: taken, x: [0.25] if taken else [0.0], y: [1.0]})

    assert [one.tolist() for one in results] == ([[1.0], [0.0], [-2.0]] if taken else [[0.0], [1.0], [0.0]])


# -- what runs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [True, False])
def test_only_the_taken_branch_runs_for_a_gradient_and_nothing_of_it_twice(p: ag.Node, x: ag.Node, taken: bool) -> None:
    calls = Calls()

    def cube(value: Any) -> Any:
        calls.append("cube")
        return value**3

    op = ag.op(cube, spec="float64[n]")

    @ag.register_gradient(op)
    def _(node: ag.Node, gradient: ag.Node) -> ag.Node:
        return gradient * 3 * node.inputs[0] ** 2

    def branch() -> ag.Node:
        cubed = op.node(ops.exp(x))
        return cubed * cubed

    chosen = ag.cond(p, branch, lambda: x)
    (gradient,) = ag.gradients(chosen, x)

    y, dy = values([chosen, gradient], {p: taken, x: [0.5]})

    np.testing.assert_allclose([y[0], dy[0]], [np.exp(3.0), 6 * np.exp(3.0)] if taken else [0.5, 1.0])
    assert calls == (["cube"] if taken else [])


def test_a_long_chain_in_a_branch_is_differentiated_as_it_would_be_outside(p: ag.Node, x: ag.Node) -> None:
    def chain() -> ag.Node:
        last = x
        for _ in range(200):
            last = ops.sin(last) * 1.01
        return last

    plain = chain()
    inside = ag.cond(p, chain, lambda: x)

    one, other = values([*ag.gradients(plain, x), *ag.gradients(inside, x)], {p: True, x: [1.0, 2.0]})

    assert one.tobytes() == other.tobytes()


# -- paths -----------------------------------------------------------------------------------------------


def test_there_is_no_gradient_by_what_neither_branch_depends_on(p: ag.Node, x: ag.Node) -> None:
    y = ag.placeholder("float64", ())
    chosen = ag.cond(p, lambda: x * ops.floor(y), lambda: ag.stop_gradient(x))

    assert [one is None for one in ag.gradients(chosen, [x, y])] == [False, True]
    assert ag.gradients(ag.cond(p, lambda: ops.floor(x), lambda: ag.stop_gradient(x)), x) == [None]


def test_a_condition_makes_no_difference_by_itself(p: ag.Node, x: ag.Node) -> None:
    chosen = ag.cond(ops.sum(x) > 0, lambda: 1.0, lambda: 2.0)

    assert ag.gradients(chosen, x) == [None]


def test_what_is_stopped_at_before_a_cond_is_a_constant_in_its_branches(p: ag.Node, x: ag.Node) -> None:
    y = x * 2
    chosen = ag.cond(p, lambda: y * x, lambda: x)

    gradients = ag.gradients(chosen, [x, y], stop=y)

    assert [one.tolist() for one in values(gradients, {p: True, x: [3.0]})] == [[6.0], [3.0]]


@pytest.mark.parametrize("role", ["x", "stop"])
def test_nodes_of_a_branch_have_no_gradient_outside_of_it(p: ag.Node, x: ag.Node, role: str) -> None:
    def branch() -> ag.Node:
        inside.append(x * 2)
        return inside[0] * x

    inside: list[ag.Node] = []
    chosen = ag.cond(p, branch, lambda: x)

    with pytest.raises(GradientError, match="belongs to a branch of <cond 'cond': any>, and has no gradient outside"):
        ag.gradients(chosen, [x, *inside] if role == "x" else x, stop=inside if role == "stop" else ())


def test_a_gradient_may_be_taken_in_a_branch(p: ag.Node, x: ag.Node) -> None:
    def branch() -> ag.Node:
        (gradient,) = ag.gradients(x * x * x, x)
        assert gradient is not None
        return gradient

    assert values(ag.cond(p, branch, lambda: x), {p: True, x: [2.0]}) == [12.0]


def test_a_gradient_may_be_taken_in_a_loop(graph: ag.Graph) -> None:
    def newton(root: ag.Node) -> ag.Node:
        y = ag.cond(root > 2, lambda: root * root - 2, lambda: root**3 - 2 * root)
        (slope,) = ag.gradients(y, root)
        assert slope is not None
        return root - y / slope

    root = ag.while_loop(lambda root: ops.abs(root * root - 2) > 1e-12, newton, 10.0)

    np.testing.assert_allclose(values(root), np.sqrt(2))


def test_there_is_no_gradient_through_a_loop_yet(x: ag.Node) -> None:
    last = ag.while_loop(lambda a: ops.sum(a) < 1, lambda a: a * 2, x)

    for y in (last, ag.cond(ops.sum(x) > 0, lambda: last * x, lambda: x)):
        with pytest.raises(GradientError, match="^no gradient goes through while_loop yet: <while_loop 'while_loop'"):
            ag.gradients(y, x)


def test_a_loop_beside_the_path_is_no_hindrance(x: ag.Node) -> None:
    y = ag.placeholder("float64", ())
    last = ag.while_loop(lambda a: a < 100, lambda a: a * 2, y)
    chosen = ag.cond(last > 5, lambda: x * ag.stop_gradient(last), lambda: x)

    assert values(ag.gradients(chosen, x)[0], {x: [1.0], y: 1.0}) == [128.0]


# -- variables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [True, False])
def test_gradients_go_through_variables_and_what_is_assigned(p: ag.Node, taken: bool) -> None:
    v, z = ag.variable(2.0), ag.placeholder("float64", ())
    chosen = ag.cond(p, lambda: v * z, lambda: v.assign(z * z) * 3)
    gradients = ag.gradients(chosen, [z, v])

    dz, dv = values(gradients, {p: taken, z: 5.0})

    assert (float(dz), float(dv)) == ((2.0, 5.0) if taken else (30.0, 0.0))


def test_a_step_of_training_may_choose(p: ag.Node) -> None:
    v = ag.variable(3.0)
    loss = ag.cond(p, lambda: v * v, lambda: 2 * v)
    step = ag.optimizers.SGD(0.1).minimize(loss)

    with ag.BlockingSession(p.graph) as session:
        session.run(step, {p: True})
        session.run(step, {p: False})

        np.testing.assert_allclose(session.run(v).results, 3.0 - 0.6 - 0.2)
