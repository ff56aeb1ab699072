"""What one run is asked for, and how."""

from __future__ import annotations

import pickle
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FetchError, RunArgsError


@pytest.fixture
def graph() -> ag.Graph:
    with ag.Graph() as made:
        x = ag.placeholder("float64", ("n",), name="x")
        ag.ops.square(x, name="y")
    return made


def test_args_are_immutable(graph: ag.Graph) -> None:
    args = ag.RunArgs("y", {"x": [1.0]})
    for name in ("fetches", "feeds", "options", "other"):
        with pytest.raises(AttributeError, match=f"'{name}' cannot be set"):
            setattr(args, name, None)
    with pytest.raises(AttributeError, match="'feeds' cannot be deleted"):
        del args.feeds


async def test_what_happens_to_fetches_and_feeds_later_is_not_seen(graph: ag.Graph) -> None:
    fetches: dict[str, Any] = {"y": ["y"]}
    feeds: dict[Any, Any] = {"x": [1.0, 2.0]}
    async with ag.Session(graph) as session:
        args = ag.RunArgs(fetches, feeds)
        future = session.submit(fetches, feeds)
        fetches["y"].append("x")
        feeds["x"] = [5.0]
        feeds["nonsense"] = 0
        for values in (await session.run(args), await future):
            assert list(values.results) == ["y"]
            (y,) = values.results["y"]
            np.testing.assert_array_equal(y, [1, 4])


def test_feeds_are_any_mapping_and_nothing_else(graph: ag.Graph) -> None:
    assert ag.RunArgs("y", MappingProxyType({"x": 1})).feeds == {"x": 1}
    assert ag.RunArgs("y").feeds == {}
    for wrong in ([("x", 1)], 5, "x"):
        with pytest.raises(RunArgsError, match="expected a dict of values by node or name"):
            ag.RunArgs("y", wrong)  # pyright: ignore[reportCallIssue, reportArgumentType]  # as callers without types do


def test_args_of_names_are_pickled(graph: ag.Graph) -> None:
    args = ag.RunArgs(["y", ("x",)], {"x": 1.0}, ag.RunOptions(timeout_s=2.0))
    made: ag.RunArgs[Any] = pickle.loads(pickle.dumps(args))
    assert (made.fetches, made.feeds, made.options) == (["y", ("x",)], {"x": 1.0}, ag.RunOptions(timeout_s=2.0))


def test_args_print_what_is_asked_for(graph: ag.Graph) -> None:
    assert repr(ag.RunArgs("y")) == "RunArgs('y')"
    assert repr(ag.RunArgs(graph["y"], {"x": 1})) == "RunArgs(<square 'y': float64[n]>, feeds={'x': 1})"
    assert "options=RunOptions(timeout_s=None, trace=True" in repr(ag.RunArgs("y", options=ag.RunOptions(trace=True)))


@pytest.mark.parametrize(
    "wrong", [{"timeout_s": -1.0}, {"timeout_s": float("nan")}, {"timeout_s": "1"}, {"results": "gpu"}]
)
def test_options_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    ((name, _),) = wrong.items()
    with pytest.raises(ValueError, match=f"^{name}="):
        ag.RunOptions(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_concurrent_runs": 0},
        {"threads": 0},
        {"plan_cache_size": 0},
        {"max_pending_runs": -1},
        {"inline_budget_s": float("nan")},
        {"inline_budget_s": "1"},
        {"workers": 0},
        {"workers": 1.5},
        {"workers": "2"},
        {"threads": None},
        {"blas_threads": 0},
    ],
)
def test_a_configuration_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    ((name, _),) = wrong.items()
    with pytest.raises(ValueError, match=f"^{name}="):
        ag.SessionConfig(**wrong)


async def test_feeds_and_options_stand_beside_bare_fetches_only(graph: ag.Graph) -> None:
    async with ag.Session(graph) as session:
        with pytest.raises(RunArgsError, match="but not in both"):
            await session.run(ag.RunArgs("y", {"x": [1.0]}), feeds={"x": [1.0]})


def test_fetches_are_checked_when_args_are_made(graph: ag.Graph) -> None:
    for wrong in (None, 5, ["y", 5], {"a": {"b": object()}}, ag.Node):
        with pytest.raises(FetchError, match="expected a node, the name of one"):
            ag.RunArgs(wrong)
    itself: list[Any] = ["y"]
    itself.append(itself)
    with pytest.raises(FetchError, match="holds itself"):
        ag.RunArgs(itself)


def test_options_of_another_type_are_refused_when_args_are_made(graph: ag.Graph) -> None:
    wrong: Any = {"timeout_s": 1.0}
    with pytest.raises(RunArgsError, match="expected RunOptions"):
        ag.RunArgs("y", None, wrong)
