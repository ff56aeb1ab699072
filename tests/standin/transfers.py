"""Copies between the host and devices and between devices, and memory that is shared over DLPack."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from .launching import arrays_in, launch, spans
from .memory import Allocation, Layout
from .queues import StreamQueue
from .world import World

if TYPE_CHECKING:
    from .arrays import ndarray

DLPACK_CPU, DLPACK_CUDA = 1, 2
LEGACY_STREAM = 1
"""The null stream, in DLPack's terms."""


def from_anything(world: World, value: Any, dtype: Any, order: Any, copy: bool | None, blocking: bool) -> Any:
    """`cupy.asarray` and `cupy.array`: what is on the current device already is not copied, unless asked for."""
    from .arrays import checked_dtype

    if isinstance(value, world.array_type):
        return _from_device(world, value, dtype, order or "K", copy)
    nested = list(arrays_in(world, value))
    if nested:
        stacked = world.cupy.stack([from_anything(world, one, None, None, None, False) for one in value])
        return stacked.astype(dtype or stacked.dtype, copy=False)
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    world.host_read(value if dtype is not None else None)
    source = np.asanyarray(value, dtype)
    kind = checked_dtype(source.dtype.newbyteorder("="))
    wanted: Any = "F" if order == "F" or (order in (None, "K", "A") and source.flags.fnc) else "C"
    result = world.array_type(source.shape, kind, order=wanted)
    if not source.ndim:
        # Goes along as an argument of the kernel.
        result.fill(np.asarray(source, kind).item())
    elif source.size:
        _upload(world, result, source, wanted)
    if blocking:
        world.synchronize(world.current_queue())
    return result


def _from_device(world: World, array: ndarray, dtype: Any, order: Any, copy: bool | None) -> Any:
    if array.device_index != world.current_device.index:
        array, copy = array.copy(order), None
    kind = array.dtype if dtype is None else np.dtype(dtype)
    fits = {"C": array.flags.c_contiguous, "F": array.flags.f_contiguous}.get(order, True)
    if not copy and kind == array.dtype and fits:
        return array
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return array.astype(kind, order)


def _upload(world: World, target: ndarray, source: np.ndarray[Any, Any], order: Any) -> None:
    queue = world.current_queue()
    found = world.host.find(source)
    is_ready = source.dtype == target.dtype and (
        source.flags.c_contiguous if order == "C" else source.flags.f_contiguous
    )
    if found and found[1] and is_ready:
        # Read by the device itself. CuPy holds the buffer until then, but nobody keeps it from being written.
        memory, reads = world.host.unheld(source), [found[0]]
        keep: Any = source
    else:
        world.host_read(source)
        memory, reads, keep = np.array(source, target.dtype, order=order, subok=False), [], None
    layout = target.layout

    def run() -> None:
        layout.array[...] = memory

    world.issue(queue, "h2d", "asarray", run, reads, spans([target]))
    mark, clock = world.record(queue, "watch")
    if keep is not None:
        world.host.hold(keep, mark, clock)


def set_from_host(world: World, target: ndarray, source: Any, stream: Any) -> None:
    """`ndarray.set`: from pinned memory, the device reads it later, and nobody holds it; else it is read at once."""
    if not isinstance(source, np.ndarray):
        raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
    if target.dtype != source.dtype:
        raise TypeError(f"{source.dtype} array cannot be set to {target.dtype} array")
    if target.shape != source.shape:
        raise ValueError(f"Shape mismatch. Old shape: {target.shape}, new shape: {source.shape}")
    if not (target.flags.c_contiguous or target.flags.f_contiguous):
        raise RuntimeError("Cannot set to non-contiguous array")
    if not target.size:
        return
    found = world.host.find(source)
    is_ready = source.flags.c_contiguous if target.flags.c_contiguous else source.flags.f_contiguous
    if found and found[1] and is_ready:
        memory, reads = world.host.unheld(source), [found[0]]
    else:
        world.host_read(source)
        memory, reads = np.array(source, subok=False), []
    layout = target.layout

    def run() -> None:
        layout.array[...] = memory

    queue = _queue_for(world, target, stream)
    with _current(world, target.device_index):
        world.issue(queue, "h2d", "set", run, reads, spans([target]))


