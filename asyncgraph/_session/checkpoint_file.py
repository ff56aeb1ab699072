"""Checkpoints as files: arrays by name, in the safetensors format. All of it blocks.

Data go from the arrays' memory to the system, and back, without a copy between; but arrays that are not in C order
are turned round, in pieces. Which ones are in Fortran order is noted, and they are so again when they are read: kernels
round by the order of memory, and a training that is resumed goes on with the very same numbers.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, Literal, cast, final

import numpy as np

from .._safetensors import CODES, Tensor, header_bytes, read_header
from ..errors import CheckpointError, CheckpointFileError
from .replace_file import SystemCalls, remove_leftovers, replace_file

Array = np.ndarray[Any, Any]


@final
@dataclass(frozen=True, slots=True)
class CheckpointHeader:
    """What a checkpoint says of itself.

    Fields:
        path: the file.
        step: the global step that was saved or given with it; `None` if there was none.
        tensors: what it has, by name. Each prints as a spec does, and has a `dtype` and a `shape`.
        metadata: all texts that it carries, by name; other programs may have written others.
    """

    path: Path
    step: int | None
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


def write_checkpoint(
    path: str, arrays: Mapping[str, Array], step: int | None, go_on: Callable[[], None], calls: SystemCalls = os
) -> None:
    """Replaces the file at `path`, as `replace_file`, by one of `arrays`. The same arrays give the same bytes.

    Args:
        path: of the file, in a folder that there is.
        arrays: of dtypes among `CODES`, in any order of memory. Nobody may write to them meanwhile.
        step: noted with them.
        go_on: called every few megabytes; what it raises ends the writing, and the file is the old one.
        calls: see `replace_file`.

    Raises:
        CheckpointFileError: the system cannot write it.
    """
    # The widest first, as the format has it, so that what maps the file finds all data aligned.
    ordered = dict(sorted(arrays.items(), key=lambda pair: -pair[1].dtype.itemsize))
    metadata = {_VERSION: "1"}
    if step is not None:
        metadata[_STEP] = str(step)
    metadata.update({_ORDER + name: "F" for name, array in ordered.items() if _is_fortran(array)})
    header = header_bytes({name: (CODES[array.dtype], array.shape) for name, array in ordered.items()}, metadata)

    def pieces() -> Iterator[memoryview]:
        yield memoryview(header)
        for array in ordered.values():
            for block in _blocks(array, "readonly"):
                go_on()
                yield block

    with _errors("write", path):
        remove_leftovers(os.path.dirname(os.path.realpath(path)))
        replace_file(path, pieces(), calls)


def read_checkpoint_header(path: str) -> CheckpointHeader:
    """What the checkpoint at `path` has, without its data. Any file of the format will do.

    Raises:
        CheckpointFileError: there is no such file, or it is corrupt, or of a later version of asyncgraph.
    """
    with _opened(path) as (_, header):
        return header


def read_checkpoint(
    path: str, choose: Callable[[CheckpointHeader], Mapping[str, str]], go_on: Callable[[], None]
) -> tuple[CheckpointHeader, dict[str, Array]]:
    """What a checkpoint has: its header, and arrays that are the caller's, in native byte order.

    Args:
        path: of the file.
        choose: says which arrays are wanted, and as what: names in the file by the caller's own. What it raises
            ends the reading before there are any data.
        go_on: called every few megabytes; what it raises ends the reading.

    Raises:
        CheckpointFileError: as `read_checkpoint_header`; or the file was cut off meanwhile.
    """
    with _opened(path) as (file, header):
        return header, {name: _read(file, header, chosen, go_on) for name, chosen in choose(header).items()}


_VERSION: Final = "asyncgraph"
_STEP: Final = "step"
_ORDER: Final = "order of "
"""What the texts are called that stand beside the arrays. The last one has the name of an array behind it."""


@contextmanager
def _errors(what: Literal["read", "write"], path: str) -> Generator[None]:
    try:
        yield
    except CheckpointError:
        raise
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise CheckpointFileError(f"cannot {what} the checkpoint {path!r}: {reason}") from error


@contextmanager
def _opened(path: str) -> Generator[tuple[BufferedReader, CheckpointHeader]]:
    with _errors("read", path):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError("it is no regular file")  # Opening a pipe would wait for a writer.
        with open(path, "rb") as file:
            header = read_header(file)
            texts = header.metadata
            if texts.get(_VERSION, "1") != "1":
                raise ValueError(f"a later version of asyncgraph wrote it, in its format {texts[_VERSION]!r}")
            step = texts.get(_STEP, "")
            number = int(step) if step.isdecimal() and len(step) < 20 else None
            yield file, CheckpointHeader(Path(path), number, header.tensors, texts)


def _read(file: BufferedReader, header: CheckpointHeader, name: str, go_on: Callable[[], None]) -> Array:
    tensor = header.tensors[name]
    if tensor.dtype is None:
        raise ValueError(f"{name!r} is {tensor!r}, a dtype that NumPy has not")
    order = "F" if header.metadata.get(_ORDER + name) == "F" else "C"
    array: Array = np.empty(tensor.shape, tensor.dtype.newbyteorder("="), order)
    file.seek(tensor.begin)
    for block in _blocks(array, "writeonly"):
        go_on()
        if file.readinto(block) < len(block):
            raise ValueError("it was cut off while it was read")
    return array


def _blocks(array: Array, access: Literal["readonly", "writeonly"]) -> Iterator[memoryview]:
    """The bytes of an array as they stand in files, a block at a time.

    A block is the array's own memory, or holds until the next one is asked for: then what was written to it
    becomes the array's.
    """
    dtype = array.dtype.newbyteorder("<")
    if array.flags.c_contiguous and array.dtype == dtype:
        whole = array.reshape(-1).view(np.uint8).data
        yield from (whole[at : at + _BLOCK] for at in range(0, len(whole), _BLOCK))
        return
    make = cast("Any", np.nditer)  # whose stubs know no "contig"
    flags = ["external_loop", "buffered", "zerosize_ok"]
    with make(array, flags, [[access, "contig"]], [dtype], "C", "equiv", buffersize=_TURNED) as turned:
        for block in turned:
            yield block.view(np.uint8).data


_BLOCK: Final = 1 << 24
"""Bytes that are written at a time. Each write gives up the GIL, and may wait 5 ms to get it back from a busy loop."""
_TURNED: Final = 1 << 16
"""Elements that are brought into C order at a time, which holds the GIL: 0.3 ms for 4 bytes each."""


def _is_fortran(array: Array) -> bool:
    return array.flags.f_contiguous and not array.flags.c_contiguous
