"""Whose memory it is that branches and loops give: nobody can write to what is another's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops

from .helpers import values_async

SIZE = 64


@pytest.fixture
def x(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("float64", (SIZE,), name="x")


@pytest.fixture(params=[False, True], ids=["kernels", "awaited"])
def wrap(request: pytest.FixtureRequest, graph: ag.Graph) -> Any:
    """Makes a branch or body need a scheduler, or not."""

    async def same(value: Any) -> Any:
        return value * 1

    op = ag.op(same, spec="float64[]")
    return (lambda a: a + op.node(0.0)) if request.param else (lambda a: a)


def shared(results: list[Any], *others: Any) -> list[tuple[int, int]]:
    """Pairs of arrays that share memory, and of which the caller may write to one that was handed out."""
    pairs = itertools.combinations(enumerate([*results, *others]), 2)
    written = {index for index, one in enumerate(results) if one.flags.writeable}
    return [(i, j) for (i, a), (j, b) in pairs if {i, j} & written and np.shares_memory(a, b)]


@pytest.mark.parametrize("taken", [True, False])
async def test_no_result_shares_memory_that_may_be_written_to(p: ag.Node, x: ag.Node, wrap: Any, taken: bool) -> None:
    v, c = ag.variable(np.zeros(SIZE)), ag.constant(np.ones(SIZE))
    y = x + 1
    nodes = [
        *ag.cond(p, lambda: (x, x, y), lambda: (y, wrap(x), y)),
        *ag.cond(p, lambda: (v, c, y[1:]), lambda: (x[::2], v, wrap(c))),
        *ag.cond(p, lambda: (wrap(x) * 2,) * 2, lambda: (x, v)),
        *ag.while_loop(lambda *a: ops.sum(a[0]) < 1e4, lambda *a: (wrap(a[0]) * 2, a[3], a[1], a[2]), (y, x, c, v)),
        *ag.while_loop(lambda *a: ops.sum(a[0]) < 0, lambda *a: a, (y, x, c, v)),
        x,
        v,
        c,
        y,
    ]
    fed = np.ones(SIZE)

    results = await values_async(nodes, {p: taken, x: fed})

    assert shared(results, fed) == []


async def test_what_a_branch_computes_is_its_caller_s(p: ag.Node, x: ag.Node) -> None:
    chosen = ag.cond(p, lambda: x + 1, lambda: x * 2)

    assert (await values_async(chosen, {p: True, x: np.ones(SIZE)})).flags.writeable


async def test_what_a_loop_computes_is_its_caller_s(x: ag.Node) -> None:
    last = ag.while_loop(lambda a: ops.sum(a) < 1e4, lambda a: a * 2, x)

    assert (await values_async(last, {x: np.ones(SIZE)})).flags.writeable


async def test_a_branch_that_gives_a_feed_gives_it_read_only(p: ag.Node, x: ag.Node) -> None:
    chosen, fed = ag.cond(p, lambda: x, lambda: x + 1), np.ones(SIZE)

    result = await values_async(chosen, {p: True, x: fed})

    assert np.shares_memory(result, fed)
    assert not result.flags.writeable


@pytest.mark.parametrize("taken", [True, False])
async def test_what_was_assigned_of_a_branch_is_nobody_else_s(p: ag.Node, x: ag.Node, wrap: Any, taken: bool) -> None:
    kept = np.full(SIZE, 3.0)
    op = ag.op(lambda: kept, spec=f"float64[{SIZE}]")
    v, w = ag.variable(np.zeros(SIZE)), ag.variable(np.zeros(SIZE))
    one = ag.cond(p, lambda: x, lambda: wrap(x) + 1)
    other = ag.cond(p, lambda: op.node(), lambda: x[:])
    fetches = [one, v.assign(one), other, w.assign(other)]
    fed = np.ones(SIZE)
    async with ag.Session(p.graph) as session:
        results = (await session.run(fetches, {p: taken, x: fed})).results
        for array in (fed, kept, *results):
            if array.flags.writeable:
                array[:] = 99

        held = (await session.run([v, w])).results

    assert [one.tolist()[:1] for one in held] == ([[1.0], [3.0]] if taken else [[2.0], [1.0]])


async def test_a_body_s_ops_cannot_write_to_what_they_are_given(x: ag.Node) -> None:
    def write(value: Any) -> Any:
        value[0] = 5.0
        return value

    last = ag.while_loop(lambda a: ops.sum(a) < 1e4, lambda a: ag.op(write).node(a), x)

    with pytest.raises(ValueError, match="read-only"):
        await values_async(last, {x: np.ones(SIZE)})


async def test_results_of_one_run_are_not_changed_by_the_next(x: ag.Node) -> None:
    last = ag.while_loop(lambda a: ops.sum(a) < 1e4, lambda a: a * 2, x)
    async with ag.Session(x.graph) as session:
        first = (await session.run(last, {x: np.ones(SIZE)})).results
        before = first.copy()
        await session.run(last, {x: np.full(SIZE, 3.0)})

    assert np.array_equal(first, before)
