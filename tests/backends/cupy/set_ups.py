"""Broken installations of CuPy, and of what it needs, as packages that fail as CuPy 14.2 does there.

What they raise was copied from that version, where it could be provoked on a machine without a GPU, or else is what
its source says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

WORKING = """
import os
from types import SimpleNamespace
import numpy as np

__version__ = "14.2.0"
cache = os.environ.get("CUPY_CACHE_DIR", os.path.expanduser("~/.cupy/kernel_cache"))
os.makedirs(cache, exist_ok=True)

class CUDARuntimeError(RuntimeError):
    def __init__(self, status, text):
        self.status = status
        super().__init__(text)

class CUDADriverError(CUDARuntimeError):
    pass

class DynamicLibNotFoundError(RuntimeError):
    pass

class NVRTCError(RuntimeError):
    status = 3

class CompileException(Exception):
    pass

class OutOfMemoryError(MemoryError):
    pass

class Array:
    def __init__(self, values):
        self.values = values
    def get(self):
        return self.values

def count():
    return 1

def use(index):
    pass

def kernel():
    pass

def add(a, b):
    kernel()
    return Array(a.values + b.values)

def sum(a):
    return Array(a.values.sum())

class Device:
    def __init__(self, index):
        self.index = index
    def use(self):
        use(self.index)

asarray = Array
driver, made_for = 13000, 13020
cuda = SimpleNamespace(Device=Device, runtime=SimpleNamespace(
    getDeviceCount=lambda: count(),
    getDeviceProperties=lambda index: {"name": b"NVIDIA H200", "totalGlobalMem": 150 * 2**30, "major": 9, "minor": 0},
    driverGetVersion=lambda: driver,
    runtimeGetVersion=lambda: made_for,
))
"""
CUDA = {
    3: "cudaErrorInitializationError: initialization error",
    34: "cudaErrorStubLibrary: CUDA driver is a stub library",
    35: "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    46: "cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable",
    100: "cudaErrorNoDevice: no CUDA-capable device is detected",
    304: "cudaErrorOperatingSystem: OS call failed or operation not supported on this OS",
    802: "cudaErrorSystemNotReady: system not yet initialized",
    803: "cudaErrorSystemDriverMismatch: system has unsupported display driver / cuda driver combination",
    804: "cudaErrorCompatNotSupportedOnDevice: forward compatibility was attempted on non supported HW",
    999: "cudaErrorUnknown: unknown error",
}
BANNER = """
================================================================
Failed to import CuPy.

If you installed CuPy via wheels (cupy-cudaXXX or cupy-rocm-X-X), make sure that the package matches ...

Original error:
  {0}: {1}