def to_host(world: World, source: ndarray, stream: Any, order: Any, out: Any, blocking: bool) -> Any:
    """`ndarray.get`. What it gives without blocking is written by the device later; nobody holds it until then."""
    queue = _queue_for(world, source, stream)
    wanted: Any
    if out is not None:
        wanted = _order_of_out(source, out)
    else:
        wanted = ("F" if source.flags.f_contiguous else "C") if order.upper() == "A" else order.upper()
        if not source.size:
            return np.empty(source.shape, source.dtype)
    if not (source.flags.c_contiguous if wanted == "C" else source.flags.f_contiguous):
        # A temporary array of the device, made on the stream, and gone when this returns.
        with world.cupy.cuda.Device(source.device_index), stream or world.cupy.cuda.get_current_stream():
            source = launch(world, "copy", lambda a, order: np.array(a, order=order), [source], {"order": wanted})
    if out is not None:
        host = out
    elif blocking:
        host = np.empty(source.shape, source.dtype, wanted)
    else:
        host = world.host.empty(source.shape, source.dtype, wanted, pinned=False)
    found = world.host.find(host) if blocking else world.host.find_or_add(host)
    layout, memory = source.layout, world.host.unheld(host)

    def run() -> None:
        memory[...] = layout.array

    with _current(world, source.device_index):
        if source.size:
            world.issue(queue, "d2h", "get", run, spans([source]), [found[0]] if found else [])
        if blocking:
            world.synchronize(queue)
    return host


@contextmanager
def _current(world: World, device: int) -> Generator[None]:
    """As CuPy does it around its copies: a device is the current one inside, and the one that was it before is again.

    To make a device the current one can fail, also the one that was it before: a thread begins with device 0, lost or
    not.
    """
    runtime = world.cupy.cuda.runtime
    before = runtime.getDevice()
    try:
        runtime.setDevice(device)
        yield
    finally:
        runtime.setDevice(before)


def _queue_for(world: World, array: ndarray, stream: Any) -> StreamQueue:
    """That of the stream, or of the current one of the current device; null streams are those of the array's device."""
    queue = stream.queue if stream else world.current_queue()
    return queue if queue.ptr else world.null_queue(array.device_index)


def _order_of_out(source: ndarray, out: Any) -> str:
    if not isinstance(out, np.ndarray):
        raise TypeError("Only numpy.ndarray can be obtained from cupy.ndarray")
    if source.dtype != out.dtype:
        raise TypeError(f"{out.dtype} array cannot be obtained from {source.dtype} array")
    if source.shape != out.shape:
        raise ValueError(f"Shape mismatch. Expected shape: {source.shape}, actual shape: {out.shape}")
    if out.flags.f_contiguous and source.flags.f_contiguous:
        return "F"
    if out.flags.c_contiguous:
        return "C"
    if out.flags.f_contiguous:
        return "F"
    raise RuntimeError("`out` cannot be specified when copying to non-contiguous ndarray")


def between_devices(world: World, source: ndarray) -> Any:
    """A copy of another device's array, made by the current stream of the current device.

    Raises:
        NotImplementedError: its elements are not in a row.
    """
    world.devices[source.device_index].check()
    if not (source.flags.c_contiguous or source.flags.f_contiguous):
        raise NotImplementedError("CuPy cannot copy non-contiguous array between devices.")
    order = "C" if source.flags.c_contiguous else "F"
    target = world.array_type(source.shape, source.dtype, order=order)
    _copy_between(world, target, source)
    return target


def _copy_between(world: World, target: ndarray, source: ndarray) -> None:
    here, there = target.layout, source.layout

    def run() -> None:
        here.array[...] = there.array

    world.issue(world.current_queue(), "d2d", f"from {source.device_index}", run, spans([source]), spans([target]))


