"""What an error means for a submission, for its device, and for the others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncgraph.abc import Device
from asyncgraph.errors import DeviceLostError
from asyncgraph_cupy import CupyBackend, _dispatcher
from asyncgraph_cupy._lanes import Lane

from ...standin.errors import CUDARuntimeError, OutOfMemoryError
from ...standin.world import World
from .conftest import MakeBackend
from .submitting import GPU, GPU1, SECONDS, Submitted, kernel, run

STICKY = (214, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999)


def of_library(kind: str, status: int, name: str = "status") -> Exception:
    """An error as a library of CuPy's raises it, whose type cannot be had without the library."""
    error = type(kind, (RuntimeError,), {})(f"{kind} {status}")
    setattr(error, name, status)
    return error


def moved(backend: CupyBackend, device: Any = GPU, count: int = 4) -> Any:
    return run(backend, lambda: backend.to_device(np.arange(float(count)), device), device)


# What work raises.


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), CUDARuntimeError(1), CUDARuntimeError(400)])
def test_what_work_raises_done_is_called_with_after_the_device_is_done(
    error: BaseException, world: World, backend: CupyBackend
) -> None:
    backend.devices()
    del world.log[:]

    def work() -> None:
        backend.to_device(np.ones(3), GPU)
        raise error

    submitted = Submitted(backend, GPU, work)

    assert submitted.error() is error
    assert submitted.calls == 1
    assert (world.counts["record"], world.counts["synchronize"]) == (1, 1)
    assert run(backend, lambda: 1) == 1


def test_a_kernel_that_fails_to_start_fails_its_run_alone(world: World, backend: CupyBackend) -> None:
    negative, there = kernel(backend, "negative"), moved(backend)
    world.faults.fail_kernel(0, lambda: world.cupy.cuda.compiler.CompileException("x", "", "", ()))
    with pytest.raises(world.cupy.cuda.compiler.CompileException):
        run(backend, lambda: negative(there))
    assert run(backend, lambda: backend.to_host(negative(there))).tolist() == [0, -1, -2, -3]


@pytest.mark.parametrize("kind", ["h2d", "d2h"])
def test_a_copy_that_is_refused_fails_its_run_alone(kind: str, world: World, backend: CupyBackend) -> None:
    values = np.arange(20_000.0)
    backend.devices()
    for at in (1, 3):
        world.faults.refuse_copy(0, kind, at=at)
        with pytest.raises(CUDARuntimeError, match="invalid argument"):
            run(backend, lambda: backend.to_host(backend.to_device(values, GPU)))
    assert run(backend, lambda: backend.to_host(backend.to_device(values, GPU))).tolist() == values.tolist()


# Memory that runs out.


@pytest.mark.parametrize(
    "error",
    [
        OutOfMemoryError(1 << 40, 0),
        CUDARuntimeError(2),
        of_library("CUDADriverError", 2),
        of_library("CUBLASError", 1),
        of_library("CUBLASError", 3),
        of_library("CURANDError", 102),
        of_library("CUSOLVERError", 2),
        of_library("CuSparseError", 2),
        of_library("CuFFTError", 2, "result"),
    ],
    ids=lambda error: f"{type(error).__name__} {getattr(error, 'status', '')}",
)
def test_work_is_called_again_when_memory_ran_out_also_that_of_a_library_and_once(
    error: Exception, backend: CupyBackend
) -> None:
    failures = [error]

    def work() -> Any:
        there = backend.to_device(np.ones(3), GPU)
        if failures:
            raise failures.pop()
        return backend.to_host(there)

    submitted = Submitted(backend, GPU, work)
    assert submitted.result().tolist() == [1.0, 1.0, 1.0]
    assert submitted.calls == 2

    def always() -> None:
        raise error

    submitted = Submitted(backend, GPU, always)
    assert submitted.error() is error
    assert submitted.calls == 2


@pytest.mark.parametrize(
    "error", [MemoryError("host"), of_library("CUBLASError", 13), of_library("CuFFTError", 5, "result")]
)
def test_work_is_not_called_again_for_another_error(error: Exception, backend: CupyBackend) -> None:
    def work() -> None:
        raise error

    submitted = Submitted(backend, GPU, work)
    assert submitted.error() is error
    assert submitted.calls == 1


