"""What comes to a device and leaves it. Everything here is called inside `work`, and only starts what it does.

From the host: copied into pinned memory here, chunk by chunk, from where the device takes it; so the caller's memory is
not read once `to_device` has returned. If pinned memory runs out, the dispatcher waits for the lane to be done with its
own. (CuPy's own copy of small arrays makes an event for each, and keeps them for ever once a device is lost.)

To the host: what fits in a chunk comes to pinned memory on the lane, and is copied to the result by the reaper. What is
larger, or finds no pinned memory free, waits until all else is done: the reaper then fetches it, chunk by chunk. No
other lane waits for it, nor does the dispatcher.

From another device: CUDA copies it on this device's lane, from the one device to the other if they reach each
other's memory, and by way of the host otherwise. What is not contiguous is made so over there first.

Arrays come in C order, or in Fortran's where they were in that: other strides do not bind a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ._cuda_api import DeviceArray, HostArray
from ._errors import is_sticky
from ._kernels import DTYPES
from ._lanes import Lane
from ._submission import Submission

_DLPACK_CUDA: Final = 2


def from_host(submission: Submission, array: HostArray) -> DeviceArray:
    """The values of a NumPy array, in native byte order.

    Raises:
        TypeError: CuPy has no such dtype.
    """
    dtype = array.dtype.newbyteorder("=")
    if dtype.name not in DTYPES:
        raise TypeError(f"GPUs have no arrays of dtype {str(array.dtype)!r}")
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return _upload(submission, array.T, dtype).T
    return _upload(submission, array, dtype)


def from_device(submission: Submission, array: DeviceArray) -> DeviceArray:
    """The values of an array of another device of this backend; one of this device as it is.

    Raises:
        DeviceLostError: the other device is lost. This one goes on.
    """
    source = array.device.id
    if source == submission.device.index:
        return array
    health = submission.shared.healths[source]
    if health.lost:
        raise health.error()
    try:
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            array = _made_contiguous(submission, array, source)
        submission.hold(array)
        return submission.shared.api.asarray(array)
    except Exception as error:
        # Which of the two is lost, the error does not say.
        if not is_sticky(error) or not submission.answers():
            raise
        lost = health.lose(error)
    raise lost


def from_dlpack(submission: Submission, array: Any) -> DeviceArray:
    """The memory of another library's array of this device.

    What was put on the device's null stream is waited for; what the other library has put on another stream, it has
    to have waited for itself.

    Raises:
        TypeError: CuPy has no such dtype.
        ValueError: the array is somewhere else.
    """
    where = tuple(array.__dlpack_device__())
    if where != (_DLPACK_CUDA, submission.device.index):
        raise ValueError(
            f"an array was given as one of {submission.device}, which is DLPack's device "
            f"{(_DLPACK_CUDA, submission.device.index)}, but is on DLPack's {where}"
        )
    api = submission.shared.api
    # A library asked by this thread waits for its own current stream here, which need not be the one that wrote.
    submission.lane.follow(api.null_stream())
    submission.hold(array)
    try:
        taken = api.from_dlpack(array)
    except NotImplementedError as error:
        raise TypeError(str(error)) from error
    if taken.dtype.name not in DTYPES:
        raise TypeError(f"asyncgraph takes no GPU arrays of dtype {str(taken.dtype)!r}")
    return taken


def to_host(submission: Submission, array: DeviceArray) -> HostArray:
    """A new NumPy array, writable, with the values of one of any device once the submission is done."""
    array = from_device(submission, array)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    result: HostArray = np.empty(array.shape, array.dtype, order="F" if fortran else "C")
    if not result.size:
        return result
    source = (array.T if fortran else submission.shared.api.ascontiguousarray(array)).reshape(-1)
    target = (result.T if fortran else result).reshape(-1)
    room = submission.stage_nowait(target.nbytes)
    if room is None:
        submission.fetch_later(source, target)
    else:
        room = room.view(target.dtype)
        source.get(stream=submission.lane.stream, out=room, blocking=False)
        submission.land(room, target)
    return result


def _upload(submission: Submission, array: HostArray, dtype: np.dtype[Any]) -> DeviceArray:
    flat = submission.shared.api.empty(array.size, dtype)
    start = 0
    for part in _parts(array, submission.shared.staging.chunk_bytes // dtype.itemsize):
        room = submission.stage(part.size * dtype.itemsize).view(dtype)
        np.copyto(room.reshape(part.shape), part)
        flat[start : start + part.size].set(room, stream=submission.lane.stream)
        start += part.size
    return flat.reshape(*array.shape)


def _parts(array: HostArray, most: int) -> Iterator[HostArray]:
    """The array in parts of so many elements at most, one after the other in C order. Nothing is copied."""
    if array.size <= most:
        if array.size:
            yield array
    elif array.flags.c_contiguous:
        flat = array.reshape(-1)
        yield from (flat[start : start + most] for start in range(0, flat.size, most))
    elif (row := array.size // len(array)) > most:
        for one in array:
            yield from _parts(one, most)
    else:
        step = most // row
        yield from (array[start : start + step] for start in range(0, len(array), step))


def _made_contiguous(submission: Submission, array: DeviceArray, source: int) -> DeviceArray:
    api = submission.shared.api
    with api.device(source):
        lane = submission.visiting.get(source)
        if lane is None:
            lane = submission.visiting[source] = Lane(api)
        with lane.current():
            array = api.ascontiguousarray(array)
        lane.record()
    submission.lane.stream.wait_event(lane.event)
    submission.asked.append((submission.shared.healths[source], lane))
    return array
