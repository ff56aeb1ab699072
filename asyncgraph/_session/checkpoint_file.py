"""Checkpoints as files: arrays by name, in the safetensors format. All of it blocks.

Data go from the arrays' memory to the system, and back, without a copy between; but arrays that are not in C order
are turned round, in pieces. Which ones are in Fortran order is noted, and they are so again when they are read: kernels
round by the order of memory, and a training that is resumed goes on with the very same numbers. (Of arrays on devices
the order is not known before they are read, and they come back in C order.)
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

from .._exec.notes import forget_values
from .._safetensors import CODES, Tensor, header_bytes, read_header
from ..errors import CheckpointFileError
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


@final
@dataclass(frozen=True, slots=True)
class Source:
    """An array to be written.

    Fields:
        dtype, shape: what it is. The dtype is among `CODES`.
        in_fortran_order: whether that is what it will be read as.
        read: gives it, in any order of memory, when its turn has come. It is held until the next one's has.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    in_fortran_order: bool
    read: Callable[[], Array]

    @classmethod
    def of(cls, array: Array) -> Source:
        """That of an array which is there, and to which nobody writes meanwhile."""
        flags = array.flags
        return cls(array.dtype, array.shape, flags.f_contiguous and not flags.c_contiguous, lambda: array)


def write_checkpoint(
    path: str, arrays: Mapping[str, Source], step: int | None, go_on: Callable[[], None], calls: SystemCalls = os
) -> None:
    """Replaces the file at `path`, as `replace_file`, by one of `arrays`. The same arrays give the same bytes.

    Args:
        path: of the file, in a folder that there is.
        arrays: what is written.
        step: noted with them.
        go_on: called every few megabytes; what it raises ends the writing, and the file is the old one.
        calls: see `replace_file`.

    Raises:
        CheckpointFileError: the system cannot write it.
    """
    # The widest first, as the format has it, so that what maps the file finds all data aligned.
    ordered = dict(sorted(arrays.items(), key=lambda named: -named[1].dtype.itemsize))
    metadata = {_VERSION: "1"}
    if step is not None:
        metadata[_STEP] = str(step)
    metadata.update({_ORDER + name: "F" for name, one in ordered.items() if one.in_fortran_order})
    header = header_bytes({name: (CODES[one.dtype], one.shape) for name, one in ordered.items()}, metadata)

    def pieces() -> Iterator[memoryview]:
        yield memoryview(header)
        for one in ordered.values():
            for block in _blocks(one.read(), "readonly"):
                go_on()
                yield block

    with _errors("write", path):
        remove_leftovers(os.path.dirname(os.path.realpath(path)))
        replace_file(path, pieces(), calls)


@final
class CheckpointReader:
    """An open checkpoint; any file of the format will do. A context manager.

    Fields:
        header: what it says of itself.

    Raises:
        CheckpointFileError: there is no such file, or it is corrupt, or a later version of asyncgraph wrote it.
    """

    def __init__(self, path: str) -> None:
        with _errors("read", path):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise ValueError("it is no regular file")  # Opening a pipe would wait for a writer.
            self._file: Final = open(path, "rb")  # noqa: SIM115  # closed by `__exit__`
            try:
                self.header: Final = _header(path, self._file)
            except BaseException:
                self._file.close()
                raise

    def read(self, name: str, go_on: Callable[[], None]) -> Array:
        """An array, in native byte order. It is the caller's.

        Args:
            name: of a tensor in the header whose dtype NumPy has.
            go_on: called every few megabytes; what it raises ends the reading.

        Raises:
            CheckpointFileError: it cannot be read any more.
        """
        tensor = self.header.tensors[name]
        assert tensor.dtype is not None
        with _errors("read", str(self.header.path)):
            order = "F" if self.header.metadata.get(_ORDER + name) == "F" else "C"
            array: Array = np.empty(tensor.shape, tensor.dtype.newbyteorder("="), order)
            self._file.seek(tensor.begin)
            for block in _blocks(array, "writeonly"):
                go_on()
                if self._file.readinto(block) < len(block):
                    raise ValueError("it was cut off while it was read")
            return array

    def __enter__(self) -> CheckpointReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


_VERSION: Final = "asyncgraph"
_STEP: Final = "step"
_ORDER: Final = "order of "
"""What the texts are called that stand beside the arrays. The last one has the name of an array behind it."""


_NO_FOLDER: Final = "\n  make its folder before, or use a Saver, which does"


@contextmanager
def _errors(what: Literal["read", "write"], path: str) -> Generator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        forget_values(error)
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        hint = _NO_FOLDER if what == "write" and isinstance(error, FileNotFoundError) else ""
        raise CheckpointFileError(f"cannot {what} the checkpoint {path!r}: {reason}{hint}") from error


def _header(path: str, file: BufferedReader) -> CheckpointHeader:
    header = read_header(file)
    version = header.metadata.get(_VERSION, "1")
    if version != "1":
        raise ValueError(f"a later version of asyncgraph wrote it, in its format {version!r}")
    step = header.metadata.get(_STEP, "")
    number = int(step) if step.isdecimal() and len(step) < 20 else None
    return CheckpointHeader(Path(path), number, header.tensors, header.metadata)


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
