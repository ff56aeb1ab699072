"""What is no array of numbers, times or text in a file is refused, by name, when the graph is built."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgraph as ag
from asyncgraph.errors import LoadError, SpecTypeError

from .files import FORMATS, MATRIX, VECTOR, loaded, saved, write_safetensors


@pytest.mark.parametrize("form", ["npz", "safetensors"])
def test_a_key_that_is_needed_or_wrong_is_an_error_that_lists_the_arrays(form: str, tmp_path: Path) -> None:
    path = saved(tmp_path, form, w=MATRIX, v=VECTOR)
    with ag.Graph() as graph:
        with pytest.raises(LoadError, match=r"say which by key=\n  its arrays: 'w', 'v'"):
            ag.load(path)
        with pytest.raises(LoadError, match=r"cannot load 'x' of .*no such array\n  its arrays: 'w', 'v'"):
            ag.load(path, "x")
    assert len(graph) == 0


def test_a_key_for_a_file_of_one_array_is_an_error(tmp_path: Path) -> None:
    path = saved(tmp_path, "npy", w=MATRIX)
    with ag.Graph(), pytest.raises(LoadError, match="leave key= out"):
        ag.load(path, "w")


def test_an_archive_without_arrays_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "none of NumPy's")
    with ag.Graph(), pytest.raises(LoadError, match="its arrays: none"):
        ag.load(path)


@pytest.mark.parametrize(("path", "key"), [(3, None), (b"bytes", None), ("x.npz", 3)])
def test_what_is_no_path_or_no_name_is_refused(path: Any, key: Any) -> None:
    with ag.Graph(), pytest.raises(SpecTypeError, match="load takes a path"):
        ag.load(path, key)


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    with ag.Graph(), pytest.raises(LoadError, match="no regular file"):
        ag.load(tmp_path)
    with ag.Graph(), pytest.raises(OSError, match="No such file"):
        ag.load(tmp_path / "none.npy")
    (tmp_path / "text").write_text("not an array, whatever it is")
    with ag.Graph(), pytest.raises(LoadError, match=r"no \.npy, \.npz or \.safetensors file: it begins with b'not an"):
        ag.load(tmp_path / "text")


class Trap:
    """Pickled, it is a call that says that it was made."""

    sprung: list[str] = []  # noqa: RUF012  # shared by all, on purpose

    def __reduce__(self) -> tuple[Any, ...]:
        return Trap.sprung.append, ("unpickled",)


@pytest.mark.parametrize("form", ["npy", "npz", "packed npz"])
def test_python_objects_are_refused_and_never_unpickled(form: str, tmp_path: Path) -> None:
    path = saved(tmp_path, form, a=np.array([Trap()], dtype=object))
    with ag.Graph(), pytest.raises(SpecTypeError, match="never unpickled"):
        ag.load(path)
    assert Trap.sprung == []


@pytest.mark.parametrize("fields", [[("a", "f4"), ("b", "i8")], [("β", "f4")], "V2"], ids=["latin", "greek", "bytes"])
@pytest.mark.filterwarnings("ignore:Stored array in format 3.0")
def test_records_and_raw_bytes_are_refused(fields: Any, tmp_path: Path) -> None:
    path = saved(tmp_path, "npy", a=np.zeros(2, fields))
    with ag.Graph(), pytest.raises(SpecTypeError, match="it holds records"):
        ag.load(path)


def test_a_shape_that_cannot_be_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, "npy", w=MATRIX)
    path.write_bytes(path.read_bytes().replace(b"(3, 4)", b"(-3,4)"))
    with ag.Graph(), pytest.raises(LoadError, match=r"its header gives the shape \(-3, 4\)"):
        ag.load(path)


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F8_E5M2"])
def test_a_dtype_that_numpy_has_not_is_refused_by_tensor_and_dtype(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    header = {
        "w": {"dtype": dtype, "shape": [2], "data_offsets": [0, 4]},
        "v": {"dtype": "U8", "shape": [1], "data_offsets": [4, 5]},
    }
    write_safetensors(path, header, b"\0\0\0\0\7")
    with ag.Graph(), pytest.raises(SpecTypeError, match=f"cannot load 'w' of .* {dtype}, which NumPy has not"):
        ag.load(path, "w")
    assert loaded(path, "v") == 7


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 7]},
        {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]},
        ["F32", [2], [0, 8]],
    ],
)
def test_a_tensor_that_does_not_fit_its_header_is_refused(entry: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"w": entry}, bytes(8))
    with ag.Graph(), pytest.raises(LoadError, match="its header is corrupt"):
        ag.load(path)


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_that_was_cut_off_is_refused_when_the_graph_is_built(form: str, tmp_path: Path) -> None:
    whole = saved(tmp_path, form, w=MATRIX).read_bytes()
    path = tmp_path / "cut"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with ag.Graph(), pytest.raises(LoadError, match="cannot load"):
            ag.load(path)


def test_a_member_that_its_archive_misplaces_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, "npz", w=MATRIX, v=VECTOR)
    data = path.read_bytes()
    at = data.rindex(b"PK\3\4")
    path.write_bytes(data[:at] + b"PK\1\2" + data[at + 4 :])
    with ag.Graph():
        ag.load(path, "w")
        with pytest.raises(LoadError, match="its place in the archive holds something else"):
            ag.load(path, "v")


def test_a_compressed_member_whose_checksum_differs_fails_the_run_that_reads_it(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(20_000)  # more than is read for the header
    path = saved(tmp_path, "packed npz", w=np.frombuffer(noise, "uint8"))
    data = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        crc = archive.infolist()[0].CRC.to_bytes(4, "little")
    path.write_bytes(data.replace(crc, b"\0\1\2\3"))
    with ag.Graph() as graph:
        w = ag.load(path)
    with ag.BlockingSession(graph) as session, pytest.raises(LoadError, match="CRC"):
        session.run(w)


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_with_wrong_bytes_gives_an_array_of_its_spec_or_an_error_of_ours(
    form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    whole = saved(folder, form, w=MATRIX, **({} if form == "npy" else {"v": VECTOR})).read_bytes()
    number = iter(range(10**9))

    @settings(max_examples=150, derandomize=True, deadline=None, database=None)
    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), min_size=1, max_size=3))
    def check(changes: list[tuple[int, int]]) -> None:
        data = bytearray(whole)
        for at, byte in changes:
            data[at] = byte
        path = folder / str(next(number))
        path.write_bytes(data)
        try:
            loaded(path, None if form == "npy" else "w")
        except (LoadError, SpecTypeError):
            pass
        finally:
            path.unlink()

    check()
