"""What is loaded of a file is its array, read-only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

from .files import FORMATS, MAPPED, MATRIX, VECTOR, loaded, map_under, saved


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
