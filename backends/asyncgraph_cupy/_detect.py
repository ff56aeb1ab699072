"""Which GPUs work; and if none does, why, and what to do.

That CuPy can be imported shows little: it needs no driver for it, and looks for most of CUDA's libraries and headers
when the first kernel is compiled. So each device computes something. Whatever goes wrong has a code, for programs,
and a text, for people, in `_TEXTS`.

Nothing here writes a file or changes the environment. To count the devices initialises CUDA, after which a forked
child cannot use it: `probe` is for the process that will.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Final, final

import numpy as np

from asyncgraph.errors import DeviceNotFoundError

if TYPE_CHECKING:
    from ._cuda_api import CudaApi

LEAST_VERSION: Final = (14, 1)

_DISTRIBUTIONS: Final = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy-rocm-5-0", "cupy-rocm-7-0")
"""Those that have the module, each instead of the others."""

_DRIVER_FILES: Final = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""What there is on Linux where a driver is loaded; the last one is of WSL."""

_VARIABLES: Final = ("CUDA_VISIBLE_DEVICES", "CUPY_CACHE_DIR", "CUDA_PATH")

_INSTALL: Final = (
    "pip install 'asyncgraph[cuda13]' for drivers from 580 on, or 'asyncgraph[cuda12]' for those from 525 on, "
    "and for GPUs older than compute capability 7.5"
)
_COMPONENTS: Final = "install asyncgraph with the extra cuda12 or cuda13, which bring it, or the CUDA toolkit"

_TEXTS: Final[Mapping[str, str]] = {
    # What is installed.
    "not_installed": f"CuPy is not installed: {_INSTALL}",
    "files_missing": "{installed} is installed, but without its files, as when another CuPy that had the same ones was "
    "uninstalled: uninstall it, then install it again",
    "remnant": "CuPy is not installed, but a part is left over from when it was: remove it, then {install} ({detail})",
    "two_wheels": "several CuPy packages are installed, which overwrite each other's files: {installed}; "
    "uninstall all of them, then install one",
    "old_cupy": "CuPy {cupy} is too old: uninstall it, then {install}",
    "numpy": "CuPy does not work with NumPy {numpy}: upgrade NumPy; if it is new, uninstall CuPy, then {install}",
    "no_pathfinder": "CuPy lacks a package that it depends on: pip install cuda-pathfinder ({detail})",
    "cache_dir": "CuPy cannot make or write the folder for its compiled kernels: set the environment variable "
    "CUPY_CACHE_DIR to one that it can ({detail})",
    "import_failed": "CuPy cannot be imported: {detail}",
    # The driver.
    "no_driver": "there is no NVIDIA driver: install it, if there is an NVIDIA GPU",
    "no_libcuda": "there is an NVIDIA driver, but not its library libcuda: in a container, give it the GPUs, "
    "as by docker run --gpus all",
    "old_driver": "the NVIDIA driver is for CUDA {driver}, and CuPy for CUDA {runtime}: update the driver, or "
    "uninstall CuPy, then {install}",
    "stub_driver": "the libcuda that was found is the CUDA toolkit's stub: take its folder out of LD_LIBRARY_PATH",
    "init_failed": "the NVIDIA driver does not start: see what nvidia-smi says",
    "driver_failed": "the NVIDIA driver fails and does not say why, as after the machine has slept: load its module "
    "nvidia_uvm again, or restart the machine",
    "not_ready": "the machine's GPUs are not ready: start NVIDIA's fabric manager",
    "driver_mismatch": "the NVIDIA driver and its library libcuda are of different versions: restart the machine, or "
    "install the driver again; in a container, remove its own libcuda",
    "compat_mismatch": "CUDA's compatibility libraries do not support this GPU: remove the package cuda-compat, or "
    "take its folder out of LD_LIBRARY_PATH",
    "no_device": "the NVIDIA driver finds no GPU: see what nvidia-smi says",
    "hidden": "the environment variable CUDA_VISIBLE_DEVICES={visible!r} leaves no GPU: unset it",
    "cuda_failed": "CUDA does not work: {detail}",
    # A device that is there.
    "busy": "the GPU is in use by another process, alone: see what nvidia-smi says",
    "out_of_memory": "the GPU's memory is in use by others: see what nvidia-smi says ({detail})",
    "no_headers": f"CuPy does not find CUDA's headers: {_COMPONENTS} ({{detail}})",
    "no_nvrtc": f"CuPy does not find CUDA's compiler NVRTC: {_COMPONENTS} ({{detail}})",
    "compile_failed": "CuPy cannot compile a kernel, as when it finds the headers of another CUDA: install asyncgraph "
    "with the extra cuda12 or cuda13, which bring the right ones ({detail})",
    "old_compiler": "CUDA's compiler NVRTC does not know this GPU: it needs a newer CUDA, as in 'asyncgraph[cuda13]' "
    "({detail})",
    "no_code": "CuPy has no code for this GPU, of compute capability {capability}: from 7.5 on, install "
    "'asyncgraph[cuda13]'; below, 'asyncgraph[cuda12]'",
    "new_compiler": "CUDA's compiler NVRTC is newer than the driver: update the driver, or uninstall CuPy, then "
    "{install}",
    "wrong_result": "the GPU computes wrong results: {detail}",
    "kernel_failed": "the first kernel failed: {detail}",
}

