"""What depends on constants alone is computed once, unless it raises, warns, or is large."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

from .helpers import folded


def test_what_depends_on_constants_alone_is_known_when_the_plan_is_made() -> None:
    with ag.Graph():
        x, preset = ag.placeholder("float64", ()), ag.placeholder("float64", (2,), default=[1, 2], name="preset")
        a = ag.ops.add(ag.constant([1.0, 2.0], name="k"), ag.ops.ones(2, name="one"), name="a")
        b = ag.ops.add(a, preset, name="b")
        c = b + x
    values = folded([c], [x])
    assert {name: value.tolist() for name, value in values.items()} == {
        "k": [1, 2], "one": [1, 1], "a": [2, 3], "preset": [1, 2], "b": [3, 5],
    }  # fmt: skip
    assert not any(value.flags.writeable for value in values.values())
    assert set(folded([c], [x, preset])) == {"k", "one", "a"}


WARNERS: list[tuple[Any, Any]] = [
    (lambda: ag.constant(1.0) / 0.0, "divide by zero"),
    (lambda: ag.ops.sqrt(ag.constant(-1.0)), "invalid value"),
    (lambda: ag.constant(np.float32(1)) * 1e200, "overflow"),
    (lambda: ag.ops.mean(ag.constant(np.ones(0))), "Mean of empty slice|invalid value"),
    (lambda: ag.ops.astype(ag.constant([np.nan]), "int8"), "invalid value"),
    (lambda: ag.ops.exp(ag.constant(1e3)), "overflow"),
    (lambda: ag.constant(np.array(1)) // 0, "divide by zero"),
]


@pytest.mark.parametrize(("build", "warning"), WARNERS)
def test_nothing_is_folded_that_warns_and_every_run_warns(build: Any, warning: str) -> None:
    with ag.Graph() as graph:
        node = build()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert node.name not in folded([node])
    with ag.BlockingSession(graph) as session:
        for _ in range(3):
            with pytest.warns(RuntimeWarning, match=warning):
                session.run(node)


def test_nothing_is_folded_that_raises_and_every_run_raises_with_the_node() -> None:
    with ag.Graph() as graph:
        node = ag.ops.max(ag.constant(np.ones(0)), name="largest")
        fine = ag.constant(1.0) + 1
    assert "largest" not in folded([node])
    with ag.BlockingSession(graph) as session:
        for _ in range(2):
            with pytest.raises(ValueError, match="zero-size array") as caught:
                session.run([fine, node])
            assert "'largest'" in caught.value.__notes__[0]


def test_underflow_is_left_to_the_run_whose_errstate_may_mind_it() -> None:
    with ag.Graph() as graph:
        node = ag.constant(1e-300) * 1e-300
    with ag.BlockingSession(graph) as session:
        assert session.run(node).results == 0.0
        with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
            session.run(node)


def test_what_is_large_or_a_users_function_or_ordered_is_not_folded() -> None:
    calls: list[int] = []
    with ag.Graph() as graph:
        log = ag.op(lambda: calls.append(1)).node(name="log")
        with ag.control_dependencies([log]):
            ordered = ag.ops.add(ag.constant(1.0, name="k"), 1, name="ordered")
        large = ag.ops.zeros((1 << 17,), name="large")
        pure = ag.op(pure=True)(lambda: 1).node(name="pure")
    assert set(folded([ordered, large, pure])) == {"k"}
    assert calls == []
    with ag.BlockingSession(graph) as session:
        session.run([ordered, pure])
        assert session.run(large).results.size == 1 << 17
    assert calls == [1]
