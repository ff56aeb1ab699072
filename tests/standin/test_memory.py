"""Who gets memory next, how much of it there is, and what is in it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from .clocks import RaceError
from .errors import OutOfMemoryError
from .world import World

Streams = tuple[Any, Any]


def test_memory_that_another_stream_still_reads_is_given_out_again(cupy: Any, streams: Streams) -> None:
    first, second = streams
    with first:
        x = cupy.asarray(np.arange(2.0))
    second.wait_event(first.record())
    with second:
        y = x * 2
    del x
    with first, pytest.raises(RaceError, match="writes 512 bytes of device 0, which was read by launch 'multiply'"):
        cupy.asarray(np.ones(2))
    del y


def test_memory_that_is_held_until_its_last_use_is_waited_for_may_be_used_again(
    world: World, cupy: Any, streams: Streams
) -> None:
    first, second = streams
    with first:
        x = cupy.asarray(np.arange(2.0))
    second.wait_event(first.record())
    with second:
        y = x * 2
    second.record().synchronize()
    del x
    with first:
        z = cupy.asarray(np.ones(2))
        first.synchronize()
    with second:
        assert y.get().tolist() == [0.0, 2.0]
    del y, z
    world.check()


def test_memory_may_be_used_again_by_a_stream_that_waits_for_the_last_use(
    world: World, cupy: Any, streams: Streams
) -> None:
    first, second = streams
    with first:
        x = cupy.asarray(np.arange(2.0))
    second.wait_event(first.record())
    with second:
        y = x * 2
    first.wait_event(second.record())
    del x
    with first:
        z = cupy.asarray(np.ones(2))
        first.synchronize()
    with second:
        assert y.get().tolist() == [0.0, 2.0]
    del y, z
    world.check()


def test_memory_goes_to_the_stream_it_was_made_on_and_to_no_other(world: World, cupy: Any, streams: Streams) -> None:
    with streams[0]:
        first = cupy.empty(3)
        address = first.data.ptr
        del first
    with streams[1]:
        other = cupy.empty(3)
    with streams[0]:
        again = cupy.empty(4)
    assert again.data.ptr == address != other.data.ptr
    assert world.counts["malloc"] == 2


def test_a_view_keeps_the_memory(world: World, cupy: Any, streams: Streams) -> None:
    with streams[0]:
        x = cupy.asarray(np.arange(6.0).reshape(2, 3))
        part = x.T[::-1, 1]
        del x
        assert cupy.get_default_memory_pool().used_bytes() == 512
        assert part.get().tolist() == [5.0, 4.0, 3.0]
    del part
    world.check()


def test_views_launch_and_allocate_nothing(world: World, cupy: Any) -> None:
    x = cupy.zeros((2, 3, 4), np.complex128)
    before = len(world.log)
    for view in (
        x[1, ..., None, ::2],
        x[0, 0, 0],
        x.T,
        x.real,
        x.imag,
        x.reshape(6, 4),
        x.ravel(),
        x.view(np.float64),
        cupy.broadcast_to(x, (5, 2, 3, 4)),
        cupy.flip(x, axis=1),
        cupy.moveaxis(x, 0, 2),
        cupy.squeeze(x[:1]),
        *cupy.split(x, 2),
    ):
        assert view.allocation is x.allocation
    assert len(world.log) == before


def test_what_cannot_be_a_view_is_copied(world: World, cupy: Any) -> None:
    x = cupy.asarray(np.arange(6.0).reshape(2, 3))
    before = world.counts["launch"]
    assert x.T.reshape(6).get().tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    assert world.counts["launch"] == before + 1
    with pytest.raises(ValueError, match="copy"):
        x.T.reshape(6, copy=False)


def test_new_and_freed_memory_is_poisoned(world: World, cupy: Any) -> None:
    x = cupy.empty(3, np.uint8)
    assert x.get().tolist() == [0xCB] * 3
    x.fill(1)
    alias = cupy.from_dlpack(x)
    layout = alias.layout
    del x, alias
    assert cupy.get_default_memory_pool().used_bytes() == 0
    cupy.cuda.Device(0).synchronize()
    assert layout.array.tolist() == [0xCB] * 3


def test_what_is_freed_after_its_last_use_was_waited_for_is_poisoned_at_once(cupy: Any) -> None:
    x = cupy.zeros(3, np.uint8)
    layout = x.layout
    cupy.cuda.Device(0).synchronize()
    assert layout.array.tolist() == [0] * 3
    del x
    cupy.get_default_memory_pool().used_bytes()
    assert layout.array.tolist() == [0xCB] * 3


def test_memory_that_was_let_go_last_by_who_knows_nothing_may_be_used_again(
    world: World, cupy: Any, streams: Streams
) -> None:
    first, second = streams
    with first:
        x = cupy.asarray(np.arange(2.0))
    second.wait_event(first.record())
    with second:
        y = x * 2
    held, event = [x], second.record()

    def wait_and_drop() -> None:
        event.synchronize()
        held.clear()

    thread = threading.Thread(target=wait_and_drop)
    thread.start()
    thread.join()
    del x
    with first:
        cupy.asarray(np.ones(2))
        first.synchronize()
    del y
    world.check()


def test_the_pool_counts_in_units_of_512_bytes(cupy: Any) -> None:
    pool = cupy.get_default_memory_pool()
    x, y, nothing = cupy.empty(1), cupy.empty(65), cupy.empty(0)
    assert (pool.used_bytes(), pool.total_bytes()) == (512 + 1024, 512 + 1024)
    del x
    assert (pool.used_bytes(), pool.total_bytes(), pool.free_bytes()) == (1024, 512 + 1024, 512)
    pool.free_all_blocks()
    assert (pool.used_bytes(), pool.total_bytes()) == (1024, 1024)
    with cupy.cuda.Device(1):
        assert pool.used_bytes() == 0
    del y, nothing


def test_what_is_cached_is_given_back_before_memory_runs_out() -> None:
    world = World(devices=1, bytes_per_device=2048)
    cupy = world.cupy
    with cupy.cuda.Stream(non_blocking=True):
        cached = cupy.empty(1024, np.uint8)
        del cached
    held = cupy.empty(2048, np.uint8)
    with pytest.raises(OutOfMemoryError, match="Out of memory allocating 512 bytes"):
        cupy.empty(1)
    assert cupy.cuda.runtime.memGetInfo() == (0, 2048)
    del held
    world.check()


def test_what_only_the_garbage_collector_can_free_is_freed_before_memory_runs_out() -> None:
    world = World(devices=1, bytes_per_device=512)
    cycle: list[Any] = [world.cupy.empty(1)]
    cycle.append(cycle)
    del cycle
    x = world.cupy.empty(1)
    del x
    world.check()


def test_a_limit_is_that_of_the_current_device(cupy: Any) -> None:
    pool = cupy.get_default_memory_pool()
    pool.set_limit(size=512)
    cupy.empty(1)
    with pytest.raises(OutOfMemoryError):
        cupy.empty(65)
    with cupy.cuda.Device(1):
        assert pool.get_limit() == 0
        cupy.empty(65)


def test_memory_that_is_still_held_is_found_at_the_end(world: World, cupy: Any) -> None:
    x = cupy.empty(1)
    with pytest.raises(AssertionError, match=r"bytes that arrays still hold, by device: \{0: 512\}"):
        world.check()
    del x
    world.check()