def copy_to(world: World, dst: Any, src: Any, casting: str = "same_kind", where: Any = None) -> None:
    """`cupy.copyto`."""
    if isinstance(src, world.array_type) and src.device_index != dst.device_index:
        same = src.dtype == dst.dtype and src.shape == dst.shape and src.flags == dst.flags
        if where is not None or not same or not (src.flags.c_contiguous or src.flags.f_contiguous):
            raise ValueError("only contiguous arrays that agree can be copied between devices")
        world.devices[src.device_index].check()
        _copy_between(world, dst, src)
        return
    if not isinstance(src, world.array_type) and isinstance(src, np.ndarray) and src.size != 1:
        raise ValueError("non-scalar numpy.ndarray cannot be used for copyto")
    value = src.item() if isinstance(src, np.ndarray) else src
    kind = value.dtype if isinstance(value, world.array_type) else np.min_scalar_type(value)
    if not np.can_cast(kind, dst.dtype, casting):  # pyright: ignore[reportArgumentType]  # a name of a rule
        raise TypeError(f"Cannot cast {kind} to {dst.dtype} in {casting} casting mode")

    def write(old: Any, new: Any, mask: Any) -> Any:
        result = old.copy()
        np.copyto(result, new, casting="unsafe", where=True if mask is None else mask)
        return result

    launch(world, "copyto", write, [dst, value, where], out=dst)


@final
class Capsule(NamedTuple):
    """What stands for a DLPack capsule: memory of a device, held for as long as anybody has the capsule."""

    world: World
    allocation: Allocation | None
    layout: Layout
    device: int


def to_dlpack(world: World, array: ndarray, stream: Any, dl_device: Any, copy: bool | None) -> Any:
    """`ndarray.__dlpack__`. The consumer's stream waits for the current stream of this thread, and for no other."""
    if dl_device == (DLPACK_CPU, 0):
        if copy is False:
            raise ValueError("GPU memory cannot be exported to CPU without copy.")
        return array.get().__dlpack__()
    if dl_device not in (None, array.__dlpack_device__()):
        raise BufferError("unsupported device requested.")
    if copy:
        raise BufferError("copy=True only supported for copy to CPU.")
    wanted = LEGACY_STREAM if stream is None else stream
    if wanted < -1:
        raise ValueError(
            f"On CUDA, the valid stream for the DLPack protocol is -1, 1, 2, or any larger value, not {wanted}"
        )
    mine = world.current_queue()
    if wanted >= 0 and wanted != (mine.ptr or LEGACY_STREAM):
        mark, clock = world.record(mine, what="dlpack")
        queues = [one for device in world.devices for one in device.queues]
        consumer = [one for one in queues if wanted != LEGACY_STREAM and one.ptr == wanted]
        world.wait_on(consumer[0] if consumer else world.null_queue(array.device_index), mark, clock, "dlpack")
    return Capsule(world, array.allocation, array.layout, array.device_index)


def from_dlpack(world: World, array: Any, device: Any, copy: bool | None) -> Any:
    """`cupy.from_dlpack`: an array of the memory of another, safe on the current stream of that device."""
    capsule = array
    if not isinstance(array, Capsule):
        kind, index = array.__dlpack_device__()
        if device is not None:
            raise NotImplementedError("from_dlpack() does not support device yet.")
        if kind == DLPACK_CPU:
            raise TypeError(
                "CPU arrays cannot be directly imported to CuPy. Use `cupy.array(numpy.from_dlpack(input))` instead."
            )
        if kind != DLPACK_CUDA:
            raise TypeError(f"Unsupported array type: {kind}")
        with _current(world, index):
            stream = world.current_queue().ptr or LEGACY_STREAM
            capsule = array.__dlpack__(stream=stream, max_version=(1, 0), copy=copy)
    if not isinstance(capsule, Capsule) or capsule.world is not world:
        raise TypeError("not memory of a device of this world")
    return object.__new__(world.array_type).shares(capsule.allocation, capsule.layout, capsule.device)
