"""Random numbers in branches and loops: another draw in each iteration, and the same for the same seed."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops

from .helpers import values

SEEDED = ag.SessionConfig(seed=1)


def draw(name: str) -> ag.Node:
    return ops.reshape(ops.random.uniform((), name=name), (1,))


def drawn(count: int = 4) -> ag.Node:
    """What a loop draws: in the body, in a branch of it and in a loop in it."""

    def inner(j: ag.Node, all_: ag.Node) -> Any:
        return j + 1, ops.concat([all_, draw("inner")])

    def body(i: ag.Node, all_: ag.Node) -> Any:
        chosen = ag.cond(i % 2 == 0, lambda: draw("even"), lambda: draw("odd"))
        _, all_ = ag.while_loop(lambda j, _: j < 2, inner, (0, ops.concat([all_, draw("body"), chosen])))
        return i + 1, all_

    return ag.while_loop(lambda i, _: i < count, body, (0, np.zeros(0)))[1]


def test_each_iteration_draws_other_numbers(graph: ag.Graph) -> None:
    numbers = values(drawn())

    assert numbers.shape == (16,)
    assert len(set(numbers)) == 16


def test_a_condition_draws_other_numbers_than_the_body(graph: ag.Graph) -> None:
    def below(all_: ag.Node) -> ag.Node:
        return ops.random.uniform((), seed=5) < 0.8

    def body(all_: ag.Node) -> ag.Node:
        return ops.concat([all_, ops.reshape(ops.random.uniform((), seed=5), (1,))])

    numbers = [values(ag.while_loop(below, body, np.zeros(0), maximum_iterations=50), seed=seed) for seed in range(8)]

    assert any((one > 0.8).any() for one in numbers)


def test_what_was_drawn_before_a_loop_is_the_same_in_each_iteration(graph: ag.Graph) -> None:
    before = draw("before")
    _, all_ = ag.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, ops.concat([a, before])), (0, np.zeros(0)))

    first, *others = values(all_)

    assert others == [first, first]


def test_each_run_draws_other_numbers_and_the_same_in_a_session_of_the_same_seed(graph: ag.Graph) -> None:
    node = drawn()
    runs: list[Any] = []
    for _ in range(2):
        with ag.BlockingSession(graph, config=SEEDED) as session:
            runs.append([session.run(node).results for _ in range(2)])

    assert np.array_equal(runs[0], runs[1])
    assert not set(runs[0][0]) & set(runs[0][1])


def test_a_run_s_seed_fixes_what_it_draws(graph: ag.Graph) -> None:
    node = drawn()

    assert np.array_equal(values(node, seed=3), values(node, seed=3))
    assert not np.array_equal(values(node, seed=3), values(node, seed=4))


async def test_iterations_draw_the_same_whether_they_are_awaited_or_not(graph: ag.Graph) -> None:
    async def same(value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    awaited = ag.op(same, spec="float64[?]").node

    def build(wrap: Any) -> ag.Node:
        def body(i: ag.Node, all_: ag.Node) -> Any:
            number = ops.reshape(ops.random.uniform((), seed=7), (1,))
            chosen = ag.cond(i > 1, lambda: ops.random.normal((1,), seed=8), lambda: number * 2)
            return i + 1, ops.concat([wrap(all_), number, chosen])

        return ag.while_loop(lambda i, _: i < 3, body, (0, np.zeros(0)))[1]

    kernels, coroutines = build(lambda one: one), build(awaited)
    async with ag.Session(graph, config=SEEDED) as session:
        one, other = (await session.run([kernels, coroutines])).results

    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("taken", [True, False])
def test_what_branches_share_is_drawn_once(graph: ag.Graph, taken: bool) -> None:
    p = ag.placeholder("bool", ())
    number = draw("number")
    one = ag.cond(p, lambda: number, lambda: number * 1)
    other = ag.cond(p, lambda: number + 0, lambda: np.zeros(1))

    first, second, third = values([one, other, number], {p: taken})

    assert first == third
    assert second == (third if taken else 0)


def test_a_branch_draws_what_it_would_outside(graph: ag.Graph) -> None:
    p = ag.placeholder("bool", ())
    inside = ag.cond(p, lambda: ops.random.normal((3,), seed=2), lambda: np.zeros(3))
    outside = ops.random.normal((3,), seed=2)

    one, other = values([inside, outside], {p: True})

    assert np.array_equal(one, other)
