"""Only what the fetches need is in a plan."""

from __future__ import annotations

import pytest

import asyncgraph as ag
from asyncgraph.errors import MissingFeedError

from .helpers import names, pruned


def test_only_ancestors_of_the_fetches_are_kept_inputs_first() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (), name="x")
        a = ag.ops.add(x, 1, name="a")
        b = ag.ops.add(a, a, name="b")
        ag.ops.add(b, 1, name="unneeded")
    program = pruned([b, a, b], [x])
    assert names(program.nodes) == ["a", "b"]
    assert names(program.fetches) == ["b", "a"]
    assert program.pruned == 1


def test_the_graph_is_cut_at_fed_nodes_also_where_a_fed_node_has_a_fed_ancestor() -> None:
    with ag.Graph():
        x, y = ag.placeholder("float64", (), name="x"), ag.placeholder("float64", (), name="y")
        a = ag.ops.add(x, y, name="a")
        b = ag.ops.add(a, 1, name="b")
        c = ag.ops.add(b, x, name="c")
    assert names(pruned([c], [b, x]).nodes) == ["c"]
    assert names(pruned([c, a], [a, x]).nodes) == ["b", "c"]


def test_control_dependencies_are_needed_too_and_are_cut_with_the_node_that_is_fed() -> None:
    with ag.Graph():
        log = ag.op(print).node(name="log")
        with ag.control_dependencies([log]):
            a = ag.ops.add(ag.placeholder("float64", (), default=1.0, name="x"), 1, name="a")
        b = ag.ops.add(a, 1, name="b")
    assert set(names(pruned([b]).nodes)) == {"log", "x", "a", "b"}
    assert names(pruned([b], [a]).nodes) == ["b"]


def test_control_dependencies_come_in_the_order_they_were_given() -> None:
    with ag.Graph():
        nodes = [ag.op(print).node(name=f"n{i}") for i in range(3)]
        done = ag.group(nodes[1], nodes[0], nodes[2], name="done")
    assert names(pruned([done]).nodes) == ["n1", "n0", "n2", "done"]


def test_all_missing_feeds_are_named_at_once_with_spec_and_site() -> None:
    with ag.Graph():
        xs = [ag.placeholder("float32", ("n",), name=f"x{i}") for i in range(12)]
        total = xs[0]
        for x in xs[1:]:
            total = total + x
    with pytest.raises(MissingFeedError) as caught:
        pruned([total], [xs[0]])
    lines = str(caught.value).split("\n")
    assert lines[0].startswith("no value was fed for 'x1', 'x2', ")
    assert lines[1].startswith(f"  x1: float32[n], built at {__file__}")
    assert lines[-1] == "  and 1 more"


def test_a_long_chain_needs_no_recursion_and_can_be_given_up() -> None:
    with ag.Graph():
        node = x = ag.placeholder("float64", ())
        for _ in range(5000):
            node = node + 1
    assert len(pruned([node], [x]).nodes) == 5000
    from asyncgraph._plan.prune import prune

    def give_up() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        prune([node], [x], give_up)
