"""`ag.load`: specs at the time a graph is built, data when a run first needs it, and what is refused."""

from __future__ import annotations

import gc
import io
import json
import mmap
import os
import pickle
import subprocess
import sys
import threading
import weakref
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgraph as ag
from asyncgraph.errors import LoadError, SpecTypeError

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


# -- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_the_spec_is_known_when_the_graph_is_built_and_the_value_is_the_file_s(form: str, tmp_path: Path) -> None:
    path = saved(tmp_path, form, w=MATRIX)
    with ag.Graph() as graph:
        node = ag.load(path)
    assert repr(node.spec) == "float32[3,4]"
    with ag.BlockingSession(graph) as session:
        result = session.run(node).results
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, MATRIX, strict=True)


@pytest.mark.parametrize("form", MAPPED)
def test_what_can_be_mapped_is_mapped(form: str, tmp_path: Path) -> None:
    assert map_under(loaded(saved(tmp_path, form, w=MATRIX))) is not None


def test_a_compressed_member_is_read_whole(tmp_path: Path) -> None:
    large = np.arange(300_000, dtype="float64")  # more than one piece
    result = loaded(saved(tmp_path, "packed npz", a=VECTOR, b=large), "b")
    assert map_under(result) is None
    np.testing.assert_array_equal(result, large, strict=True)