_BY_STATUS: Final[Mapping[int, str]] = {
    2: "out_of_memory",
    3: "init_failed",
    34: "stub_driver",
    35: "old_driver",
    46: "busy",
    100: "no_device",
    209: "no_code",
    222: "new_compiler",
    802: "not_ready",
    803: "driver_mismatch",
    804: "compat_mismatch",
    999: "driver_failed",
}
_HAVE_STATUS: Final = ("CUDARuntimeError", "CUDADriverError")
"""Classes of errors whose `status` is CUDA's. NVRTC's errors have numbers of their own."""

_BY_WORDS: Final[Sequence[tuple[str, type[Exception], str]]] = (
    ("multiple CuPy packages", Warning, "two_wheels"),
    ("numpy.core.multiarray", ImportError, "numpy"),
    ("numpy._core.multiarray", ImportError, "numpy"),
    ("numpy.dtype size changed", ValueError, "numpy"),
    ("CUDA headers", RuntimeError, "no_headers"),
    ("open source file", Exception, "no_headers"),
    ("libnvrtc", Exception, "no_nvrtc"),
    ("gpu-architecture", Exception, "old_compiler"),
)
"""What errors say that have no type or number to be told by: a part of the text, the type, the code."""


@final
@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A GPU that the driver shows.

    Fields:
        index: CUDA's, after CUDA_VISIBLE_DEVICES.
        name: such as "NVIDIA H200".
        total_bytes: of its memory.
        compute_capability: such as "9.0".
        code: "ok" if it computes; else a key of the table.
        reason: why it cannot be used; "" if it can.
    """

    index: int
    name: str = ""
    total_bytes: int = 0
    compute_capability: str = ""
    code: str = "ok"
    reason: str = ""


@final
@dataclass(frozen=True, slots=True)
class CudaStatus:
    """What a probe found.

    Fields:
        code: "ok" if a device can be used; else a key of the table, the first device's if none of several works.
        reason: why none can be used, and what to do; "" if one can.
        devices: all that the driver shows, also those that do not work.
        cupy: CuPy's version; "" if it was not loaded.
        driver: the newest CUDA that the driver knows, such as "13.0"; "" if there is no driver.
        runtime: the CUDA that CuPy was made for; "" if it was not loaded.
    """

    code: str
    reason: str = ""
    devices: tuple[CudaDevice, ...] = ()
    cupy: str = ""
    driver: str = ""
    runtime: str = ""

    @property
    def ok(self) -> bool:
        """Whether a device can be used."""
        return self.code == "ok"

    @property
    def usable(self) -> tuple[CudaDevice, ...]:
        """The devices that can be used."""
        return tuple([one for one in self.devices if one.code == "ok"])

    def error(self) -> Exception:
        """The error for a caller that needs a device; its text is the reason."""
        return (ModuleNotFoundError if self.code == "not_installed" else DeviceNotFoundError)(self.reason)


def driver_present() -> bool:
    """Whether the system has an NVIDIA driver, as far as files tell. Calls nothing of CUDA's, so a fork may follow."""
    return sys.platform == "win32" or any(path.exists() for path in _DRIVER_FILES)


def distributions() -> tuple[str, ...]:
    """The distributions of CuPy that are installed, with their versions: "cupy-cuda13x 14.2.0". Imports none."""
    from importlib.metadata import PackageNotFoundError, version

    found: list[str] = []
    for name in _DISTRIBUTIONS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return tuple(found)


def details(status: CudaStatus | None) -> Mapping[str, object]:
    """What there is to know before a probe, and what it found, if there was one; as values that JSON has."""
    told: dict[str, object] = {
        "driver_present": driver_present(),
        "distributions": distributions(),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }
    if status is not None:
        told |= {name: None if one == "" else one for name, one in asdict(status).items()}
        # It is what the backend's `devices` raises, and so shown anyway.
        del told["reason"]
    return told


def probe(load: Callable[[], CudaApi], installed: Sequence[str] = ()) -> CudaStatus:
    """Loads CuPy, counts the devices, and has each compute something, in a thread that ends before this returns.

    It takes about a second for each device, and longer where kernels have never been compiled. Never raises an
    `Exception`.

    Args:
        load: imports CuPy.
        installed: `distributions()`; leave it out for modules that stand in for CuPy.
    """
    known = {"installed": ", ".join(installed), "install": _INSTALL, "numpy": np.__version__}
    # CuPy warns of it when it is imported. Warnings are caught for a whole process, in which others may run.
    if len(installed) > 1:
        return CudaStatus("two_wheels", _text("two_wheels", known))
    try:
        api = load()
        runtime = _cuda_version(api.runtime.runtimeGetVersion())
        driver = _cuda_version(api.runtime.driverGetVersion())
    except Exception as error:
        code, detail = _import_trouble(error, installed)
        return CudaStatus(code, _text(code, known, detail=detail))
    known |= {"cupy": api.version, "driver": driver, "runtime": runtime}

    def status(code: str, reason: str = "", devices: tuple[CudaDevice, ...] = ()) -> CudaStatus:
        return CudaStatus(code, reason, devices, api.version, driver, runtime)

    if _release(api.version) < LEAST_VERSION:
        return status("old_cupy", _text("old_cupy", known))
    try:
        devices = _probe_devices(api, api.runtime.getDeviceCount(), known)
    except Exception as error:
        code = _count_trouble(_code(error) or "cuda_failed", driver)
        return status(code, _text(code, known, detail=_said(error)))
    if not devices:
        code = _count_trouble("no_device", driver)
        return status(code, _text(code, known))
    if all(one.reason for one in devices):
        return status(devices[0].code, "\n".join(one.reason for one in devices), devices)
    return status("ok", "", devices)


