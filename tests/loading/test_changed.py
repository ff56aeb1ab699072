"""A file that changed before it was read, or was read in another process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import LoadError

from .files import MATRIX, VECTOR, saved


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
