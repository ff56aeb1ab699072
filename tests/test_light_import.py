"""`import asyncgraph` brings in what every program needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys

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
