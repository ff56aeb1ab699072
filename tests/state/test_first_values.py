"""Variables get their first values when they are first needed: once, in order, by themselves."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import (
    FeedError,
    FeedTypeError,
    FetchError,
    MissingFeedError,
    RunTimeoutError,
    SpecError,
    SpecTypeError,
)

from .helpers import KINDS, Gate, opened, turns

each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.parametrize("initial", [3, 3.5, [1, 2], np.arange(3, dtype=np.float32), True, np.float16(1), [[1j]]])
async def test_a_value_is_its_own_first_value(kind: str, initial: Any) -> None:
    with ag.Graph() as graph:
        v = ag.variable(initial)
    async with opened(kind, graph) as session:
        value = await session.run(v)
    assert value.dtype == v.dtype == np.asarray(initial).dtype
    np.testing.assert_array_equal(value, initial)


@each_kind
async def test_first_values_depend_on_each_other_in_any_depth(kind: str) -> None:
    with ag.Graph() as graph:
        last: Any = ag.variable(1.0)
        for _ in range(50):
            last = ag.variable(last + 1)
    async with opened(kind, graph) as session:
        assert await session.run(last) == 51.0
        assert await session.run(graph.variables[10]) == 11.0


@each_kind
async def test_a_first_value_is_of_what_other_variables_hold_when_it_is_needed_and_stays(kind: str) -> None:
    with ag.Graph() as graph:
        one = ag.variable(1.0)
        two = ag.variable(one * 10)
        more = one.assign_add(1.0)
    async with opened(kind, graph) as session:
        await session.run(more)
        assert await session.run(two) == 20.0
        await session.run(more)
        assert await session.run([one, two]) == [3.0, 20.0]


@each_kind
async def test_only_what_a_run_needs_gets_a_first_value(kind: str) -> None:
    calls: list[str] = []

    def called(name: str) -> float:
        calls.append(name)
        return np.float64(1)

    with ag.Graph() as graph:
        one, two, three = (
            ag.variable(partial(called, name), dtype="float64", shape=()) for name in ("one", "two", "three")
        )
        new = two.assign(5.0)
    async with opened(kind, graph) as session:
        await session.run([one + 0, new])
        assert calls == ["one"]
        assert await session.run(two) == 5.0
        assert calls == ["one"]
        await session.run(three, {three: 4.0})
        assert calls == ["one"]


@each_kind
async def test_a_function_is_called_once_in_each_session(kind: str) -> None:
    calls: list[int] = []

    def sync() -> Any:
        calls.append(threading.get_ident())
        return np.float64(len(calls))

    async def later() -> Any:
        await asyncio.sleep(0)
        return sync()

    with ag.Graph() as graph:
        v, w = (ag.variable(function, dtype="float64", shape=()) for function in (sync, later))
    assert calls == []
    for session_number in range(2):
        async with opened(kind, graph) as session:
            for _ in range(3):
                assert sorted(await session.run([v, w])) == [2 * session_number + 1, 2 * session_number + 2]
    if kind == "async":
        assert len(set(calls)) > 1, "the one that is no coroutine is called in a thread"


async def test_a_function_without_a_spec_is_called_when_the_variable_is_built() -> None:
    with ag.Graph() as graph:
        v = ag.variable(lambda: [1.0, 2.0])
    assert v.shape == (2,)
    async with opened("async", graph) as session:
        assert (await session.run(v)).tolist() == [1.0, 2.0]


@each_kind
async def test_if_a_first_value_fails_the_run_does_and_the_next_one_tries_again(kind: str) -> None:
    calls: list[int] = []

    def unreliable() -> Any:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("not yet")
        return np.float64(len(calls))

    with ag.Graph() as graph:
        v = ag.variable(unreliable, "v", dtype="float64", shape=())
        w = ag.variable(v + 1)
        fetches = [v + 0, w]
    async with opened(kind, graph) as session:
        for _ in range(2):
            with pytest.raises(OSError, match="not yet") as caught:
                await session.run(fetches)
            assert [note.splitlines()[0] for note in caught.value.__notes__] == [
                "asyncgraph: node 'initial' (initial) failed"
            ]
        assert await session.run(fetches) == [3.0, 4.0]


@each_kind
@pytest.mark.parametrize(
    ("value", "error"),
    [(np.zeros(3), SpecError), (np.zeros(2, np.float32), SpecTypeError), ([1.0, 2.0], SpecTypeError)],
)
async def test_a_first_value_that_does_not_fit_is_an_error_of_each_run_that_needs_it(
    kind: str, value: Any, error: type[Exception]
) -> None:
    with ag.Graph() as graph:
        v = ag.variable(ag.op(lambda: value).node(), "v", dtype="float64", shape=(2,))
    async with opened(kind, graph) as session:
        for _ in range(2):
            with pytest.raises(error, match="'v'"):
                await session.run(v)
        await session.replace({v: np.ones(2)})
        assert (await session.run(v)).tolist() == [1.0, 1.0]


@each_kind
async def test_a_first_value_may_depend_on_a_placeholder_that_the_first_run_feeds(kind: str) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None,), "x")
        v = ag.variable(x * 2, shape=(2,))
        total = v + x
    async with opened(kind, graph) as session:
        with pytest.raises(MissingFeedError, match="'x'"):
            await session.run(v)
        assert (await session.run(total, {x: [1, 2]})).tolist() == [3.0, 6.0]
        assert (await session.run(v)).tolist() == [2.0, 4.0]


@each_kind
async def test_what_a_run_feeds_besides_placeholders_does_not_become_a_first_value(kind: str) -> None:
    with ag.Graph() as graph:
        one = ag.variable(1.0)
        between = one * 2
        two = ag.variable(between)
    async with opened(kind, graph) as session:
        assert await session.run([one, two], {one: 100.0}) == [100.0, 2.0]
        assert await session.run([one, two]) == [1.0, 2.0]
    async with opened(kind, graph) as session:
        assert await session.run([between, two], {between: 100.0}) == [100.0, 2.0]


@each_kind
async def test_a_fed_variable_needs_no_first_value_but_adding_to_it_does(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        added = v.assign_add(v)
    async with opened(kind, graph) as session:
        assert await session.run(added, {v: 5.0}) == 6.0
        assert await session.run(v) == 6.0


# -- many at once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
async def test_runs_that_start_together_give_one_first_value(is_async: bool) -> None:
    calls: list[int] = []

    def sync() -> Any:
        calls.append(1)
        return np.float64(7.0)

    async def later() -> Any:
        await asyncio.sleep(0.001)
        return sync()

    with ag.Graph() as graph:
        v = ag.variable(later if is_async else sync, dtype="float64", shape=())
        w = ag.variable(v + 1)
        ways = [v + 0, w + 0, v.assign_add(1.0), w.assign(v * 2)]
    async with ag.Session(graph) as session:
        await asyncio.gather(*[session.run(ways[number % 4]) for number in range(100)])
        assert calls == [1]
        assert session.statistics().runs_started <= 100 + 4
        assert (await session.run(v)).results == 32.0


async def test_nested_runs_that_start_together_give_one_first_value_and_what_depends_on_it() -> None:
    drawn = iter([10.0, 20.0, 30.0])

    async def draw() -> Any:
        await asyncio.sleep(0.01)
        return np.float64(next(drawn))

    with ag.Graph() as graph:
        v = ag.variable(draw, dtype="float64", shape=())
        w = ag.variable(v + 1)

        @ag.op
        async def nest() -> None:
            await asyncio.gather(*[session.run(one) for one in (v, w, v, w)])

        nesting = nest.node()
    async with asyncio.timeout(10), ag.Session(graph) as session:
        await session.run(nesting)
        assert (await session.run([v, w])).results == [10.0, 11.0]


def test_threads_that_start_together_give_one_first_value() -> None:
    calls: list[int] = []

    def first() -> Any:
        calls.append(1)
        return np.float64(7.0)

    with ag.Graph() as graph:
        v = ag.variable(first, dtype="float64", shape=())
        w = ag.variable(v + 1)
        ways = [w + 0, v.assign_add(1.0)]
    with ag.BlockingSession(graph) as session, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: session.run(ways[number % 2]), range(40)))
        assert calls == [1]
        assert session.run(v).results == 27.0


async def test_each_of_many_is_told_if_the_first_value_fails() -> None:
    calls: list[int] = []

    def fail() -> Any:
        calls.append(1)
        raise OSError("never")

    with ag.Graph() as graph:
        v = ag.variable(fail, dtype="float64", shape=())
    async with ag.Session(graph) as session:
        ended = await asyncio.gather(*[session.run(v) for _ in range(5)], return_exceptions=True)
    assert [type(one) for one in ended] == [OSError] * 5
    assert len({id(one) for one in ended}) == len(calls) == 5


async def test_a_run_that_is_given_up_while_it_waits_for_first_values_ends_what_it_has_started() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        v = ag.variable(gate, dtype="float64", shape=())
        used = v + 0
    async with ag.Session(graph) as session:
        first, second = session.submit(used), session.submit(used)
        await gate.has_begun()
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        await turns()
        assert not second.done()
        with pytest.raises(RunTimeoutError):
            await session.run(used, options=ag.RunOptions(timeout_s=0.01))
        gate.open()
        assert (await second).results == 0.0
    assert gate.calls == 2  # Of the first, and then of the second, which had waited for the first.


async def test_what_waits_for_first_values_needs_no_place_for_them() -> None:
    with ag.Graph() as graph:
        v = ag.variable(lambda: np.float64(1), dtype="float64", shape=())
        used = v + 0
    config = ag.SessionConfig(max_concurrent_runs=1, max_pending_runs=2)
    async with asyncio.timeout(10), ag.Session(graph, config=config) as session:
        runs = [session.submit(used) for _ in range(3)]
        assert [(await run).results for run in runs] == [1.0] * 3


async def test_closing_a_session_waits_for_first_values() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        v = ag.variable(gate, dtype="float64", shape=())
    session = ag.Session(graph)
    run = session.submit(v + 0)
    await gate.has_begun()
    closing = asyncio.create_task(session.aclose())
    await turns()
    assert not closing.done()
    gate.open()
    assert (await run).results == 0.0
    await closing


async def test_an_assignment_beats_a_first_value_that_is_being_computed() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        v = ag.variable(gate, dtype="float64", shape=())
        new, used = v.assign(5.0), v + 0
    async with ag.Session(graph) as session:
        reading = session.submit(used)
        await gate.has_begun()
        assert (await session.run(new)).results == 5.0
        gate.open()
        assert (await reading).results == 5.0
        assert (await session.run(v)).results == 5.0


# -- asking for them ---------------------------------------------------------------------------------------


@each_kind
async def test_initialize_gives_all_first_values_or_those_that_are_asked_for(kind: str) -> None:
    with ag.Graph() as graph:
        one, two, three = ag.variable(1.0), ag.variable(2.0), ag.variable(3.0)
    async with opened(kind, graph) as session:
        for asked, held in (([two], {two}), ([], {two}), (None, {one, two, three}), ([one], {one, two, three})):
            await session.initialize(asked)
            assert set(session.held()) == held


async def test_initialize_takes_nothing_but_variables() -> None:
    with ag.Graph() as graph:
        v = ag.variable(1.0)
        new = v.assign(2.0)
    async with ag.Session(graph) as session:
        with pytest.raises(FeedTypeError, match="is no variable"):
            await session.initialize([new])  # pyright: ignore[reportArgumentType]  # which is an error
        assert (await session.run(v)).results == 1.0


@each_kind
async def test_replace_needs_no_first_value_and_takes_all_or_nothing(kind: str) -> None:
    def never() -> Any:
        raise AssertionError

    with ag.Graph() as graph:
        one, two = ag.variable(never, "one", dtype="float64", shape=(None,)), ag.variable(2.0, "two")
        derived = two + 1
    async with opened(kind, graph) as session:
        await session.replace({})
        for wrong, error in (
            ({one: [1.0], two: [1.0]}, FeedError),
            ({"one": [1.0], "two": "text"}, FeedTypeError),
            ({one: [1.0], derived: 3.0}, FeedTypeError),
            ({one: [1.0], "one": [2.0]}, FeedError),
            ({"three": 1.0}, FetchError),
        ):
            with pytest.raises(error):
                await session.replace(wrong)
        assert session.held() == {}
        await session.replace({"one": [1.0, 2.0], two: 5})
        assert [value.tolist() for value in await session.run([one, two])] == [[1.0, 2.0], 5.0]
