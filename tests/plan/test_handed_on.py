"""What only hands values on is written without a call once a plan is emitted, and does and says the same."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

HOT_RUNS = 60


class Color(enum.IntEnum):
    RED = 1


class Index:
    """A key that has no literal."""

    def __index__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ((1.0, 2.0), 1), ((1.0, 2.0), -1), ((1.0, 2.0), True), ((1.0, 2.0), Color.RED), ((1.0, 2.0), np.int64(1)),
        ((1.0, 2.0), Index()), ((1.0, 2.0), slice(1, None)), ({"it's": 2.0}, "it's"), ({"a\nb{c}": 2.0}, "a\nb{c}"),
        ({(1, "x"): 2.0}, (1, "x")), ({None: 2.0}, None), ({2.5: 2.0}, 2.5), ({b"x": 2.0}, b"x"),
        ({10**30: 2.0}, 10**30),
    ],
)  # fmt: skip
def test_an_item_is_the_same_before_and_after(value: Any, key: Any) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        item = x[key]
    with ag.BlockingSession(graph) as session:
        found = [session.run(item, {x: value}).results for _ in range(HOT_RUNS)]
    assert found == [value[key]] * HOT_RUNS


def test_a_key_that_cannot_be_written_out_is_no_error() -> None:
    key = 10**5000
    with pytest.raises(ValueError, match="4300 digits"):
        repr(key)
    test_an_item_is_the_same_before_and_after({key: 2.0}, key)


@pytest.mark.parametrize("runs", [0, HOT_RUNS])
def test_an_item_that_is_missing_names_its_node(runs: int) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        first, second = x[0], x[1]
        y = ag.ops.add(first, 1.0, name="y")
        z = ag.ops.add(second, y, name="z")
    with ag.BlockingSession(graph) as session:
        for _ in range(runs):
            assert session.run(z, {x: (1.0, 2.0)}).results == 4.0
        with pytest.raises(IndexError) as caught:
            session.run(z, {x: (1.0,)})
    assert second.name in caught.value.__notes__[0]


@pytest.mark.parametrize("runs", [0, HOT_RUNS])
def test_what_comes_after_an_assignment_names_its_node(runs: int) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        v = ag.variable(np.zeros(3))
        new = v.assign(ag.ops.add(x, 1.0, name="next"), name="new")
        y = ag.ops.matmul(new, ag.placeholder("float64", ("m",), name="w"), name="y")
    with ag.BlockingSession(graph) as session:
        for _ in range(runs):
            session.run(y, {x: np.ones(3), "w": np.ones(3)})
        with pytest.raises(ValueError, match="matmul") as caught:
            session.run(y, {x: np.full(3, 5.0), "w": np.ones(2)})
        assert "'y'" in caught.value.__notes__[0]
        assert session.run(v).results.tolist() == [2.0 if runs else 0.0] * 3
