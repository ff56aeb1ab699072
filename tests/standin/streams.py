"""CuPy's devices, streams and events, with what is thread-local about them."""

from __future__ import annotations

from typing import Any, ClassVar, Self, final

from .clocks import Clock
from .errors import INVALID_DEVICE, INVALID_HANDLE, NOT_READY, SUCCESS, CUDARuntimeError
from .queues import DeviceState, Mark, StreamQueue
from .world import World


class Runtime:
    """`cupy.cuda.runtime`."""

    CUDARuntimeError = CUDARuntimeError

    def __init__(self, world: World) -> None:
        self._world = world

    def getDeviceCount(self) -> int:
        return len(self._world.devices)

    def getDevice(self) -> int:
        return self._world.places.here.device

    def setDevice(self, device: int) -> None:
        # May return errors of what was launched before, as almost any call.
        self._device(device).check()
        self._world.places.here.device = device

    def getDeviceProperties(self, device: int) -> dict[str, Any]:
        pool = self._world.pools[self._device(device).index]
        return {
            "name": b"stand-in",
            "totalGlobalMem": pool.capacity,
            "major": 9,
            "minor": 0,
            "multiProcessorCount": 1,
            "asyncEngineCount": 2,
            "pciBusID": device,
            "pciDeviceID": 0,
            "pciDomainID": 0,
        }

    def memGetInfo(self) -> tuple[int, int]:
        self._world.current_device.check()
        pool = self._world.pools[self._world.current_device.index]
        return pool.capacity - pool.used - pool.cached, pool.capacity

    def driverGetVersion(self) -> int:
        return 13000

    def runtimeGetVersion(self) -> int:
        return 13000

    def deviceCanAccessPeer(self, device: int, peerDevice: int) -> int:
        return int(self._device(device) is not self._device(peerDevice) and self._world.peers)

    def deviceSynchronize(self) -> None:
        self._world.synchronize_device(self._world.current_device)

    def eventQuery(self, event: int) -> int:
        """The status, which is not raised: 0 for done, 600 for not yet, or the error that the device is lost with."""
        found = self._world.events.get(event)
        return found.query() if found else INVALID_HANDLE

    def _device(self, device: int) -> DeviceState:
        if device not in range(len(self._world.devices)):
            raise CUDARuntimeError(INVALID_DEVICE)
        return self._world.devices[device]


class Device:
    """`cupy.cuda.Device`."""

    _world: ClassVar[World]

    def __init__(self, device: int | Device | None = None) -> None:
        self.id = self._world.places.here.device if device is None else int(device)

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"

    def __enter__(self) -> Self:
        here = self._world.places.here
        here.devices.append(here.device)
        if here.device != self.id:
            self._world.cupy.cuda.runtime.setDevice(self.id)
        return self

    def __exit__(self, *exc: object) -> None:
        self._world.cupy.cuda.runtime.setDevice(self._world.places.here.devices.pop())

    def use(self) -> Self:
        self._world.cupy.cuda.runtime.setDevice(self.id)
        return self

    def synchronize(self) -> None:
        with self:
            self._world.synchronize_device(self._world.current_device)

    @property
    def mem_info(self) -> tuple[int, int]:
        with self:
            return self._world.cupy.cuda.runtime.memGetInfo()


