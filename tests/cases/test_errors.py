"""Public failures in errors: swallowed, doubled, wrapped, without a name, or hanging the caller."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import NodeCancelledError, NodeResultError


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


async def run_alone(function: Callable[..., Any], **options: Any) -> Any:
    """The value of one node, in a session of its own, within a second."""
    with ag.Graph() as graph:
        node = ag.op(**options)(function).node(name="n")
    async with asyncio.timeout(5), ag.Session(graph) as session:
        return (await session.run(node)).results


async def test_ag_079_a_second_failure_is_attached_and_never_reported_as_unretrieved() -> None:
    """'Task exception was never retrieved' for all but the first: https://github.com/scylladb/scylladb/pull/22252,
    https://github.com/hail-is/hail/pull/13831, https://github.com/Substra/substra-backend/issues/144.

    The first failure is raised, with a line for each other one in its note, and the exceptions themselves in
    `RunFuture.metadata.failures`.
    """
    noise: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
    both = asyncio.Event()
    begun: list[int] = []

    async def fail(index: int) -> None:
        begun.append(index)
        if len(begun) == 3:
            both.set()
        if index == 2:
            try:
                await asyncio.Event().wait()
            finally:
                raise KeyError("while it was cancelled")
        with suppress(asyncio.CancelledError):  # Of one that was to go on in the same turn.
            await both.wait()
        raise ValueError(f"failure {index}")

    failing = ag.op(fail)
    with ag.Graph() as graph:
        nodes = [failing.node(index, name=f"n{index}") for index in range(3)]
    async with ag.Session(graph) as session:
        future = session.submit(nodes)
        with pytest.raises(ValueError, match="failure 0") as caught:
            await future
        failures = future.metadata.failures
    notes = "\n".join(caught.value.__notes__)
    del future, caught
    gc.collect()
    await asyncio.sleep(0)

    assert noise == []
    assert [repr(one) for one in failures] == ["ValueError('failure 1')", "KeyError('while it was cancelled')"]
    assert "also failed: 'n1': ValueError: failure 1" in notes
    assert "also failed: 'n2': KeyError: 'while it was cancelled'" in notes


@pytest.mark.parametrize("where", ["thread", "inline"])
async def test_ag_080_a_failure_keeps_its_own_type_and_arguments(where: str) -> None:
    """Task groups broke every `except ValueError`: https://github.com/agronholm/anyio/issues/141,
    https://github.com/agronholm/anyio/issues/668, https://github.com/modelcontextprotocol/python-sdk/pull/2245.
    """
    error = ValueError("a", 1)

    with pytest.raises(ValueError, match="a") as caught:
        await run_alone(raising(error), where=where)

    assert caught.value is error
    assert caught.value.args == ("a", 1)
    assert len(caught.value.__notes__) == 1
    assert "node 'n' (fail) failed" in caught.value.__notes__[0]


async def raise_stop_async() -> None:
    raise StopIteration


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (lambda: next(iter([])), {}),
        (lambda: next(iter([])), {"where": "inline"}),
        (raise_stop_async, {}),
    ],
    ids=["thread", "inline", "async"],
)
async def test_ag_082_stop_iteration_becomes_a_runtime_error_at_once(function: Any, options: dict[str, Any]) -> None:
    """A future refuses StopIteration, and the awaiting side waited for ever:
    https://github.com/python/cpython/issues/112182, https://github.com/agronholm/anyio/issues/475,
    https://github.com/langchain-ai/langchain/pull/22997.
    """
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        await asyncio.wait_for(run_alone(function, **options), 1.0)

    assert isinstance(caught.value.__cause__, StopIteration)


INTERRUPTED = textwrap.dedent("""
    import asyncio, sys, threading
    import asyncgraph as ag

    begun = threading.Event()

    async def sibling():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            print("sibling cleaned up", flush=True)

    def fail():
        assert begun.wait(10)
        raise {error}

    async def fail_async():
        raise {error}

    with ag.Graph() as graph:
        nodes = [ag.op(sibling).node(), ag.op({function}).node()]

    async def main():
        async with ag.Session(graph) as session:
            try:
                await session.run(nodes)
            except Exception:
                print("an ordinary failure")

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted")
        sys.exit(130)
