"""What is looked at: a device, its backend, and the library below."""

from __future__ import annotations

import importlib
import platform
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, sleep
from typing import Any, Final, final

from ..._registry import registry
from ..._session.config import SessionConfig
from ...abc import Backend, Device
from ...errors import DeviceNotFoundError
from ._rows import Value

_DRIVER: Final = Path("/proc/driver/nvidia/version")


@final
@dataclass(frozen=True, slots=True)
class Subject:
    """A device, its backend, and the library below.

    Fields:
        make_backend: gives another backend like this one.
        cupy, cupyx: the modules, or what stands in for them. `Any`, since CuPy has no types that could be checked
            where it is not installed.
        stand_in: whether they are no card's: then nothing takes time, and RawKernels are left out.
        until_s: when the time of the section is over, by `perf_counter`.
    """

    backend: Backend
    make_backend: Callable[[], Backend]
    device: Device
    cupy: Any
    cupyx: Any
    stand_in: bool = False
    until_s: float = float("inf")

    @property
    def config(self) -> SessionConfig:
        """For sessions all of whose nodes run on the device."""
        return SessionConfig(device=str(self.device), soft_placement=False)

    @property
    def seconds_left(self) -> float:
        """What is left of the section's time."""
        return self.until_s - perf_counter()

    def synchronize(self) -> None:
        """Waits for all that the device has to do."""
        self.cupy.cuda.Device(self.device.index).synchronize()

    def stream(self) -> Any:
        """A new stream, as the backend's lanes are."""
        return self.cupy.cuda.Stream(non_blocking=True)

    def event(self) -> Any:
        """A new event, as the backend waits for."""
        return self.cupy.cuda.Event(block=True, disable_timing=True)

    def used_bytes(self) -> int:
        """The device's memory that arrays hold."""
        return int(self.cupy.get_default_memory_pool().used_bytes())

    def reserved_bytes(self) -> int:
        """The device's memory that CuPy has taken: the most that was used at once, until it is given back."""
        return int(self.cupy.get_default_memory_pool().total_bytes())

    @contextmanager
    def memory_limited_to(self, more: int) -> Generator[None]:
        """Inside, CuPy takes no more than that many bytes more than are used now."""
        pool = self.cupy.get_default_memory_pool()
        pool.free_all_blocks()
        limit = pool.get_limit()
        pool.set_limit(size=pool.total_bytes() + more)
        try:
            yield
        finally:
            pool.set_limit(size=limit)

    def comes_back(self, used: int, within_s: float = 2.0) -> bool:
        """Whether no more than that many bytes are used, now or a little later."""
        return eventually(lambda: self.used_bytes() <= used, within_s)


def eventually(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether something is so within that time; it is asked each millisecond."""
    end = perf_counter() + within_s
    while not condition():
        if perf_counter() > end:
            return False
        sleep(1e-3)
    return True


def find(device: Device) -> Subject:
    """A card, which becomes the current one of this thread.

    Raises:
        DeviceNotFoundError: there is none; the message says why.
    """
    backend = registry.find(device)
    try:
        cupy, cupyx = importlib.import_module("cupy"), importlib.import_module("cupyx")
    except ImportError as error:
        raise DeviceNotFoundError(f"{device} is a device of {backend.name!r}, not of CuPy: {error}") from error
    cupy.cuda.Device(device.index).use()
    return Subject(backend, type(backend), device, cupy, cupyx)


def facts(subject: Subject) -> dict[str, Value]:
    """What figures depend on: the card, its driver, and versions."""
    found: dict[str, Value] = {}
    if not subject.stand_in:
        runtime = subject.cupy.cuda.runtime
        found["card"] = bytes(runtime.getDeviceProperties(subject.device.index)["name"]).decode()
        found["driver"] = _DRIVER.read_text().splitlines()[0] if _DRIVER.exists() else "unknown"
        found["CUDA of driver, of runtime"] = f"{runtime.driverGetVersion()}, {runtime.runtimeGetVersion()}"
    found["python"] = f"{platform.python_version()} on {platform.platform()}"
    found["switch interval"] = f"{sys.getswitchinterval() * 1e3:g} ms"
    for name in ("asyncgraph", "numpy"):
        found[name] = _version(name)
    found["cupy"] = str(subject.cupy.__version__)
    return found


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
