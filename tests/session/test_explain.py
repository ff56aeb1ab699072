"""What a run would do, and why, before it is run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import MissingFeedError


def test_an_explanation_says_what_runs_and_why_and_what_does_not() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        k = ag.constant(2.0, name="k")
        double = ag.ops.multiply(k, 2, name="double")
        a, same = ag.ops.multiply(x, double, name="a"), ag.ops.multiply(x, double, name="same")
        b = ag.ops.add(a, same, name="b")
        called = ag.op(lambda value: value)(b, name="called")
        ag.ops.exp(x, name="left")
    with ag.BlockingSession(graph) as session:
        explanation = session.explain([b, called], {x: None})

        assert [node.name for node in explanation.pruned] == ["left"]
        assert explanation.needed_by[a] is b
        assert explanation.transfers == ()
        text = str(explanation)
        for line in (
            "feeds: x: float64[n]",
            "  a: needed by b",
            "  same: the same as a",
            "  double: known when the plan is made",
            "  not needed: left",
            "  segment 1: 'called' is called in a thread",
        ):
            assert line in text.split("\n"), text
        assert "plan of 3 nodes in 2 segments; 1 pruned, 1 merged, 2 folded" in text
        assert text.startswith("plan of 3 nodes")
        with pytest.raises(MissingFeedError):
            session.explain(b)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda x: x + 1, "on the loop while the largest fed array has at most"),
        (lambda x: ag.ops.zeros(3) + ag.ops.ones(3) * x[0], "on the loop"),
        (lambda x: ag.ops.sum(ag.ops.ones((3000, 3000))) + x, "on a worker"),
    ],
)
def test_an_explanation_says_where_kernels_run(build: Any, says: str) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = build(x)
    with ag.BlockingSession(graph) as session:
        assert says in str(session.explain(y, {x: None}))


def test_many_nodes_that_are_not_needed_are_counted() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        y = x + 1
        for k in range(30):
            x * k
    with ag.BlockingSession(graph) as session:
        explanation = session.explain(y, {x: np.float64(1)})
    assert len(explanation.pruned) == 30
    assert str(explanation).endswith(" and 10 more")
    assert repr(explanation) == str(explanation)
