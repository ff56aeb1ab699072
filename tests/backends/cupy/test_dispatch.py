"""How submissions come to a device: on which threads and streams, in what order, and when they are done."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from asyncgraph.abc import Device
from asyncgraph_cupy import CupyBackend
from asyncgraph_cupy._lanes import Lane

from ...standin.world import World
from .conftest import MakeBackend
from .submitting import GPU, GPU1, SECONDS, Submitted, kernel, run


def threads() -> list[str]:
    return sorted(one.name for one in threading.enumerate() if one.name.startswith("asyncgraph cupy"))


def doubled(backend: CupyBackend, values: Any, device: Device = GPU) -> Callable[[], Any]:
    """Work that moves values to a device, doubles them there, and moves them back."""
    add = kernel(backend, "add", device)

    def work() -> Any:
        moved = backend.to_device(np.asarray(values), device)
        return backend.to_host(add(moved, moved))

    return work


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Callable[[], threading.Event]:
    """Has the next lane that is made wait at its event until what this gives is set, as if its kernels took long."""

    def close() -> threading.Event:
        opened, slow = threading.Event(), list[Lane]()
        make, wait = Lane.__init__, Lane.wait

        def made(lane: Lane, api: Any) -> None:
            make(lane, api)
            if not slow:
                slow.append(lane)

        def waiting(lane: Lane) -> None:
            if lane in slow:
                assert opened.wait(SECONDS)
            wait(lane)

        monkeypatch.setattr(Lane, "__init__", made)
        monkeypatch.setattr(Lane, "wait", waiting)
        return opened

    return close


def test_there_are_no_threads_before_the_first_submission_and_none_after_closing(backend: CupyBackend) -> None:
    assert [str(one) for one in backend.devices()] == ["gpu:0", "gpu:1"]
    assert threads() == []

    run(backend, doubled(backend, [1.0]))
    assert threads() == ["asyncgraph cupy gpu:0 dispatcher", "asyncgraph cupy gpu:0 lane 0"]

    backend.close()
    assert threads() == []


def test_work_runs_on_one_thread_of_the_device_with_it_and_a_lane_current(world: World, backend: CupyBackend) -> None:
    def where() -> tuple[str, int, Any]:
        cuda = world.cupy.cuda
        return threading.current_thread().name, cuda.runtime.getDevice(), cuda.get_current_stream()

    for device in backend.devices():
        name, current, stream = run(backend, where, device)
        assert name == f"asyncgraph cupy {device} dispatcher"
        assert (current, stream.device_id) == (device.index, device.index)
        assert stream.is_non_blocking


def test_a_device_that_work_leaves_current_is_not_the_next_one_s(world: World, backend: CupyBackend) -> None:
    for _ in range(3):
        run(backend, lambda: world.cupy.cuda.Device(1).use())
        assert run(backend, lambda: world.cupy.cuda.runtime.getDevice()) == 0


def test_a_submission_makes_no_calls_but_those_of_its_work_and_its_event(world: World, backend: CupyBackend) -> None:
    work = doubled(backend, [1.0, 2.0])
    run(backend, work)
    del world.log[:]

    assert run(backend, work).tolist() == [2.0, 4.0]

    calls = [(one.kind, one.what) for one in world.log]
    assert [kind for kind, _ in calls] == [
        "alloc", "h2d", "alloc", "launch", "d2h", "record", "synchronize",
    ]  # fmt: skip
    assert len({one.stream for one in world.log if one.kind != "synchronize"}) == 1


def test_what_is_submitted_to_a_device_is_begun_in_order_and_submit_waits_for_nothing(backend: CupyBackend) -> None:
    begun, goes_on = [], threading.Event()
    backend.devices()

    def first() -> None:
        assert goes_on.wait(SECONDS)
        begun.append(0)

    submitted = [Submitted(backend, GPU, first)]
    submitted += [Submitted(backend, GPU, lambda i=i: begun.append(i)) for i in range(1, 50)]
    assert begun == []
    goes_on.set()

    for one in submitted:
        one.result()
    assert begun == list(range(50))


def test_one_device_does_not_wait_for_another(backend: CupyBackend) -> None:
    goes_on = threading.Event()
    stuck = Submitted(backend, GPU, lambda: goes_on.wait(SECONDS))
    assert run(backend, doubled(backend, [1.0], GPU1), GPU1).tolist() == [2.0]
    assert not stuck.is_done
    goes_on.set()
    assert stuck.result()


def test_runs_one_after_the_other_have_the_same_lane(world: World, backend: CupyBackend) -> None:
    for i in range(10):
        run(backend, doubled(backend, [float(i)]))
    assert world.counts["stream"] == 1


def test_of_several_lanes_the_one_that_was_in_use_last_is_used_again(
    gate: Callable[[], threading.Event], world: World, make_backend: MakeBackend
) -> None:
    backend, opened = make_backend(), gate()
    slow = Submitted(backend, GPU, lambda: None)
    run(backend, lambda: None)
    opened.set()
    slow.result()
    world.log.clear()
    for _ in range(6):
        run(backend, lambda: None)
    assert len({one.stream for one in world.log if one.kind == "record"}) == 1


def test_a_lane_can_be_used_again_when_done_is_called(make_backend: MakeBackend) -> None:
    backend, begun, told = make_backend(lanes=1), threading.Event(), SimpleQueue[bool]()

    def done(error: BaseException | None) -> None:
        backend.submit(GPU, begun.set, lambda error: None)
        told.put(begun.wait(SECONDS))

    backend.submit(GPU, lambda: None, done)
    assert told.get(timeout=2 * SECONDS)


def test_what_takes_long_on_one_lane_holds_up_no_other(
    gate: Callable[[], threading.Event], make_backend: MakeBackend
) -> None:
    backend, opened = make_backend(), gate()
    slow = Submitted(backend, GPU, doubled(backend, [1.0]))
    others = [Submitted(backend, GPU, doubled(backend, [float(i)])) for i in range(30)]

    for i, one in enumerate(others):
        assert one.result().tolist() == [2.0 * i]
    assert not slow.is_done
    opened.set()
    assert slow.result().tolist() == [2.0]


def test_no_more_lanes_are_made_than_there_may_be_and_a_submission_waits_for_one(
    gate: Callable[[], threading.Event], world: World, make_backend: MakeBackend
) -> None:
    backend, opened = make_backend(lanes=1), gate()
    one, other = (Submitted(backend, GPU, doubled(backend, [i])) for i in (1.0, 2.0))
    assert not one.is_done
    assert other.calls == 0
    opened.set()
    assert (one.result().tolist(), other.result().tolist()) == ([2.0], [4.0])
    assert world.counts["stream"] == 1
    with pytest.raises(ValueError, match="lanes: at least 1, got 0"):
        CupyBackend(lanes=0)


def test_many_threads_submit_at_once_and_each_gets_its_own(backend: CupyBackend) -> None:
    def submit(i: int) -> Any:
        return run(backend, doubled(backend, [float(i), float(-i)], (GPU, GPU1)[i % 2]), (GPU, GPU1)[i % 2])

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(submit, range(60)))
    np.testing.assert_array_equal(results, [[2.0 * i, -2.0 * i] for i in range(60)])


def test_a_result_on_a_device_can_be_used_on_any_lane_and_by_the_null_stream(
    world: World, backend: CupyBackend
) -> None:
    add = kernel(backend, "add")
    value = run(backend, lambda: backend.to_device(np.ones(3), GPU))
    for _ in range(20):
        others = [Submitted(backend, GPU, lambda value=value: add(value, value)) for _ in range(4)]
        value = [one.result() for one in others][-1]
    assert world.cupy.asarray(value).get().tolist() == [2.0**20] * 3


def test_done_is_called_by_a_thread_of_the_backend_when_values_are_there(world: World, backend: CupyBackend) -> None:
    results: list[Any] = []
    told: list[tuple[str, list[float]]] = []
    done = threading.Event()

    def look(error: BaseException | None) -> None:
        told.append((threading.current_thread().name, results[0].tolist()))
        done.set()

    work = doubled(backend, [1.0, 2.0])
    backend.submit(GPU, lambda: results.append(work()), look)

    assert done.wait(SECONDS)
    assert told == [("asyncgraph cupy gpu:0 lane 0", [2.0, 4.0])]


def test_closing_waits_for_what_was_submitted_and_may_be_done_twice_and_a_submission_begins_anew(
    backend: CupyBackend,
) -> None:
    for round in range(3):
        submitted = [Submitted(backend, one, doubled(backend, [1.0], one)) for one in (GPU, GPU1) for _ in range(20)]
        backend.close()
        backend.close()
        assert all(one.is_done for one in submitted), round
        assert threads() == []
        assert [one.result().tolist() for one in submitted] == [[2.0]] * 40


def test_closing_gives_memory_back_on_the_devices_and_pinned(world: World, backend: CupyBackend) -> None:
    pinned, given_back = list[weakref.ref[Any]](), list[int]()
    empty_pinned = world.cupyx.empty_pinned

    def remembered(*args: Any) -> Any:
        array = empty_pinned(*args)
        pinned.append(weakref.ref(array))
        return array

    world.cupyx.empty_pinned = remembered
    pool = SimpleNamespace(free_all_blocks=lambda: given_back.append(sum(one() is not None for one in pinned)))
    world.cupy.get_default_pinned_memory_pool = lambda: pool
    run(backend, doubled(backend, np.ones(50_000)))
    assert world.pools[0].cached > 0
    assert pinned

    backend.close()

    assert (world.pools[0].used, world.pools[0].cached) == (0, 0)
    assert given_back == [0]


def test_a_submission_before_the_devices_were_asked_for_looks_for_them(backend: CupyBackend) -> None:
    assert run(backend, lambda: 1) == 1


FORKED = """
import os, queue, sys, threading
sys.path[:0] = [{tests!r}]
import numpy as np
from asyncgraph.abc import Device
from asyncgraph_cupy import CupyBackend
from standin.world import World

world = World()
backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx)
ends, gpu = queue.SimpleQueue(), Device("gpu", 0)
if "unused" not in sys.argv:
    backend.submit(gpu, lambda: backend.to_host(backend.to_device(np.ones(3), gpu)), ends.put)
    assert ends.get() is None
child = os.fork()
backend.submit(gpu, lambda: None, ends.put)
error = ends.get()
if not child and error is not None:
    # Nothing of CUDA's may be called here.
    del world.cupy.get_default_pinned_memory_pool, world.cupy.get_default_memory_pool
backend.close()
if child:
    assert error is None
    assert os.waitpid(child, 0)[1] == 0
else:
    print(type(error).__name__, error, flush=True)
    sys.exit()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("used", [True, False])
def test_a_child_forked_after_cuda_was_initialised_is_told_so_and_one_forked_before_can_use_it(used: bool) -> None:
    source = FORKED.format(tests=str(Path(__file__).parents[2]))
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source, *([] if used else ["unused"])]
    told = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (told.returncode, told.stderr) == (0, "")
    expected = (
        "DeviceLostError gpu:0 cannot be used in this process: it was forked from process " if used else "NoneType None"
    )
    assert told.stdout.startswith(expected)
