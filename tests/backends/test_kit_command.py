"""`python -m asyncgraph.testing --backend`, and what pytest is told of the kit where both are installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """\
from asyncgraph.testing import BackendConformance
from asyncgraph.testing._kit.lifetime import Lifetime
from asyncgraph.testing._kit.transfers import Transfers
from asyncgraph_numpy import NumpyBackend


class Part(Transfers, Lifetime):
    backend_class = NumpyBackend
    dtypes = ("float64",)
    expected_failures = {"test_its_details_are_values_that_json_has": "a reason", "test_nothing": "a slip"}

    def test_its_details_are_values_that_json_has(self):
        raise ValueError
"""
TABLE = """
              passed  failed  expected failures  skipped
values             0       0                  0        0
transfers          5       1                  0       15
placement          0       0                  0        0
lifetime           4       0                  0        0
asynchronous       0       0                  0        0
faults             0       0                  0        0
other              0       0                  1        0
kit_of:Part        9       1                  1       15

failed:
  AssertionError: assert ['test_nothing'] == []
    test_every_expected_failure_is_the_name_of_a_test

expected failures:
  a reason
    test_its_details_are_values_that_json_has

skipped:
  the backend lacks the dtype
    test_an_array_comes_back_as_it_was[bool], test_an_array_comes_back_as_it_was[int8],
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kit_of.py").write_text(MODULE)
    return tmp_path


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=folder, timeout=55
    )


def test_the_command_prints_a_table_of_groups_and_what_failed_and_why(folder: Path) -> None:
    run = python(folder, "-m", "asyncgraph.testing", "--backend", "kit_of:Part")
    assert TABLE in run.stdout
    assert (run.returncode, run.stderr) == (1, "")


def test_a_backend_that_there_is_not_is_an_error_that_says_so(folder: Path) -> None:
    run = python(folder, "-m", "asyncgraph.testing", "--backend", "nobody")
    assert run.stderr.startswith("no backend named 'nobody' is installed\n  installed: ")
    assert (run.returncode, run.stdout) == (2, "")

    run = python(folder, "-m", "asyncgraph.testing", "--backend", "kit_of:Nothing")
    assert run.stderr.startswith(
        "there is no backend 'kit_of:Nothing': AttributeError: module 'kit_of' has no attribute"
    )
    assert run.returncode == 2

    run = python(folder, "-m", "asyncgraph.testing", "--backend", "asyncgraph.abc:Device")
    assert run.stderr == (
        "'asyncgraph.abc:Device' is <class 'asyncgraph.abc.Device'>\n"
        "  expected: a class of asyncgraph.abc.Backend, a function that makes one, or a BackendConformance\n"
    )
    assert run.returncode == 2


def test_without_pytest_the_command_says_that_it_is_needed(folder: Path) -> None:
    (folder / "pytest.py").write_text("raise ModuleNotFoundError(\"No module named 'pytest'\")")
    run = python(folder, "-m", "asyncgraph.testing", "--backend", "numpy")
    assert run.stderr == "the conformance kit needs pytest: No module named 'pytest'\n  pip install pytest\n"
    assert (run.returncode, run.stdout) == (2, "")


def test_the_groups_are_markers_that_pytest_knows(folder: Path) -> None:
    (folder / "test_kit.py").write_text("from kit_of import Part\n\nTestPart = Part\n")
    options = ["-q", "--collect-only", "--strict-markers", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    run = python(folder, "-m", "pytest", *options, "-m", "conformance(group='lifetime')")
    assert run.stdout.startswith("test_kit.py::TestPart::test_what_was_submitted_is_dropped_when_it_is_done\n")
    assert "4/26 tests collected (22 deselected)" in run.stdout


def test_what_pytest_loads_when_it_starts_is_not_asyncgraph(folder: Path) -> None:
    (folder / "test_loaded.py").write_text(
        "import sys\n\ndef test_loaded():\n"
        "    assert 'asyncgraph_pytest' in sys.modules\n    assert 'asyncgraph' not in sys.modules\n"
    )
    run = python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "test_loaded.py")
    assert run.returncode == 0, run.stdout
