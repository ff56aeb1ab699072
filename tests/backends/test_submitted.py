"""A session on an asynchronous backend: what is submitted, when, by whom, and what becomes of it."""

from __future__ import annotations

import asyncio
import gc
import threading
import traceback
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.abc import Device
from asyncgraph.errors import DeviceLostError, FeedTypeError, FetchError, MissingFeedError, RunTimeoutError

from .late_backend import LateBackend

FIRST, SECOND = Device("late", 0), Device("late", 1)


@pytest.fixture(params=[False, True], ids=["by-host", "between-devices"])
def late(request: pytest.FixtureRequest) -> Iterator[LateBackend]:
    backend = LateBackend(between_devices=request.param, dlpack=True)
    with ag.use_backend(backend):
        yield backend
    backend.close()
    assert backend.complaints == []


def chain(*devices: Device | str) -> tuple[ag.Graph, ag.Node, ag.Node]:
    """`x * 2 + 1` once on each device."""
    with ag.Graph() as graph:
        x = y = ag.placeholder("float64", ("n",), name="x")
        for one in devices:
            with ag.device(str(one)):
                y = y * 2 + 1
    return graph, x, y


async def until_begun(late: LateBackend, count: int) -> None:
    """The loop goes on until a thread of the backend has called so many works of the first device."""
    await asyncio.to_thread(late.wait_until_begun, FIRST, count)


async def test_a_run_gives_numpy_s_values(late: LateBackend) -> None:
    graph, x, y = chain(FIRST, "cpu:0", SECOND, FIRST)
    async with ag.Session(graph) as session:
        values = await session.run(y, {x: [1.0, 2.0]})
    assert type(values.results) is np.ndarray
    assert values.results.tolist() == [31, 47]
    assert values.results.flags.writeable


async def test_what_waits_for_nothing_else_is_one_submission(late: LateBackend) -> None:
    graph, x, y = chain(FIRST, FIRST, FIRST)
    async with ag.Session(graph) as session:
        for _ in range(3):
            await session.run(y, {x: [1.0]})
        assert session.statistics().submitted_segments == 3
    assert late.begun[FIRST] == 3


async def test_the_loop_goes_on_while_a_device_is_busy(late: LateBackend) -> None:
    graph, x, y = chain(FIRST, SECOND)
    async with ag.Session(graph) as session:
        await session.run(y, {x: [1.0]})
        with late.held():
            run = session.submit(y, {x: [1.0]})
            await until_begun(late, 2)
            for _ in range(100):
                await asyncio.sleep(0)
            assert not run.done()
        assert (await run).results.tolist() == [7]


async def test_a_cancelled_run_is_over_when_the_device_is_done(late: LateBackend) -> None:
    graph, x, y = chain(FIRST, SECOND)
    async with ag.Session(graph) as session:
        await session.run(y, {x: [1.0]})
        with late.held():
            fed = np.ones(3)
            run = asyncio.create_task(session.run(y, {x: fed}))
            await until_begun(late, 2)
            run.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            assert not run.done()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert late.begun.get(SECOND, 0) == 1  # nothing of it began there


async def test_a_deadline_ends_a_run_when_the_device_is_done(late: LateBackend) -> None:
    graph, x, y = chain(FIRST)
    async with ag.Session(graph) as session:
        await session.run(y, {x: [1.0]})
        with late.held():
            run = session.submit(y, {x: [1.0]}, ag.RunOptions(timeout_s=0.01))
            await asyncio.sleep(0.05)
            assert not run.done()
        with pytest.raises(RunTimeoutError):
            await run


def test_a_blocking_session_waits_in_the_calling_thread(late: LateBackend) -> None:
    graph, x, y = chain(FIRST, "cpu:0", SECOND)
    with ag.BlockingSession(graph) as session:
        threads = threading.active_count()
        assert session.run(y, {x: [1.0]}).results.tolist() == [15]
        assert threading.active_count() <= threads + 4  # those of the two devices


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_failing_kernel_is_told_by_node_and_device(late: LateBackend, blocking: bool) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", None, name="x")
        with ag.device("late:1"):
            y = ag.ops.matmul(x, x, name="product") + 1
    if blocking:
        with ag.BlockingSession(graph) as here, pytest.raises(ValueError, match="matmul") as caught:
            await asyncio.to_thread(here.run, y, {x: np.ones((2, 3))})
    else:
        async with ag.Session(graph) as session:
            with pytest.raises(ValueError, match="matmul") as caught:
                await session.run(y, {x: np.ones((2, 3))})
    (note,) = caught.value.__notes__
    assert "node 'product' (matmul) failed" in note
    assert "device: late:1" in note
    assert "test_submitted.py" in note


