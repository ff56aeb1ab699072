"""Public failures of hooks: called when they should not be, left out, hidden, or in the way of the run they watch."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import HookConflictError, MissingFeedError, RunTimeoutError

GUARD_S = 10.0


class Watching(ag.Hook):
    """Asks for something, counts its calls, and fails where it is told to."""

    def __init__(self, asks: ag.RunArgs[Any] | None = None, **fails: BaseException) -> None:
        self.asks = asks
        self.fails = fails
        self.calls: list[str] = []
        self.errors: list[BaseException] = []
        self.results: list[Any] = []

    def _called(self, method: str) -> None:
        self.calls.append(method)
        if method in self.fails:
            raise self.fails[method]

    def before_run(self, context: ag.RunContext) -> ag.RunArgs[Any] | None:
        self._called("before_run")
        return self.asks

    def after_run(self, context: ag.RunContext, values: ag.RunValues[Any]) -> None:
        self.results.append(values.results)
        self._called("after_run")

    def on_error(self, context: ag.RunContext, error: BaseException) -> None:
        self.errors.append(error)
        self._called("on_error")


# -- HOOKS -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.0, np.zeros(0), np.zeros(3)], ids=["number", "empty", "array"])
async def test_ag_117_two_who_feed_the_same_node_are_an_error_that_names_both(value: Any) -> None:
    """https://github.com/tensorflow/tensorflow/blob/master/tensorflow/python/training/monitored_session.py."""
    ran: list[Any] = []
    with ag.Graph() as graph:
        x = ag.placeholder("float64", name="x")
        y = ag.op(ran.append)(x)
    feeds = {x: value}
    first, second = Watching(ag.RunArgs(None, {x: value})), Watching(ag.RunArgs(None, {x: value}))

    async with ag.Session(graph, hooks=[first, second]) as session:
        with pytest.raises(HookConflictError, match=r"'x' is fed twice .* hooks\[0\] of the session .* hooks\[1\]"):
            await session.run(y)
    async with ag.Session(graph, hooks=[first]) as session:
        with pytest.raises(
            RuntimeError, match=r"'x' is fed twice in one run: by the caller and by Watching, hooks\[0\]"
        ):
            await session.run(y, feeds)

    assert ran == []
    assert [*feeds] == [x]
    assert feeds[x] is value


async def test_ag_119_runs_that_no_caller_asked_for_call_no_hooks() -> None:
    """https://github.com/tensorflow/tensorflow/issues/15158, https://github.com/tensorflow/tensorflow/issues/11971,
    https://github.com/tensorflow/tensorflow/issues/12343.
    """
    counting = Watching()

    class Running(ag.Hook):
        async def before_run(self, context: ag.RunContext) -> None:
            await context.session.run(y)

    with ag.Graph() as graph:
        y = ag.ops.add(ag.variable(1.0), 1.0)
    async with asyncio.timeout(GUARD_S), ag.Session(graph, hooks=[counting]) as session:
        await session.run(y)
        first = counting.calls.count("before_run")
        await session.run(y, None, ag.RunOptions(hooks=None))
        await session.initialize()
        unchanged = counting.calls.count("before_run")
        await session.run(y, None, ag.RunOptions(hooks=(Running(),)))

    assert (first, unchanged, counting.calls.count("before_run")) == (1, 1, 2)


async def test_ag_120_a_fetch_of_a_hook_that_cannot_be_had_names_the_hook_and_the_placeholder() -> None:
    """https://github.com/tensorflow/tensorflow/issues/13516."""
    ran: list[int] = []
    with ag.Graph() as graph:
        summary = ag.ops.square(ag.placeholder("float64", (), name="x"))
        step = ag.op(lambda: ran.append(1)).node()

    async with ag.Session(graph, hooks=[Watching(ag.RunArgs(summary))]) as session:
        with pytest.raises(MissingFeedError, match=r"^Watching, hooks\[0\] of the session: no value was fed for 'x'"):
            await session.run(step)

    assert ran == []


async def test_ag_121_two_hooks_share_what_both_need() -> None:
    """https://github.com/tensorflow/tensorflow/issues/27847."""
    calls: list[int] = []

    def counting_add_1(value: Any) -> Any:
        calls.append(1)
        return value + 1

    with ag.Graph() as graph:
        a = ag.ops.zeros(3)
        b = ag.op(counting_add_1, spec="float64[3]")(a)
        cc = b * 2
    first, second = Watching(ag.RunArgs({"c": cc})), Watching(ag.RunArgs([b, b]))

    async with ag.Session(graph, hooks=[first, second]) as session:
        values = await session.run(a)

    np.testing.assert_array_equal(values.results, [0, 0, 0])
    np.testing.assert_array_equal(first.results[0]["c"], [2, 2, 2])
    np.testing.assert_array_equal(second.results[0], [[1, 1, 1], [1, 1, 1]])
    assert [*first.results[0]] == ["c"]
    assert calls == [1]


