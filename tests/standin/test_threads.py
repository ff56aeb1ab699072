"""What threads of the host know of each other's waiting."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from .clocks import RaceError
from .world import World


@pytest.fixture
def watched(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with NumPy, and what hands things over, of which the world knows."""
    module: Any = ModuleType("watched")
    module.np, module.queue, module.threading, module.Thread = np, queue, threading, threading.Thread
    world.watch(monkeypatch, module)
    return module


def run(call: Callable[[], object], thread: Callable[..., Any] = threading.Thread) -> list[BaseException]:
    """What it raises in a thread of its own."""
    raised: list[BaseException] = []

    def catching() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    one = thread(target=catching)
    one.start()
    one.join()
    return raised


def test_what_a_thread_waited_for_another_does_not_know(world: World, cupy: Any, streams: Any) -> None:
    buffer = world.cupyx.empty_pinned(4)
    with streams[0]:
        x = cupy.zeros(4)
        x.get(out=buffer, blocking=False)
        event = streams[0].record()
    assert run(event.synchronize) == []
    with pytest.raises(RaceError, match="reads 32 bytes of pinned memory, which was written by d2h 'get'"):
        world.host_read(buffer)


def test_who_gets_an_item_of_a_queue_knows_what_who_put_it_waited_for(
    world: World, cupy: Any, streams: Any, watched: Any
) -> None:
    buffer = world.cupyx.empty_pinned(4)
    items = watched.queue.SimpleQueue()
    with streams[0]:
        cupy.zeros(4).get(out=buffer, blocking=False)
        event = streams[0].record()

    def wait() -> None:
        event.synchronize()
        items.put(buffer)

    assert run(wait) == []
    assert items.get().tolist() == [0.0] * 4
    world.check()


@pytest.mark.parametrize("kind", ["Lock", "RLock", "Condition"])
def test_who_takes_a_lock_knows_what_who_let_it_go_waited_for(
    world: World, cupy: Any, streams: Any, watched: Any, kind: str
) -> None:
    buffer = world.cupyx.empty_pinned(4)
    lock = getattr(watched.threading, kind)()
    with streams[0]:
        cupy.zeros(4).get(out=buffer, blocking=False)
        event = streams[0].record()

    def wait() -> None:
        event.synchronize()
        with lock:
            pass

    assert run(wait) == []
    with lock:
        assert buffer.sum() == 0
    world.check()


def test_who_waits_for_a_condition_knows_what_who_notified_it_waited_for(
    world: World, cupy: Any, streams: Any, watched: Any
) -> None:
    buffer = world.cupyx.empty_pinned(4)
    condition = watched.threading.Condition()
    ready: list[Any] = []
    with streams[0]:
        cupy.zeros(4).get(out=buffer, blocking=False)
        event = streams[0].record()

    def wait() -> None:
        event.synchronize()
        with condition:
            ready.append(buffer)
            condition.notify_all()

    with condition:
        thread = threading.Thread(target=wait)
        thread.start()
        assert condition.wait_for(lambda: ready, timeout=30)
        assert buffer.sum() == 0
    thread.join()
    world.check()


def test_who_sees_an_event_set_knows_what_who_set_it_waited_for(
    world: World, cupy: Any, streams: Any, watched: Any
) -> None:
    buffer = world.cupyx.empty_pinned(4)
    is_ready = watched.threading.Event()
    with streams[0]:
        cupy.zeros(4).get(out=buffer, blocking=False)
        event = streams[0].record()

    def wait() -> None:
        event.synchronize()
        is_ready.set()

    assert run(wait) == []
    assert is_ready.wait(30)
    assert buffer.sum() == 0
    world.check()


def test_a_thread_knows_what_its_starter_knows_and_tells_who_joins_it(
    world: World, cupy: Any, streams: Any, watched: Any
) -> None:
    first, second = (world.cupyx.empty_pinned(4) for _ in range(2))
    with streams[0]:
        cupy.zeros(4).get(out=first, blocking=False)
        streams[0].synchronize()
        cupy.zeros(4).get(out=second, blocking=False)
        event = streams[0].record()
    assert run(lambda: (first.sum(), event.synchronize()), watched.Thread) == []
    assert second.sum() == 0
    assert run(lambda: first.sum()) != []


def test_a_launch_is_ordered_after_what_its_thread_waited_for_alone(world: World, cupy: Any, streams: Any) -> None:
    with streams[0]:
        x = cupy.zeros(4)
        event = streams[0].record()
    assert run(event.synchronize) == []
    with streams[1], pytest.raises(RaceError):
        x + 1
    event.synchronize()
    with streams[1]:
        y = x + 1
        assert y.get().tolist() == [1.0] * 4


def test_a_host_buffer_that_two_threads_write_is_a_race(world: World) -> None:
    buffer = world.cupyx.empty_pinned(4)
    buffer[:] = 1
    (error,) = run(lambda: buffer.__setitem__(slice(None), 2))
    assert isinstance(error, RaceError)


def test_threads_that_are_not_checked_know_what_any_thread_knows() -> None:
    world = World(seed=0)
    buffer = world.cupyx.empty_pinned(4)
    stream = world.cupy.cuda.Stream(non_blocking=True)
    with stream:
        world.cupy.zeros(4).get(out=buffer, blocking=False)
        event = stream.record()
    with pytest.raises(RaceError):
        buffer.sum()
    world.races.clear()
    assert run(event.synchronize) == []
    assert buffer.sum() == 0
    world.check()


def test_a_thread_that_waits_lets_others_in(world: World, cupy: Any, streams: Any) -> None:
    with streams[0]:
        x = cupy.zeros(4)
        for _ in range(300):
            x += 1
        event = streams[0].record()
    launched = threading.Event()

    def launch() -> None:
        with cupy.cuda.Device(1):
            cupy.zeros(4)
        launched.set()

    other = threading.Thread(target=launch)
    other.start()
    event.synchronize()
    other.join()
    assert launched.is_set()
    with streams[0]:
        assert x.get().tolist() == [300.0] * 4
