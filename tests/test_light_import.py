"""`import asyncgraph` brings in what every program needs, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = [
    "array_api_strict",
    "asyncgraph.testing",
    "asyncgraph_cupy",
    "asyncgraph_numpy",
    "cupy",
    "dask",
    "distributed",
    "hypothesis",
    "importlib.metadata",
    "matplotlib",
    "multiprocessing",
    "pytest",
    "trio",
    "uvloop",
]


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    program = "import sys; import asyncgraph; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    return set(run.stdout.split())


@pytest.mark.parametrize("module", HEAVY)
def test_importing_asyncgraph_does_not_import(loaded: set[str], module: str) -> None:
    assert module not in loaded


def test_importing_asyncgraph_imports_its_own_names(loaded: set[str]) -> None:
    assert {"asyncgraph", "asyncgraph.ops", "numpy"} <= loaded


RUN = """
import asyncgraph as ag
with ag.Graph() as graph:
    x = ag.placeholder("float64", name="x")
    y = ag.ops.square(x)
with ag.BlockingSession(graph) as session:
    print(session.run(y, {x: 3.0}).results)
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("import asyncgraph, asyncgraph.__main__", []),
        (RUN, ["9.0"]),
        ("import asyncgraph_cupy; asyncgraph_cupy.CupyBackend().details()", []),
        ("import cupy", ["cupy is imported"]),
    ],
    ids=["importing asyncgraph", "a run on the CPU", "making the backend", "importing it"],
)
def test_cupy_is_imported_by_nothing_that_needs_no_gpu_also_where_it_is_installed(
    program: str, printed: list[str], tmp_path: Path
) -> None:
    for name in ("cupy", "cupyx", "cupy_backends"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"print('{name} is imported')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert run.stdout.splitlines() == printed
