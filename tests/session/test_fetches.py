"""Results have the structure of the fetches, and its types of container."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

import asyncgraph as ag
from asyncgraph.errors import FetchError


class Point(NamedTuple):
    a: Any
    b: Any = None


Old = namedtuple("Old", "a b")


class Strict(tuple[Any, ...]):
    label: str

    def __new__(cls, a: Any, b: Any) -> Strict:
        made = tuple.__new__(cls, (a, b))
        made.label = "kept"
        return made


class Names(list[Any]):
    label = "none"


class Registry(dict[Any, Any]):
    label = "none"


@dataclass
class Plain:
    a: Any
    b: Any = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: Any


@pytest.fixture
def graph() -> ag.Graph:
    with ag.Graph() as made:
        ag.constant(1.0, name="a")
        ag.constant(2.0, name="b")
    return made


def structures(a: Any, b: Any) -> dict[str, Any]:
    labelled = Names([a, b])
    labelled.label = "kept"
    registry = Registry(x=a, y=b)
    registry.label = "kept"
    return {
        "leaf": a,
        "list": [a, b],
        "tuple": (a, (b,)),
        "empty": [[], (), {}],
        "dict": {"x": a, 1: {"y": b}},
        "named tuple": Point(a, b),
        "old named tuple": Old(a, [b]),
        "tuple with a constructor of its own": Strict(a, b),
        "list subclass": labelled,
        "dict subclass": registry,
        "ordered dict": OrderedDict([("z", a), ("a", b)]),
        "default dict": defaultdict(list, {"x": a}),
        "dataclass": Plain(a, b=[b]),
        "frozen dataclass with slots": Frozen(a, {"y": b}),
        "dataclasses in a list": [Plain(a, b=b), Frozen(b, a)],
    }


@pytest.mark.parametrize("kind", structures(0, 0))
async def test_results_come_in_the_containers_of_the_fetches(graph: ag.Graph, kind: str) -> None:
    nodes, names = structures(graph["a"], graph["b"])[kind], structures("a", "b")[kind]
    expected = structures(1.0, 2.0)[kind]

    async with ag.Session(graph) as session:
        for fetches in (nodes, names):
            results = (await session.run(fetches)).results
            assert results == expected
            assert type(results) is (type(expected) if kind != "leaf" else type(results))
    if kind == "default dict":
        assert results.default_factory is list
    if "subclass" in kind or "constructor" in kind:
        assert results.label == "kept"
    if kind == "ordered dict":
        assert list(results) == ["z", "a"]


@pytest.mark.parametrize("flat_first", [True, False])
async def test_the_same_fetches_in_another_structure_come_in_that(graph: ag.Graph, flat_first: bool) -> None:
    a, b = graph["a"], graph["b"]
    asked: list[tuple[Any, Any]] = [([a, b], [1, 2]), ([[a], b], [[1], 2]), ((a, b), (1, 2)), ([a, [b]], [1, [2]])]
    async with ag.Session(graph) as session:
        for fetches, expected in asked if flat_first else asked[::-1]:
            results = (await session.run(fetches)).results
            assert results == expected
            assert type(results) is type(expected)


async def test_the_fetches_themselves_are_left_alone(graph: ag.Graph) -> None:
    a = graph["a"]
    fetches = {"x": [a], "y": Plain(a)}
    fetches["y"].b = (a,)
    async with ag.Session(graph) as session:
        await session.run(fetches)
    assert fetches["x"][0] is a
    assert fetches["y"].a is a


@pytest.mark.parametrize(
    ("fetches", "path"),
    [
        (None, "fetches is None"),
        ({"g": ["a", None]}, r"fetches\['g'\]\[1\] is None"),
        (Point("a"), r"fetches\[1\] is None"),
        ([Plain("a")], r"fetches\[0\]\.b is None"),
        (("a", 1.5), r"fetches\[1\] is 1\.5 \(float\)"),
        (Plain, r"fetches is <class .*Plain'> \(type\)"),
        ({"a"}, r"fetches is \{'a'\} \(set\)"),
    ],
)
def test_what_is_no_fetch_is_an_error_with_the_path_to_it(fetches: Any, path: str) -> None:
    with pytest.raises(FetchError, match=f"^{path}\n  expected a node, the name of one"):
        ag.RunArgs(fetches)


async def test_names_are_labels_and_never_identity(graph: ag.Graph) -> None:
    with graph:
        again = ag.constant(3.0, name="a")
    async with ag.Session(graph) as session:
        assert again.name == "a_1"
        assert (await session.run([graph["a"], again, "a", "a_1"])).results == [1.0, 3.0, 1.0, 3.0]


async def test_every_node_runs_at_most_once_a_run() -> None:
    calls: list[str] = []
    with ag.Graph() as graph:
        a = ag.op(lambda: calls.append("a")).node()
        b, c = (ag.op(lambda value: calls.append("b or c"))(a) for _ in range(2))
        d = ag.op(lambda *values: calls.append("d"))(b, c, a)
    async with ag.Session(graph) as session:
        await session.run([d, a, (b, {"c": c}), a, d])
    assert sorted(calls) == ["a", "b or c", "b or c", "d"]


@pytest.mark.parametrize("key", [5, None, ("y",)])
async def test_a_key_that_is_no_node_and_no_name_is_an_error_that_says_so(graph: ag.Graph, key: Any) -> None:
    fetch = graph.nodes[-1]
    async with ag.Session(graph) as session:
        with pytest.raises(FetchError, match="expected a node, or the name of one"):
            session.prepare(fetch, [key])
        future = session.submit(fetch, dict.fromkeys(graph.nodes, 1.0))
        with pytest.raises(FetchError, match="expected a node, or the name of one"):
            future.fetched(key)
        await future
