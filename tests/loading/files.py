"""Files of arrays in each format, and what is loaded of them."""

from __future__ import annotations

import json
import mmap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import asyncgraph as ag

MATRIX = np.arange(12, dtype="float32").reshape(3, 4)
VECTOR = np.array([1, -2, 3], dtype="int64")
SAFETENSORS = {"bool": "BOOL", "float32": "F32", "float64": "F64", "int64": "I64", "uint8": "U8", "complex64": "C64"}


def save_npy(path: Path, **arrays: np.ndarray[Any, Any]) -> None:
    (array,) = arrays.values()
    np.save(path, array)


def save_npz(path: Path, **arrays: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


def save_packed(path: Path, **arrays: Any) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def save_safetensors(path: Path, **arrays: np.ndarray[Any, Any]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "np"}}
    data = b""
    for name, array in arrays.items():
        end = len(data) + array.nbytes
        header[name] = {
            "dtype": SAFETENSORS[array.dtype.name], "shape": array.shape, "data_offsets": [len(data), end],
        }  # fmt: skip
        data += array.tobytes()
    write_safetensors(path, header, data)


def write_safetensors(path: Path, header: Any, data: bytes = b"") -> None:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


FORMATS: dict[str, Callable[..., None]] = {
    "npy": save_npy, "npz": save_npz, "packed npz": save_packed, "safetensors": save_safetensors,
}  # fmt: skip
MAPPED = ["npy", "npz", "safetensors"]


def saved(folder: Path, form: str, **arrays: np.ndarray[Any, Any]) -> Path:
    path = folder / f"arrays.{form.split()[-1]}"
    FORMATS[form](path, **arrays)
    return path


def loaded(path: Path, key: str | None = None) -> np.ndarray[Any, Any]:
    with ag.Graph() as graph:
        node = ag.load(path, key)
    with ag.BlockingSession(graph) as session:
        result = session.run(node).results
    assert ag.ArraySpec(result.dtype, result.shape) is node.spec
    return result


def map_under(array: Any) -> mmap.mmap | None:
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, mmap.mmap) else None


def set_shape(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:
    """Changes the array object itself, which people still do, although NumPy 2.5 advises against it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        array.shape = shape
