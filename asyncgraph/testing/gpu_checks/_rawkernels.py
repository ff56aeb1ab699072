"""The two kernels in CUDA C: one that takes its time, and one that ends the context."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from ._subject import Subject

_SPIN: Final = r"""
extern "C" __global__ void spin(long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while ((long long)(now - start) < nanoseconds);
}
"""

_WRITE_WILDLY: Final = r"""
extern "C" __global__ void write_wildly(float* memory) {
    memory[1ll << 40] = 1.0f;  // 4 TiB beyond
}
"""


def spin(subject: Subject, seconds: float) -> None:
    """Keeps one block, on the current stream, busy for that long. Nothing on a stand-in, where nothing takes time."""
    if not subject.stand_in:
        _compiled(subject.cupy, _SPIN, "spin")((1,), (32,), (np.int64(seconds * 1e9),))


def wild_write(subject: Subject) -> Callable[[], None]:
    """Compiles it now; when called, writes where no memory is, on the current stream.

    No context survives that. Not for this process.
    """
    memory = subject.cupy.zeros(4, dtype="float32")
    kernel = _compiled(subject.cupy, _WRITE_WILDLY, "write_wildly")
    kernel.compile()
    return lambda: kernel((1,), (1,), (memory,))


@cache
def _compiled(cupy: Any, source: str, name: str) -> Any:
    return cupy.RawKernel(source, name)
