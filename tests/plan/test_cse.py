"""Equal pure nodes are computed once, and nothing else is taken for equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

from .helpers import merged, names


def same(program: Any) -> dict[str, str]:
    return {node.name: other.name for node, other in program.same.items()}


def test_equal_chains_collapse_in_one_sweep() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (3,), name="x")
        a1, b1 = (ag.ops.add(x, 1, name=name) for name in ("a1", "b1"))
        a2, b2 = ag.ops.sin(a1, name="a2"), ag.ops.sin(b1, name="b2")
    program = merged([a2, b2], [x])
    assert names(program.nodes) == ["a1", "a2"]
    assert same(program) == {"b1": "a1", "b2": "a2"}
    assert program.fetches == (a2, b2)


def test_a_fed_node_is_never_merged_with_an_equal_one() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        a, b = x + 1, x + 1
    assert same(merged([a, b], [x, a])) == {}
    with ag.BlockingSession(graph) as session:
        assert session.run([a, b], {x: 1.0, a: 9.0}).results == [9.0, 2.0]


@pytest.mark.parametrize(
    "build",
    [
        lambda x: [x + 1, x + 1.0, x + True, x + np.int64(1)],
        lambda x: [ag.ops.copysign(x, 0.0), ag.ops.copysign(x, -0.0)],
        lambda x: [ag.ops.sum(x), ag.ops.sum(x, axis=0), ag.ops.sum(x, keepdims=True), ag.ops.sum(x, dtype="float32")],
        lambda x: [x - 1, 1 - x],
        lambda x: [x[0:1], x[:1], x[0:2], x[None], x[...]],
        lambda x: [ag.constant([0.0]), ag.constant([-0.0]), ag.constant([0]), ag.constant(0.0)],
        lambda x: [ag.op(np.sin)(x), ag.op(np.sin)(x)],
        lambda x: [ag.group(x), ag.group(x)],
    ],
)
def test_nodes_that_differ_in_op_params_operands_type_or_bits_are_not_merged(build: Any) -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (3,))
        nodes = build(x)
    assert same(merged(nodes, [x])) == {}


def test_nodes_after_other_nodes_or_on_other_devices_are_not_merged() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", ())
        first = ag.op(print).node()
        a = x + 1
        with ag.control_dependencies([first]):
            b, c = x + 1, x + 1
    assert same(merged([a, b, c], [x])) == {c.name: b.name}


def test_calls_of_pure_ops_are_merged_and_of_others_made_each() -> None:
    calls: list[Any] = []
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        pure, impure = ag.op(pure=True)(lambda *a: calls.append("pure")), ag.op(lambda *a: calls.append("impure"))
        nodes = [f.node(x, [1, x]) for f in (pure, pure, impure, impure)] + [pure.node(x, (1, x))]
    with ag.BlockingSession(graph) as session:
        session.run(nodes, {x: 1.0})
    assert sorted(calls) == ["impure", "impure", "pure", "pure"]
