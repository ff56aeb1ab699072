"""Arrays of other libraries that are not on the host, as DLPack tells."""

from __future__ import annotations

from math import prod
from typing import Any, Final, cast, final

import numpy as np

_ON_HOST: Final = frozenset({1, 3, 11, 13})
"""DLPack's device types whose memory NumPy reads: the CPU, and CUDA's and ROCm's pinned and managed memory."""


def dlpack_device(value: object) -> tuple[int, int] | None:
    """DLPack's type and number of the device that an array is on; `None` for the host, and for what is no array."""
    if value.__class__ is np.ndarray:
        return None
    ask = getattr(type(value), "__dlpack_device__", None)
    if ask is None:
        return None
    try:
        kind, index = cast("tuple[int, int]", ask(value))
    except Exception:  # There may be no memory to exchange: who has to convert it says so.
        return None
    return None if int(kind) in _ON_HOST else (int(kind), int(index))


def dtype_name(array: Any) -> str:
    """The name of the dtype of any library's array, in NumPy's terms: "float32" for `torch.float32`.

    Raises:
        AttributeError: it has none.
    """
    return str(array.dtype).rpartition(".")[2]


@final
class FedArray:
    """An array on a device, as it was fed.

    Fields:
        value: of any library. Nobody but the backend of that device looks into it.
        shape, size: its own.
        dtype: its dtype's name, in NumPy's terms.
    """

    __slots__ = ("dtype", "shape", "size", "value")

    def __init__(self, value: Any) -> None:
        self.value: Final = value
        self.shape: Final[tuple[int, ...]] = tuple(value.shape)
        self.size: Final = prod(self.shape)
        self.dtype: Final = dtype_name(value)

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}] on a device"