================================================================
"""
HEADERS = (
    "Failed to find CUDA headers. Please install CUDA toolkit headers (e.g., pip install cupy-cuda12x[ctk]) or "
    "specify CUDA_PATH environment variable."
)
NVRTC = (
    'Failure finding "libnvrtc.so.13 or libnvrtc.so.12": No such file: libnvrtc.so.13 or libnvrtc.so.12, '
    "No such file: libnvrtc.so.13 or libnvrtc.so.12\n"
)
NUMPY = (
    "numpy.core.multiarray failed to import (auto-generated because you didn't call 'numpy.import_array()' after "
    "cimporting numpy; use '<void>numpy._import_array' to disable if you are certain you don't need it)."
)


@dataclass(frozen=True)
class SetUp:
    """What is installed, and what is to be said of it.

    Fields:
        code, says: of the reason; what it says of what to do.
        cupy: the source of the package; `None` if there is none.
        files: others, by path.
        environment: variables; "{site}" is the folder that all is in.
        distributions: those that are installed.
    """

    code: str
    says: str
    cupy: str | None = WORKING
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    distributions: tuple[str, ...] = ("cupy-cuda13x",)

    def install(self, site: Path) -> dict[str, str]:
        """Writes it to a folder; the variables to set."""
        if self.cupy is not None:
            files = {"cupy/__init__.py": self.cupy, "cupyx/__init__.py": "", **self.files}
        else:
            files = dict(self.files)
        for name in self.distributions:
            info = f"{name.replace('-', '_')}-14.2.0.dist-info"
            files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 14.2.0\n"
        for path, text in files.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        variables = {"HOME": str(site / "home"), **self.environment}
        return {name: value.format(site=site) for name, value in variables.items()}


def raising(status: int) -> str:
    return f"raise CUDARuntimeError({status}, {CUDA[status]!r})"


def counting(body: str, more: str = "") -> str:
    """CuPy whose count of devices does that."""
    return f"{WORKING}\ndef count(): {body}\n{more}"


def using(body: str) -> str:
    """CuPy that does that when a device is made the current one."""
    return f"{WORKING}\ndef use(index): {body}\n"


def computing(body: str) -> str:
    """CuPy whose first kernel does that."""
    return f"{WORKING}\ndef kernel(): {body}\n"


def importing(body: str) -> str:
    """CuPy that does that when it is imported."""
    return f"{body}\n{WORKING}"


def wrapping(body: str) -> str:
    """CuPy whose core does that when it is imported, which is wrapped in advice."""
    return importing(
        f"try: {body}\n"
        f"except ImportError as error:\n"
        f"    raise ImportError({BANNER!r}.format(type(error).__name__, error)) from error"
    )


SET_UPS: Mapping[str, SetUp] = {
    "nothing": SetUp("not_installed", "pip install 'asyncgraph[cuda13]'", None, distributions=()),
    "one of two wheels uninstalled": SetUp("files_missing", "cupy-cuda12x 14.2.0 is installed, but without its files",
        None, distributions=("cupy-cuda12x",)),
    "one of two wheels uninstalled, in part": SetUp("files_missing", "uninstall it, then install it again", None,
        {"cupy/_core/core.pxd": "", "cupy_backends/__init__.py": ""}, distributions=("cupy-cuda12x",)),
    "folders left": SetUp("remnant", "site/cupy", None,
        {"cupy/_core/core.pxd": "", "cupyx/__init__.py": ""}, distributions=()),
    "a folder left": SetUp("remnant", "remove it", None, {"cupy/_core/core.pxd": ""}, distributions=()),
    "two wheels": SetUp("two_wheels", "cupy-cuda12x 14.2.0, cupy-cuda13x 14.2.0; uninstall all of them",
        distributions=("cupy-cuda12x", "cupy-cuda13x")),
    "an old one": SetUp("old_cupy", "CuPy 13.6.0 is too old", f"{WORKING}\n__version__ = '13.6.0'\n"),
    "NumPy 1.26": SetUp("numpy", "upgrade NumPy", wrapping(f"raise ImportError({NUMPY!r})")),
    "NumPy of another ABI": SetUp("numpy", "CuPy does not work with NumPy ", importing(
        "raise ValueError('numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, "
        "got 88 from PyObject')")),
    "no cuda-pathfinder": SetUp("no_pathfinder", "pip install cuda-pathfinder (ModuleNotFoundError: No module named "
        "'cuda.pathfinder')", importing(
        "raise ModuleNotFoundError(\"No module named 'cuda.pathfinder'\", name='cuda.pathfinder')")),
    "no cuda-pathfinder, nor any of CUDA": SetUp("no_pathfinder", "pip install cuda-pathfinder", wrapping(
        "raise ModuleNotFoundError(\"No module named 'cuda'\", name='cuda')")),
    "home cannot be written": SetUp("cache_dir", "CUPY_CACHE_DIR to one that it can (NotADirectoryError: ",
        files={"home": ""}),
    "the cache cannot be made": SetUp("cache_dir", "(NotADirectoryError: ", files={"file": ""},
        environment={"CUPY_CACHE_DIR": "{site}/file/cache"}),
    "the cache is a file": SetUp("cache_dir", "(FileExistsError: ", files={"file": ""},
        environment={"CUPY_CACHE_DIR": "{site}/file"}),
    "the cache has no name": SetUp("cache_dir", "(FileNotFoundError: ", environment={"CUPY_CACHE_DIR": ""}),
    "the cache cannot be written": SetUp("cache_dir", "(PermissionError: ", computing(
        "raise PermissionError(13, 'Permission denied', os.path.join(cache, 'tmp1'))")),
    "a library that does not load": SetUp("import_failed", "ImportError: libcudart.so.12: cannot open shared object",
        wrapping("raise ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')")),
    "a driver for an older CUDA": SetUp("old_driver", "the NVIDIA driver is for CUDA 12.4, and CuPy for CUDA 13.2",
        counting(raising(35), "driver = 12040")),
    "the toolkit's stub": SetUp("stub_driver", "LD_LIBRARY_PATH", counting(raising(34))),
    "a driver that does not start": SetUp("init_failed", "nvidia-smi", counting(raising(3))),
    "a driver that fails": SetUp("driver_failed", "nvidia_uvm", counting(raising(999))),
    "no fabric manager": SetUp("not_ready", "start NVIDIA's fabric manager", counting(raising(802))),
    "two drivers": SetUp("driver_mismatch", "restart the machine", counting(raising(803))),
    "compatibility libraries": SetUp("compat_mismatch", "remove the package cuda-compat", counting(raising(804))),
    "no GPU": SetUp("no_device", "the NVIDIA driver finds no GPU", counting(raising(100))),
    "no GPU is visible": SetUp("hidden", "CUDA_VISIBLE_DEVICES='' leaves no GPU: unset it", counting(raising(100)),
        environment={"CUDA_VISIBLE_DEVICES": ""}),
    "none is counted": SetUp("no_device", "nvidia-smi", counting("return 0")),
    "another error of CUDA's": SetUp("cuda_failed", f"CUDARuntimeError: {CUDA[304]}", counting(raising(304))),
    "all in use": SetUp("busy", "in use by another process", counting(raising(46))),
    "one in use": SetUp("busy", "gpu:0 (NVIDIA H200): the GPU is in use by another process", using(raising(46))),
    "no memory": SetUp("out_of_memory", "in use by others", computing(
        "raise OutOfMemoryError('Out of memory allocating 512 bytes (allocated so far: 0 bytes).')")),
    "no memory for a context": SetUp("out_of_memory", "in use by others", using(
        "raise CUDARuntimeError(2, 'cudaErrorMemoryAllocation: out of memory')")),
    "no headers": SetUp("no_headers", "CuPy does not find CUDA's headers", computing(
        f"raise RuntimeError({HEADERS!r})")),
    "headers in part": SetUp("no_headers", "CUDA's headers", computing(
        "raise CompileException('cuda_fp16.h(4011): catastrophic error: could not open source file "
        "\"vector_types.h\"')")),
    "no NVRTC": SetUp("no_nvrtc", "CUDA's compiler NVRTC", computing(f"raise DynamicLibNotFoundError({NVRTC!r})")),
    "NVRTC in part": SetUp("no_nvrtc", "CUDA's compiler NVRTC", computing(
        "raise CompileException('nvrtc: error: failed to open libnvrtc-builtins.so.13.0.')")),
    "headers of another CUDA": SetUp("compile_failed", "the headers of another CUDA", computing(
        "raise CompileException('cuda_fp16.hpp(100): error: identifier \"__half2\" is undefined')")),
    "an old NVRTC": SetUp("old_compiler", "does not know this GPU", computing(
        "raise CompileException('nvrtc: error: invalid value for --gpu-architecture (-arch)')")),
    "an old GPU": SetUp("no_code", "of compute capability 9.0", computing(
        "raise CUDADriverError(209, 'CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the "
        "device')")),
    "a new NVRTC": SetUp("new_compiler", "newer than the driver", computing(
        "raise CUDADriverError(222, 'CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled with an "
        "unsupported toolchain.')")),
    "wrong results": SetUp("wrong_result", "0 + 2 + 4 + 6 = 13.0",
        f"{WORKING}\ndef add(a, b): return Array(a.values + b.values + np.eye(1, 4)[0])\n"),
    "another error of a kernel": SetUp("kernel_failed", "NVRTCError: NVRTC_ERROR_INVALID_INPUT (3)", computing(
        "raise NVRTCError('NVRTC_ERROR_INVALID_INPUT (3)')")),
}  # fmt: skip
