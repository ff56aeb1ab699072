"""The errors of CuPy that the backend sorts by kind and status."""

from __future__ import annotations

STATUSES = {
    1: "cudaErrorInvalidValue: invalid argument",
    2: "cudaErrorMemoryAllocation: out of memory",
    35: "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    100: "cudaErrorNoDevice: no CUDA-capable device is detected",
    101: "cudaErrorInvalidDevice: invalid device ordinal",
    217: "cudaErrorPeerAccessUnsupported: peer access is not supported between these two devices",
    400: "cudaErrorInvalidResourceHandle: invalid resource handle",
    700: "cudaErrorIllegalAddress: an illegal memory access was encountered",
    710: "cudaErrorAssert: device-side assert triggered",
    719: "cudaErrorLaunchFailure: unspecified launch failure",
}
"""What CuPy's error says for a status."""

SUCCESS, NOT_READY, INVALID_DEVICE, INVALID_HANDLE, ILLEGAL_ADDRESS = 0, 600, 101, 400, 700


class CUDARuntimeError(RuntimeError):
    """A call of the CUDA runtime failed, or told of what failed on the device before."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(STATUSES.get(status, f"cudaError{status}: status {status}"))

    def __reduce__(self) -> tuple[type[CUDARuntimeError], tuple[int]]:
        return type(self), (self.status,)


class OutOfMemoryError(MemoryError):
    """The pool could not grow, also after it had given back what it held unused."""

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        self._args = size, total, limit
        text = f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes"
        super().__init__(f"{text}, limit set to: {limit:,} bytes)." if limit else f"{text}).")

    def __reduce__(self) -> tuple[type[OutOfMemoryError], tuple[int, int, int]]:
        return type(self), self._args


class CompileException(Exception):
    """A kernel could not be compiled."""

    def __init__(self, msg: str, source: str, name: str, options: tuple[str, ...], backend: str = "nvrtc") -> None:
        self._msg, self.source, self.name, self.options, self.backend = msg, source, name, options, backend
        super().__init__()

    def __reduce__(self) -> tuple[type[CompileException], tuple[object, ...]]:
        return type(self), (self._msg, self.source, self.name, self.options, self.backend)

    def __str__(self) -> str:
        return self._msg