async def test_a_run_that_lacks_memory_once_succeeds(late: LateBackend) -> None:
    graph, x, y = chain(FIRST)
    async with ag.Session(graph) as session:
        await session.run(y, {x: [1.0]})
        late.out_of_memory = 1
        assert (await session.run(y, {x: [1.0]})).results.tolist() == [3]
        late.out_of_memory = 2
        with pytest.raises(MemoryError, match="late:0 has no memory left"):
            await session.run(y, {x: [1.0]})
        assert (await session.run(y, {x: [1.0]})).results.tolist() == [3]


async def test_a_lost_device_takes_no_other_with_it(late: LateBackend) -> None:
    graph, x, y = chain(FIRST)
    with graph, ag.device("late:1"):
        z = x - 1
    late.lose(FIRST)
    async with ag.Session(graph) as session:
        with pytest.raises(DeviceLostError) as caught:
            await session.run(y, {x: [1.0]})
        assert (await session.run(z, {x: [1.0]})).results.tolist() == [0]
    assert "late:0 reported this after it was given" in "".join(traceback.format_exception(caught.value))


def test_a_lost_device_is_told_to_a_blocking_session(late: LateBackend) -> None:
    graph, x, y = chain(SECOND, FIRST)
    late.lose(FIRST)
    with ag.BlockingSession(graph) as session, pytest.raises(DeviceLostError) as caught:
        session.run(y, {x: [1.0]})
    assert "late:0 reported this after it was given" in "".join(traceback.format_exception(caught.value))


async def test_results_stay_on_their_devices_if_asked_to(late: LateBackend) -> None:
    graph, x, y = chain(FIRST)
    with graph:
        z = x + 1
    async with ag.Session(graph) as session:
        results = (await session.run([y, z], {x: [1.0]}, ag.RunOptions(results="device"))).results
        assert results[0].device == FIRST
        assert results[0].values.tolist() == [3]
        assert results[1].tolist() == [2]
        explanation = session.explain([y, z], {x: [1.0]}, ag.RunOptions(results="device"))
        assert [str(where) for _, where in explanation.transfers] == ["late:0"]
        explanation = session.explain([y, z], {x: [1.0]})
        assert [str(where) for _, where in explanation.transfers] == ["late:0", "host"]


async def test_an_array_that_is_fed_on_a_device_stays_there(late: LateBackend) -> None:
    graph, x, y = chain(FIRST)
    async with ag.Session(graph) as session:
        there = (await session.run(y, {x: [1.0]}, ag.RunOptions(results="device"))).results
        assert (await session.run(y, {x: there})).results.tolist() == [7]
        assert (await session.run({"y": y, "x": x}, {"x": there})).results["x"].tolist() == [3]
        explanation = session.explain(y, {x: there})
        assert [where for _, where in explanation.transfers] == ["late:0", "host"]
        # The same fetches and feed keys, on the host again.
        assert (await session.run(y, {x: [1.0]})).results.tolist() == [3]


async def test_an_array_on_a_device_must_fit_as_it_is(late: LateBackend) -> None:
    graph, x, y = chain(FIRST)
    with graph:
        z = ag.placeholder("int32", ("n",), name="z") + 1
    async with ag.Session(graph) as session:
        there = (await session.run(y, {x: [1.0]}, ag.RunOptions(results="device"))).results
        with pytest.raises(FeedTypeError, match="arrays on a device are never converted"):
            await session.run(z, {"z": there})


async def test_constants_are_moved_when_the_plan_is_made(late: LateBackend) -> None:
    with ag.Graph() as graph:
        x, c = ag.placeholder("float64", (3,)), ag.constant(np.arange(3.0))
        with ag.device("late:0"):
            y = x * ag.ops.sin(c)
    async with ag.Session(graph) as session:
        loop_thread = threading.get_ident()
        for _ in range(2):
            assert (await session.run(y, {x: np.ones(3)})).results.tolist() == np.sin(np.arange(3.0)).tolist()
        assert threading.get_ident() == loop_thread
        assert [node.name for node, _ in session.explain(y, {x: np.ones(3)}).transfers] == [x.name, y.name]


async def test_nothing_of_a_run_is_kept(late: LateBackend) -> None:
    graph, x, y = chain(FIRST, SECOND)
    async with ag.Session(graph) as session:
        results = (await session.run(y, {x: [1.0]}, ag.RunOptions(results="device"))).results
        gone = weakref.ref(results.planned)
        del results
        for _ in range(3):
            await asyncio.sleep(0.01)
            gc.collect()
        assert gone() is None