async def test_ag_122_a_hook_that_raises_after_a_run_leaves_no_other_out() -> None:
    """https://github.com/SpecFlowOSS/SpecFlow/issues/1199, https://github.com/SpecFlowOSS/SpecFlow/issues/978,
    https://github.com/getslash/slash/issues/205.

    In the reverse order of the hooks; what the first raises is raised, with the others in its notes.
    """
    error = ValueError("b")
    hooks = [Watching(after_run=KeyError("a")), Watching(after_run=error), Watching()]
    with ag.Graph() as graph:
        y = ag.constant(1.0)

    async with ag.Session(graph, hooks=hooks) as session:
        with pytest.raises(ValueError, match="b") as caught:
            await session.run(y)
        calls = [hook.calls.copy() for hook in hooks]
        for hook in hooks:
            hook.fails.clear()
        assert (await session.run(y)).results == 1.0

    assert caught.value is error
    assert "KeyError: 'a'" in "\n".join(error.__notes__)
    assert calls == [["before_run", "after_run"]] * 3


async def test_ag_123_a_hook_that_raises_before_a_run_ends_it_and_those_before_it_are_told() -> None:
    """https://github.com/jumpstarter-dev/jumpstarter/issues/244, https://github.com/falconry/falcon/pull/285."""
    error = ValueError("b")
    ran: list[int] = []
    hooks = [Watching(), Watching(before_run=error), Watching()]
    with ag.Graph() as graph:
        node = ag.op(lambda: ran.append(1)).node()

    async with ag.Session(graph, hooks=hooks) as session:
        with pytest.raises(ValueError, match="b"):
            await session.run(node)

    assert ran == []
    assert [hook.calls for hook in hooks] == [["before_run", "on_error"], ["before_run"], []]
    assert hooks[0].errors == [error]


@pytest.mark.parametrize("how", ["the node raises", "the run is cancelled"])
async def test_ag_123_a_run_that_fails_or_is_cancelled_is_told_to_all(how: str) -> None:
    """https://github.com/jhorstmann/zuchini/pull/35. A raising `on_error` does not hide what ended the run."""
    begun = asyncio.Event()

    async def end() -> None:
        begun.set()
        if how == "the node raises":
            raise ZeroDivisionError
        await asyncio.Event().wait()

    hooks = [Watching(), Watching(on_error=ValueError("b")), Watching()]
    with ag.Graph() as graph:
        node = ag.op(end).node()
    async with asyncio.timeout(GUARD_S), ag.Session(graph, hooks=hooks) as session:
        task = asyncio.create_task(session.run(node))
        await begun.wait()
        if how == "the run is cancelled":
            task.cancel()
        await asyncio.wait([task])

    kind = asyncio.CancelledError if how == "the run is cancelled" else ZeroDivisionError
    assert task.cancelled() == (kind is asyncio.CancelledError)
    assert task.cancelled() or isinstance(task.exception(), kind)
    assert [hook.calls for hook in hooks] == [["before_run", "on_error"]] * 3
    assert [type(error) for hook in hooks for error in hook.errors] == [kind] * 3


# -- what other classes of failures say of hooks ---------------------------------------------------------


async def test_ag_013_structured_fetches_survive_hooks() -> None:
    """https://github.com/tensorflow/tensorflow/issues/4031, https://github.com/tensorflow/tensorflow/issues/1941."""
    with ag.Graph() as graph:
        a, b = ag.constant(1.0), ag.constant(2.0)
    hook = Watching(ag.RunArgs({"caller": b}))

    async with ag.Session(graph, hooks=[hook]) as session:
        values = await session.run({"loss": a, 0: b, None: a, ("t", 1): b, "caller": a})

    assert [*values.results.items()] == [("loss", 1.0), (0, 2.0), (None, 1.0), (("t", 1), 2.0), ("caller", 1.0)]
    assert hook.results == [{"caller": 2.0}]


async def test_ag_015_a_bare_fetch_is_a_value_and_a_list_of_one_is_a_list_with_hooks_too() -> None:
    """https://github.com/aesara-devs/aesara/issues/964."""
    with ag.Graph() as graph:
        ag.constant(8.0, name="a")

    for one in (graph, pickle.loads(pickle.dumps(graph))):
        bare, listed = Watching(ag.RunArgs("a")), Watching(copy.copy(ag.RunArgs(["a"])))
        async with ag.Session(one, hooks=[bare, listed]) as session:
            assert (await session.run("a")).results == 8.0
            assert (await session.run(["a"])).results == [8.0]
            assert (await session.prepare("a")()).results == 8.0
            assert (await session.submit(["a"])).results == [8.0]

        assert bare.results == [8.0] * 4
        assert listed.results == [[8.0]] * 4
        assert {type(result) for result in listed.results} == {list}


