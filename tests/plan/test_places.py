"""Where nodes belong that branches need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph._graph.control import branches_of
from asyncgraph._graph.node import Node
from asyncgraph._graph.op import COND
from asyncgraph._plan.places import ALWAYS, Place, Sweep


@pytest.fixture
def graph() -> Iterator[ag.Graph]:
    with ag.Graph() as graph:
        yield graph


@pytest.fixture
def p(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("bool", (), name="p")


@pytest.fixture
def x(graph: ag.Graph) -> ag.Node:
    return ag.placeholder("float64", (), name="x")


def needs(node: Node) -> Sequence[Node]:
    return node.inputs[:1] if node.op is COND else node.inputs


def swept(*wanted: ag.Node) -> Sweep:
    sweep = Sweep(needs, branches_of)
    sweep.sort(wanted, reversed(wanted[0].graph.nodes))
    return sweep


def place_of(sweep: Sweep, node: Node) -> Any:
    """The place it belongs to, or the members of its group."""
    for place, members in sweep.members.items():
        if any(one is node for one in members):
            return place
    for groups in sweep.groups.values():
        for group in groups:
            if any(one is node for one in group.members):
                return {one.name for one in group.members}
    return None


def call(output: ag.Node) -> Node:
    return output.inputs[0]


def test_what_is_needed_whatever_is_taken_belongs_to_the_level(p: ag.Node, x: ag.Node) -> None:
    y = -x
    chosen = ag.cond(p, lambda: y, lambda: x)

    assert place_of(swept(chosen, y), y) is ALWAYS
    assert place_of(swept(chosen, y), call(chosen)) is ALWAYS


def test_what_one_branch_needs_belongs_to_it(p: ag.Node, x: ag.Node) -> None:
    y = -x
    true, false = ag.cond(p, lambda: y, lambda: x), ag.cond(p, lambda: x, lambda: y)

    assert place_of(swept(true), y) == Place(call(true), 0)
    assert place_of(swept(false), y) == Place(call(false), 1)


def test_what_both_branches_need_belongs_to_where_their_node_does(p: ag.Node, x: ag.Node) -> None:
    y = -x
    inner = ag.cond(p, lambda: y, lambda: y * 2)
    outer = ag.cond(p, lambda: inner, lambda: x)

    assert place_of(swept(inner), y) is ALWAYS
    assert place_of(swept(outer), y) == Place(call(outer), 0)


def test_what_a_branch_needs_always_belongs_to_it_though_one_inside_needs_it_too(p: ag.Node, x: ag.Node) -> None:
    y = -x
    outer = ag.cond(p, lambda: ag.cond(p, lambda: y, lambda: x) + y, lambda: x)

    assert place_of(swept(outer), y) == Place(call(outer), 0)


def test_what_is_needed_in_the_same_places_is_one_group(p: ag.Node, x: ag.Node) -> None:
    a = ag.ops.sin(x, name="a")
    b = ag.ops.sin(a, name="b")
    c = ag.ops.sin(b, name="c")
    one, other = ag.cond(p, lambda: b * c, lambda: x), ag.cond(p, lambda: c * 2, lambda: x)
    sweep = swept(one, other)

    assert place_of(sweep, b) == {"a", "b", "c"}
    ((group,),) = [groups for place, groups in sweep.groups.items() if place is ALWAYS]
    assert [node.name for node in group.lent] == ["c", "b"]


def test_what_is_needed_in_other_places_is_another_group(p: ag.Node, x: ag.Node) -> None:
    a = ag.ops.sin(x, name="a")
    b = ag.ops.sin(a, name="b")
    chosen = [ag.cond(p, lambda: b, lambda: x), ag.cond(p, lambda: b + 1, lambda: x), ag.cond(p, lambda: a, lambda: x)]

    assert place_of(swept(*chosen), b) == {"b"}
    assert place_of(swept(*chosen), a) == {"a"}


def test_what_two_branches_inside_of_one_share_is_delayed_there(p: ag.Node, x: ag.Node) -> None:
    a = ag.ops.sin(x, name="a")

    def branch() -> ag.Node:
        return ag.cond(p, lambda: a, lambda: x) + ag.cond(p, lambda: a * 2, lambda: x)

    outer = ag.cond(p, branch, lambda: x)
    sweep = swept(outer)

    assert [place for place, groups in sweep.groups.items() for _ in groups] == [Place(call(outer), 0)]


def test_a_group_waits_for_no_group_that_waits_for_it(p: ag.Node, x: ag.Node) -> None:
    # `low` and `high` are needed in the same places, and what is shared elsewhere stands between them.
    low = ag.ops.sin(x, name="low")
    between = ag.ops.sin(low, name="between")
    inner = ag.cond(p, lambda: between, lambda: x)
    high = ag.ops.sin(inner, name="high")
    chosen = [
        ag.cond(p, lambda: low + high, lambda: x),
        ag.cond(p, lambda: low * high, lambda: x),
        ag.cond(p, lambda: between * 2, lambda: x),
    ]
    sweep = swept(*chosen)

    assert "low" in place_of(sweep, low)
    assert "high" not in place_of(sweep, low)
    assert place_of(sweep, between) == {"between"}