""")


@pytest.mark.parametrize("function", ["fail", "fail_async"])
@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        ("SystemExit(3)", 3, "sibling cleaned up\n"),
        ("KeyboardInterrupt", 130, "sibling cleaned up\ninterrupted\n"),
    ],
)
def test_ag_083_an_interrupt_raised_in_an_op_reaches_the_caller_of_asyncio_run(
    function: str, error: str, code: int, printed: str
) -> None:
    """KeyboardInterrupt and SystemExit left noise and unfinished siblings:
    https://github.com/python/cpython/issues/95571, https://github.com/python/cpython/issues/101515,
    https://github.com/python/cpython/issues/102572.

    Like every failure they end their run and are raised by it, unchanged (`asyncgraph._exec.calls`).
    """
    program = INTERRUPTED.format(error=error, function=function)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (code, printed, "")


@pytest.mark.parametrize("is_async", [False, True])
async def test_ag_084_a_cancelled_error_of_an_op_is_a_failure_and_not_a_cancellation(is_async: bool) -> None:
    """A child that was cancelled by something else made its caller look cancelled:
    https://github.com/wecode-ai/Wegent/pull/3568.
    """

    async def cancelled() -> None:
        raise asyncio.CancelledError

    with ag.Graph() as graph:
        node = ag.op(cancelled if is_async else raising(asyncio.CancelledError())).node()
    async with ag.Session(graph) as session:
        task = asyncio.create_task(session.run(node))
        await asyncio.wait([task])

    assert not task.cancelled()
    error = task.exception()
    assert isinstance(error, NodeCancelledError)
    assert isinstance(error.__cause__, asyncio.CancelledError)


async def test_ag_085_an_error_says_which_node_failed_and_with_what() -> None:
    """Users saw a shape message and no node: https://github.com/tensorflow/serving/issues/1305."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None, 50), name="x")
        k = ag.constant(np.zeros((1, 50)))
        y = ag.ops.concat([x, k], axis=1, name="join")
    async with ag.Session(graph) as session:
        with pytest.raises(ValueError, match="must match exactly") as caught:
            await session.run(y, {x: np.zeros((10, 50))})

    (note,) = caught.value.__notes__
    assert "node 'join' (concat) failed" in note
    assert "inputs: float64[10,50], float64[1,50]" in note
    assert "device: cpu:0" in note
    assert f"built at: {__file__}:" in note


async def test_ag_085_the_traceback_of_a_user_op_leads_to_its_line() -> None:
    """The same case, for user ops: https://github.com/tensorflow/serving/issues/1305."""

    def divide(a: int) -> float:
        return a / 0  # this line

    with pytest.raises(ZeroDivisionError) as caught:
        await run_alone(lambda: divide(1))

    last = caught.traceback[-1]
    assert (last.name, str(last.statement).strip()) == ("divide", "return a / 0  # this line")


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_generator_exit_that_an_op_raises_is_a_failure_like_any_other(is_async: bool) -> None:
    async def leave() -> None:
        raise GeneratorExit("mine")

    with pytest.raises(GeneratorExit, match="mine") as caught:
        await run_alone(leave if is_async else raising(GeneratorExit("mine")))
    assert "node 'n'" in caught.value.__notes__[0]


@pytest.mark.parametrize("options", [{}, {"where": "inline"}, {"spec": "float64[]"}])
async def test_an_op_that_returns_a_node_is_told_to_return_its_value(options: dict[str, Any]) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        y = ag.op(**options)(lambda: x).node(name="n") + 1
    async with ag.Session(graph) as session:
        with pytest.raises(NodeResultError, match=r"'n' returned a node: <placeholder 'x'"):
            await session.run(y)
    assert graph.nodes[-1] is y


async def test_ag_086_an_exception_that_is_returned_is_a_value() -> None:
    """`gather(return_exceptions=True)` cannot tell one from the other:
    https://github.com/scylladb/scylladb/pull/22252.
    """
    with ag.Graph() as graph:
        n = ag.op(lambda: ValueError("as value")).node()
        m = ag.op(lambda error: type(error).__name__)(n)
    async with ag.Session(graph) as session:
        first, second = (await session.run([n, m])).results

    assert repr(first) == "ValueError('as value')"
    assert second == "ValueError"


async def test_ag_079_a_failure_in_a_thread_while_the_run_ends_is_attached_as_well() -> None:
    """The same kind in threads, which cannot be cancelled: https://github.com/hail-is/hail/pull/13831."""
    begun = threading.Event()

    def first() -> None:
        begun.wait(10)
        raise ValueError("first")

    def second() -> None:
        begun.set()
        while True:
            try:
                ag.check_cancelled()
            except asyncio.CancelledError:
                raise KeyError("second") from None

    with ag.Graph() as graph:
        nodes = [ag.op(first).node(name="a"), ag.op(second).node(name="b")]
    async with ag.Session(graph) as session:
        with pytest.raises(ValueError, match="first") as caught:
            await session.run(nodes)

    assert caught.value.__notes__[0].endswith("also failed: 'b': KeyError: 'second'")