INTERRUPTED = textwrap.dedent("""
    import asyncio, sys
    import asyncgraph as ag

    class Cleaning(ag.Hook):
        def on_error(self, context, error):
            print("cleaned up after", type(error).__name__, flush=True)

    class Failing(ag.Hook):
        def {method}(self, *given):
            raise {error}

    def end():
        if {method!r} == "on_error":
            raise ValueError("an ordinary failure")

    with ag.Graph() as graph:
        node = ag.op(end).node()

    async def main():
        async with ag.Session(graph, hooks=[Cleaning(), Failing()]) as session:
            try:
                await session.run(node)
            except Exception:
                print("an ordinary failure")

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted")
        sys.exit(130)
""")


@pytest.mark.parametrize(
    ("method", "error", "code", "printed"),
    [
        ("before_run", "SystemExit(3)", 3, "cleaned up after SystemExit\n"),
        ("after_run", "KeyboardInterrupt", 130, "interrupted\n"),
        ("on_error", "SystemExit(3)", 3, "cleaned up after ValueError\n"),
    ],
)
def test_ag_083_an_interrupt_raised_in_a_hook_reaches_the_caller_of_asyncio_run(
    method: str, error: str, code: int, printed: str
) -> None:
    """https://github.com/python/cpython/issues/95571, https://github.com/python/cpython/issues/101515,
    https://github.com/python/cpython/issues/102572.
    """
    program = INTERRUPTED.format(method=method, error=error)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (code, printed, "")


async def test_ag_083_an_interrupt_in_a_node_is_not_swallowed_by_hooks() -> None:
    """https://github.com/python/cpython/issues/95571."""

    def fail() -> None:
        raise SystemExit(3)

    hooks = [Watching(), Watching(on_error=ValueError("b"))]
    with ag.Graph() as graph:
        node = ag.op(fail).node()
    async with ag.Session(graph, hooks=hooks) as session:
        future = session.submit(node)
        await asyncio.wait([future])

    error = future.exception()
    assert isinstance(error, SystemExit)
    assert error.code == 3
    assert [hook.errors for hook in hooks] == [[error]] * 2


@pytest.mark.parametrize("slow", ["before_run", "after_create_session"])
async def test_ag_093_the_deadline_covers_hooks_and_those_that_were_entered_are_told(slow: str) -> None:
    """https://github.com/tensorflow/tensorflow/issues/14489."""

    async def sleep(self: ag.Hook, *given: object) -> None:
        await asyncio.sleep(10)

    methods: dict[str, Callable[..., Any]] = {slow: sleep}
    sleeping = type("Sleeping", (ag.Hook,), methods)()
    watching = Watching()
    with ag.Graph() as graph:
        y = ag.constant(1.0)
    session = ag.Session(graph, hooks=[watching, sleeping])

    began = perf_counter()
    with pytest.raises(TimeoutError) as caught:
        await session.run(y, None, ag.RunOptions(timeout_s=0.1))
    elapsed = perf_counter() - began
    await session.aclose()

    assert isinstance(caught.value, RunTimeoutError)
    assert elapsed < 0.5
    assert watching.calls == (["before_run", "on_error"] if slow == "before_run" else [])


async def test_ag_110_a_hook_plans_and_runs_inside_before_run() -> None:
    """https://github.com/tensorflow/tensorflow/issues/35540, https://github.com/tensorflow/tensorflow/pull/52729.

    No lock is held while a hook runs: it may ask for the very plan that its run is for.
    """
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        y = ag.ops.square(x, name="y")
        more = ag.variable(0.0, name="v").assign_add(1.0)
    seen: list[Any] = []

    class Planning(ag.Hook):
        async def before_run(self, context: ag.RunContext) -> None:
            context.session.explain([y, more], {x: 0.0})
            seen.append((await context.session.run([y, more], {x: 3.0})).results)

    async with asyncio.timeout(GUARD_S), ag.Session(graph, hooks=[Planning()]) as session:
        runs = [session.run([y, more], {x: 2.0}) for _ in range(3)]
        results = [values.results for values in await asyncio.gather(*runs)]

    assert [result[0] for result in results] == [4.0] * 3
    assert [result[0] for result in seen] == [9.0] * 3
    assert sorted(float(result[1]) for result in results + seen) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize("size", [0, 1, 3])
async def test_ag_213_arrays_of_hooks_are_never_asked_whether_they_are_true(size: int) -> None:
    """https://github.com/Qiskit/qiskit-ibm-provider/pull/145."""
    array = np.zeros(size)
    with ag.Graph() as graph:
        x, anything = ag.placeholder("float64", ("n",)), ag.placeholder(None)
        other = ag.placeholder("float64", ("n",), name="other")
        y = ag.op(lambda value, _: value)(anything, x)
    feeding = Watching(ag.RunArgs(None, {"other": array}))
    fetching = Watching(ag.RunArgs([y, other, x]))

    async with ag.Session(graph, hooks=[feeding, fetching]) as session:
        run = (await session.run([y, x], {x: array, anything: array})).results
        submitted = (await session.submit([y, x], {x: array, anything: array})).results

    for result in [*run, *submitted, *fetching.results[0], *fetching.results[1]]:
        np.testing.assert_array_equal(result, array)
    assert feeding.results == [None, None]