class Stream:
    """`cupy.cuda.Stream`. The null stream is one object for all devices, and means that of the current one."""

    _world: ClassVar[World]
    null: ClassVar[Stream]

    def __init__(
        self, null: bool = False, non_blocking: bool = False, ptds: bool = False, priority: int | None = None
    ) -> None:
        if ptds:
            raise NotImplementedError("the per-thread default stream")
        self._own: StreamQueue | None = None
        self.ptr, self.device_id = 0, -1
        if not null:
            device = self._world.current_device
            device.check()
            self._own = self._world.new_queue(device, non_blocking=non_blocking)
            self.ptr, self.device_id = self._own.ptr, device.index
            self._world.note("stream", device.index, self.ptr)

    @property
    def queue(self) -> StreamQueue:
        """What the device has of it."""
        return self._own or self._world.null_queue(self._world.places.here.device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self) -> int:
        return self.ptr

    def __repr__(self) -> str:
        return f"<Stream {self.ptr} (device {self.device_id})>"

    def __enter__(self) -> Self:
        here = self._world.places.here
        if self.device_id not in (-1, here.device):
            raise RuntimeError(
                f"The device that the stream is created on ({self.device_id})"
                f" does not match with the current device ({here.device})"
            )
        here.streams.setdefault(here.device, []).append(self)
        here.entered.append(here.device)
        return self

    def __exit__(self, *exc: object) -> None:
        # As in CuPy, whatever is on top: with two tasks of a thread inside, that may be another's.
        here = self._world.places.here
        here.streams[here.entered.pop()].pop()

    def record(self, event: Event | None = None) -> Event:
        recorded: Event = event or self._world.cupy.cuda.Event()
        recorded.record(self)
        return recorded

    def wait_event(self, event: Event) -> None:
        event.order(self.queue)

    def synchronize(self) -> None:
        self._world.synchronize(self.queue)

    @property
    def done(self) -> bool:
        """As in CuPy, `False` for ever on a lost device."""
        with self._world.lock:
            self._world.executor.issued()
            return not self.queue.device.query() and not self.queue.operations

    @property
    def is_non_blocking(self) -> bool:
        return self.queue.non_blocking


class Event:
    """`cupy.cuda.Event`. It belongs to the device that was current when it was made."""

    _world: ClassVar[World]

    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        if interprocess:
            raise NotImplementedError("events between processes")
        self._device = self._world.current_device
        self._device.check()
        self._mark, self._clock = Mark(), Clock()
        # One that was never recorded is done.
        self._mark.passed = True
        self.block, self.disable_timing = block, disable_timing
        self.ptr = self._world.new_ptr()
        self._world.events[self.ptr] = self
        self._world.note("event", self._device.index)

    def record(self, stream: Stream | None = None) -> None:
        queue = stream.queue if stream else self._world.current_queue()
        if queue.device is not self._device:
            raise CUDARuntimeError(INVALID_HANDLE)
        self._mark, self._clock = self._world.record(queue, what=str(self.ptr))

    def order(self, queue: StreamQueue) -> None:
        """Has the stream wait for it."""
        self._device.check()
        self._world.wait_on(queue, self._mark, self._clock, str(self.ptr))

    def query(self) -> int:
        """What `cudaEventQuery` returns. The thread that sees it done is ordered after it."""
        with self._world.lock:
            self._world.note("query", self._device.index, what=str(self.ptr))
            if not self._mark.passed:
                # A thread that asks again and again must get an answer some time.
                self._world.executor.step()
            status = self._device.query()
            if status or not self._mark.passed:
                return status or NOT_READY
            self._world.threads.learn(self._clock)
            return SUCCESS

    @property
    def done(self) -> bool:
        """As in CuPy, `False` for ever on a lost device."""
        return self.query() == SUCCESS

    def synchronize(self) -> None:
        mark, clock = self._mark, self._clock
        self._world.note("synchronize", self._device.index, what=str(self.ptr))
        self._world.executor.wait(lambda: mark.passed, self._device)
        self._world.threads.learn(clock)


@final
class MemoryPool:
    """`cupy.cuda.MemoryPool`, as the default one: it answers for the current device."""

    def __init__(self, world: World) -> None:
        self._world = world

    def used_bytes(self) -> int:
        return self._here().used

    def total_bytes(self) -> int:
        return self._here().used + self._here().cached

    def free_bytes(self) -> int:
        return self._here().cached

    def free_all_blocks(self, stream: Stream | None = None) -> None:
        if stream is not None:
            raise NotImplementedError("giving back the blocks of one stream")
        with self._world.lock:
            self._here().free_all_blocks()

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        if size is not None and fraction is not None:
            raise ValueError("size and fraction cannot be specified simultaneously")
        pool = self._here()
        pool.limit = int(pool.capacity * fraction) if fraction is not None else size or 0

    def get_limit(self) -> int:
        return self._here().limit

    def _here(self) -> Any:
        with self._world.lock:
            self._world.sweep()
        return self._world.pools[self._world.places.here.device]