@pytest.mark.parametrize("form", ["npz", "packed npz", "safetensors"])
def test_a_key_says_which_array(form: str, tmp_path: Path) -> None:
    path = saved(tmp_path, form, w=MATRIX, v=VECTOR)
    np.testing.assert_array_equal(loaded(path, "w"), MATRIX, strict=True)
    np.testing.assert_array_equal(loaded(path, "v"), VECTOR, strict=True)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "array", [np.array(2.5), np.zeros((0, 3)), np.array([True, False])], ids=["0-d", "empty", "bool"]
)
def test_scalars_and_empty_arrays_are_arrays(form: str, array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    np.testing.assert_array_equal(loaded(saved(tmp_path, form, a=array)), array, strict=True)


@pytest.mark.parametrize("form", ["npy", "npz", "packed npz"])
@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(MATRIX),
        np.array(["a", "bcd"]),
        np.array(["2020-01-01"], "datetime64[D]"),
        MATRIX.astype(">f4"),
    ],
    ids=["fortran", "text", "time", "big-endian"],
)
def test_numpy_s_formats_keep_order_text_and_times(form: str, array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    result = loaded(saved(tmp_path, form, a=array))
    assert result.strides == array.strides
    assert result.dtype == array.dtype.newbyteorder("=")
    assert result.dtype.isnative
    np.testing.assert_array_equal(result, array)


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_loaded_is_read_only_and_stays_so(form: str, tmp_path: Path) -> None:
    result = loaded(saved(tmp_path, form, w=MATRIX))
    with pytest.raises(ValueError, match="read-only"):
        result[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        result.flags.writeable = True


def test_kernels_compute_with_what_is_loaded(tmp_path: Path) -> None:
    path = saved(tmp_path, "npz", w=MATRIX, v=VECTOR)
    with ag.Graph() as graph:
        x = ag.placeholder("float32", ("n", 3), name="x")
        y = x @ ag.load(path, "w")
    with ag.BlockingSession(graph) as session:
        rows = np.ones((2, 3), "float32")
        np.testing.assert_array_equal(session.run(y, {x: rows}).results, rows @ MATRIX, strict=True)


def test_a_path_is_text_or_a_path_object_and_a_relative_one_is_made_absolute_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, "npy", w=MATRIX)
    monkeypatch.chdir(tmp_path)
    with ag.Graph() as graph:
        nodes = [ag.load("arrays.npy"), ag.load(Path("arrays.npy"))]
    monkeypatch.chdir("/")
    with ag.BlockingSession(graph) as session:
        for result in session.run(nodes).results:
            np.testing.assert_array_equal(result, MATRIX)


# -- laziness ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_that_does_not_need_the_data_does_not_touch_the_file(form: str, tmp_path: Path) -> None:
    path = saved(tmp_path, form, w=MATRIX)
    with ag.Graph() as graph:
        w = ag.load(path)
        total = ag.ops.sum(w)
        other = ag.constant(1.0) + 1
    path.unlink()
    with ag.BlockingSession(graph) as session:
        assert session.run(other).results == 2.0
        assert session.run(total, {w: np.ones((3, 4), "float32")}).results == 12.0


async def test_the_data_is_read_in_a_thread_not_on_the_loop(tmp_path: Path) -> None:
    path = saved(tmp_path, "npy", w=MATRIX)
    with ag.Graph() as graph:
        w = ag.load(path, name="w")
    async with ag.Session(graph) as session:
        values = await session.run(w, options=ag.RunOptions(trace=True))
    trace = values.metadata.trace
    assert trace is not None
    (span,) = trace.spans
    assert span.node is w
    assert span.thread != threading.current_thread().name


@pytest.mark.parametrize("form", FORMATS)
def test_what_was_read_serves_later_runs_and_other_sessions(form: str, tmp_path: Path) -> None:
    path = saved(tmp_path, form, w=MATRIX)
    with ag.Graph() as graph:
        w = ag.load(path)
    with ag.BlockingSession(graph) as session:
        first = session.run(w).results
    path.unlink()
    with ag.BlockingSession(graph) as session:
        second = session.run(w).results
    assert np.shares_memory(first, second)
    second.shape = (12,)  # of its own object: the next run's has the shape of the file
    with ag.BlockingSession(graph) as session:
        assert session.run(w).results.shape == (3, 4)


def test_loads_of_one_file_share_one_map(tmp_path: Path) -> None:
    path = saved(tmp_path, "safetensors", w=MATRIX, v=VECTOR)
    w, v = loaded(path, "w"), loaded(path, "v")
    assert map_under(w) is map_under(v)


def test_the_map_goes_with_the_graph_and_the_results(tmp_path: Path) -> None:
    result = loaded(saved(tmp_path, "npy", w=MATRIX))
    found = map_under(result)
    assert found is not None
    gone = weakref.ref(found)
    del found, result
    gc.collect()
    assert gone() is None


def test_equal_loads_are_one_in_a_plan_which_prints_the_file_and_the_key(tmp_path: Path) -> None:
    path = saved(tmp_path, "npz", w=MATRIX, v=VECTOR)
    with ag.Graph() as graph:
        w, same, v = ag.load(path, "w", name="w"), ag.load(path, "w"), ag.load(path, "v", name="v")
        args = ag.RunArgs((w + same, v))
    with ag.BlockingSession(graph) as session:
        plan = str(session.explain(args))
        total, _ = session.run(args).results
    np.testing.assert_array_equal(total, MATRIX + MATRIX)
    assert "1 merged" in plan
    assert "w: float32[3,4] = load(" in plan
    assert "'arrays.npz', key='w'" in plan


# -- files that change -------------------------------------------------------------------------------


def grow(path: Path) -> None:
    np.save(path, np.ones((5, 5), "float32"))


def touch(path: Path) -> None:
    os.utime(path, ns=(0, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Path.unlink, "No such file or directory"),
        (grow, "the file has changed since the graph was built"),
        (touch, "the file has changed since the graph was built"),
    ],
)
def test_a_file_that_changed_before_it_was_read_is_an_error_that_names_node_and_path(
    change: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    path = saved(tmp_path, "npy", w=MATRIX)
    with ag.Graph() as graph:
        weights = ag.load(path, name="weights")
    change(path)
    with ag.BlockingSession(graph) as session, pytest.raises(LoadError) as caught:
        session.run(weights)
    assert str(caught.value).startswith(f"cannot load {str(path)!r}: {message}")
    assert "'weights'" in caught.value.__notes__[0]


def test_a_failed_read_is_tried_again_by_the_next_run(tmp_path: Path) -> None:
    path = saved(tmp_path, "npy", w=MATRIX)
    with ag.Graph() as graph:
        w = ag.load(path)
    hidden = path.rename(tmp_path / "hidden")
    with ag.BlockingSession(graph) as session:
        with pytest.raises(LoadError):
            session.run(w)
        hidden.rename(path)
        np.testing.assert_array_equal(session.run(w).results, MATRIX)


def test_a_pickled_graph_keeps_the_absolute_path_and_reads_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path, "npz", w=MATRIX, v=VECTOR)
    monkeypatch.chdir(tmp_path)
    with ag.Graph() as graph:
        ag.ops.sum(ag.load("arrays.npz", "w", name="w"), name="total")
    (tmp_path / "graph").write_bytes(pickle.dumps(graph))
    program = (
        "import pickle, sys, asyncgraph as ag\n"
        "graph = pickle.load(open(sys.argv[1], 'rb'))\n"
        "with ag.BlockingSession(graph) as session: print(graph['w'].spec, session.run('total').results)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "graph")], capture_output=True, text=True, check=True, cwd="/"
    )
    assert run.stdout == "float32[3,4] 66.0\n"


def test_after_unpickling_the_header_counts_and_not_the_time(tmp_path: Path) -> None:
    path = saved(tmp_path, "npy", w=MATRIX)
    with ag.Graph() as graph:
        ag.load(path, name="w")
    data = pickle.dumps(graph)
    touch(path)
    with ag.BlockingSession(pickle.loads(data)) as session:
        np.testing.assert_array_equal(session.run("w").results, MATRIX)
    grow(path)
    with (
        ag.BlockingSession(pickle.loads(data)) as session,
        pytest.raises(LoadError, match=r"it is float32\[5,5\], but was"),
    ):
        session.run("w")


# -- what is refused ---------------------------------------------------------------------------------


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