async def test_an_async_op_computes_on_the_device_of_its_arrays(late: LateBackend) -> None:
    inside: list[bool] = []

    @ag.op(on_device=True, spec="float64[n]")
    async def doubled(value: object) -> object:
        kernel = late.kernel("add", {}, [], FIRST)

        def compute(one: object) -> object:
            inside.append(threading.current_thread() is not threading.main_thread())
            return kernel(one, one)

        return await ag.launch(compute, value)

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        with ag.device("late:0"):
            y = doubled(x + 1) * 3
        z = doubled(x)
    async with ag.Session(graph) as session:
        assert (await session.run(y, {x: [1.0]})).results.tolist() == [12]
        explanation = session.explain(y, {x: [1.0]})
        assert [where for _, where in explanation.transfers] == ["late:0", "host"]
        del z
    assert inside == [True]


async def test_a_cancelled_launch_is_waited_for(late: LateBackend) -> None:
    started = asyncio.Event()

    @ag.op(on_device=True)
    async def copied(value: object) -> object:
        started.set()
        return await ag.launch(late.kernel("positive", {}, [], FIRST), value)

    with ag.Graph() as graph, ag.device("late:0"):
        y = copied(ag.ops.ones((3,)))
    async with ag.Session(graph) as session:
        await session.run(y)
        started.clear()
        with late.held():
            before = late.begun[FIRST]
            run = asyncio.create_task(session.run(y))
            await started.wait()
            late.wait_until_begun(FIRST, before + 1)
            run.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            assert not run.done()
        with pytest.raises(asyncio.CancelledError):
            await run


async def test_on_the_host_a_launch_is_a_worker_s(late: LateBackend) -> None:
    @ag.op(on_device=True, spec="float64[n]")
    async def doubled(value: np.ndarray[tuple[int], np.dtype[np.float64]]) -> object:
        return await ag.launch(np.multiply, value, 2)

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = doubled(x)
    async with ag.Session(graph) as session:
        assert (await session.run(y, {x: [1.0]})).results.tolist() == [2]


async def test_runs_that_start_together_make_one_plan(late: LateBackend) -> None:
    with ag.Graph() as graph:
        x, c = ag.placeholder("float64", (3,)), ag.constant(np.arange(3.0))
        with ag.device("late:0"):
            y = x * c
    async with ag.Session(graph) as session:
        runs = [session.run(y, {x: np.full(3, float(i))}) for i in range(50)]
        results = [values.results for values in await asyncio.gather(*runs)]
        assert session.statistics().plans == 1
    np.testing.assert_array_equal(results, np.multiply.outer(np.arange(50.0), np.arange(3.0)))
    assert late.begun[FIRST] == 50 + 1  # The constant was moved once.


async def test_a_run_that_was_given_up_while_it_was_planned_leaves_the_plan_to_others(late: LateBackend) -> None:
    graph, x, y = chain(FIRST)
    with graph, ag.device("late:0"):
        y = y * ag.constant(np.ones(1))
    async with ag.Session(graph) as session:
        with late.held():
            first = session.submit(y, {x: [1.0]})
            second = session.submit(y, {x: [2.0]})
            await until_begun(late, 1)  # the constant's transfer
            first.cancel()
        assert (await second).results.tolist() == [5]
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_loads_do_not_run_ahead_of_a_device(late: LateBackend) -> None:
    loaded = 0

    @ag.op(spec="float64[3]")
    def load(index: int) -> object:
        nonlocal loaded
        loaded += 1
        return np.full(3, float(index))

    with ag.Graph() as graph, ag.device("late:0"):
        sums = [ag.ops.sum(load.node(index)) for index in range(20)]
    async with ag.Session(graph, config=ag.SessionConfig(threads=2)) as session:
        session.explain(sums)
        with late.held():
            run = session.submit(sums)
            await until_begun(late, 2)
            for _ in range(100):
                await asyncio.sleep(0)
            assert loaded == 2
        assert (await run).results == [3.0 * index for index in range(20)]


async def test_the_loop_looks_for_no_device_that_it_may_have_to_wait_for(late: LateBackend) -> None:
    with ag.Graph() as graph:
        placed = {}
        for name in ("cpu:0", "cpu:1", "late:0", "gpu:0"):
            with ag.device(name):
                placed[name] = ag.ops.ones((1,))
    async with ag.Session(graph) as session:
        placer = session.engine.placer
        assert [name for name in placed if placer.is_prompt(name)] == ["cpu:0"]
        await session.run(list(placed.values()))
        assert [name for name in placed if placer.is_prompt(name)] == ["cpu:0", "cpu:1", "gpu:0"]


async def test_what_needs_no_plan_is_validated_by_submit_itself(late: LateBackend) -> None:
    graph, x, y = chain(FIRST)
    async with ag.Session(graph) as session:
        with pytest.raises(FetchError):
            session.submit("nothing", {x: [1.0]})
        with pytest.raises(FeedTypeError):
            session.submit(y, {x: "text"})
        with pytest.raises(MissingFeedError):
            await session.submit(y)
        assert late.begun == {}
