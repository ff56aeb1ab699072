"""In what CuPy's values are not NumPy's, or not the same twice: the section `num`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from ._rows import Row, fact, figure, holds, skipped
from ._runner import on_a_card
from ._subject import Subject

OPS: Final = ("add", "multiply", "divide", "power", "maximum")
_DTYPES: Final = (
    "bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64",
)  # fmt: skip


def dtypes(subject: Subject) -> Iterator[Row]:
    """Whether results have NumPy's dtypes. Arrays are empty, so that no kernel is compiled."""
    pairs = [(op, left, right) for op in OPS for left in _DTYPES for right in _DTYPES]
    other: list[str] = []
    for op, left, right in pairs:
        empty = np.empty(0, left), np.empty(0, right)
        ours = _dtype(getattr(np, op), *empty)
        theirs = _dtype(getattr(subject.cupy, op), *[subject.cupy.asarray(one) for one in empty])
        if ours != theirs:
            other.append(f"{op}({left}, {right}): {theirs} for {ours}")
    yield fact(f"dtypes of {len(pairs)} calls that are not NumPy's", len(other), "; ".join(other[:3]))


def _dtype(function: Callable[..., Any], *operands: Any) -> str:
    try:
        return str(function(*operands).dtype)
    except Exception as error:  # The two libraries are to agree on errors, too.
        return type(error).__name__


@on_a_card
def single_values(subject: Subject) -> Iterator[Row]:
    """What is known to differ."""
    cupy = subject.cupy
    subnormal = cupy.asarray(np.array([1e-40], np.float32))
    yield fact("float32 1e-40 * 1", float(cupy.multiply(subnormal, np.float32(1))[0].get()), "0: flushed")
    picked = cupy.take(cupy.arange(3), cupy.asarray(np.array([0, 7])))
    yield fact("take of index 7 of 3", str(picked.get().tolist()), "[0, 1]: it wraps")
    solved = cupy.linalg.solve(cupy.zeros((2, 2)), cupy.ones(2))
    yield fact("solve of a singular matrix", str(solved.get().tolist()), "NaN or infinite: no error")


@on_a_card
def repeated(subject: Subject) -> Iterator[Row]:
    """Whether the same call gives the same bits again."""
    cupy = subject.cupy
    generator = np.random.default_rng(0)
    values = cupy.asarray(generator.random(1 << 22, dtype=np.float32))
    sums = {float(cupy.sum(values).get()) for _ in range(20)}
    yield fact("results of 20 sums", len(sums), "1")
    exact = float(values.get().sum(dtype=np.float64))
    yield figure("relative error of a sum of float32", abs(sums.pop() / exact - 1), "")
    where = cupy.asarray(generator.integers(0, 10, 1 << 20))
    added: set[bytes] = set()
    for _ in range(10):
        bins = cupy.zeros(10, dtype="float32")
        cupy.add.at(bins, where, values[: 1 << 20])
        added.add(bins.get().tobytes())
    yield fact("results of 10 add.at", len(added), "several: atomic additions")
    matrix = cupy.asarray(generator.random((512, 512), dtype=np.float32))
    streams = [subject.stream() for _ in range(4)]
    subject.synchronize()
    products: list[Any] = []
    for stream in streams * 5:
        with stream:
            products.append(cupy.matmul(matrix, matrix))
    subject.synchronize()
    yield fact("results of 20 matmul on 4 streams", len({one.get().tobytes() for one in products}), "1, or a few")


@on_a_card
def exchange_with_torch(subject: Subject) -> Iterator[Row]:
    """Whether DLPack shares memory, in both directions."""
    if find_spec("torch") is None:
        yield skipped("exchange with torch", "torch is not installed")
        return
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        yield skipped("exchange with torch", "this torch uses no card")
        return
    ours = subject.cupy.arange(8, dtype="float32")
    theirs = torch.from_dlpack(ours)
    shared = int(theirs.data_ptr()) == int(ours.data.ptr)
    yield holds("cupy to torch shares memory", shared, shared, "True")
    back = subject.cupy.from_dlpack(theirs)
    shared = int(back.data.ptr) == int(theirs.data_ptr())
    yield holds("torch to cupy shares memory", shared, shared, "True")
