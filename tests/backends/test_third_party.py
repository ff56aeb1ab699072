"""A distribution that has a backend is all that a user installs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

PACKAGE = Path(__file__).parent.parent / "package_with_entrypoint"
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
PROGRAM = """
import asyncio
import asyncgraph as ag

with ag.Graph() as graph:
    x = ag.placeholder("float64", ("n",), name="x")
    with ag.device("toy:0"):
        y = ag.ops.square(x, name="y")
    with ag.device("/toy:1"):
        z = ag.ops.add(y, 1, name="z")
    with ag.device("toy"):
        product = ag.ops.matmul(y, y, name="product")

async def main():
    async with ag.Session(graph) as session:
        print((await session.run([y, z], {x: [1, 2, 3]})).results)
        for segment in session.explain(z, {x: [1.0]}).plan.segments:
            print(segment.where)
        try:
            await session.run(product, {x: [1.0]})
        except ag.errors.KernelNotFoundError as error:
            print(str(error).splitlines()[0])

asyncio.run(main())
"""
OUTPUT = """\
[array([1., 4., 9.]), array([ 2.,  5., 10.])]
toy:0 (toy)
toy:1 (toy)
the backend 'toy' cannot compute 'product' (matmul) on toy:0: a toy multiplies no matrices
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the toy backend, as pip would install its wheel."""
    folder = tmp_path_factory.mktemp("toy")
    run = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], capture_output=True, text=True, check=True, cwd=PACKAGE, timeout=50
    )
    ZipFile(folder / run.stdout.split()[-1]).extractall(folder / "site")
    return folder / "site"


def python(program: str, site: Path | None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*([str(site)] if site else []), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}, timeout=50,
    )  # fmt: skip


def test_a_session_finds_an_installed_backend_and_runs_on_its_devices(site: Path) -> None:
    run = python(PROGRAM, site)

    assert run.stderr == ""
    assert run.stdout == OUTPUT


def test_without_it_the_same_program_runs_on_numpy_and_says_so() -> None:
    run = python(PROGRAM, None)

    assert run.stdout == OUTPUT.splitlines()[0] + "\ncpu:0 (numpy)\n"
    lines = [line for line in run.stderr.splitlines() if line.startswith("nodes placed on")]
    assert lines == [
        "nodes placed on toy:0 run on cpu:0 instead: no backend has the device 'toy:0'",
        "nodes placed on toy:1 run on cpu:0 instead: no backend has the device 'toy:1'",
    ]
