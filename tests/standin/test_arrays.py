"""What CuPy's arrays do, and refuse to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from .errors import CUDARuntimeError
from .world import World


@pytest.mark.parametrize(
    "refused",
    [
        np.asarray,
        lambda x: x + np.ones(2),
        lambda x: np.ones(2) + x,
        lambda x: x + [1, 2],
        lambda x: x.get(out=np.empty(2, np.int8)),
        hash,
    ],
)
def test_nothing_is_converted_in_passing(cupy: Any, refused: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError):
        refused(cupy.zeros(2))


def test_scalars_are_taken_and_promote_as_in_numpy(cupy: Any) -> None:
    x = cupy.asarray(np.ones(2, np.float32))
    assert (x + 1.5).dtype == (2 * x).dtype == (np.float32(2) * x).dtype == np.float32
    assert (x + np.float64(1)).dtype == (x + np.array(1.0)).dtype == np.float64
    with pytest.raises(OverflowError):
        cupy.zeros(2, np.int8) + 300


def test_a_result_is_that_of_its_operands_dtypes_and_of_no_others(cupy: Any) -> None:
    x, y = cupy.zeros(7, np.int8), cupy.zeros(7, np.float32)
    dtypes = [(one + number).dtype.name for one in (x, y) for number in (True, 1, 1.0)]
    assert dtypes == ["int8", "int8", "float64", "float32", "float32", "float32"]


def test_results_of_rank_zero_are_arrays(cupy: Any) -> None:
    x = cupy.asarray(np.arange(4.0))
    for result in (x.sum(), cupy.max(x), x[1], cupy.asarray(3.0), cupy.add(1, 2), cupy.argmin(x), cupy.flip(x[1])):
        assert isinstance(result, cupy.ndarray)
        assert result.shape == ()


def test_an_array_of_another_device_is_refused(cupy: Any) -> None:
    x = cupy.zeros(2)
    with cupy.cuda.Device(1), pytest.raises(ValueError, match="is different from the current device"):
        x + 1
    with cupy.cuda.Device(1), pytest.raises(ValueError, match="is different from the current device"):
        cupy.concatenate([x, x])


def test_what_depends_on_values_waits_for_the_device(world: World, cupy: Any) -> None:
    x = cupy.asarray(np.array([3, 0, 3]))
    for call, expected in (
        (lambda: cupy.nonzero(x)[0].get().tolist(), [0, 2]),
        (lambda: x[x > 1].get().tolist(), [3, 3]),
        (lambda: cupy.unique_values(x).get().tolist(), [0, 3]),
        (lambda: cupy.repeat(x, x).get().tolist(), [3] * 6),
        (lambda: cupy.where(x)[0].get().tolist(), [0, 2]),
        (lambda: int(x[0]), 3),
        (lambda: bool(x[1]), False),
        (lambda: float(x[0]), 3.0),
        (lambda: x[0].item(), 3),
        (lambda: repr(x), "array([3, 0, 3])"),
    ):
        before = world.counts["synchronize"]
        assert call() == expected
        assert world.counts["synchronize"] > before


def test_indices_out_of_bounds_wrap_around(cupy: Any) -> None:
    x = cupy.asarray(np.arange(3))
    assert x[cupy.asarray(np.array([4, -4]))].get().tolist() == [1, 2]
    assert cupy.take(x, cupy.asarray(np.array([4, -4]))).get().tolist() == [1, 2]
    with pytest.raises(IndexError):
        x[3]


def test_elements_are_assigned(cupy: Any) -> None:
    x = cupy.zeros((2, 3))
    x[0] = 1
    x[1, ::2] = cupy.asarray(np.array([2.0, 3.0]))
    x[:, cupy.asarray(np.array([1]))] = 5
    assert x.get().tolist() == [[1.0, 5.0, 1.0], [2.0, 5.0, 3.0]]
    x[x > 4] = 0
    assert x.get().tolist() == [[1.0, 0.0, 1.0], [2.0, 0.0, 3.0]]
    with pytest.raises(ValueError, match="non-scalar"):
        x[0] = np.ones(3)
    with pytest.raises(ValueError, match="broadcast"):
        x[0] = cupy.zeros(2)


def test_a_device_raises_nothing_of_what_it_computes(cupy: Any) -> None:
    singular = cupy.zeros((2, 2))
    assert np.isnan(cupy.linalg.inv(singular).get()).all()
    assert np.isnan(cupy.mean(cupy.zeros(0)).get())
    assert np.isinf((cupy.ones(1) / cupy.zeros(1)).get())
    assert cupy.power(cupy.asarray(np.array([2, 1, -1])), -1).get().tolist() == [0, 1, -1]


@pytest.mark.parametrize("dtype", ["U1", "O", "M8[s]", "g"])
def test_a_dtype_that_kernels_do_not_know_is_refused(cupy: Any, dtype: str) -> None:
    with pytest.raises(ValueError, match="Unsupported dtype"):
        cupy.empty(2, dtype)


def test_names_and_keywords_that_cupy_lacks_are_missing(cupy: Any) -> None:
    assert [name for name in ("vecdot", "unstack", "block", "insert") if hasattr(cupy, name)] == []
    with pytest.raises(TypeError, match="sum: got an unexpected keyword argument 'initial'"):
        cupy.sum(cupy.zeros(2), initial=1)
    with pytest.raises(TypeError, match="device"):
        cupy.zeros(2, device=0)


def test_copies_come_in_any_layout(cupy: Any) -> None:
    source = np.arange(6.0).reshape(2, 3)
    for array in (source, source.T, source[:, ::2], source[::-1], source[:0], source[0, 0], np.asfortranarray(source)):
        x = cupy.asarray(array)
        np.testing.assert_array_equal(x.get(), array)
        np.testing.assert_array_equal(x.T.get(), array.T)
        assert x.get(order="F").flags.f_contiguous
    assert cupy.asarray(np.asfortranarray(source)).flags.f_contiguous
    assert cupy.ascontiguousarray(cupy.asarray(source).T).flags.c_contiguous
    assert cupy.ascontiguousarray(cupy.asarray(1.0)).shape == (1,)


def test_a_get_that_is_not_contiguous_makes_a_temporary_array_on_its_stream(world: World, cupy: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = cupy.asarray(np.arange(6.0).reshape(2, 3))
        stream.synchronize()
    before = len(world.log)
    x.T.get(stream=stream)
    calls = [(call.kind, call.stream) for call in world.log[before:]]
    assert calls == [(kind, stream.ptr) for kind in ("alloc", "malloc", "launch", "d2h", "synchronize")]


def test_what_is_not_contiguous_is_not_copied_between_devices(cupy: Any) -> None:
    x = cupy.zeros((2, 3))
    cupy.cuda.Device(0).synchronize()
    with cupy.cuda.Device(1):
        assert cupy.asarray(x).get().shape == (2, 3)
        assert cupy.asarray(x.T).flags.f_contiguous
        with pytest.raises(NotImplementedError, match="non-contiguous"):
            cupy.asarray(x[:, ::2])


def test_an_array_of_the_current_device_is_taken_as_it_is(cupy: Any) -> None:
    x = cupy.zeros(2)
    assert cupy.asarray(x) is x
    assert cupy.ascontiguousarray(x) is x
    assert cupy.asarray(x, dtype=np.int8) is not x
    assert cupy.array(x) is not x


def test_memory_is_shared_over_dlpack(world: World, cupy: Any) -> None:
    x = cupy.zeros(2)
    y = cupy.from_dlpack(x)
    y += 1
    assert x.get().tolist() == [1.0, 1.0]
    del x
    assert y.get().tolist() == [1.0, 1.0]
    assert y.__dlpack_device__() == (2, 0)
    del y
    world.check()
    with pytest.raises(TypeError, match="CPU arrays cannot be directly imported"):
        cupy.from_dlpack(np.zeros(2))


def test_who_takes_memory_over_dlpack_is_ordered_after_the_exporters_current_stream_alone(
    world: World, cupy: Any, streams: Any
) -> None:
    with streams[0]:
        x = cupy.zeros(2)
        capsule = x.__dlpack__(stream=streams[1].ptr)
    with streams[1]:
        y = cupy.from_dlpack(capsule)
        assert (y + 1).get().tolist() == [1.0, 1.0]
    assert [call.kind for call in world.log if call.what == "dlpack"] == ["record", "wait"]
    with streams[0]:
        z = cupy.zeros(2)
    with streams[1], pytest.raises(AssertionError):
        cupy.from_dlpack(z) + 1


def test_the_log_tells_what_was_asked_of_devices(world: World, cupy: Any, streams: Any) -> None:
    with streams[0]:
        x = cupy.asarray(np.zeros(2))
        y = cupy.sum(x + 1)
        event = streams[0].record()
        y.get()
    streams[1].wait_event(event)
    kinds = [call.kind for call in world.log if call.kind not in ("stream", "event", "malloc", "alloc", "watch")]
    assert kinds == ["h2d", "launch", "launch", "record", "d2h", "synchronize", "wait"]
    assert world.counts["alloc"] == 3
    assert (world.log[-1].device, world.log[-1].stream) == (0, streams[1].ptr)


def test_a_device_that_is_not_there_is_refused(cupy: Any) -> None:
    assert cupy.cuda.runtime.getDeviceCount() == 2
    with pytest.raises(CUDARuntimeError) as caught:
        cupy.cuda.Device(2).use()
    assert caught.value.status == 101
    assert cupy.cuda.runtime.deviceCanAccessPeer(0, 1) == 1
    assert cupy.cuda.runtime.getDeviceProperties(0)["name"] == b"stand-in"
