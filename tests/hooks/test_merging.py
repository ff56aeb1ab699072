"""One run of what a caller and hooks ask for: who gets what, and what they cannot have together."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import FeedError, FetchError, HookConflictError, MissingFeedError, RunArgsError

from .recorder import Calls, Recorder, names, of_runs, square

Pair = namedtuple("Pair", "first second")


def hooks(*asked: ag.RunArgs[Any] | None) -> tuple[Recorder, ...]:
    """Hooks A, B, … that ask for these."""
    calls: Calls = []
    return tuple([Recorder(chr(ord("A") + index), calls, asks) for index, asks in enumerate(asked)])


def given(of: tuple[Recorder, ...]) -> dict[str, Any]:
    """What each hook was given after its run."""
    return {call[0]: call[2] for call in of[0].calls if call[1] == "after_run"}


async def test_each_gets_what_it_asked_for_in_the_structure_it_asked_for_it() -> None:
    graph, x, y = square()
    told = hooks(ag.RunArgs({"caller": x}), ag.RunArgs(Pair(y, ["x"])), ag.RunArgs([]))

    async with ag.Session(graph, hooks=told) as session:
        values = await session.run({"loss": y, 0: x, None: y, ("t", 1): x, "caller": [y]}, {x: [3.0]})

    assert [*values.results] == ["loss", 0, None, ("t", 1), "caller"]
    assert values.results["caller"] == [9.0]
    assert given(told) == {"A": {"caller": [3.0]}, "B": Pair(9.0, [3.0]), "C": []}
    assert type(given(told)["B"]) is Pair


async def test_what_several_ask_for_is_computed_once_and_shared_by_nobody() -> None:
    calls: list[int] = []

    def ones() -> np.ndarray[Any, Any]:
        calls.append(1)
        return np.ones(3)

    with ag.Graph() as graph:
        made = ag.op(ones, spec="float64[3]").node()
        doubled = ag.ops.multiply(made, 2.0)
    told = hooks(ag.RunArgs(doubled), ag.RunArgs([doubled, made]))

    async with ag.Session(graph, hooks=told) as session:
        values = await session.run(doubled)
        values.results[:] = 7.0

    assert calls == [1]
    np.testing.assert_array_equal(given(told)["A"], [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(given(told)["B"][0], [2.0, 2.0, 2.0])
    assert values.results.flags.writeable


async def test_hooks_may_feed_what_the_caller_does_not_and_the_caller_s_dict_is_left_alone() -> None:
    with ag.Graph() as graph:
        x, z = ag.placeholder("float64", ("n",), name="x"), ag.placeholder("float64", ("n",), name="z")
        y = ag.ops.add(x, z, name="y")
    told = hooks(ag.RunArgs(None, {"z": np.array([1.0, 2.0])}))
    feeds: dict[Any, Any] = {x: [10.0, 20.0]}

    async with ag.Session(graph, hooks=told) as session:
        run = await session.run(y, feeds)
        submitted = await session.submit(y, feeds)
        prepared = await session.prepare(y, [x])([10.0, 20.0])

    for values in (run, submitted, prepared):
        np.testing.assert_array_equal(values.results, [11.0, 22.0])
    assert feeds == {x: [10.0, 20.0]}
    assert given(told) == {"A": None}


@pytest.mark.parametrize("size", [0, 1, 3])
async def test_two_who_feed_one_node_are_named_before_anything_runs(size: int) -> None:
    ran: list[Any] = []
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        y = ag.op(ran.append)(x)
    array = np.zeros(size)
    told = hooks(ag.RunArgs(None, {"x": array}), ag.RunArgs(None, {x: array}))

    async with ag.Session(graph, hooks=told) as session:
        with pytest.raises(HookConflictError) as by_hooks:
            await session.run(y)
        with pytest.raises(RuntimeError) as by_caller:
            await session.run(y, {"x": array})

    assert str(by_hooks.value) == (
        "'x' is fed twice in one run: by Recorder, hooks[0] of the session and by Recorder, hooks[1] of the session"
    )
    assert str(by_caller.value) == "'x' is fed twice in one run: by the caller and by Recorder, hooks[0] of the session"
    assert ran == []


async def test_the_shortest_deadline_and_any_wish_for_a_trace_hold_for_all() -> None:
    graph, x, y = square()
    seen: list[ag.RunOptions] = []

    def look(_: ag.RunContext, values: ag.RunValues[Any]) -> None:
        assert values.metadata.trace is not None
        seen.append(values.options)

    options = [ag.RunOptions(timeout_s=50.0), ag.RunOptions(trace=True, seed=3), ag.RunOptions(timeout_s=70.0)]
    told = [Recorder("A", [], ag.RunArgs(None, options=one), after_run=look) for one in options]
    async with ag.Session(graph, hooks=told) as session:
        values = await session.run(y, {x: [1.0]}, ag.RunOptions(timeout_s=60.0))

    assert values.metadata.trace is not None
    assert values.options == ag.RunOptions(timeout_s=50.0, trace=True, seed=3)
    assert seen == [values.options] * 3


async def test_a_hook_may_shorten_the_deadline_of_a_run_that_has_none() -> None:
    with ag.Graph() as graph:
        node = ag.op(asyncio.Event().wait).node()
    told = hooks(ag.RunArgs(None, options=ag.RunOptions(timeout_s=0.02)))

    async with ag.Session(graph, hooks=told) as session:
        with pytest.raises(ag.errors.RunTimeoutError, match="timeout_s=0.02"):
            await session.run(node)


@pytest.mark.parametrize(
    ("caller", "hook", "message"),
    [
        (
            ag.RunOptions(),
            ag.RunOptions(results="device"),
            "the option 'results' of one run would be 'host' for the caller, and 'device' for {A}",
        ),
        (
            ag.RunOptions(seed=1),
            ag.RunOptions(seed=2),
            "the option 'seed' of one run would be 1 for the caller, and 2 for {A}",
        ),
    ],
)
async def test_other_options_that_differ_are_an_error(caller: ag.RunOptions, hook: ag.RunOptions, message: str) -> None:
    graph, x, y = square()
    told = hooks(ag.RunArgs(None, options=hook))

    async with ag.Session(graph) as session:
        with pytest.raises(HookConflictError) as caught:
            await session.run(y, {x: [1.0]}, dataclasses.replace(caller, hooks=told))

    assert str(caught.value) == message.format(A="Recorder, hooks[0] of the run")
    assert names(told[0].calls) == ["A before_run", "A on_error"]


async def test_two_hooks_whose_options_differ_are_both_named() -> None:
    graph, x, y = square()
    told = hooks(*[ag.RunArgs(None, options=ag.RunOptions(seed=seed)) for seed in (1, 1, 2)])

    async with ag.Session(graph, hooks=told) as session:
        with pytest.raises(HookConflictError, match=r"1 for .*hooks\[0\] of the session, and 2 for .*hooks\[2\]"):
            await session.run(y, {x: [1.0]})


async def test_what_a_hook_is_missing_names_it_and_the_placeholder_before_anything_runs() -> None:
    ran: list[int] = []
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        summary = ag.ops.square(x)
        step = ag.op(lambda: ran.append(1)).node()
    told = hooks(None, ag.RunArgs({"summary": summary}))

    async with ag.Session(graph, hooks=told) as session:
        for run in (session.run, session.submit):
            with pytest.raises(MissingFeedError) as caught:
                await run(step)
            assert str(caught.value).startswith("Recorder, hooks[1] of the session: no value was fed for 'x'")

    assert ran == []
    assert names(of_runs(told[0].calls))[-4:] == ["A before_run", "B before_run", "B on_error", "A on_error"]


async def test_what_the_caller_is_missing_is_blamed_on_nobody_else() -> None:
    graph, _, y = square()
    told = hooks(ag.RunArgs(y))

    async with ag.Session(graph, hooks=told) as session:
        with pytest.raises(MissingFeedError, match=r"^no value was fed for 'x'"):
            await session.run(y)


@pytest.mark.parametrize(
    ("asked", "kind", "message"),
    [
        (ag.RunArgs("nothing"), FetchError, "hooks[0] of the session: fetch: no node is named 'nothing'"),
        (ag.RunArgs(None, {"no": 1.0}), FetchError, "hooks[0] of the session: feed: no node is named 'no'"),
        (ag.RunArgs(None, {"z": [[1.5]]}), FeedError, "hooks[0] of the session: the value fed for 'z' does not fit it"),
        (5, RunArgsError, "hooks[0] of the session returned 5 from before_run\n  expected a RunArgs, or None"),
    ],
)
async def test_what_cannot_be_run_of_what_a_hook_asks_names_the_hook(asked: Any, kind: Any, message: str) -> None:
    with ag.Graph() as graph:
        ag.placeholder("int32", (), name="z")
        y = ag.op(lambda: 1).node()

    async with ag.Session(graph, hooks=hooks(asked)) as session:
        with pytest.raises(kind) as caught:
            await session.run(y)

    assert message in str(caught.value)
    assert type(caught.value) is kind or issubclass(type(caught.value), kind)


async def test_an_error_of_that_kind_that_a_node_raises_is_left_as_it_is() -> None:
    error = RunArgsError("of a node's own")

    def fail() -> None:
        raise error

    with ag.Graph() as graph:
        node = ag.op(fail).node()
        unfed = ag.placeholder("float64", (), default=1.0)

    async with ag.Session(graph, hooks=hooks(ag.RunArgs(unfed))) as session:
        with pytest.raises(RunArgsError) as caught:
            await session.run(node)

    assert caught.value is error


async def test_only_hooks_may_ask_for_nothing() -> None:
    graph, x, _ = square()
    nothing = ag.RunArgs(None, {x: [1.0]})

    async with ag.Session(graph) as session:
        for run in (session.run, session.submit):
            with pytest.raises(FetchError, match="fetches is None\n  only a hook may ask for nothing"):
                await run(nothing)
        with pytest.raises(FetchError, match="fetches is None"):
            await session.run(nothing.fetches, {x: [1.0]}, ag.RunOptions(hooks=hooks(None)))
