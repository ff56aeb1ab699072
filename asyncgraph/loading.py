"""Arrays of files: the spec is read when the graph is built, the data when a run first needs it.

A file is mapped into memory and never read as a whole, but for what cannot be mapped: compressed members,
and arrays of the other byte order, are read into memory. All loads of one file share one map. What was
read is kept as long as the graph that loads it, for all of its sessions: a constant of what they plan then.

Three formats, told apart by their first bytes: .npy, .npz and .safetensors. NumPy's own readers of
headers serve the first two, and `zipfile` finds the members. For the third see `_safetensors`.

While a graph lives, replace a file that it loads by renaming another over it. One that is truncated or
written to in place changes the arrays under running kernels, or kills the process, as with any map.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, BinaryIO, Final, Literal, NamedTuple, cast, final
from weakref import WeakValueDictionary

import numpy as np
from numpy.lib import format as npy

from ._graph.building import current_graph
from ._graph.node import Node
from ._graph.op import Call, Op
from ._graph.spec import ArraySpec, DType
from ._graph.template import Template
from ._safetensors import Tensor, read_header
from .errors import LoadError, SpecTypeError

Array = np.ndarray[Any, Any]


def load(path: str | os.PathLike[str], key: str | None = None, name: str | None = None) -> Node:
    """A node of an array that stands in a file: .npy, .npz or .safetensors.

    Its dtype and shape are read now, its data when a run first needs it, in a thread; to later runs it is a
    constant. A run that does not need it, or is fed a value for it, does not touch the file. Its value is a
    read-only array over a map of the file; see the module for what is read into memory instead. In an .npz,
    data mostly stands where its dtype is not aligned: what it gives is right, but kernels such as `matmul`
    and `take` copy the whole array in every run. A large one belongs in an .npy or .safetensors file.

    Args:
        path: of the file. A relative one is made absolute now, and a pickled graph keeps it so.
        key: which array, in a file of several.
        name: what the node is called.

    Raises:
        LoadError: there is no such file, it is none of these formats, it is truncated or corrupt, or it has
            no array `key`; `key` is left out although there are several. Also raised by the run that first
            needs the data, if the file is gone by then, or has another size, time or header; in another
            process, which unpickled the graph, only the header counts.
        SpecTypeError: the array holds Python objects (they are never unpickled) or records, or is of a dtype
            that NumPy has not, such as bfloat16.
        GraphError: there is no current graph.
    """
    graph = current_graph()
    source = _source_of(path, key)
    return graph.add(_LOAD, (), {"template": Template((source,), {})}, source.spec, name)


# -- what a node holds -------------------------------------------------------------------------------


@final
class _Stamp(NamedTuple):
    """What tells whether a file is the one that it was."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, file: BinaryIO) -> _Stamp:
        """That of an open file, which a rename of its path does not change."""
        found = os.fstat(file.fileno())
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


@final
class Source:
    """An array of a file. One object for equal loads, so that they are merged and read once.

    Fields:
        path: the absolute path.
        key: which array of the file, or `None` if it has one without a name.
        spec: what its header said when the graph was built.
        stamp: which file that was; `None` if it was in another process.
    """

    __slots__ = ("__weakref__", "_array", "_lock", "key", "path", "spec", "stamp")

    def __init__(self, path: str, key: str | None, spec: ArraySpec, stamp: _Stamp | None) -> None:
        self.path: Final = path
        self.key: Final = key
        self.spec: Final = spec
        self.stamp: Final = stamp
        self._array: Array | None = None
        self._lock: Final = Lock()

    def read(self) -> Array:
        """A read-only view of the array, mapped or read at the first call. From any thread.

        Raises:
            LoadError: the file is gone, or is not what it was.
        """
        with self._lock:
            if self._array is None:
                with _errors(self.path, self.key):
                    self._array = self._first_read()
            # A view for each caller: who sets its shape does not set the others'.
            return self._array.view()

    @property
    def kept(self) -> Array | None:
        """What was read, itself and no view of it; `None` before."""
        return self._array

    def _first_read(self) -> Array:
        with _opened(self.path) as file:
            stamp = _Stamp.of(file)
            # By size and time: a file that was copied back is the same.
            if self.stamp is not None and stamp[2:] != self.stamp[2:]:
                raise ValueError(f"the file has changed since the graph was built{_HINT}")
            entry = _entry_of(file, self.path, stamp, self.key)
            if entry.spec is not self.spec:
                raise ValueError(f"it is {entry.spec!r}, but was {self.spec!r} when the graph was built{_HINT}")
            return _array_of(file, stamp, entry)

    def __reduce__(self) -> tuple[Callable[..., Source], tuple[object, ...]]:
        # Not one object with others of its path: each graph that is unpickled reads the file as it is then.
        return Source, (self.path, self.key, self.spec, None)

    def __repr__(self) -> str:
        # What plans show. Errors give the whole path.
        name = os.path.basename(self.path)
        return repr(name) if self.key is None else f"{name!r}, key={self.key!r}"


