"""Plans are found by the sets of fetched and fed nodes, by their index in the graph."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph._plan.compiler import no_checkpoint
from asyncgraph._session.engine import BoundedCache, Engine


@pytest.fixture
def graph() -> ag.Graph:
    with ag.Graph() as made:
        x, y = ag.placeholder("float64", (), name="x"), ag.placeholder("float64", (), name="y")
        a = ag.ops.add(x, y, name="a")
        ag.ops.multiply(a, 2, name="b")
    return made


def plan_of(engine: Engine, fetches: Any, *feeds: Any) -> Any:
    return engine.request(ag.RunArgs(fetches, dict.fromkeys(feeds)), no_checkpoint).plan


def test_a_plans_key_is_the_set_of_fetched_nodes_and_the_set_of_fed_nodes(graph: ag.Graph) -> None:
    engine = Engine(graph, ag.SessionConfig())
    a, b, x, y = (graph[name] for name in "abxy")
    plan = plan_of(engine, [a, b], x, y)

    for fetches in ([b, a], {"one": b, "two": (a, b)}, ["a", "b"], ("b", a, a)):
        for feeds in ((x, y), (y, x), ("y", "x"), ("x", y)):
            assert plan_of(engine, fetches, *feeds) is plan
    others = [plan_of(engine, a, x, y), plan_of(engine, [a, b], x, y, a), plan_of(engine, b, a), plan_of(engine, [], x)]
    assert len({id(one) for one in [plan, *others]}) == 5
    assert engine.plan_count == 5


def test_a_request_made_again_is_found_by_what_was_written(graph: ag.Graph) -> None:
    engine = Engine(graph, ag.SessionConfig())
    args = ag.RunArgs(["a", "b"], {"x": 1, "y": 2})
    assert engine.known(args) is None
    request = engine.request(args, no_checkpoint)
    assert engine.known(ag.RunArgs({"p": "a", "q": "b"}, {"x": 5, "y": 6})) is request
    assert engine.known(ag.RunArgs(["a", "b"], {"y": 2, "x": 1})) is None


def test_the_caches_are_bounded_and_forget_the_oldest(graph: ag.Graph) -> None:
    engine = Engine(graph, ag.SessionConfig(plan_cache_size=2))
    first = plan_of(engine, "a", "x", "y")
    for k in range(20):
        with graph:
            graph["b"] + k
        plan_of(engine, graph.nodes[-1], "x", "y")
    assert engine.plan_count == 2
    assert plan_of(engine, "a", "x", "y") is not first

    cache = BoundedCache[int, int](3)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda key: cache.put(key, key), range(1000)))
    assert len(cache) == 3


async def test_values_reach_their_nodes_whatever_order_they_are_fed_and_fetched_in(graph: ag.Graph) -> None:
    with graph:
        d = ag.ops.subtract(graph["x"], graph["y"], name="d")
    async with ag.Session(graph) as session:
        for fetches, expected in (([d, "y", "x"], [-1, 3, 2]), (["x", d], [2, -1]), ([], [])):
            for feeds in ({"x": 2, "y": 3}, {"y": 3, "x": 2}):
                assert (await session.run(fetches, feeds)).results == expected
        assert (await session.run({}, {})).results == {}
