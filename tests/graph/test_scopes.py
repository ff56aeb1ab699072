"""Scopes: which graph, name, device and control dependencies are in force, in which context."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from asyncgraph._graph.building import current_graph, placeholder
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.scopes import canonical_device, control_dependencies, device, name_scope
from asyncgraph.errors import GraphError, SpecTypeError


@pytest.fixture
def graph() -> Graph:
    return Graph()


def _in_a_bare_thread(function: Callable[[], object]) -> object:
    results: list[object] = []

    def call() -> None:
        try:
            results.append(function())
        except GraphError as error:
            results.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return results[0]


# -- names: TF 1's rules -----------------------------------------------------------------------------


def test_name_scopes_nest(graph: Graph) -> None:
    with graph, name_scope("a") as a, name_scope("b") as b:
        node = placeholder("int8", name="x")
    assert (a, b, node.name) == ("a/", "a/b/", "a/b/x")


def test_a_scope_entered_twice_gets_a_number(graph: Graph) -> None:
    with graph:
        for expected in ("a/", "a_1/", "a_2/"):
            with name_scope("a") as prefix:
                assert prefix == expected


def test_a_name_that_ends_in_a_slash_enters_that_scope_again(graph: Graph) -> None:
    with graph, name_scope("a") as a:
        placeholder("int8", name="x")
        with name_scope("b"), name_scope(a) as again:
            assert again == "a/"
            assert placeholder("int8", name="x").name == "a/x_1"


@pytest.mark.parametrize("root", [None, ""])
def test_a_scope_without_a_name_is_the_root(graph: Graph, root: str | None) -> None:
    with graph, name_scope("a"), name_scope(root) as prefix:
        assert prefix == ""
        assert placeholder("int8", name="x").name == "x"


def test_scopes_and_nodes_share_their_names(graph: Graph) -> None:
    with graph:
        placeholder("int8", name="a")
        with name_scope("a") as prefix:
            assert prefix == "a_1/"


@pytest.mark.parametrize("name", ["two words", "/a", "-a", "a\n", 3])
def test_what_cannot_name_a_scope_is_an_error(graph: Graph, name: Any) -> None:
    with graph, pytest.raises(GraphError, match="cannot name a scope\n  use letters"), name_scope(name):
        pass


def test_a_scope_ends_when_its_block_raises(graph: Graph) -> None:
    with graph:
        with pytest.raises(ZeroDivisionError), name_scope("a"), device("gpu:0"):
            raise ZeroDivisionError
        node = placeholder("int8", name="x")
    assert node.name == "x"
    assert node.requested_device is None


def test_names_and_control_dependencies_end_at_the_border_of_another_graph(graph: Graph) -> None:
    with graph, name_scope("a"), control_dependencies([placeholder("int8", name="x")]), device("gpu:0"):
        with Graph():
            inside = placeholder("int8", name="y")
        after = placeholder("int8", name="z")
    assert (inside.name, inside.after, inside.requested_device) == ("y", (), "gpu:0")
    assert (after.name, [one.name for one in after.after]) == ("a/z", ["a/x"])


def test_a_node_that_joins_another_graph_takes_neither_names_nor_control_dependencies_there(graph: Graph) -> None:
    with Graph():
        x = placeholder("int8", name="x")
    with graph, name_scope("a"), control_dependencies([placeholder("int8", name="y")]):
        z = x + x
    assert (z.name, z.after) == ("add", ())


def test_entering_a_graph_again_keeps_its_scopes(graph: Graph) -> None:
    with graph, name_scope("a"), graph:
        assert placeholder("int8", name="x").name == "a/x"


# -- devices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("gpu:0", "gpu:0"),
        ("gpu", "gpu:0"),
        ("GPU:1", "gpu:1"),
        ("/gpu:1", "gpu:1"),
        ("/device:GPU:1", "gpu:1"),
        ("cpu:007", "cpu:7"),
        (None, None),
    ],
)
def test_a_device_is_written_in_many_ways_and_known_by_one(written: str | None, canonical: str | None) -> None:
    assert canonical_device(written) == canonical


@pytest.mark.parametrize("written", ["", "gpu:", "gpu:x", "gpu:-1", ":0", "gpu:0:1", "gpu 0", "gpu:0\n", 0])
def test_what_is_no_device_is_an_error_that_says_what_to_write(written: Any) -> None:
    with pytest.raises(GraphError) as caught, device(written):
        pass
    assert str(caught.value) == (f"{written!r} is not the name of a device\n  write, for example, 'cpu:0' or 'gpu:1'")


def test_the_innermost_device_is_asked_for(graph: Graph) -> None:
    with graph, device("/gpu:0") as outer:
        on_gpu = placeholder("int8")
        with device("cpu:0"):
            on_cpu = on_gpu + on_gpu
            with device(None):
                anywhere = on_cpu + on_cpu
        again = on_gpu + on_gpu
    assert outer == "gpu:0"
    assert [one.requested_device for one in (on_gpu, on_cpu, anywhere, again)] == ["gpu:0", "cpu:0", None, "gpu:0"]
    assert on_gpu.device == "gpu:0"


# -- control dependencies ----------------------------------------------------------------------------


def _after(node: Node) -> list[str]:
    return [one.name for one in node.after]


def test_control_dependencies_add_up_each_once_and_none_clears_them(graph: Graph) -> None:
    with graph:
        a, b = placeholder("int8", name="a"), placeholder("int8", name="b")
        with control_dependencies([a]):
            assert _after(a + a) == ["a"]
            with control_dependencies([b, a]):
                assert _after(a + a) == ["a", "b"]
                with control_dependencies(None):
                    assert _after(a + a) == []
            assert _after(a + a) == ["a"]
        assert _after(a + a) == []


def test_one_node_stands_for_a_list_of_it(graph: Graph) -> None:
    with graph:
        a = placeholder("int8", (2,), name="a")
        with control_dependencies(a):  # a likely slip, and harmless
            assert _after(a + a) == ["a"]


@pytest.mark.parametrize("wrong", ["a", ["a"], [1], [None], 3])
def test_what_is_no_node_is_no_control_dependency(graph: Graph, wrong: Any) -> None:
    expected = pytest.raises(SpecTypeError, match="control_dependencies takes a list of nodes, not ")
    with graph, expected, control_dependencies(wrong):
        pass


# -- contexts ----------------------------------------------------------------------------------------
# AG-115, https://github.com/tensorflow/tensorflow/issues/17631: a graph is not a thread's.


async def test_a_task_inherits_the_scopes_it_was_started_in_and_changes_nobody_elses(graph: Graph) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def build_in_a_scope() -> str:
        with name_scope("task"), device("gpu:3"):
            entered.set()
            await leave.wait()
            return placeholder("int8", name="x").name

    with graph, name_scope("outer"):
        task = asyncio.create_task(build_in_a_scope())
        await entered.wait()
        here = placeholder("int8", name="y")
    leave.set()
    assert await task == "outer/task/x"
    assert (here.name, here.requested_device) == ("outer/y", None)


async def test_two_tasks_may_be_in_one_graph_and_leave_it_in_any_order(graph: Graph) -> None:
    first_may_leave, second_is_in = asyncio.Event(), asyncio.Event()

    async def first() -> Graph:
        with graph:
            await second_is_in.wait()
        first_may_leave.set()
        with pytest.raises(GraphError):
            current_graph()
        return graph

    async def second() -> Graph:
        with graph:
            second_is_in.set()
            await first_may_leave.wait()
            return current_graph()

    assert await asyncio.gather(first(), second()) == [graph, graph]


async def test_a_thread_of_to_thread_builds_in_the_graph_it_was_started_from(graph: Graph) -> None:
    with graph, name_scope("a"):
        x = placeholder("int8", name="x")
        built = await asyncio.to_thread(lambda: placeholder("int8", name="y"))
        joined = await asyncio.to_thread(lambda: x + 1)
    assert (built.graph, built.name) == (graph, "a/y")
    assert (joined.graph, joined.name) == (graph, "a/add")


def test_in_a_bare_thread_a_node_still_knows_its_graph(graph: Graph) -> None:
    with graph:
        x = placeholder("int8", name="x")
        built = _in_a_bare_thread(lambda: x + 1)
    assert isinstance(built, Node)
    assert built.graph is graph


def test_in_a_bare_thread_there_is_no_current_graph_and_the_error_says_to_enter_it(graph: Graph) -> None:
    with graph:
        error = _in_a_bare_thread(lambda: placeholder("int8"))
    assert isinstance(error, GraphError)
    assert "a thread has its own context, so enter the graph there again" in str(error)
    assert len(graph) == 0
