"""Copies to GPUs, from them and between them: their values, their order in time, and the pinned memory they take."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from asyncgraph.errors import DeviceLostError
from asyncgraph_cupy import CupyBackend
from asyncgraph_cupy._kernels import DTYPES
from asyncgraph_cupy._staging import LIMIT, limit_bytes

from ...standin.errors import CUDARuntimeError
from ...standin.world import World
from .conftest import MakeBackend
from .submitting import GPU, GPU1, Submitted, kernel, run

Host = np.ndarray[Any, Any]
LARGE = [f"{dtype} large" for dtype in ("int16", "float64")]


def layouts(dtype: str, rows: int) -> dict[str, Host]:
    base = np.arange(rows * 24).astype(dtype).reshape(rows, 6, 4)
    locked = base.copy()
    locked.flags.writeable = False
    return {
        "as it was made": base,
        "transposed": base.T,
        "reversed": base[::-1, :, ::-2],
        "strided": base[::2, 1::2],
        "repeated": np.broadcast_to(base[:, :1], base.shape),
        "with long rows": base.reshape(2, -1)[:, ::3],
        "read-only": locked,
        "of rank 0": base[0, 0, 1:2].reshape(()),
        "empty": base[:0],
    }


@pytest.mark.parametrize("case", sorted(DTYPES) + LARGE)
def test_an_array_comes_back_as_it_was_whatever_its_memory(case: str, backend: CupyBackend) -> None:
    dtype, _, large = case.partition(" ")
    for name, array in layouts(dtype, 1500 if large else 2).items():
        before = array.tobytes()
        back = run(backend, lambda array=array: backend.to_host(backend.to_device(array, GPU)))
        assert type(back) is np.ndarray
        assert (back.dtype, back.shape) == (array.dtype, array.shape), name
        assert back.tobytes() == array.tobytes() == before, name
        assert back.flags.writeable, name
        assert back.flags.owndata, name


@pytest.mark.parametrize("value", [np.float16(-0.0), np.float64(-0.0), np.complex64(complex(0.0, -0.0))], ids=repr)
@pytest.mark.parametrize("shape", [(), (1,), (2, 2)])
def test_zero_keeps_its_sign(value: Any, shape: tuple[int, ...], backend: CupyBackend) -> None:
    array = np.full(shape, value)
    back = run(backend, lambda: backend.to_host(backend.to_device(array, GPU)))
    assert (back.dtype, back.shape) == (array.dtype, shape)
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("rows", [3, 3000])
def test_fortran_s_order_is_kept_and_the_bytes_of_another_machine_are_put_right(
    rows: int, backend: CupyBackend
) -> None:
    values = np.arange(rows * 5.0).reshape(rows, 5)
    fortran = np.asfortranarray(values)

    def there_and_back() -> tuple[Any, Any, Host]:
        one, other = backend.to_device(fortran, GPU), backend.to_device(values.astype(">f8"), GPU)
        return one, other, backend.to_host(one)

    one, other, back = run(backend, there_and_back)

    assert (one.flags.f_contiguous, one.flags.c_contiguous) == (True, False)
    assert (back.flags.f_contiguous, back.flags.owndata) == (True, True)
    assert other.dtype == np.dtype("<f8")
    for each in (back, run(backend, lambda: backend.to_host(other))):
        np.testing.assert_array_equal(each, values)


@pytest.mark.parametrize("dtype", ["O", "U3", "M8[s]", "g", "G", "V8", "i4,f4"])
def test_a_dtype_that_gpus_have_not_is_a_type_error_that_names_it(dtype: str, backend: CupyBackend) -> None:
    array = np.zeros(3, dtype)
    with pytest.raises(TypeError, match=re.escape(f"GPUs have no arrays of dtype {str(array.dtype)!r}")):
        run(backend, lambda: backend.to_device(array, GPU))


def test_outside_of_a_submission_nothing_is_moved_and_the_error_says_what_to_do(backend: CupyBackend) -> None:
    backend.devices()
    for call, what in (
        (lambda: backend.to_device(np.ones(2), GPU), "to_device"),
        (lambda: backend.to_host(np.ones(2)), "to_host"),
        (lambda: backend.from_dlpack(np.ones(2), GPU), "from_dlpack"),
    ):
        with pytest.raises(RuntimeError, match=rf"{what} was called outside of submit.*\n  call it inside"):
            call()


def test_a_submission_to_one_device_cannot_ask_for_a_transfer_to_another(backend: CupyBackend) -> None:
    with pytest.raises(RuntimeError, match="a transfer to gpu:1 was asked for in a submission to gpu:0"):
        run(backend, lambda: backend.to_device(np.ones(2), GPU1))


# Pinned memory.


@pytest.mark.parametrize("count", [100, 20_000])
def test_what_is_fed_is_read_once_and_pinned_memory_of_the_caller_s_never_later(
    count: int, world: World, backend: CupyBackend
) -> None:
    """AG-183, https://github.com/cupy/cupy/pull/5155: whatever is done to a pinned array after `to_device`."""
    fed = world.cupyx.empty_pinned((count,), np.float64)
    fed[...] = 1.0

    def work() -> Host:
        moved = backend.to_device(fed, GPU)
        fed[...] = 0.0
        return backend.to_host(moved)

    assert run(backend, work).sum() == count