def test_an_error_that_memory_is_the_cause_of_is_one_of_memory(backend: CupyBackend) -> None:
    failures = [OutOfMemoryError(1 << 40, 0)]

    def work() -> int:
        if failures:
            raise RuntimeError("no workspace") from failures.pop()
        return 1

    assert run(backend, work) == 1


def test_memory_that_is_too_little_even_with_nothing_else_running_is_an_error_that_says_what_is_in_use(
    world: World, backend: CupyBackend
) -> None:
    backend.devices()
    world.cupy.get_default_memory_pool().set_limit(1 << 20)
    world.faults.run_out_of_memory(0, times=2)

    error = Submitted(backend, GPU, lambda: backend.to_device(np.ones(3), GPU)).error()

    assert isinstance(error, MemoryError)
    (note,) = error.__notes__
    assert note == (
        "gpu:0 has too little memory, 268435456 of 268435456 bytes free, 0 in use by arrays, of 1048576 "
        "that they may have, and nothing else ran"
    )


def test_work_is_called_again_after_all_else_on_the_device_is_done_and_has_let_go_of_its_memory(
    world: World, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.pools[0].capacity = 1 << 16
    backend, opened, held = make_backend(), threading.Event(), list[Any]()
    fits, wait, again = np.ones(5000), Lane.wait, threading.Event()

    def slowly(lane: Lane) -> None:
        assert opened.wait(SECONDS)
        wait(lane)

    def first() -> None:
        held.append(backend.to_device(fits, GPU))

    def done(error: BaseException | None) -> None:
        # Time for the second to come too early.
        assert not again.wait(0.05)
        held.clear()

    def second() -> Any:
        if opened.is_set():
            again.set()
            assert not held
        try:
            return backend.to_host(backend.to_device(fits, GPU))
        except MemoryError:
            opened.set()
            raise

    monkeypatch.setattr(Lane, "wait", slowly)
    backend.submit(GPU, first, done)
    submitted = Submitted(backend, GPU, second)

    assert submitted.result().tolist() == fits.tolist()
    assert submitted.calls == 2


def test_pinned_memory_of_the_first_call_is_used_by_the_second_only_when_the_device_has_read_it(
    backend: CupyBackend,
) -> None:
    values, failures = np.arange(20_000.0), [OutOfMemoryError(1 << 40, 0)]

    def work() -> Any:
        there = backend.to_device(values, GPU)
        if failures:
            raise failures.pop()
        return backend.to_host(there)

    assert run(backend, work).tolist() == values.tolist()


def test_what_the_first_call_had_is_gone_before_the_second(world: World, make_backend: MakeBackend) -> None:
    """Also what only the frames of its error hold."""
    world.pools[0].capacity = 1 << 16
    backend, made = make_backend(), list[int]()

    def work() -> None:
        made.append(0)
        arrays = []
        for _ in range(2):
            arrays.append(backend.to_device(np.ones(5000), GPU))
            made[-1] += 1

    assert isinstance(Submitted(backend, GPU, work).error(), OutOfMemoryError)
    assert made == [1, 1]


# A lost device.


@pytest.mark.parametrize("status", STICKY)
@pytest.mark.parametrize("kind", ["CUDARuntimeError", "CUDADriverError"])
def test_a_device_is_lost_by_an_error_that_stays_and_says_so_for_ever(
    kind: str, status: int, backend: CupyBackend
) -> None:
    first = of_library(kind, status)

    def work() -> None:
        raise first

    for calls in (1, 0):
        submitted = Submitted(backend, GPU, work)
        error = submitted.error()
        assert submitted.calls == calls
        assert isinstance(error, DeviceLostError)
        assert error.__cause__ is first
        assert first.__traceback__ is None
        assert str(error).startswith(f"gpu:0 is lost: {kind}: {kind} {status}\n  status {status}: ")
        assert str(error).endswith(
            "\n  nothing can run on gpu:0 in this process any more: start a new one; other devices go on"
        )
    backend.close()
    with pytest.raises(DeviceLostError):
        run(backend, lambda: None)
    assert run(backend, lambda: 1, GPU1) == 1


def test_a_lost_device_fails_all_that_is_on_it_and_all_that_ever_will_and_no_other_device(
    world: World, backend: CupyBackend
) -> None:
    negative = {where: kernel(backend, "negative", where) for where in (GPU, GPU1)}
    values = {where: moved(backend, where) for where in (GPU, GPU1)}
    goes_on = threading.Event()

    def work(where: Any) -> Any:
        assert goes_on.wait(SECONDS)
        return backend.to_host(negative[where](values[where]))

    submitted = {
        where: [Submitted(backend, where, lambda where=where: work(where)) for _ in range(20)] for where in values
    }
    world.faults.lose(0, at=7)
    goes_on.set()

    ends = [one.error() for one in submitted[GPU]]
    lost = [one for one in ends if one is not None]
    assert ends[-1] is not None
    assert {type(one) for one in lost} == {DeviceLostError}
    assert {one.__cause__ for one in lost} == {lost[0].__cause__}
    for one in submitted[GPU1]:
        assert one.result().tolist() == [0, -1, -2, -3]
    with pytest.raises(DeviceLostError, match="gpu:0 is lost: CUDARuntimeError: cudaErrorIllegalAddress"):
        run(backend, lambda: None)


def test_once_a_device_is_lost_it_is_asked_for_nothing_more(world: World, backend: CupyBackend) -> None:
    negative, there = kernel(backend, "negative"), moved(backend)
    world.faults.lose(0)
    for lost in range(5):
        with pytest.raises(DeviceLostError):
            run(backend, lambda: negative(there))
        if not lost:
            world.log.clear()
    backend.close()
    assert world.log == []


def test_pinned_memory_that_a_lost_device_may_still_use_is_used_by_no_other(world: World, backend: CupyBackend) -> None:
    values, pinned = np.arange(20_000.0), list[int]()
    backend.devices()
    empty_pinned = world.cupyx.empty_pinned
    world.cupyx.empty_pinned = lambda *args: pinned.append(1) or empty_pinned(*args)

    world.faults.lose(0, at=2)
    with pytest.raises(DeviceLostError):
        run(backend, lambda: backend.to_device(values, GPU))
    before = len(pinned)

    for _ in range(3):
        back = run(backend, lambda: backend.to_host(backend.to_device(values, GPU1)), GPU1)
        assert back.tolist() == values.tolist()
    assert (before, len(pinned)) == (4, 8)


def test_a_lost_device_is_noticed_while_a_large_result_is_fetched(world: World, backend: CupyBackend) -> None:
    there = moved(backend, count=20_000)
    world.faults.lose(0, at=3)
    with pytest.raises(DeviceLostError):
        run(backend, lambda: backend.to_host(there))


def test_a_large_result_is_fetched_although_another_device_is_lost(world: World, backend: CupyBackend) -> None:
    """A thread begins with device 0 as its current one, which CuPy makes current again after each copy."""
    negative, values = kernel(backend, "negative"), np.arange(20_000.0)
    here, there = moved(backend), moved(backend, GPU1, count=20_000)
    world.faults.lose(0)
    with pytest.raises(DeviceLostError):
        run(backend, lambda: negative(here))
    assert run(backend, lambda: backend.to_host(there), GPU1).tolist() == values.tolist()


def test_a_copy_that_says_that_the_device_is_lost_is_believed(world: World, backend: CupyBackend) -> None:
    there = moved(backend, count=20_000)
    world.faults.refuse_copy(0, "d2h", at=3, status=700)
    for _ in range(2):
        with pytest.raises(DeviceLostError):
            run(backend, lambda: backend.to_host(there))


def test_a_device_that_cannot_be_made_current_is_lost(
    world: World, backend: CupyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.devices()
    use = world.cupy.cuda.Device.use

    def refused(device: Any) -> Any:
        if device.id == 0:
            raise CUDARuntimeError(101)
        return use(device)

    monkeypatch.setattr(world.cupy.cuda.Device, "use", refused)
    with pytest.raises(DeviceLostError, match="gpu:0 is lost: CUDARuntimeError.*\n  status 101: it answers no more"):
        run(backend, lambda: None)
    assert run(backend, lambda: 1, GPU1) == 1


# Errors that surface later.


@pytest.fixture
def surfacing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has a lane's method raise errors instead, one a call."""

    def surface(method: str, *errors: Exception) -> None:
        real, left = getattr(Lane, method), list(errors)

        def call(lane: Lane) -> None:
            if left:
                raise left.pop(0)
            real(lane)

        monkeypatch.setattr(Lane, method, call)

    return surface


@pytest.mark.parametrize("method", ["record", "wait"])
def test_an_error_that_surfaces_later_is_told_with_a_note_and_the_device_goes_on(
    method: str, surfacing: Callable[..., None], backend: CupyBackend
) -> None:
    surfaced = CUDARuntimeError(1)
    surfacing(method, surfaced)

    error = Submitted(backend, GPU, lambda: backend.to_host(backend.to_device(np.ones(3), GPU))).error()

    assert error is surfaced
    (note,) = surfaced.__notes__
    assert "this came up after the kernels had been started" in note
    assert "any run on gpu:0" in note
    assert run(backend, lambda: 1) == 1


@pytest.mark.parametrize("method", ["record", "wait"])
def test_what_work_raised_is_told_and_not_what_surfaced_later(
    method: str, surfacing: Callable[..., None], backend: CupyBackend
) -> None:
    surfacing(method, CUDARuntimeError(1))

    def work() -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        run(backend, work)


@pytest.mark.parametrize("method", ["record", "wait"])
def test_a_device_that_cannot_be_waited_for_is_lost(
    method: str, surfacing: Callable[..., None], backend: CupyBackend
) -> None:
    second = CUDARuntimeError(400)
    surfacing(method, CUDARuntimeError(1), second)
    error = Submitted(backend, GPU, lambda: None).error()
    assert isinstance(error, DeviceLostError)
    assert error.__cause__ is second


def test_a_device_that_is_lost_is_not_waited_for(
    surfacing: Callable[..., None], world: World, backend: CupyBackend
) -> None:
    backend.devices()
    world.log.clear()
    surfacing("record", CUDARuntimeError(700))
    with pytest.raises(DeviceLostError):
        run(backend, lambda: None)
    assert world.counts["synchronize"] == 0


def test_a_lane_that_cannot_be_made_fails_the_submission(
    world: World, backend: CupyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Lane.__init__
    failures = [CUDARuntimeError(2)]

    def made(lane: Lane, api: Any) -> None:
        if failures:
            raise failures.pop()
        make(lane, api)

    monkeypatch.setattr(Lane, "__init__", made)
    with pytest.raises(CUDARuntimeError, match="out of memory"):
        run(backend, lambda: None)
    assert run(backend, lambda: 1) == 1


def test_a_thread_that_cannot_be_had_fails_the_submission_and_no_other(
    world: World, backend: CupyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, failures = _dispatcher.Reaper, [RuntimeError("can't start new thread")]

    def made(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return make(*args)

    monkeypatch.setattr(_dispatcher, "Reaper", made)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        run(backend, lambda: None)
    assert run(backend, lambda: 1) == 1
    assert world.counts["stream"] == 1


def test_without_a_gpu_devices_and_submissions_say_why(make_backend: MakeBackend, world: World) -> None:
    world.cupy.cuda.runtime.getDeviceCount = lambda: 0
    backend = make_backend()
    assert "code" not in backend.details()
    with pytest.raises(LookupError) as raised:
        backend.devices()
    error = Submitted(backend, GPU, lambda: None).error()
    assert (type(error), str(error)) == (type(raised.value), str(raised.value))
    assert backend.details()["code"] == "no_device"


def test_a_device_that_there_is_not_is_an_error_that_names_it(backend: CupyBackend) -> None:
    with pytest.raises(LookupError, match="the backend 'cupy' has no device 'gpu:7' that can be used"):
        run(backend, lambda: None, Device("gpu", 7))


def test_what_another_device_had_to_do_first_is_no_value_if_it_was_lost_in_that(
    world: World, make_backend: MakeBackend
) -> None:
    """A device that waits for one that is lost goes on, with whatever is in the memory."""
    backend = make_backend()
    reversed_there = run(backend, lambda: world.cupy.asarray(np.arange(6.0).reshape(2, 3))[:, ::-1], GPU1)
    world.faults.lose(1)
    with pytest.raises(DeviceLostError, match="gpu:1 is lost"):
        run(backend, lambda: backend.to_host(backend.to_device(reversed_there, GPU)))
    assert run(backend, lambda: backend.to_host(backend.to_device(np.ones(2), GPU))).tolist() == [1, 1]


def test_a_device_that_is_lost_and_nobody_has_noticed_is_closed_in_silence(
    world: World, make_backend: MakeBackend
) -> None:
    backend = make_backend()
    run(backend, lambda: backend.to_device(np.ones(2), GPU1), GPU1)
    world.faults.lose(1)
    with world.cupy.cuda.Device(1):
        world.cupy.zeros(3)  # a program's own
        world.finish()
    backend.close()  # A thread that raised would be an error of this test.
    with pytest.raises(DeviceLostError):
        run(backend, lambda: None, GPU1)
