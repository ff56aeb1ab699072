"""Prepared runs: fetches and feed keys are settled, values come by position."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FeedError, FetchError, MissingFeedError, RunArgsError, SessionClosedError


def graph_of_two() -> tuple[ag.Graph, ag.Node, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        a, b = ag.placeholder("float64", ("n",), name="a"), ag.placeholder("float64", ("n",), name="b")
        return graph, a, b, a - b


async def test_a_prepared_run_gives_what_run_gives() -> None:
    graph, a, b, y = graph_of_two()
    one, two = np.array([1.0, 2.0]), np.array([5.0, 7.0])
    async with ag.Session(graph) as session:
        prepared = session.prepare({"y": y, "b": [b]}, feeds=[b, "a"])
        values = [(await prepared(two, one)).results for _ in range(3)]
        expected = (await session.run({"y": y, "b": [b]}, {a: one, b: two})).results

    for value in values:
        np.testing.assert_array_equal(value["y"], expected["y"])
        np.testing.assert_array_equal(value["b"][0], two)


async def test_many_prepared_runs_go_on_at_once() -> None:
    graph, a, b, y = graph_of_two()
    async with ag.Session(graph) as session:
        prepared = session.prepare(y, feeds=[a, b])
        many = [prepared(np.full(3, float(i)), np.ones(3)) for i in range(200)]
        values = await asyncio.gather(*many)

    assert [one.results[0] for one in values] == [i - 1.0 for i in range(200)]


async def test_preparing_says_what_is_wrong_with_fetches_and_feeds() -> None:
    graph, a, _, y = graph_of_two()
    session = ag.Session(graph)
    with pytest.raises(MissingFeedError, match="b"):
        session.prepare(y, feeds=[a])
    with pytest.raises(RunArgsError, match="a node is fed twice: a, a"):
        session.prepare(y, feeds=[a, "a"])
    for one in (a, "a"):
        with pytest.raises(RunArgsError, match="expected a list of nodes and names"):
            session.prepare(a, feeds=one)  # pyright: ignore[reportArgumentType]  # the point
    with pytest.raises(FetchError):
        session.prepare("nothing")


async def test_a_prepared_run_checks_its_values_and_their_number() -> None:
    graph, a, b, y = graph_of_two()
    async with ag.Session(graph) as session:
        prepared = session.prepare(y, feeds=[a, b])
        with pytest.raises(RunArgsError, match=r"takes 2 values, not 1"):
            await prepared(np.ones(3))
        with pytest.raises(FeedError, match="the dimension 'n' has one size"):
            await prepared(np.ones(3), np.ones(4))
    with pytest.raises(SessionClosedError):
        await prepared(np.ones(3), np.ones(3))


async def test_a_prepared_run_of_user_ops_runs_them() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        y = ag.op(lambda v: v + 1)(x)
    async with ag.Session(graph) as session:
        prepared = session.prepare(y, feeds=[x])
        assert [(await prepared(i)).results for i in range(3)] == [1, 2, 3]
