"""Public failures in the life of a session: after it, around it, in other loops, threads and processes."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.errors import SessionClosedError, SessionLoopError


def doubling() -> tuple[ag.Graph, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        return graph, x, ag.ops.multiply(x, 2.0, name="y")


async def test_ag_099_a_closed_session_says_so_and_closing_it_again_does_nothing() -> None:
    """Code after the `with` block used the session: https://github.com/tensorflow/tensorflow/issues/8379,
    https://github.com/tensorflow/tensorflow/issues/27597.
    """
    graph, x, y = doubling()
    async with ag.Session(graph) as session:
        await session.run(y, {x: 1.0})

    for use in (lambda: session.run(y, {x: 1.0}), session.__aenter__):
        with pytest.raises(RuntimeError, match="closed"):
            await use()
    with pytest.raises(SessionClosedError):
        session.submit(y, {x: 1.0})
    await session.aclose()
    await session.aclose()


@pytest.mark.parametrize("cancelled", [False, True])
async def test_ag_100_closing_waits_for_runs_and_each_of_them_ends(cancelled: bool) -> None:
    """A session was closed under a feeder thread: https://github.com/eridgd/WCT-TF/issues/34,
    https://github.com/tensorflow/tensorflow/issues/9205.

    Runs that execute end with their results, runs that wait for a place with `SessionClosedError`; if closing is
    cancelled, so do all (`Session.aclose`).
    """
    log: list[str] = []
    release, full = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        log.append("began")
        if len(log) == 5:
            full.set()
        await release.wait()
        log.append("ended")
        return "done"

    with ag.Graph() as graph:
        node = ag.op(work).node()
    session = ag.Session(graph, config=ag.SessionConfig(max_concurrent_runs=5))
    async with session:
        runs = [session.submit(node) for _ in range(10)]
        await full.wait()
        closing = asyncio.create_task(session.aclose())
        await asyncio.sleep(0)
        if cancelled:
            closing.cancel()
        else:
            release.set()
        await asyncio.wait([closing], timeout=10)
        at_close = list(log)
        done = [one.done() for one in runs]
        release.set()
        outcomes = await asyncio.gather(*runs, return_exceptions=True)

    assert closing.cancelled() == cancelled
    assert all(done)
    assert log == at_close
    closed = [one for one in outcomes if isinstance(one, SessionClosedError)]
    assert len(closed) == (10 if cancelled else 5)
    assert [one.results for one in outcomes if isinstance(one, ag.RunValues)] == ["done"] * (10 - len(closed))


def test_ag_103_a_graph_serves_any_number_of_loops_and_a_session_one() -> None:
    """A lock made at import worked until it was contended in a second loop:
    https://github.com/DeytaHQ/khora/issues/1160, https://github.com/sanic-org/sanic/issues/1388,
    https://github.com/ai2cm/ace/issues/592.
    """
    graph, x, y = doubling()
    kept = [ag.Session(graph)]

    async def own_session() -> list[float]:
        async with ag.Session(graph) as session:
            return [one.results for one in await asyncio.gather(*[session.run(y, {x: i}) for i in range(10)])]

    async def shared_session() -> None:
        await asyncio.gather(*[kept[0].run(y, {x: i}) for i in range(10)])

    assert asyncio.run(own_session()) == asyncio.run(own_session()) == [2.0 * i for i in range(10)]
    asyncio.run(shared_session())
    with pytest.raises(SessionLoopError, match="another event loop"):
        asyncio.run(shared_session())
    kept.clear()
    with pytest.warns(ResourceWarning, match="unclosed <Session"):
        gc.collect()


async def test_ag_104_a_loop_in_another_thread_is_refused_at_once() -> None:
    """Threads died with 'Event loop is closed' or hung: https://github.com/dask/distributed/issues/4317.

    A session belongs to one loop (`Session`); `BlockingSession` is for threads.
    """
    graph, x, y = doubling()
    errors: list[BaseException] = []

    async def use(session: ag.Session) -> None:
        outcomes = await asyncio.gather(*[session.run(y, {x: i}) for i in range(20)], return_exceptions=True)
        errors.extend(one for one in outcomes if isinstance(one, BaseException))

    async with ag.Session(graph) as session:
        threads = [threading.Thread(target=asyncio.run, args=(use(session),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        await asyncio.to_thread(lambda: [thread.join(10) for thread in threads])

    assert len(errors) == 60
    assert {(type(one), str(one)) for one in errors} == {(SessionLoopError, str(errors[0]))}
    assert "another event loop" in str(errors[0])


FORKED = textwrap.dedent("""
    import asyncio, os, sys, traceback, warnings
    import asyncgraph as ag

    warnings.simplefilter("error", ResourceWarning)
    # Python 3.12 warns of what this is about.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        y = ag.op(lambda v: v * 2)(x * 1.0)
    blocking = ag.BlockingSession(graph)
    blocking.run(y, {x: 1.0})

    async def main():
        session = ag.Session(graph)
        await session.run(y, {x: 1.0})
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = asyncio.run(in_child(session))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        await session.aclose()
        blocking.close()
        return os.waitstatus_to_exitcode(status)

    async def in_child(session):
        async with ag.Session(graph) as fresh:
            assert (await fresh.run(y, {x: 3.0})).results == 6.0
        try:
            await session.run(y, {x: 3.0})
        except RuntimeError as error:
            assert "forked" in str(error), error
        else:
            return 2
        try:
            await asyncio.to_thread(blocking.run, y, {x: 3.0})
        except RuntimeError as error:
            assert "forked" in str(error), error
        else:
            return 3
        await session.aclose()
        blocking.close()
        return 0

    sys.exit(asyncio.run(main()))
""")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_ag_105_a_forked_child_makes_sessions_of_its_own_and_is_refused_those_of_its_parent() -> None:
    """Worker threads do not survive a fork: https://github.com/tensorflow/tensorflow/issues/2448,
    https://github.com/tensorflow/tensorflow/issues/8220, https://github.com/tensorflow/tensorflow/issues/14442.
    """
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ag_105_a_spawned_child_unpickles_the_graph_and_runs_it() -> None:
    """The other way to start a child: https://github.com/tensorflow/tensorflow/issues/8220."""
    graph, _, _ = doubling()
    program = (
        "import pickle, sys, asyncgraph as ag\n"
        "graph = pickle.load(sys.stdin.buffer)\n"
        "with ag.BlockingSession(graph) as session: print(session.run('y', {'x': 3.0}).results)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(graph), capture_output=True, timeout=30, check=True
    )

    assert done.stdout.split() == [b"6.0"]
    with pytest.raises(TypeError, match="Session"):
        pickle.dumps(ag.Session(graph))


async def test_ag_106_a_run_whose_future_nobody_holds_ends_all_the_same() -> None:
    """The loop keeps only weak references: https://github.com/python/cpython/issues/117379,
    https://github.com/google/adk-python/issues/3174.
    """
    log: list[str] = []
    noise: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))

    async def append() -> None:
        await asyncio.sleep(0.02)
        log.append("ran")

    with ag.Graph() as graph:
        node = ag.op(append).node()
    async with ag.Session(graph) as session:
        session.submit(node)
        until = time.perf_counter() + 0.06
        while time.perf_counter() < until:
            gc.collect()
            await asyncio.sleep(0.005)

    assert log == ["ran"]
    assert noise == []