def test_no_more_memory_is_pinned_than_the_limit_says_however_much_is_moved(
    world: World, make_backend: MakeBackend
) -> None:
    backend, pinned = make_backend(staging_bytes=1 << 16), []
    empty_pinned = world.cupyx.empty_pinned
    world.cupyx.empty_pinned = lambda *args: pinned.append(empty_pinned(*args)) or pinned[-1]
    arrays = [np.arange(50_000.0) + i for i in range(4)]

    def work(array: Host) -> Host:
        return backend.to_host(backend.to_device(array, GPU))

    submitted = [Submitted(backend, where, lambda one=one: [work(one), work(one)]) for one in arrays for where in [GPU]]

    for one, array in zip(submitted, arrays, strict=True):
        for back in one.result():
            np.testing.assert_array_equal(back, array)
    assert 0 < sum(one.nbytes for one in pinned) <= 1 << 16
    pinned.clear()
    backend.close()
    world.check()


def test_devices_that_share_too_little_pinned_memory_wait_for_each_other_and_all_get_on(backend: CupyBackend) -> None:
    arrays = {where: np.arange(10_000.0) + where.index for where in (GPU, GPU1)}

    def work(where: Any) -> list[Host]:
        moved = [backend.to_device(arrays[where], where) for _ in range(3)]
        return [backend.to_host(one) for one in moved]

    submitted = [(where, Submitted(backend, where, lambda where=where: work(where))) for where in arrays for _ in "123"]

    for where, one in submitted:
        for back in one.result():
            np.testing.assert_array_equal(back, arrays[where])


def test_transfers_of_one_submission_share_a_chunk_of_pinned_memory(world: World, make_backend: MakeBackend) -> None:
    backend = make_backend(staging_bytes=1 << 22)
    arrays = [np.arange(10_000.0) + i for i in range(5)]
    pinned: list[int] = []
    empty_pinned = world.cupyx.empty_pinned
    world.cupyx.empty_pinned = lambda shape, dtype: pinned.append(shape[0]) or empty_pinned(shape, dtype)

    back = run(backend, lambda: [backend.to_host(backend.to_device(one, GPU)) for one in arrays])

    np.testing.assert_array_equal(back, arrays)
    assert pinned == [1 << 20]


def test_results_that_find_no_pinned_memory_are_fetched_when_all_else_is_done(
    world: World, backend: CupyBackend
) -> None:
    """So that neither the dispatcher nor another lane waits for them."""
    array = np.arange(20_000.0)
    moved = run(backend, lambda: backend.to_device(array, GPU))
    del world.log[:]

    def work() -> tuple[Host, Host]:
        large, small = backend.to_host(moved), backend.to_host(moved[:10])
        assert world.counts["synchronize"] == 0
        return large, small

    large, small = run(backend, work)

    np.testing.assert_array_equal(large, array)
    np.testing.assert_array_equal(small, array[:10])
    # One copy for the small one, then one for each chunk of the large one, which is waited for.
    assert world.counts["d2h"] == 1 + array.nbytes // 4096 + 1
    assert world.counts["synchronize"] == 1 + array.nbytes // 4096 + 1


@pytest.mark.parametrize("said", ["", "16383", "1.5", "many", "-1"])
def test_a_limit_that_means_nothing_is_an_error_that_names_the_variable(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMIT, said)
    with pytest.raises(ValueError, match=f"{LIMIT}.*at least 16384 bytes, got {said!r}"):
        CupyBackend()


def test_the_limit_is_what_is_given_or_said_or_a_part_of_the_machine_s_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LIMIT, raising=False)
    assert 1 << 14 <= limit_bytes(None) <= 1 << 30
    monkeypatch.setenv(LIMIT, "50000")
    assert (limit_bytes(None), limit_bytes(20_000)) == (50_000, 20_000)


# From device to device.


@pytest.mark.parametrize("peers", [True, False])
def test_an_array_of_another_device_is_copied_there_and_stays_as_it_is(peers: bool, backend: CupyBackend) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    there = run(backend, lambda: backend.to_device(values, GPU1), GPU1)

    here = run(backend, lambda: backend.to_device(there, GPU))

    assert (here.device.id, there.device.id) == (0, 1)
    assert run(backend, lambda: backend.to_device(here, GPU)) is here
    for device, each in ((GPU, here), (GPU1, there)):
        np.testing.assert_array_equal(run(backend, lambda each=each: backend.to_host(each), device), values)


