"""What is ordered by streams and events, and what is not."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from .clocks import RaceError
from .errors import CUDARuntimeError
from .world import World

Streams = tuple[Any, Any]


def test_a_stream_runs_what_it_is_given_in_order(world: World, cupy: Any, streams: Streams) -> None:
    with streams[0]:
        x = cupy.asarray(np.arange(4.0))
        for _ in range(20):
            x = x + 1
        result = x.get()
    assert result.tolist() == [20.0, 21.0, 22.0, 23.0]
    del x
    world.check()


def test_a_stream_that_waits_for_an_event_reads_what_was_written_before_it(
    world: World, cupy: Any, streams: Streams
) -> None:
    first, second = streams
    with first:
        x = cupy.asarray(np.arange(2.0)) + 1
        event = first.record()
    second.wait_event(event)
    with second:
        result = (x * 2).get()
    assert result.tolist() == [2.0, 4.0]
    del x
    world.check()


def test_reading_what_another_stream_writes_is_a_race(world: World, cupy: Any, streams: Streams) -> None:
    with streams[0]:
        x = cupy.asarray(np.arange(2.0))
    with streams[1], pytest.raises(RaceError, match="reads 512 bytes of device 0, which was written by h2d 'asarray'"):
        x * 2


def test_an_event_orders_only_what_was_issued_before_it_was_recorded(cupy: Any, streams: Streams) -> None:
    first, second = streams
    with first:
        event = first.record()
        x = cupy.asarray(np.arange(2.0))
    second.wait_event(event)
    with second, pytest.raises(RaceError):
        x * 2


def test_an_event_that_is_recorded_again_orders_by_its_last_record(cupy: Any, streams: Streams) -> None:
    first, second = streams
    event = cupy.cuda.Event()
    with first:
        x = cupy.asarray(np.arange(2.0))
    event.record(first)
    event.record(second)
    second.wait_event(event)
    with second, pytest.raises(RaceError):
        x * 2


def test_a_wait_goes_through_other_streams(world: World, cupy: Any, streams: Streams) -> None:
    first, second = streams
    third = cupy.cuda.Stream(non_blocking=True)
    with first:
        x = cupy.asarray(np.arange(2.0))
    second.wait_event(first.record())
    third.wait_event(second.record())
    with third:
        assert (x * 2).get().tolist() == [0.0, 2.0]
    del x
    world.check()


def test_two_streams_may_read_the_same_but_not_write_what_the_other_reads(cupy: Any, streams: Streams) -> None:
    first, second = streams
    x = cupy.asarray(np.arange(2.0))
    cupy.cuda.Device(0).synchronize()
    with first:
        x + 1
    with second:
        x + 2
        with pytest.raises(RaceError, match="writes"):
            x += 1


def test_who_writes_other_elements_of_the_same_memory_does_not_race(world: World, cupy: Any, streams: Streams) -> None:
    x = cupy.zeros(8)
    cupy.cuda.Device(0).synchronize()
    for stream, part in zip(streams, (x[:4], x[4:]), strict=True):
        with stream:
            part += 1
    with streams[0], pytest.raises(RaceError):
        x[3:5] += 1


def test_the_null_stream_is_not_ordered_with_a_non_blocking_stream(cupy: Any, streams: Streams) -> None:
    x = cupy.asarray(np.arange(2.0))
    with streams[0], pytest.raises(RaceError):
        x + 1


def test_the_null_stream_is_ordered_with_a_blocking_stream(world: World, cupy: Any) -> None:
    x = cupy.asarray(np.arange(2.0))
    with cupy.cuda.Stream():
        y = x + 1
    assert (y * 2).get().tolist() == [2.0, 4.0]
    del x, y
    world.check()


def test_an_event_is_done_only_after_a_wait_or_when_asked_for_often(cupy: Any, streams: Streams) -> None:
    with streams[0]:
        cupy.asarray(np.arange(2.0))
    event = streams[0].record()
    while cupy.cuda.runtime.eventQuery(event.ptr) == 600:
        pass
    assert event.done
    assert cupy.cuda.runtime.eventQuery(event.ptr) == 0
    assert cupy.cuda.Event().done


def test_who_sees_an_event_done_is_ordered_after_it(world: World, cupy: Any, streams: Streams) -> None:
    first, second = streams
    with first:
        x = cupy.asarray(np.arange(2.0))
    event = first.record()
    while not event.done:
        pass
    with second:
        assert (x + 1).get().tolist() == [1.0, 2.0]
    del x
    world.check()


def left_undone(seed: int) -> int:
    """How many of 20 operations on one stream have not run when one that waited for 20 on another goes on."""
    world = World(devices=1, seed=seed, eagerness=0.0)
    first, second = (world.cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    for stream in (first, second):
        with stream:
            x = world.cupy.zeros(2)
            for _ in range(20):
                x += 1
    first.synchronize()
    left = len(world.executor.undone())
    world.finish()
    return left


def test_a_seed_gives_one_of_many_orders() -> None:
    left = [left_undone(seed) for seed in range(20)]
    assert left == [left_undone(seed) for seed in range(20)]
    assert len({*left}) > 3


def test_a_race_that_was_swallowed_is_found_at_the_end(world: World, cupy: Any, streams: Streams) -> None:
    with streams[0]:
        x = cupy.asarray(np.arange(2.0))
    with streams[1], pytest.raises(RaceError):
        x * 2
    with pytest.raises(RaceError):
        world.check()


def test_what_nobody_waited_for_is_found_at_the_end(world: World, cupy: Any, streams: Streams) -> None:
    world = World(eagerness=0.0)
    world.cupy.asarray(np.arange(2.0))
    with pytest.raises(AssertionError, match="never waited for: 1 operations"):
        world.check()
    world.finish()
    world.check()


def test_streams_that_are_entered_by_two_tasks_are_swapped(cupy: Any, streams: Streams) -> None:
    inside: dict[int, Any] = {}
    after: dict[int, Any] = {}

    async def enter(which: int) -> None:
        with streams[which]:
            await asyncio.sleep(0)
            inside[which] = cupy.cuda.get_current_stream()
        after[which] = cupy.cuda.get_current_stream()

    async def main() -> None:
        await asyncio.gather(enter(0), enter(1))

    asyncio.run(main())
    assert inside == {0: streams[1], 1: streams[0]}
    assert after == {0: streams[0], 1: cupy.cuda.Stream.null}


def test_a_stream_cannot_be_entered_on_another_device(cupy: Any, streams: Streams) -> None:
    with cupy.cuda.Device(1), pytest.raises(RuntimeError, match="does not match with the current device"):
        streams[0].__enter__()


def test_an_event_cannot_be_recorded_on_another_device(cupy: Any, streams: Streams) -> None:
    with cupy.cuda.Device(1):
        event = cupy.cuda.Event()
    with pytest.raises(CUDARuntimeError) as caught:
        event.record(streams[0])
    assert caught.value.status == 400


def test_a_stream_may_wait_for_another_devices_event(world: World, cupy: Any, streams: Streams) -> None:
    with streams[0]:
        x = cupy.asarray(np.arange(2.0))
    event = streams[0].record()
    with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True) as there:
        there.wait_event(event)
        y = cupy.asarray(x)
        assert y.device.id == 1
        assert y.get().tolist() == [0.0, 1.0]
    del x, y
    world.check()


def test_a_copy_from_another_device_has_to_wait_for_it(cupy: Any, streams: Streams) -> None:
    with streams[0]:
        x = cupy.asarray(np.arange(2.0))
    with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True), pytest.raises(RaceError):
        cupy.asarray(x)


def test_the_current_device_is_a_threads_own_and_goes_back(cupy: Any) -> None:
    runtime = cupy.cuda.runtime
    with cupy.cuda.Device(1):
        assert runtime.getDevice() == 1
        assert cupy.empty(2).device.id == 1
    assert runtime.getDevice() == 0
    cupy.cuda.Device(1).use()
    assert runtime.getDevice() == 1
