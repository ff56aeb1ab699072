"""Who is called when, and what is seen of it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import HookCancelledError, RunArgsError, SessionError

from ..session.gates import AsyncGate
from .recorder import Calls, Recorder, at, names, of_runs, raising, square


async def test_a_session_s_hooks_live_from_its_beginning_to_its_end() -> None:
    graph, x, y = square()
    calls: Calls = []

    async with ag.Session(graph, hooks=[Recorder("A", calls), Recorder("B", calls)]) as session:
        opened = names(calls)
        await session.run(y, {x: [2.0]})

    assert opened == ["A begin", "B begin", "A after_create_session", "B after_create_session"]
    assert names(calls)[4:] == ["A before_run", "B before_run", "B after_run", "A after_run", "B end", "A end"]


async def test_lives_begin_with_the_first_run_where_nobody_enters_the_session() -> None:
    graph, x, y = square()
    calls: Calls = []
    session = ag.Session(graph, hooks=[Recorder("A", calls)])

    await asyncio.gather(*[session.run(y, {x: [2.0]}) for _ in range(3)])
    await session.aclose()
    await session.aclose()

    count = {call: names(calls).count(call) for call in names(calls)}
    assert names(calls)[:3] == ["A begin", "A after_create_session", "A before_run"]
    assert count == {"A begin": 1, "A after_create_session": 1, "A before_run": 3, "A after_run": 3, "A end": 1}


async def test_a_session_that_is_left_by_an_error_does_not_call_end() -> None:
    graph, x, y = square()
    calls: Calls = []

    async def leave_by_error() -> None:
        async with ag.Session(graph, hooks=[Recorder("A", calls)]) as session:
            await session.run(y, {x: [2.0]})
            raise KeyError

    with pytest.raises(KeyError):
        await leave_by_error()

    assert names(calls)[-1] == "A after_run"


async def test_a_session_whose_hooks_cannot_begin_is_closed_and_says_why() -> None:
    graph, _, _ = square()
    calls: Calls = []
    session = ag.Session(graph, hooks=[Recorder("A", calls), Recorder("B", calls, begin=raising(ValueError("no")))])

    with pytest.raises(ValueError, match="no") as caught:
        await session.__aenter__()
    with pytest.raises(SessionError, match="closed"):
        await session.run("y", {"x": [1.0]})

    assert caught.value.__notes__ == ["asyncgraph, a hook: Recorder, hooks[1] of the session failed in begin"]
    assert names(calls) == ["A begin", "B begin"]


async def test_only_hooks_that_know_of_the_session_are_told_of_its_end() -> None:
    graph, x, y = square()
    calls: Calls = []
    failing = Recorder("B", calls, after_create_session=raising(ValueError("no")))
    session = ag.Session(graph, hooks=[Recorder("A", calls), failing, Recorder("C", calls)])

    with pytest.raises(ValueError, match="no"):
        await session.run(y, {x: [2.0]})
    await session.aclose()

    assert names(calls)[3:] == ["A after_create_session", "B after_create_session", "A end"]


async def test_who_closes_a_session_that_is_being_closed_waits_for_its_hooks() -> None:
    graph, x, y = square()
    calls: Calls = []

    async def run_last(session: ag.Session) -> None:
        await asyncio.sleep(0)
        calls.append(("A", "ran", (await session.submit(y, {x: [3.0]})).results[0]))

    session = ag.Session(graph, hooks=[Recorder("A", calls, end=run_last)])
    await session.run(y, {x: [2.0]})
    await asyncio.gather(session.aclose(), session.aclose())

    assert calls[-2:] == [("A", "end"), ("A", "ran", 9.0)]
    assert names(calls).count("A end") == 1


async def test_all_hooks_are_told_of_the_end_whatever_others_raise_and_the_session_is_closed() -> None:
    graph, x, y = square()
    calls: Calls = []
    hooks = [Recorder("A", calls, end=raising(KeyError("a"))), Recorder("B", calls, end=raising(ValueError("b")))]

    session = ag.Session(graph, hooks=hooks)
    await session.run(y, {x: [2.0]})
    with pytest.raises(ValueError, match="b") as caught:
        await session.aclose()

    assert names(calls)[-2:] == ["B end", "A end"]
    assert "also failed: 'Recorder, hooks[0] of the session, in end': KeyError: 'a'" in "\n".join(
        caught.value.__notes__
    )
    with pytest.raises(SessionError, match="closed"):
        await session.run(y, {x: [2.0]})


async def test_hooks_may_build_nodes_when_they_begin_and_run_the_session_when_it_ends() -> None:
    graph, x, y = square()
    built: list[ag.Node] = []
    seen: list[Any] = []
    calls: Calls = []

    async def run_last(session: ag.Session) -> None:
        seen.append((await session.run(built[0], {x: [3.0]})).results)

    hook = Recorder("A", calls, begin=lambda: built.append(ag.ops.negative(y)), end=run_last)
    async with ag.Session(graph, hooks=[hook]):
        pass

    assert built[0].graph is graph
    np.testing.assert_array_equal(seen, [[-9.0]])


async def test_the_hooks_of_a_run_come_after_those_of_the_session_and_only_for_it() -> None:
    graph, x, y = square()
    calls: Calls = []
    mine = ag.RunOptions(hooks=(Recorder("R", calls), Recorder("Q", calls)))

    async with ag.Session(graph, hooks=[Recorder("S", calls)]) as session:
        await session.run(y, {x: [2.0]}, mine)
        both = names(of_runs(calls))
        calls.clear()
        await session.run(y, {x: [2.0]})

        assert names(calls) == ["S before_run", "S after_run"]
    assert both == ["S before_run", "R before_run", "Q before_run", "Q after_run", "R after_run", "S after_run"]


async def test_without_hooks_means_without_those_of_the_session_too() -> None:
    graph, x, y = square()
    calls: Calls = []

    async with ag.Session(graph, hooks=[Recorder("S", calls)]) as session:
        values = await session.run(y, {x: [2.0]}, ag.RunOptions(hooks=None))

    assert of_runs(calls) == []
    np.testing.assert_array_equal(values.results, [4.0])


async def test_methods_may_be_plain_functions_coroutine_functions_or_left_out() -> None:
    graph, x, y = square()
    calls: list[str] = []

    class Plain(ag.Hook):
        def before_run(self, context: ag.RunContext) -> ag.RunArgs[Any]:
            return ag.RunArgs(x)

        def after_run(self, context: ag.RunContext, values: ag.RunValues[Any]) -> None:
            calls.append(f"plain {values.results}")

    class Coroutine(ag.Hook):
        async def before_run(self, context: ag.RunContext) -> ag.RunArgs[Any]:
            await asyncio.sleep(0)
            return ag.RunArgs([y])

        async def after_run(self, context: ag.RunContext, values: ag.RunValues[Any]) -> None:
            await asyncio.sleep(0)
            calls.append(f"coroutine {values.results}")

    class Empty(ag.Hook):
        pass

    async with ag.Session(graph, hooks=[Plain(), Empty(), Coroutine()]) as session:
        await session.run(y, {x: [2.0]})

    assert calls == ["coroutine [array([4.])]", "plain [2.]"]


async def test_a_hook_that_asks_for_nothing_is_told_all_the_same() -> None:
    graph, x, y = square()
    calls: Calls = []

    async with ag.Session(graph, hooks=[Recorder("A", calls)]) as session:
        await session.run(y, {x: [2.0]})

    assert ("A", "after_run", None) in calls


async def test_the_context_shows_what_the_caller_asked_for_and_is_the_same_in_all_calls_of_a_run() -> None:
    graph, x, y = square()
    seen: list[ag.RunContext] = []
    fed: list[Any] = []

    def look(context: ag.RunContext, *_: Any) -> None:
        seen.append(context)
        fed.append(list(context.original_args.feeds))

    hook = Recorder("A", [], before_run=look, after_run=look)
    options = ag.RunOptions(timeout_s=60.0, hooks=(hook,))

    async with ag.Session(graph) as session:
        await session.run({"y": y}, {x: [2.0]}, options)
        await session.run(y, {x: [2.0]}, options)

    first, again, other, _ = seen
    assert first is again
    assert first is not other
    assert first.session is session
    assert first.original_args.fetches == {"y": y}
    assert fed == [[x]] * 4
    assert first.original_args.feeds == {}
    assert first.original_args.options is options
    assert not first.stop_requested


async def test_what_a_run_asks_of_its_session_is_seen_by_those_after_it() -> None:
    graph, x, y = square()
    seen: list[bool] = []
    asking = Recorder("A", [], before_run=lambda context: context.request_stop())
    looking = Recorder("B", [], before_run=lambda context: seen.append(context.stop_requested))

    async with ag.Session(graph, hooks=[looking]) as session:
        await session.run(y, {x: [2.0]}, ag.RunOptions(hooks=(asking,)))
        await session.run(y, {x: [2.0]})

    assert seen == [False, True]


async def test_contextvars_that_before_run_sets_are_seen_by_its_run_alone() -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: list[str] = []
    with ag.Graph() as graph:
        node = ag.op(lambda: seen.append(request.get())).node()
    tokens: list[Any] = []
    hook = Recorder(
        "A",
        [],
        before_run=lambda _: tokens.append(request.set("hooked")),
        after_run=lambda *_: request.reset(tokens[0]),
    )

    async with ag.Session(graph) as session:
        request.set("caller")
        await session.run(node, None, ag.RunOptions(hooks=(hook,)))

    assert seen == ["hooked"]
    assert request.get() == "caller"


@pytest.mark.parametrize("wrong", [5, "hook", ag.Hook])
def test_what_is_no_hook_is_an_error_that_says_so(wrong: Any) -> None:
    with ag.Graph() as graph:
        ag.constant(1.0)

    with pytest.raises(SessionError, match="is among the hooks\n  expected instances of subclasses of Hook"):
        ag.Session(graph, hooks=[wrong])
    given: Any
    for given in (wrong, (wrong,), [], False):
        with pytest.raises(RunArgsError, match="hooks=.*: give a tuple of Hooks, or None for no hooks at all"):
            ag.RunOptions(hooks=given)


async def test_a_blocking_session_says_that_it_calls_no_hooks() -> None:
    graph, x, y = square()
    hooked = ag.RunArgs(y, {x: [2.0]}, ag.RunOptions(hooks=(Recorder("A", []),)))

    def ask() -> None:
        with ag.BlockingSession(graph) as session:
            for run in (session.run, session.submit):
                with pytest.raises(RunArgsError, match="calls no hooks\n  give hooks to a Session"):
                    run(hooked)
            session.run(y, {x: [2.0]}, ag.RunOptions(hooks=None))

    await asyncio.to_thread(ask)


@pytest.mark.parametrize("kind", [ag.Session, ag.MonitoredSession])
@pytest.mark.parametrize("method", ["begin", "after_create_session", "end"])
async def test_a_hook_s_own_cancelled_error_in_its_life_cancels_nobody(kind: Any, method: str) -> None:
    graph, x, y = square()
    hook = Recorder("A", [], None, **{method: raising(asyncio.CancelledError())})

    async def use() -> None:
        async with kind(graph, hooks=[hook]) as session:
            await session.run(y, {x: [2.0]})

    with pytest.raises(HookCancelledError, match=f"hooks.0. of the session raised CancelledError in {method}"):
        await use()


async def test_a_hook_whose_task_is_cancelled_in_its_life_passes_that_on() -> None:
    graph, _, _ = square()
    gate = AsyncGate()
    entering = asyncio.ensure_future(ag.Session(graph, hooks=[Recorder("A", [], begin=at(gate))]).__aenter__())
    await gate.has_begun()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