_HINT: Final = "\n  build the graph again, after the file was written"
_sources: Final[WeakValueDictionary[tuple[object, ...], Source]] = WeakValueDictionary()


def _source_of(path: str | os.PathLike[str], key: str | None) -> Source:
    if not isinstance(path, (str, os.PathLike)) or not isinstance(key, str | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise SpecTypeError(f"load takes a path and the name of an array in it, not {path!r} and {key!r}")
    absolute = os.path.abspath(os.fsdecode(path))
    with _errors(absolute, key), _opened(absolute) as file:
        stamp = _Stamp.of(file)
        spec = _entry_of(file, absolute, stamp, key).spec
    return _sources.setdefault((absolute, key, spec, stamp), Source(absolute, key, spec, stamp))


def _opened(path: str) -> BinaryIO:
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is no regular file")  # Opening a pipe would wait for a writer.
    return open(path, "rb")


def read(source: Source) -> Array:
    """What a load node calls."""
    return source.read()


def kept(source: Source) -> Array | None:
    """What a load node's call has read before."""
    return source.kept


_LOAD: Final = Op("load", call=Call(function=read, kept=kept))


@contextmanager
def _errors(path: str, key: str | None) -> Generator[None]:
    """Says of what goes wrong where it did: ValueError for a file, TypeError for a dtype."""
    what = repr(path) if key is None else f"{key!r} of {path!r}"
    try:
        yield
    except OSError as error:
        raise LoadError(f"cannot load {what}: {error.strerror or error}") from error
    except TypeError as error:
        raise SpecTypeError(f"cannot load {what}: {error}") from error
    except _CORRUPT as error:
        raise LoadError(f"cannot load {what}: {error}") from error


# -- where an array stands in its file ---------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Entry:
    """Where an array stands in its file, and what it is there.

    Fields:
        dtype: in the file's byte order.
        shape, order: as NumPy has them.
        offset: of its first byte, from the beginning of the file, or of the compressed member.
        packed: the member that it is compressed in, or `None`.
    """

    dtype: DType
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    offset: int
    packed: zipfile.ZipInfo | None = None

    @property
    def spec(self) -> ArraySpec:
        """What its value is."""
        return ArraySpec(self.dtype, self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self.dtype.itemsize * math.prod(self.shape)


@final
@dataclass(frozen=True, slots=True)
class _Format:
    """A format of files.

    Fields:
        begins: whether the first 9 bytes of a file are this format's.
        members: the arrays of a file by name, each as the format knows it; `None` is the name of one without.
        entry: where such a member stands in the file.
    """

    begins: Callable[[bytes], bool]
    members: Callable[[BinaryIO], Mapping[str | None, Any]]
    entry: Callable[[BinaryIO, Any], _Entry]


def _entry_of(file: BinaryIO, path: str, stamp: _Stamp, key: str | None) -> _Entry:
    format_, members = _directory(path, stamp)
    entry = format_.entry(file, members[_chosen(key, members)])
    end = entry.offset + entry.nbytes
    size = stamp.size if entry.packed is None else entry.packed.file_size
    if end > size:
        raise ValueError(f"it is truncated: {entry.spec!r} ends at byte {end:,}, and there are {size:,}")
    return entry


@lru_cache(maxsize=8)  # A model is hundreds of loads of one file, whose list of arrays may take a millisecond to read.
def _directory(path: str, stamp: _Stamp) -> tuple[_Format, Mapping[str | None, Any]]:
    with _opened(path) as file:
        if _Stamp.of(file) != stamp:
            raise ValueError("the file is being replaced")
        head = file.read(9)
        file.seek(0)
        for format_ in _FORMATS:
            if format_.begins(head):
                return format_, format_.members(file)
    raise ValueError(f"it is no .npy, .npz or .safetensors file: it begins with {head!r}")


def _chosen(key: str | None, members: Mapping[str | None, Any]) -> str | None:
    if key is None and len(members) == 1:
        return next(iter(members))
    if key in members:
        return key
    if None in members:
        raise ValueError("the file has one array, without a name\n  leave key= out")
    names = [repr(name) for name in members]
    shown = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    what = "the file has several arrays: say which by key=" if key is None else "the file has no such array"
    raise ValueError(f"{what}\n  its arrays: {shown or 'none'}")


# -- .npy and .npz -----------------------------------------------------------------------------------


def _npy_entry(file: BinaryIO, packed: zipfile.ZipInfo | None = None) -> _Entry:
    """The entry of an array in NumPy's format that begins where `file` is."""
    read_header = _NPY_HEADERS.get(npy.read_magic(file))
    if read_header is None:
        raise TypeError("it holds records\n  save each of their fields as an array of its own")
    shape, is_fortran, dtype = read_header(file)
    if any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"its header gives the shape {shape}")
    if dtype.hasobject:
        raise TypeError("it holds Python objects, which are never unpickled\n  save it as an array of numbers or text")
    if dtype.kind == "V":
        raise TypeError(f"it holds records or raw bytes ({dtype})\n  save arrays of numbers, times or text")
    return _Entry(dtype, shape, "F" if is_fortran else "C", file.tell(), packed)


_NPY_HEADERS: Final[dict[tuple[int, int], Callable[[BinaryIO], tuple[tuple[int, ...], bool, DType]]]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}
"""By the version of the format. A third is written only for records whose fields have names beyond Latin-1."""


def _zip_members(file: BinaryIO) -> Mapping[str | None, Any]:
    with zipfile.ZipFile(file) as archive:
        return {one.filename.removesuffix(".npy"): one for one in archive.infolist() if one.filename.endswith(".npy")}


def _zip_entry(file: BinaryIO, member: zipfile.ZipInfo) -> _Entry:
    if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & _ENCRYPTED:
        with zipfile.ZipFile(file) as archive, archive.open(member) as stream:
            return _npy_entry(cast("BinaryIO", stream), packed=member)
    # Names and extra fields stand before the data, in lengths that the list of members need not agree with.
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    signature, name_size, extra_size = _LOCAL_HEADER.unpack(header)
    if signature != b"PK\3\4":
        raise ValueError("its place in the archive holds something else")
    file.seek(name_size + extra_size, os.SEEK_CUR)
    return _npy_entry(file)


_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
_ENCRYPTED: Final = 1


# -- .safetensors ------------------------------------------------------------------------------------


def _tensors(file: BinaryIO) -> Mapping[str | None, Any]:
    return {**read_header(file).tensors}


def _tensor_entry(file: BinaryIO, tensor: Tensor) -> _Entry:
    if tensor.dtype is None:
        raise TypeError(f"its dtype is {tensor.code}, which NumPy has not\n  save it as F32, or load it in a user op")
    return _Entry(tensor.dtype, tensor.shape, "C", tensor.begin)


_FORMATS: Final = (
    _Format(lambda head: head.startswith(npy.MAGIC_PREFIX), lambda file: {None: None}, _npy_entry),
    _Format(lambda head: head.startswith((b"PK\3\4", b"PK\5\6")), _zip_members, _zip_entry),
    _Format(lambda head: head[8:] == b"{", _tensors, _tensor_entry),
)

_CORRUPT: Final = (
    ValueError, zipfile.BadZipFile, zlib.error, EOFError, struct.error, tokenize.TokenError, SyntaxError,
    NotImplementedError, RuntimeError, OverflowError,
)  # fmt: skip
"""What Python's and NumPy's readers raise for files that are not what they should be."""


# -- the data ----------------------------------------------------------------------------------------

_maps: Final[WeakValueDictionary[_Stamp, mmap.mmap]] = WeakValueDictionary()
_maps_lock: Final = Lock()


def _array_of(file: BinaryIO, stamp: _Stamp, entry: _Entry) -> Array:
    if entry.packed is None:
        array: Array = np.ndarray(entry.shape, entry.dtype, _map_of(file, stamp), entry.offset, order=entry.order)
    else:
        array = _unpacked(file, entry.packed, entry)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    array.flags.writeable = False
    return array


def _map_of(file: BinaryIO, stamp: _Stamp) -> mmap.mmap:
    """The map of a file, kept by the arrays over it."""
    with _maps_lock:
        made = _maps.get(stamp)
        if made is None:
            made = _maps[stamp] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return made


def _unpacked(file: BinaryIO, packed: zipfile.ZipInfo, entry: _Entry) -> Array:
    """The array of a compressed member, whose checksum is compared."""
    data = np.empty(packed.file_size - entry.offset, np.uint8)
    with zipfile.ZipFile(file) as archive, archive.open(packed) as stream:
        stream.read(entry.offset)
        done = 0
        while done < data.size:
            piece = stream.read(_PIECE)
            if not piece:
                raise EOFError("it is truncated")
            data[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
            done += len(piece)
    data.flags.writeable = False
    return np.ndarray(entry.shape, entry.dtype, data.data, order=entry.order)


_PIECE: Final = 1 << 20
"""Bytes of a compressed member that are unpacked at a time, so that there are no two copies of it."""
