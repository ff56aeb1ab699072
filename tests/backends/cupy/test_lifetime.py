"""How long things live; and for each protection against a race, that without it there is one."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from asyncgraph.errors import DeviceLostError
from asyncgraph_cupy import CupyBackend
from asyncgraph_cupy._lanes import Lane
from asyncgraph_cupy._reaper import Reaper
from asyncgraph_cupy._submission import Submission

from ...standin.clocks import RaceError
from ...standin.errors import CUDARuntimeError
from ...standin.world import World
from .conftest import MakeBackend
from .submitting import GPU, GPU1, SECONDS, Submitted, kernel, run

# Without a protection, on a real backend and the stand-in: what it protects from is seen.


def test_values_are_used_on_any_lane_only_since_done_waits_for_the_event(
    world: World, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: a missing wait."""
    backend = make_backend()
    negative = kernel(backend, "negative")
    monkeypatch.setattr(Lane, "wait", lambda lane: None)
    value = run(backend, lambda: backend.to_device(np.arange(4.0), GPU))
    with world.cupy.cuda.Device(0), pytest.raises(RaceError):
        negative(value)


def test_what_another_device_reads_is_safe_only_since_it_is_held(
    world: World, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: an early free. What is made contiguous over there is given out again for the next one."""
    backend = make_backend()
    there = run(backend, lambda: backend.to_device(np.arange(8.0), GPU1), GPU1)
    monkeypatch.setattr(Submission, "hold", lambda self, *values: None)
    with pytest.raises(RaceError):
        run(backend, lambda: [backend.to_device(there[::2], GPU), backend.to_device(there[1::2], GPU)])


def test_pinned_memory_is_safe_only_since_it_is_given_back_after_the_event(
    make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: an early free, on the host."""
    backend, outcome = make_backend(), Reaper._outcome
    released, written = threading.Event(), threading.Event()

    def early(self: Reaper, submission: Submission, error: BaseException | None) -> BaseException | None:
        submission.release()
        released.set()
        # The device has nobody who waits for it, and so does nothing, before the second has the same memory.
        assert written.wait(SECONDS)
        return outcome(self, submission, error)

    def copy() -> None:
        backend.to_device(np.arange(20_000.0), GPU)

    def copy_again() -> None:
        assert released.wait(SECONDS)
        try:
            copy()
        finally:
            written.set()

    monkeypatch.setattr(Reaper, "_outcome", early)
    first, second = [Submitted(backend, GPU, work) for work in (copy, copy_again)]
    assert {type(first.error()), type(second.error())} >= {RaceError}


def test_results_are_right_only_since_they_are_copied_after_the_event(
    make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the host reads before the event."""
    backend = make_backend()
    monkeypatch.setattr(Submission, "land", lambda self, room, result: np.copyto(result, room))
    with pytest.raises(RaceError):
        run(backend, lambda: backend.to_host(backend.to_device(np.arange(4.0), GPU)))


def test_the_event_covers_the_work_only_since_the_work_is_on_the_lane(
    make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: the wrong current stream."""
    backend = make_backend()
    negative = kernel(backend, "negative")
    monkeypatch.setattr(Lane, "current", lambda lane: nullcontext())
    with pytest.raises(RaceError):
        run(backend, lambda: backend.to_host(negative(backend.to_device(np.arange(4.0), GPU))))


def test_the_work_is_on_the_lane_only_since_the_stream_is_left_before_the_next_is_entered(
    make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: a stream that is held across an `await`, so that two are left in the order in which they were entered."""
    backend, opened, wait = make_backend(), threading.Event(), Lane.wait
    left: list[Any] = []

    class Across:
        def __init__(self, stream: Any) -> None:
            self.stream = stream

        def __enter__(self) -> None:
            self.stream.__enter__()
            if left:
                left.pop().__exit__()

        def __exit__(self, *exc: object) -> None:
            left.append(self.stream)

    def slowly(lane: Lane) -> None:
        assert opened.wait(SECONDS)
        wait(lane)

    monkeypatch.setattr(Lane, "current", lambda lane: Across(lane.stream))
    monkeypatch.setattr(Lane, "wait", slowly)

    def work() -> Any:
        return backend.to_host(backend.to_device(np.arange(4.0), GPU))

    first, second, _ = [Submitted(backend, GPU, each) for each in (work, work, opened.set)]
    assert first.error() is None
    assert isinstance(second.error(), RaceError)


def test_a_lost_device_ends_a_wait_only_since_the_error_is_looked_at(
    world: World, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault: `done`, which hides an error, so that who asks for it again and again never ends."""
    backend = make_backend()
    negative, there = kernel(backend, "negative"), run(backend, lambda: backend.to_device(np.ones(3), GPU))

    class HangError(Exception):
        pass

    def poll(lane: Any) -> None:
        for _ in range(1000):
            if lane.event.done:
                return
        raise HangError

    monkeypatch.setattr(Lane, "wait", poll)
    assert run(backend, lambda: 1) == 1
    world.faults.lose(0)
    error = Submitted(backend, GPU, lambda: negative(there)).error()
    assert isinstance(error, DeviceLostError)
    assert isinstance(error.__cause__, HangError)


# How long things live.


def test_nothing_of_a_submission_lives_longer_than_it(backend: CupyBackend) -> None:
    """Also if nothing more is submitted."""

    class Mark:
        pass

    def submit() -> threading.Event:
        mark, gone = Mark(), threading.Event()
        marks.append(weakref.ref(mark, lambda _: gone.set()))

        def work() -> None:
            assert mark

        backend.submit(GPU, work, lambda error, mark=mark: None)
        return gone

    marks: list[weakref.ref[Mark]] = []
    for _ in range(3):
        assert submit().wait(SECONDS)


@pytest.mark.parametrize("fault", ["in the work", "in a copy", "when a lane is made"])
def test_streams_are_gone_when_the_backend_is_closed_also_if_an_error_is_kept(
    fault: str, world: World, backend: CupyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.devices()
    there, make, made = np.arange(20_000.0), Lane.__init__, list[weakref.ref[Lane]]()

    def making(lane: Lane, api: Any) -> None:
        made.append(weakref.ref(lane))
        make(lane, api)
        if fault == "when a lane is made":
            raise ValueError

    def work() -> None:
        backend.to_host(backend.to_device(there, GPU))
        if fault == "in the work":
            raise ValueError

    monkeypatch.setattr(Lane, "__init__", making)
    if fault == "in a copy":
        world.faults.refuse_copy(0, "d2h")
    error = Submitted(backend, GPU, work).error()
    backend.close()
    gc.collect()
    assert error is not None
    assert [one() for one in made] == [None]


def test_a_stream_of_a_lost_device_is_never_destroyed_though_another_one_had_it(
    world: World, backend: CupyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To destroy it would call CUDA for the lost device, which fails where nobody can catch it."""
    make, made = Lane.__init__, dict[int, weakref.ref[Lane]]()
    there = run(backend, lambda: backend.to_device(np.arange(8.0), GPU))

    def making(lane: Lane, api: Any) -> None:
        make(lane, api)
        made[world.current_device.index] = weakref.ref(lane)

    def fail() -> None:
        raise CUDARuntimeError(700)

    monkeypatch.setattr(Lane, "__init__", making)
    run(backend, lambda: backend.to_host(there[::2]), GPU1)
    assert isinstance(Submitted(backend, GPU, fail).error(), DeviceLostError)
    backend.close()
    gc.collect()
    assert {device: lane() is not None for device, lane in made.items()} == {1: False, 0: True}


def test_an_error_that_is_kept_keeps_nothing_of_its_submission(world: World, backend: CupyBackend) -> None:
    def fail() -> None:
        raise ValueError

    def failed() -> BaseException | None:
        there = run(backend, lambda: backend.to_device(np.arange(8.0), GPU1), GPU1)
        return Submitted(backend, GPU, lambda: (backend.to_device(there[::2], GPU), fail())).error()

    error = failed()
    for device in (GPU, GPU1):
        run(backend, lambda: None, device)
    gc.collect()
    world.sweep()
    assert isinstance(error, ValueError)
    # What is left is what the work's own frame holds.
    assert [pool.used for pool in world.pools] == [0, 512]


def test_what_the_device_reads_is_held_until_it_is_done_whatever_the_work_drops(backend: CupyBackend) -> None:
    there = run(backend, lambda: backend.to_device(np.arange(200.0), GPU1), GPU1)

    def work(start: int) -> Any:
        return backend.to_host(backend.to_device(there[start::7], GPU))

    submitted = [Submitted(backend, GPU, lambda i=i: [work(i), work(i + 1)]) for i in range(20)]
    for i, one in enumerate(submitted):
        first, second = one.result()
        assert first.tolist() == np.arange(200.0)[i::7].tolist()
        assert second.tolist() == np.arange(200.0)[i + 1 :: 7].tolist()


def test_a_backend_that_nobody_has_is_gone(world: World) -> None:
    backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx)
    run(backend, lambda: None)
    backend.close()
    kept = weakref.ref(backend)
    del backend
    gc.collect()
    assert kept() is None