def test_an_array_of_another_device_that_is_not_contiguous_is_made_so_over_there(
    world: World, backend: CupyBackend
) -> None:
    values = np.arange(24.0).reshape(4, 6)
    there = run(backend, lambda: backend.to_device(values, GPU1), GPU1)
    del world.log[:]

    for _ in range(3):
        here = run(backend, lambda: backend.to_device(there[::2, ::3], GPU))
        np.testing.assert_array_equal(run(backend, lambda here=here: backend.to_host(here)), values[::2, ::3])

    over_there = [call.stream for call in world.log if call.kind == "launch" and call.device == 1]
    assert (len(over_there), len(set(over_there))) == (3, 1)


def test_a_value_of_any_device_is_fetched_by_a_submission_to_any_other(backend: CupyBackend) -> None:
    there = run(backend, lambda: backend.to_device(np.arange(6.0), GPU1), GPU1)
    assert run(backend, lambda: backend.to_host(there[::2])).tolist() == [0.0, 2.0, 4.0]


def test_a_copy_from_a_lost_device_says_which_is_lost_and_the_other_goes_on(world: World, backend: CupyBackend) -> None:
    there = run(backend, lambda: backend.to_device(np.arange(6.0), GPU1), GPU1)
    world.faults.lose(1)
    assert isinstance(
        Submitted(backend, GPU1, lambda: kernel(backend, "negative", GPU1)(there)).error(), DeviceLostError
    )

    for taken in (there, there[::2]):
        with pytest.raises(DeviceLostError, match="gpu:1 is lost"):
            run(backend, lambda taken=taken: backend.to_device(taken, GPU))
    assert run(backend, lambda: backend.to_host(backend.to_device(np.ones(2), GPU))).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("step", [1, 2])
def test_a_device_that_is_found_lost_while_another_copies_from_it_is_the_one_that_is_lost(
    step: int, world: World, backend: CupyBackend
) -> None:
    there = run(backend, lambda: backend.to_device(np.arange(6.0), GPU1), GPU1)
    world.devices[1].lose(700)

    with pytest.raises(DeviceLostError, match="gpu:1 is lost") as raised:
        run(backend, lambda: backend.to_device(there[::step], GPU))
    assert isinstance(raised.value.__cause__, CUDARuntimeError)
    assert raised.value.__cause__.__traceback__ is None
    with pytest.raises(DeviceLostError, match="gpu:1 is lost"):
        run(backend, lambda: None, GPU1)
    assert run(backend, lambda: backend.to_host(backend.to_device(np.ones(2), GPU))).tolist() == [1.0, 1.0]


def test_a_device_that_is_found_lost_while_it_copies_from_another_is_the_one_that_is_lost(
    world: World, backend: CupyBackend
) -> None:
    there = run(backend, lambda: backend.to_device(np.arange(6.0), GPU1), GPU1)

    def work() -> Any:
        world.devices[0].lose(700)
        return backend.to_device(there, GPU)

    with pytest.raises(DeviceLostError, match="gpu:0 is lost"):
        run(backend, work)
    assert run(backend, lambda: backend.to_host(there), GPU1).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


# DLPack.


def on_the_null_stream(world: World, values: Host, device: int = 0) -> Any:
    with world.cupy.cuda.Device(device):
        return world.cupy.asarray(values) * 2


def test_the_memory_of_another_library_is_taken_as_it_is_behind_the_null_stream(
    world: World, backend: CupyBackend
) -> None:
    """What is written there was never waited for by the host."""
    backend.devices()
    foreign = on_the_null_stream(world, np.arange(4.0))

    def work() -> tuple[Any, Host]:
        taken = backend.from_dlpack(foreign, GPU)
        return taken, backend.to_host(kernel(backend, "negative")(taken))

    taken, back = run(backend, work)

    assert taken.data.ptr == foreign.data.ptr
    assert back.tolist() == [-0.0, -2.0, -4.0, -6.0]


def test_memory_of_another_device_or_of_the_host_is_refused(world: World, backend: CupyBackend) -> None:
    backend.devices()
    foreign = on_the_null_stream(world, np.arange(4.0), device=1)
    with pytest.raises(ValueError, match=r"of gpu:0, which is DLPack's device \(2, 0\), but is on DLPack's \(2, 1\)"):
        run(backend, lambda: backend.from_dlpack(foreign, GPU))
    with pytest.raises(ValueError, match=r"is on DLPack's \(1, 0\)"):
        run(backend, lambda: backend.from_dlpack(np.ones(3), GPU))
    world.cupy.cuda.Device(1).synchronize()


def test_a_dtype_of_another_library_s_that_cupy_has_not_is_a_type_error(
    world: World, backend: CupyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.devices()
    foreign = on_the_null_stream(world, np.arange(4.0))
    world.cupy.cuda.Device(0).synchronize()

    def no_bfloat16(array: object) -> object:
        raise NotImplementedError("CuPy does not support bfloat16")

    monkeypatch.setattr(world.cupy, "from_dlpack", no_bfloat16)
    with pytest.raises(TypeError, match="does not support bfloat16"):
        run(backend, lambda: backend.from_dlpack(foreign, GPU))
