"""Host memory that devices copy to and from."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from .clocks import RaceError
from .world import World


def test_reading_what_a_copy_writes_before_it_was_waited_for_is_a_race(world: World, cupy: Any, streams: Any) -> None:
    buffer = world.cupyx.empty_pinned(4)
    with streams[0]:
        x = cupy.asarray(np.arange(4.0))
        x.get(out=buffer, blocking=False)
    for read in (
        lambda: buffer.copy(),
        lambda: buffer[1:].sum(),
        lambda: buffer + 1,
        lambda: buffer[0],
        lambda: buffer[[0, 1]],
        lambda: buffer.tolist(),
        lambda: np.copyto(np.empty(4), buffer),
        lambda: np.concatenate([buffer, buffer]),
        lambda: list(buffer),
    ):
        with pytest.raises(RaceError, match="reads"):
            read()
    streams[0].synchronize()
    assert buffer.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_what_pinned_memory_holds_before_a_copy_has_run_is_poison(cupy: Any) -> None:
    world = World(eagerness=0.0)
    buffer = world.cupyx.empty_pinned(2, np.uint8)
    world.cupy.zeros(2, np.uint8).get(out=buffer, blocking=False)
    assert np.array(buffer).tolist() == [0xCB, 0xCB]
    world.cupy.cuda.Device(0).synchronize()
    assert buffer.tolist() == [0, 0]


def test_writing_what_a_copy_reads_before_it_was_waited_for_is_a_race(world: World, cupy: Any, streams: Any) -> None:
    buffer = world.cupyx.empty_pinned(4)
    buffer[:] = 1
    with streams[0]:
        x = cupy.empty(4)
        x.set(buffer)
    assert buffer.sum() == 4
    for write in (
        lambda: buffer.fill(2),
        lambda: buffer.__setitem__(0, 2),
        lambda: np.copyto(buffer[1:], 2),
        lambda: np.add(buffer, 1, out=buffer),
        lambda: buffer[:2].__iadd__(1),
    ):
        with pytest.raises(RaceError, match="writes"):
            write()
    streams[0].synchronize()
    buffer += 1
    assert buffer.tolist() == [2.0] * 4
    assert x.get().tolist() == [1.0] * 4


def test_another_part_of_the_same_buffer_may_be_used_meanwhile(world: World, cupy: Any, streams: Any) -> None:
    buffer = world.cupyx.empty_pinned(8)
    with streams[0]:
        x = cupy.zeros(4)
        x.get(out=buffer[:4], blocking=False)
    buffer[4:] = 1
    assert buffer[4:].sum() == 4
    with pytest.raises(RaceError):
        buffer[3:5].sum()


def test_views_of_any_kind_are_checked(world: World, cupy: Any, streams: Any) -> None:
    buffer = world.cupyx.empty_pinned(32, np.uint8)
    view = buffer[:16].view(np.float64).reshape(2, 1).T
    with streams[0]:
        cupy.zeros((1, 2)).get(out=view, blocking=False)
    with pytest.raises(RaceError):
        np.reshape(np.transpose(view), 2).sum()
    streams[0].synchronize()
    assert view.tolist() == [[0.0, 0.0]]
    assert type(view + 1) is type(view.copy()) is np.ndarray


def test_a_buffer_that_is_given_up_while_a_copy_may_use_it_is_a_race(world: World, cupy: Any, streams: Any) -> None:
    buffer = world.cupyx.empty_pinned(4)
    with streams[0]:
        x = cupy.zeros(4)
        x.get(out=buffer, blocking=False)
    del buffer
    gc.collect()
    cupy.cuda.Device(0).synchronize()
    del x
    with pytest.raises(RaceError, match="32 bytes of pinned memory was given up while it may still be used by d2h"):
        world.check()


def test_a_buffer_that_is_given_up_after_the_copy_was_waited_for_is_not(world: World, cupy: Any, streams: Any) -> None:
    buffer = world.cupyx.empty_pinned(4)
    with streams[0]:
        x = cupy.zeros(4)
        x.get(out=buffer, blocking=False)
        streams[0].record().synchronize()
    del buffer, x
    gc.collect()
    world.check()


def test_asarray_reads_pinned_memory_later_but_holds_it(world: World, cupy: Any, streams: Any) -> None:
    buffer = world.cupyx.empty_pinned(4)
    buffer[:] = 1
    with streams[0]:
        x = cupy.asarray(buffer)
    with pytest.raises(RaceError, match="writes"):
        buffer[:] = 2
    world.races.clear()
    del buffer
    gc.collect()
    streams[0].synchronize()
    with streams[0]:
        assert x.get().tolist() == [1.0] * 4
    del x
    world.cupyx.empty_pinned(1)
    world.check()


def test_what_asarray_holds_it_lets_go_when_the_copy_has_run_though_nobody_waits(world: World, cupy: Any) -> None:
    buffer = world.cupyx.empty_pinned(4)
    buffer[:] = 1
    x = cupy.asarray(buffer)
    del buffer
    world.finish()
    world.cupyx.empty_pinned(1)
    gc.collect()
    del x
    world.check()


def test_asarray_and_set_read_pageable_memory_at_once(world: World, cupy: Any, streams: Any) -> None:
    source = np.ones(4)
    with streams[0]:
        x = cupy.asarray(source)
        y = cupy.empty(4)
        y.set(source)
        source[:] = 2
        assert x.get().tolist() == y.get().tolist() == [1.0] * 4


def test_get_without_blocking_gives_memory_that_is_written_later(world: World, cupy: Any, streams: Any) -> None:
    with streams[0]:
        x = cupy.zeros(4)
        result = x.get(blocking=False)
        with pytest.raises(RaceError):
            result.sum()
        own = np.empty(4)
        x.get(out=own, blocking=False)
        with pytest.raises(RaceError):
            world.host_read(own)
        streams[0].synchronize()
    assert result.sum() == own.sum() == 0
    world.host_read(own)


def test_a_watched_modules_numpy_looks_where_numpy_itself_does_not(
    world: World, cupy: Any, streams: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType("watched")
    module.np = np
    world.watch(monkeypatch, module)
    buffer = world.cupyx.empty_pinned(4)
    with streams[0]:
        cupy.zeros(4).get(out=buffer, blocking=False)
    with pytest.raises(RaceError):
        module.np.array(buffer)
    assert module.np.array([1]).tolist() == [1]
    streams[0].synchronize()
    assert module.np.asarray(buffer).tolist() == [0.0] * 4
