"""What fails, when, and what is left of it."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from .errors import CompileException, CUDARuntimeError, OutOfMemoryError
from .world import World


@pytest.fixture(params=range(2))
def world(request: pytest.FixtureRequest) -> World:
    """Devices that run nothing before somebody waits, so that a test knows from when on one is lost."""
    return World(devices=2, seed=request.param, eagerness=0.0, checked_threads="")


@pytest.fixture
def lost(world: World, cupy: Any, streams: Any) -> Any:
    """An event of device 0 after what has lost it."""
    world.faults.lose(0, at=3)
    with streams[0]:
        x = cupy.zeros(2) + 1
        x += 1
        x += 1
    return streams[0].record()


def test_a_device_is_lost_when_the_operation_runs_and_not_when_it_is_issued(cupy: Any, lost: Any) -> None:
    with pytest.raises(CUDARuntimeError, match="cudaErrorIllegalAddress") as caught:
        lost.synchronize()
    assert caught.value.status == 700


def test_every_call_on_a_lost_device_fails_for_ever(world: World, cupy: Any, streams: Any, lost: Any) -> None:
    runtime = cupy.cuda.runtime
    other = cupy.zeros(2)
    with cupy.cuda.Device(1):
        there = cupy.zeros(2)
    with pytest.raises(CUDARuntimeError):
        lost.synchronize()
    calls: list[Callable[[], object]] = [
        lost.synchronize,
        lost.record,
        lambda: streams[0].wait_event(lost),
        streams[0].synchronize,
        streams[0].record,
        lambda: other + 1,
        lambda: other.get(),
        lambda: other.set(np.zeros(2)),
        lambda: cupy.asarray(np.zeros(2)),
        lambda: cupy.asarray(there),
        lambda: cupy.empty(3),
        cupy.cuda.Stream,
        cupy.cuda.Event,
        cupy.cuda.Device(0).use,
        cupy.cuda.Device(0).synchronize,
        runtime.memGetInfo,
        lambda: runtime.setDevice(0),
    ]
    for call in calls:
        with pytest.raises(CUDARuntimeError) as caught:
            call()
        assert caught.value.status == 700


def test_an_event_of_a_lost_device_is_never_done_and_says_why_only_if_asked(cupy: Any, lost: Any) -> None:
    with pytest.raises(CUDARuntimeError):
        lost.synchronize()
    assert not lost.done
    assert cupy.cuda.runtime.eventQuery(lost.ptr) == 700


def test_other_devices_go_on(world: World, cupy: Any, lost: Any) -> None:
    with pytest.raises(CUDARuntimeError):
        lost.synchronize()
    cupy.cuda.runtime.setDevice(1)
    assert (cupy.zeros(2) + 1).get().tolist() == [1.0, 1.0]
    gc.collect()
    world.check()


def test_what_waits_for_a_lost_device_on_another_is_not_held_up(world: World, cupy: Any, streams: Any) -> None:
    world.faults.lose(0)
    with streams[0]:
        cupy.zeros(2)
    event = streams[0].record()
    cupy.cuda.runtime.setDevice(1)
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.wait_event(event)
    stream.synchronize()


def test_memory_may_be_let_go_once_the_device_is_known_to_be_lost(world: World, cupy: Any, streams: Any) -> None:
    buffer = world.cupyx.empty_pinned(2)
    world.faults.lose(0)
    with streams[0]:
        x = cupy.zeros(2)
        x.get(out=buffer, blocking=False)
    with pytest.raises(CUDARuntimeError):
        streams[0].synchronize()
    del buffer, x
    gc.collect()
    world.check()


def test_an_allocation_fails_at_the_k_th_time_and_then_no_more(world: World, cupy: Any) -> None:
    world.faults.run_out_of_memory(0, at=2, times=2)
    kept = [cupy.empty(1)]
    for _ in range(2):
        with pytest.raises(OutOfMemoryError):
            cupy.empty(1)
    kept.append(cupy.empty(1))
    assert cupy.get_default_memory_pool().used_bytes() == 1024


def test_a_launch_fails_at_the_k_th_time_with_any_error(world: World, cupy: Any) -> None:
    x = cupy.zeros(2)
    world.faults.fail_kernel(0, lambda: CompileException("no such header", "source", "kernel", ()), at=2)
    x + 1
    with pytest.raises(CompileException, match="no such header"):
        x + 1
    assert (x + 1).get().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", ["h2d", "d2h", "d2d"])
def test_a_copy_is_refused_at_the_k_th_time(world: World, cupy: Any, kind: str) -> None:
    with cupy.cuda.Device(1):
        there = cupy.zeros(2)
        cupy.cuda.Device(1).synchronize()
    copies: dict[str, Callable[[], object]] = {
        "h2d": lambda: cupy.asarray(np.zeros(2)),
        "d2h": cupy.zeros(2).get,
        "d2d": lambda: cupy.asarray(there),
    }
    world.faults.refuse_copy(0, kind, at=2, status=217)
    copies[kind]()
    with pytest.raises(CUDARuntimeError, match="peer access is not supported"):
        copies[kind]()
    copies[kind]()


def test_errors_survive_pickling() -> None:
    errors = [CUDARuntimeError(700), OutOfMemoryError(1, 2, 3), CompileException("no", "source", "name", ())]
    for error in errors:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))


@pytest.mark.parametrize(
    "copy",
    [lambda there, stream: there.get(stream=stream), lambda there, stream: there.set(np.zeros(2), stream=stream)],
)
def test_a_copy_fails_if_the_thread_s_own_device_is_lost_as_it_is_made_current_again(
    copy: Callable[[Any, Any], object], cupy: Any, lost: Any
) -> None:
    with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True) as stream:
        there = cupy.zeros(2)
    with pytest.raises(CUDARuntimeError):
        lost.synchronize()
    with pytest.raises(CUDARuntimeError):
        copy(there, stream)
