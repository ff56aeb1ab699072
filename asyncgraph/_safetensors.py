"""The safetensors format: the length of a header, the header in JSON, the data of the tensors one after the other.

What is read here may come from anywhere: nothing in it is believed before it is checked, and nothing is run.
The package of that name would be one more thing to install.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import Repr
from typing import Any, BinaryIO, Final, NoReturn, cast, final

import numpy as np

DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "BOOL": np.dtype("?"), "U8": np.dtype("u1"), "I8": np.dtype("i1"), "U16": np.dtype("<u2"), "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"), "I32": np.dtype("<i4"), "U64": np.dtype("<u8"), "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"), "F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "C64": np.dtype("<c8"),
}  # fmt: skip
"""The dtypes of the format that NumPy has, in the byte order of the format."""

CODES: Final[Mapping[np.dtype[Any], str]] = {dtype.newbyteorder("="): code for code, dtype in DTYPES.items()}
"""The format's names of NumPy's dtypes."""

RESERVED: Final = "__metadata__"
"""The one name that no tensor can have."""

_MOST_AXES: Final = 64
"""As many as NumPy's arrays have."""

_LONGEST: Final = 100_000_000
"""Bytes of a header, as in the format's own reader. What needs more is no model, but an attack on memory."""


@final
@dataclass(frozen=True, slots=True)
class Tensor:
    """What a file says of a tensor. Prints as a spec does: `float32[3,4]`; or `BF16[3,4]` if NumPy has no such dtype.

    Fields:
        code: its dtype, as the format calls it.
        shape: its shape.
        begin, end: where its bytes are, counted from the beginning of the file.
    """

    code: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Its dtype in the byte order of the file; `None` if NumPy has no such."""
        return DTYPES.get(self.code)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self.end - self.begin

    def __repr__(self) -> str:
        name = self.code if self.dtype is None else str(self.dtype.newbyteorder("="))
        return f"{name}[{','.join(map(str, self.shape))}]"


@final
@dataclass(frozen=True, slots=True)
class Header:
    """What stands in front of the data.

    Fields:
        metadata: texts by name.
        tensors: the tensors by name, in the order of their data.
    """

    metadata: Mapping[str, str]
    tensors: Mapping[str, Tensor]


def read_header(file: BinaryIO) -> Header:
    """The header of an open file, whose data are not touched.

    The sizes of tensors whose dtype NumPy has not are not checked.

    Raises:
        ValueError: the file is not of the format: truncated, or with names twice, bytes of two tensors or of none.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    begin = 8 + length
    if begin > size:
        raise ValueError(f"it is truncated: its header ends at byte {begin:,}, and there are {size:,}")
    if length > _LONGEST:
        raise _corrupt(f"it takes {length:,} bytes, and may take {_LONGEST:,}")
    entries = _parsed(file.read(length))
    metadata = _metadata(entries.pop(RESERVED, {}))
    tensors = [(name, _tensor(name, entry, begin)) for name, entry in entries.items()]
    tensors.sort(key=lambda pair: (pair[1].begin, pair[1].end))
    end = begin
    for name, tensor in tensors:
        if tensor.begin != end:
            raise _corrupt(f"{_short(name)} begins at byte {tensor.begin:,}, what is before it ends at {end:,}")
        end = tensor.end
    if end > size:
        raise ValueError(f"it is truncated: its data end at byte {end:,}, and there are {size:,}")
    if end < size:
        raise _corrupt(f"{size - end:,} bytes at the end are no tensor's")
    return Header(metadata, dict(tensors))


def header_bytes(shapes: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str]) -> bytes:
    """What to write before the data, which follow in the order of `shapes`, in C order, little-endian.

    Args:
        shapes: of each tensor its dtype, as the format calls it, and its shape. No name is `RESERVED`. Readers
            that map files want the widest dtypes first, so that all data are aligned.
        metadata: texts by name.
    """
    header: dict[str, Any] = {RESERVED: dict(metadata)} if metadata else {}
    end = 0
    for name, (code, shape) in shapes.items():
        begin, end = end, end + DTYPES[code].itemsize * math.prod(shape)
        header[name] = {"dtype": code, "shape": shape, "data_offsets": (begin, end)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _parsed(text: bytes) -> dict[str, Any]:
    if not text.startswith(b"{"):
        raise _corrupt(f"it begins with {text[:8]!r}")
    try:
        return cast("dict[str, Any]", json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_refuse))
    except RecursionError as error:
        raise _corrupt("it is nested too deep") from error
    except ValueError as error:
        raise _corrupt(f"{error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise ValueError(f"it has {_short(name)} twice")
        made[name] = value
    return made


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _metadata(entry: Any) -> dict[str, str]:
    texts = cast("Mapping[str, object]", entry).values() if isinstance(entry, dict) else (None,)
    if not all(isinstance(text, str) for text in texts):
        raise _corrupt(f"{RESERVED} is {_short(cast('object', entry))}, not texts by name")
    return cast("dict[str, str]", entry)


def _tensor(name: str, entry: Any, begin: int) -> Tensor:
    match entry:
        case {"dtype": str(code), "shape": [*shape], "data_offsets": [first, last]} if len(code) < 16:
            pass
        case _:
            raise _corrupt(f"{_short(name)} is {_short(entry)}")
    numbers = (*shape, first, last)
    if len(shape) > _MOST_AXES or any(type(one) is not int or not 0 <= one < 2**63 for one in numbers) or first > last:
        raise _corrupt(f"{_short(name)} is {_short(entry)}")
    tensor = Tensor(code, tuple(shape), begin + first, begin + last)
    if tensor.dtype is not None and (wanted := tensor.dtype.itemsize * math.prod(shape)) != tensor.nbytes:
        raise _corrupt(f"{_short(name)} is {tensor!r}, which takes {wanted:,} bytes, not {tensor.nbytes:,}")
    return tensor


def _corrupt(what: str) -> ValueError:
    return ValueError(f"its header is corrupt: {what}")


def _short(value: object) -> str:
    """`repr`, cut off: what a file says may be as long as the file."""
    return _REPR.repr(value)


_REPR: Final = Repr()
_REPR.maxstring = _REPR.maxother = 200
