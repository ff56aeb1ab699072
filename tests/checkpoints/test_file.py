"""What is written is a safetensors file, and comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from asyncgraph._safetensors import CODES
from asyncgraph._session import checkpoint_file
from asyncgraph._session.checkpoint_file import CheckpointHeader, CheckpointReader, Source, write_checkpoint

Array = np.ndarray[Any, Any]
LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "reversed": lambda array: np.ascontiguousarray(array[::-1])[::-1] if array.ndim else array,
    "spread": lambda array: np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array,
}


def go_on() -> None:
    """Nobody stops anything."""


def write(path: Path, named: Mapping[str, Array], step: int | None = None, go_on: Callable[[], None] = go_on) -> None:
    write_checkpoint(str(path), {name: Source.of(array) for name, array in named.items()}, step, go_on)


def written(path: Path, **named: Array) -> Path:
    write(path, named)
    return path


def header_of(path: Path) -> CheckpointHeader:
    with CheckpointReader(str(path)) as file:
        return file.header


def read(path: Path, go_on: Callable[[], None] = go_on) -> dict[str, Array]:
    with CheckpointReader(str(path)) as file:
        return {name: file.read(name, go_on) for name in file.header.tensors}


def same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    assert {*found} == {*expected}
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


@st.composite
def arrays_of_all_kinds(draw: st.DrawFn) -> Array:
    dtype = draw(st.sampled_from(sorted(CODES, key=str)))
    array = draw(arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))
    return LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](array)


@settings(max_examples=80, derandomize=True, deadline=None, database=None)
@given(named=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), arrays_of_all_kinds(), max_size=5))
def test_what_is_written_is_what_the_safetensors_package_and_we_read(
    named: dict[str, Array], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    write(path, named)
    same(load_file(path), named)
    same(read(path), named)


@settings(max_examples=30, derandomize=True, deadline=None, database=None)
@given(named=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), arrays_of_all_kinds(), max_size=5))
def test_what_the_safetensors_package_writes_is_what_we_read(
    named: dict[str, Array], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "other.safetensors"
    named = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in named.items()}
    save_file(named, path, metadata={"epoch": "3"})
    same(read(path), named)
    assert header_of(path).metadata == {"epoch": "3"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_many_pieces_come_back_whole(layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_file, "_BLOCK", 64)
    monkeypatch.setattr(checkpoint_file, "_TURNED", 7)
    array = LAYOUTS[layout](np.arange(3 * 50 * 5, dtype="float32").reshape(3, 50, 5))
    path = written(tmp_path / "a", a=array, b=np.arange(3))
    same(load_file(path), {"a": array, "b": np.arange(3)})
    same(read(path), {"a": array, "b": np.arange(3)})


def test_arrays_in_fortran_order_come_back_in_fortran_order(tmp_path: Path) -> None:
    c = np.arange(6.0).reshape(2, 3)
    path = written(tmp_path / "a", f=np.asfortranarray(c), c=c)
    found = read(path)
    assert found["f"].flags.f_contiguous
    assert found["c"].flags.c_contiguous
    assert found["f"].flags.writeable


def test_big_arrays_are_written_from_their_own_memory(tmp_path: Path) -> None:
    array = np.arange(10.0)
    (block,) = checkpoint_file._blocks(array, "readonly")
    assert np.shares_memory(np.asarray(block), array)


def test_data_begin_where_their_dtype_is_aligned(tmp_path: Path) -> None:
    path = written(tmp_path / "a", b=np.ones(3, "?"), h=np.ones(3, "f2"), d=np.ones(3), i=np.ones(1, "i4"))
    for tensor in header_of(path).tensors.values():
        assert tensor.dtype is not None
        assert tensor.begin % tensor.dtype.itemsize == 0


def test_the_same_arrays_give_the_same_bytes(tmp_path: Path) -> None:
    named = {"b": np.ones(3), "a": np.zeros((2, 2), "f4"), "c": np.zeros(1, "f4")}
    assert written(tmp_path / "a", **named).read_bytes() == written(tmp_path / "b", **named).read_bytes()


def test_the_step_stands_in_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write(path, {"w": np.ones((2, 3), "f4")}, 120)
    header = header_of(path)
    assert (header.path, header.step) == (path, 120)
    assert repr(header.tensors) == "{'w': float32[2,3]}"
    with safe_open(path, framework="np") as file:
        assert file.metadata() == {"asyncgraph": "1", "step": "120"}


@pytest.mark.parametrize("text", ["", "-1", "1.5", "ten", "9" * 20, "²"])
def test_a_step_of_another_program_that_is_no_number_is_none(text: str, tmp_path: Path) -> None:
    save_file({"w": np.ones(1)}, tmp_path / "a", metadata={"step": text})
    assert header_of(tmp_path / "a").step is None


def test_what_is_not_asked_for_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a", a=np.arange(3), b=np.arange(4.0))
    calls: list[None] = []
    with CheckpointReader(str(path)) as file:
        assert [*file.header.tensors] == ["a", "b"]
        same({"b": file.read("b", lambda: calls.append(None))}, {"b": np.arange(4.0)})
    assert len(calls) == 1


def test_who_stops_the_writing_finds_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    path = written(tmp_path / "a", w=np.arange(3))
    before = path.read_bytes()
    with pytest.raises(Stop):
        write(path, {"w": np.arange(4)}, go_on=stop)
    assert path.read_bytes() == before
    with pytest.raises(Stop):
        read(path, stop)
    assert [*tmp_path.iterdir()] == [path]


def test_the_header_is_padded_so_that_data_begin_at_a_multiple_of_eight(tmp_path: Path) -> None:
    for length in range(1, 10):
        data = written(tmp_path / "a", **{"n" * length: np.ones(1)}).read_bytes()
        size = int.from_bytes(data[:8], "little")
        assert size % 8 == 0
        assert json.loads(data[8 : 8 + size])["n" * length]["data_offsets"] == [0, 8]
