"""The same session for plain threads."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import (
    FeedError,
    NodeCancelledError,
    NodeTimeoutError,
    RunTimeoutError,
    SessionClosedError,
    SessionError,
    SessionLoopError,
)

from .gates import Gate, one_node

variable: ContextVar[str] = ContextVar("variable", default="none")


def graph_of_all() -> tuple[ag.Graph, ag.Node, dict[str, ag.Node]]:
    """Nodes of each kind, all of which add one to what is fed."""

    async def add_one(v: Any) -> Any:
        await asyncio.sleep(0)
        return v + 1

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        nodes = {
            "kernel": x + 1.0,
            "thread": ag.op(lambda v: v + 1)(x),
            "inline": ag.op(where="inline")(lambda v: v + 1)(x),
            "async": ag.op(add_one)(x),
            "awaited": ag.op(lambda v: add_one(v))(x),
            "both": ag.op(add_one)(x * 1.0) * 1.0,
        }
    return graph, x, nodes


@pytest.mark.parametrize("kind", ["kernel", "thread", "inline", "async", "awaited", "both"])
def test_any_number_of_threads_run_any_kind_of_node_each_with_its_own_feeds(kind: str) -> None:
    graph, x, nodes = graph_of_all()
    with ag.BlockingSession(graph) as session, ThreadPoolExecutor(8) as pool:
        feeds = [np.full(3, float(i)) for i in range(40)]
        results = list(pool.map(lambda fed: session.run(nodes[kind], {x: fed}).results, feeds))
        submitted = [session.submit(nodes[kind], {x: fed}) for fed in feeds]
        later = [one.result(10).results for one in submitted]

    for fed, one, other in zip(feeds, results, later, strict=True):
        np.testing.assert_array_equal(one, fed + 1)
        np.testing.assert_array_equal(other, fed + 1)


def test_a_plan_without_async_nodes_runs_in_the_calling_thread() -> None:
    threads: list[threading.Thread] = []
    graph, node = one_node(lambda: threads.append(threading.current_thread()))
    with ag.BlockingSession(graph) as session:
        before = threading.active_count()
        session.run(node)
        assert threading.active_count() == before

    assert threads == [threading.current_thread()]


def test_every_node_sees_the_context_of_the_calling_thread_and_changes_nothing_in_it() -> None:
    def get_and_change() -> str:
        seen = variable.get()
        variable.set("changed")
        return seen

    async def get_and_change_async() -> str:
        return get_and_change()

    with ag.Graph() as graph:
        nodes = [
            ag.op(get_and_change).node(),
            ag.op(get_and_change_async).node(),
            ag.op(lambda: get_and_change_async()).node(),
        ]
    token = variable.set("the caller's")
    with ag.BlockingSession(graph) as session:
        assert session.run(nodes).results == ["the caller's"] * 3
        assert session.run(nodes[2]).results == "the caller's"
        assert session.submit(nodes).result(10).results == ["the caller's"] * 3
    assert variable.get() == "the caller's"
    variable.reset(token)


def test_the_future_of_submit_follows_concurrent_futures() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        slow, quick = ag.op(gate).node(), ag.op(lambda: 1).node()
    with ag.BlockingSession(graph, config=ag.SessionConfig(threads=1)) as session:
        first, second = session.submit(slow), session.submit(quick)
        assert gate.begun.wait(10)
        called: list[Future[Any]] = []
        second.add_done_callback(called.append)
        assert not first.cancel()
        assert second.cancel()
        gate.open()
        assert wait_for([first, second], 10).not_done == set()

    assert first.result().results == "late"
    assert called == [second]


def test_submit_checks_its_arguments_and_copies_feeds_if_asked() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (3,), name="x")
        slow, y = ag.op(gate).node(), ag.op(lambda v: v.copy())(x)
    fed = np.ones(3)
    with ag.BlockingSession(graph, config=ag.SessionConfig(threads=1)) as session:
        with pytest.raises(FeedError):
            session.submit(y, {x: np.ones(4)})
        session.submit(slow)
        assert gate.begun.wait(10)
        copied = session.submit(y, {x: fed}, ag.RunOptions(copy_feeds=True))
        fed[:] = 7.0
        gate.open()
        np.testing.assert_array_equal(copied.result(10).results, np.ones(3))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_deadline_is_seen_between_two_nodes_and_by_what_is_awaited(is_async: bool) -> None:
    later: list[Any] = []

    async def wait() -> None:
        await asyncio.Event().wait()

    with ag.Graph() as graph:
        slow = ag.op(wait if is_async else lambda: time.sleep(0.03)).node()
        after = ag.op(later.append)(slow)
    with ag.BlockingSession(graph) as session, pytest.raises(RunTimeoutError, match=r"timeout_s"):
        session.run(after, options=ag.RunOptions(timeout_s=0.01))

    assert later == []


def test_a_run_on_the_private_loop_has_the_options_and_the_clock_of_its_caller() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    graph, x, nodes = graph_of_all()
    options = ag.RunOptions(timeout_s=10)
    with ag.BlockingSession(graph) as session:
        values = session.run(nodes["async"], {x: [1.0]}, options)
        assert values.options is options
    graph, node = one_node(wait)
    with ag.BlockingSession(graph) as session, pytest.raises(RunTimeoutError, match=r"timeout_s=0\.01$"):
        session.run(node, options=ag.RunOptions(timeout_s=0.01))


def test_an_op_that_asks_is_told_that_its_time_is_up() -> None:
    def loop_for_long() -> None:
        while True:
            ag.check_cancelled()

    graph, node = one_node(loop_for_long)
    limited_graph, limited = one_node(loop_for_long, timeout_s=0.01)
    with ag.BlockingSession(graph) as session, pytest.raises(RunTimeoutError):
        session.run(node, options=ag.RunOptions(timeout_s=0.01))
    with ag.BlockingSession(limited_graph) as session, pytest.raises(NodeTimeoutError, match="'n' took longer"):
        session.run(limited)


def test_the_awaited_result_of_a_plain_function_sees_the_deadline() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    graph, node = one_node(lambda: wait())
    limited_graph, limited = one_node(lambda: wait(), timeout_s=0.01)
    with ag.BlockingSession(graph) as session, pytest.raises(RunTimeoutError):
        session.run(node, options=ag.RunOptions(timeout_s=0.01))
    with ag.BlockingSession(limited_graph) as session, pytest.raises(NodeTimeoutError):
        session.run(limited)


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("is_async", [False, True])
def test_what_an_op_raises_is_raised_unchanged_with_its_node(kind: type[BaseException], is_async: bool) -> None:
    error = kind(3)

    def fail() -> None:
        raise error

    async def fail_async() -> None:
        raise error

    graph, node = one_node(fail_async if is_async else fail)
    with ag.BlockingSession(graph) as session:
        for _ in range(2):
            with pytest.raises(type(error)) as caught:
                session.run(node)
            assert caught.value is error
        assert session.run(node, {node: 1}).results == 1

    assert len([one for one in error.__notes__ if "node 'n'" in one]) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_cancelled_error_of_an_op_is_a_failure(is_async: bool) -> None:
    def fail() -> None:
        raise asyncio.CancelledError

    async def fail_async() -> None:
        raise asyncio.CancelledError

    graph, node = one_node(fail_async if is_async else fail)
    with ag.BlockingSession(graph) as session, pytest.raises(NodeCancelledError):
        session.run(node)


async def test_inside_a_running_loop_run_says_to_await() -> None:
    graph, x, nodes = graph_of_all()
    with ag.BlockingSession(graph) as session:
        for node in nodes.values():
            with pytest.raises(SessionLoopError, match=r"await session\.run"):
                session.run(node, {x: [1.0]})
        wrapped = await asyncio.wrap_future(session.submit(nodes["both"], {x: [1.0]}))

    assert wrapped.results.tolist() == [2.0]


def test_closing_waits_for_runs_and_is_idempotent() -> None:
    gate = Gate()
    with ag.Graph() as graph:
        slow, quick = ag.op(gate).node(), ag.op(lambda: 1).node()
    session = ag.BlockingSession(graph, config=ag.SessionConfig(threads=1))
    running, queued = session.submit(slow), session.submit(quick)
    assert gate.begun.wait(10)
    closers = [threading.Thread(target=session.close) for _ in range(2)]
    for closer in closers:
        closer.start()
    while "closed" not in repr(session):
        time.sleep(0.001)
    for use in (session.run, session.submit):
        with pytest.raises(SessionClosedError):
            use(quick)
    alive = [closer.is_alive() for closer in closers]
    gate.open()
    for closer in closers:
        closer.join(10)
    session.close()

    assert alive == [True, True]
    assert running.result().results == "late"
    assert queued.result().results == 1
    with pytest.raises(SessionClosedError, match="the session is closed"):
        session.__enter__()


def test_an_op_cannot_close_the_session_that_waits_for_it() -> None:
    async def close_async() -> None:
        session.close()

    with ag.Graph() as graph:
        nodes = [ag.op(lambda: session.close()).node(), ag.op(close_async).node()]
    with ag.BlockingSession(graph) as session:
        for node in nodes:
            with pytest.raises(SessionError, match="an op closes the session that runs it"):
                session.run(node)


def test_a_run_that_closing_waits_for_may_still_run_what_its_nodes_need() -> None:
    gate = Gate()

    def nest() -> Any:
        gate()
        return session.run("both", {"x": [1.0]}).results

    graph, _, _ = graph_of_all()
    with graph:
        node = ag.op(nest).node()
        ag.op(lambda v: v)(graph["x"] * 2.0, name="both")
    session = ag.BlockingSession(graph)
    run = session.submit(node)
    assert gate.begun.wait(10)
    closer = threading.Thread(target=session.close)
    closer.start()
    while "closed" not in repr(session):
        time.sleep(0.001)
    gate.open()
    closer.join(10)

    assert run.result(10).results.tolist() == [2.0]


def test_a_session_that_is_never_closed_warns_and_ends_its_threads() -> None:
    graph, x, nodes = graph_of_all()
    session = ag.BlockingSession(graph)
    session.submit(nodes["async"], {x: [1.0]}).result(10)
    gc.collect()
    with pytest.warns(ResourceWarning, match="unclosed <BlockingSession"):
        del session
    for thread in threading.enumerate():
        if thread.name.startswith("asyncgraph"):
            thread.join(10)


def test_tasks_that_async_ops_leave_behind_end_with_the_session() -> None:
    ended: list[str] = []
    kept: list[Any] = []

    async def leave_a_task() -> None:
        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")

        kept.append(asyncio.create_task(wait()))
        await asyncio.sleep(0)

    graph, node = one_node(leave_a_task)
    with ag.BlockingSession(graph) as session:
        session.run(node)

    assert ended == ["cancelled"]


INTERRUPTED = textwrap.dedent("""
    import asyncio, signal, threading, time
    import asyncgraph as ag

    log = []

    async def wait():
        main = threading.main_thread().ident
        asyncio.get_running_loop().call_later(0.1, signal.pthread_kill, main, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            log.append("cleaned up")

    def block():
        signal.raise_signal(signal.SIGINT)
        time.sleep(10)

    with ag.Graph() as graph:
        nodes = {"async": ag.op(wait).node(), "sync": ag.op(block).node()}
    with ag.BlockingSession(graph) as session:
        for name, node in nodes.items():
            try:
                session.run(node)
            except KeyboardInterrupt:
                log.append(f"{name} interrupted")
        print(log, session.run(nodes["sync"], {nodes["sync"]: 1}).results)
""")


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system sends no signals to threads")
def test_an_interrupt_of_the_waiting_thread_ends_the_run_first() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED], capture_output=True, text=True, timeout=30, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['cleaned up', 'async interrupted', 'sync interrupted'] 1\n"


def test_it_names_what_only_the_async_session_has() -> None:
    names = {"prepare", "stream", "map", "statistics"}
    assert names <= set(dir(ag.Session))
    assert not names & set(dir(ag.BlockingSession))
    assert all(f"`{name}`" in str(ag.BlockingSession.__doc__) for name in names)
