"""Whatever stands in a file, reading it gives what its header says, or an error that says what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncgraph._session.checkpoint_file import CheckpointHeader, CheckpointReader, Source, write_checkpoint
from asyncgraph.errors import CheckpointFileError


def go_on() -> None:
    """Nobody stops anything."""


def header_of(path: str | Path) -> CheckpointHeader:
    with CheckpointReader(str(path)) as file:
        return file.header


def read(path: str | Path, go_on: Callable[[], None] = go_on) -> dict[str, np.ndarray[Any, Any]]:
    with CheckpointReader(str(path)) as file:
        return {name: file.read(name, go_on) for name in file.header.tensors}


def write(path: Path, named: dict[str, np.ndarray[Any, Any]]) -> None:
    write_checkpoint(str(path), {name: Source.of(array) for name, array in named.items()}, 3, go_on)


def entry(begin: int, end: int, dtype: Any = "U8", shape: Any = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def file_of(path: Path, header: Any, data: bytes = b"") -> str:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return str(path)


CORRUPT = {
    "overlap": ({"a": entry(0, 4), "b": entry(2, 6)}, "'b' begins at byte .*, what is before it ends at"),
    "same place": ({"a": entry(0, 6), "b": entry(0, 6)}, "'b' begins at byte"),
    "hole": ({"a": entry(0, 2), "b": entry(4, 6)}, "'b' begins at byte"),
    "hole at the beginning": ({"a": entry(2, 6)}, "'a' begins at byte"),
    "bytes at the end": ({"a": entry(0, 4)}, "2 bytes at the end are no tensor's"),
    "out of range": ({"a": entry(0, 7)}, r"it is truncated: its data end at byte .*, and there are"),
    "backwards": ({"a": entry(6, 0, shape=[0])}, "'a' is {"),
    "negative": ({"a": entry(-6, 0)}, "'a' is {"),
    "wrong size": ({"a": entry(0, 6, "F32", [2])}, r"'a' is float32\[2\], which takes 8 bytes, not 6"),
    "negative shape": ({"a": entry(0, 6, shape=[-2, -3])}, "'a' is {"),
    "shape of a bool": ({"a": entry(0, 6, shape=[True, 6])}, "'a' is {"),
    "shape of a fraction": ({"a": entry(0, 6, shape=[6.0])}, "'a' is {"),
    "huge shape": ({"a": entry(0, 6, shape=[2**63, 0])}, "'a' is {"),
    "many axes": ({"a": entry(0, 6, shape=[6] + [1] * 64)}, "'a' is {"),
    "no shape": ({"a": {"dtype": "U8", "data_offsets": [0, 6]}}, "'a' is {"),
    "no dtype": ({"a": entry(0, 6, None)}, "'a' is {"),
    "long dtype": ({"a": entry(0, 6, "U" * 10_000)}, "'a' is {"),
    "three offsets": ({"a": entry(0, 6) | {"data_offsets": [0, 3, 6]}}, "'a' is {"),
    "no tensor": ({"a": 6}, "'a' is 6"),
    "metadata of numbers": ({"__metadata__": {"step": 3}, "a": entry(0, 6)}, "__metadata__ is {'step': 3}"),
    "metadata of a list": ({"__metadata__": ["step"], "a": entry(0, 6)}, r"__metadata__ is \['step'\]"),
    "no metadata": ({"__metadata__": None, "a": entry(0, 6)}, "__metadata__ is None"),
    "a later version": ({"__metadata__": {"asyncgraph": "2"}, "a": entry(0, 6)}, "a later version .* format '2'"),
    "a list": ([entry(0, 6)], r"it begins with b'\[\{"),
    "a name twice": (b'{"a": {}, "a": {}}', "it has 'a' twice"),
    "a key twice": (b'{"a": {"dtype": "U8", "dtype": "I8"}}', "it has 'dtype' twice"),
    "no JSON": (b'{"a": }', "Expecting value"),
    "two values": (b"{}{}", "Extra data"),
    "no text": (b'{"\xff": 1}', "can't decode byte"),
    "not a number": (b'{"a": NaN}', "NaN is no JSON"),
    "infinity": (b'{"a": -Infinity}', "-Infinity is no JSON"),
    "a number of 10,000 digits": (b'{"a": ' + b"9" * 10_000 + b"}", "10000 digits"),
    "nested deep": (b'{"a":' * 100_000, "nested too deep"),
    "nothing": (b"", "it begins with b''"),
}


@pytest.mark.parametrize("header", CORRUPT)
def test_a_corrupt_header_is_an_error_that_says_what_is_wrong(header: str, tmp_path: Path) -> None:
    content, told = CORRUPT[header]
    path = file_of(tmp_path / "model", content, b"abcdef")
    with pytest.raises(CheckpointFileError, match=f"cannot read the checkpoint '.*': .*{told}") as raised:
        header_of(path)
    assert len(str(raised.value)) < 2000


def test_a_header_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with path.open("wb") as file:
        file.write((100_000_001).to_bytes(8, "little") + b"{")
        file.truncate(200_000_000)  # A file with a hole, which takes no room.
    with pytest.raises(CheckpointFileError, match="its header is corrupt: it takes 100,000,001 bytes"):
        header_of(path)


@pytest.mark.parametrize("length", [2**62, 2**64 - 1])
def test_a_header_longer_than_the_file_is_an_error(length: int, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(length.to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointFileError, match="it is truncated"):
        header_of(path)


def test_what_is_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointFileError, match="No such file"):
        header_of(tmp_path / "none")
    with pytest.raises(CheckpointFileError, match="no regular file"):
        header_of(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointFileError, match="no regular file"):
        header_of(tmp_path / "pipe")
    with pytest.raises(CheckpointFileError, match="embedded null"):
        header_of("a\0b")


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    missing = r"No such file or directory\n  make its folder before, or use a Saver"
    for path, told in ((tmp_path / "none" / "model", missing), (tmp_path, "it is no regular file")):
        with pytest.raises(CheckpointFileError, match=f"cannot write the checkpoint '.*': {told}"):
            write(path, {"w": np.ones(3)})
    assert [*tmp_path.iterdir()] == []
    assert [path for path in tmp_path.parent.iterdir() if path.suffix == ".tmp"] == []


def test_a_dtype_that_numpy_has_not_is_named_and_the_rest_can_be_read(tmp_path: Path) -> None:
    path = file_of(tmp_path / "model", {"w": entry(0, 4, "BF16", [2]), "v": entry(4, 6)}, b"abcdef")
    assert repr(header_of(path).tensors["w"]) == "BF16[2]"
    with CheckpointReader(path) as file:
        assert file.header.tensors["w"].dtype is None
        assert bytes(file.read("v", go_on)) == b"ef"


def test_a_file_that_is_cut_off_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write(path, {"w": np.arange(10_000)})
    with pytest.raises(CheckpointFileError, match="cut off while it was read"):
        read(path, lambda: os.truncate(path, 20_000))


def test_a_file_that_was_cut_off_anywhere_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write(path, {"w": np.arange(3), "v": np.ones(2, "f4")})
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointFileError, match="cannot read the checkpoint"):
            header_of(path)


def test_a_file_with_wrong_bytes_gives_arrays_of_its_header_or_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write(path, {"w": np.asfortranarray(np.ones((3, 2))), "v": np.ones(2, "?")})
    whole = path.read_bytes()

    @settings(max_examples=200, derandomize=True, deadline=None, database=None)
    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), min_size=1, max_size=3))
    def check(changes: list[tuple[int, int]]) -> None:
        data = bytearray(whole)
        for at, byte in changes:
            data[at] = byte
        path.write_bytes(data)
        try:
            header = header_of(path)
            found = read(path) if all(tensor.dtype for tensor in header.tensors.values()) else {}
        except CheckpointFileError:
            return
        for name, array in found.items():
            assert (array.dtype, array.shape) == (header.tensors[name].dtype, header.tensors[name].shape)

    check()