def _probe_devices(api: CudaApi, count: int, known: Mapping[str, str]) -> tuple[CudaDevice, ...]:
    """What each device computes.

    In a thread, as each is made its current device: to make the caller's own the current one again would fail where
    that is device 0, and in use by others, whichever device was probed.
    """
    devices: list[CudaDevice] = []

    def run() -> None:
        devices.extend(_probe_device(api, index, known) for index in range(count))

    thread = Thread(target=run, name="asyncgraph cupy probe", daemon=True)
    thread.start()
    thread.join()
    return tuple(devices)


def _probe_device(api: CudaApi, index: int, known: Mapping[str, str]) -> CudaDevice:
    name, total, capability = "", 0, ""
    try:
        about = api.runtime.getDeviceProperties(index)
        name, total = about["name"].decode(), about["totalGlobalMem"]
        capability = f"{about['major']}.{about['minor']}"
        api.device(index).use()
        # A transfer there, two kernels that are compiled, and a transfer back.
        array = api.asarray(np.arange(4, dtype="float32"))
        value = float(api.xp.sum(api.xp.add(array, array)).get())
        code, detail = ("ok", "") if value == 12 else ("wrong_result", f"0 + 2 + 4 + 6 = {value}")
    except Exception as error:
        code, detail = _code(error) or "kernel_failed", _said(error)
    reason = "" if code == "ok" else _text(code, known, detail=detail, capability=capability)
    label = f"gpu:{index} ({name})" if name else f"gpu:{index}"
    return CudaDevice(index, name, total, capability, code, reason and f"{label}: {reason}")


def _import_trouble(error: BaseException, installed: Sequence[str]) -> tuple[str, str]:
    """The code of an error of the import, and its detail."""
    # What went wrong in CuPy's core is wrapped in a page of advice.
    while error.__cause__ is not None:
        error = error.__cause__
    missing = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
    if missing.startswith("cupy") and installed:
        return "files_missing", ""
    if missing == "cupy":
        return "not_installed", ""
    # A folder without an __init__.py can be imported, as a namespace without a file.
    left = error.obj if isinstance(error, AttributeError) else None
    if isinstance(left, ModuleType) and left.__file__ is None:
        return "remnant", ", ".join(left.__path__)
    if missing.startswith("cupy"):
        return "remnant", _said(error)
    if missing.partition(".")[0] == "cuda":
        return "no_pathfinder", _said(error)
    return _code(error) or "import_failed", _said(error)


def _count_trouble(code: str, driver: str) -> str:
    """A code of what happened when devices were counted, made more exact."""
    if code == "old_driver" and not driver:
        return "no_libcuda" if driver_present() else "no_driver"
    if code == "no_device" and "CUDA_VISIBLE_DEVICES" in os.environ:
        return "hidden"
    return code


def _code(error: BaseException) -> str:
    """The code of an error of CuPy's, by what it is and what it says; "" if it is none of those known."""
    if isinstance(error, OSError) and _of_cache_dir(error):
        return "cache_dir"
    if isinstance(error, MemoryError):
        return "out_of_memory"
    kind, text = type(error).__name__, str(error)
    if kind in _HAVE_STATUS:
        status: int = getattr(error, "status", 0)
        return _BY_STATUS.get(status, "")
    for words, kinds, code in _BY_WORDS:
        if isinstance(error, kinds) and words in text:
            return code
    return "compile_failed" if kind == "CompileException" else ""


def _of_cache_dir(error: OSError) -> bool:
    """Whether it was about the folder for compiled kernels, or one that it would be made in."""
    if not isinstance(error.filename, str):
        return False
    folder = Path(os.environ.get("CUPY_CACHE_DIR", os.path.expanduser("~/.cupy/kernel_cache")))
    return Path(error.filename) in (folder, *folder.parents) or folder in Path(error.filename).parents


def _said(error: BaseException) -> str:
    """An error in one line: its type, and the first line of what it says."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}"


def _text(code: str, known: Mapping[str, str], *, detail: str = "", capability: str = "") -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return _TEXTS[code].format_map({**known, "detail": detail, "capability": capability, "visible": visible})


def _cuda_version(number: int) -> str:
    """13020 is "13.2"; 0, which is none, is ""."""
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""


def _release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version, as far as they are numbers."""
    return tuple([int(part) for part in version.split(".")[:2] if part.isdigit()])
