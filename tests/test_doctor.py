"""`python -m asyncgraph doctor`: what is installed, which devices can be used, and why a GPU is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.__main__ import main
from asyncgraph._doctor import BackendReport, BlasReport, Report, as_json, as_text

TOY = """
from asyncgraph.abc import Backend, Device
class Toy(Backend):
    name = "toy"
    def devices(self):
        {devices}
    def details(self):
        {details}
    def kernel(self, op, params, operands, device): raise NotImplementedError
    def to_device(self, array, device): return array
    def to_host(self, array): return array
"""
Install = Callable[..., None]
Doctor = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Installs a backend for the processes of `doctor`."""

    def install(devices: str, details: str = "return {}") -> None:
        (tmp_path / "toys.py").write_text(TOY.format(devices=devices, details=details))
        info = tmp_path / "some_toys-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-toys\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[asyncgraph.backends]\ntoy = toys:Toy\n")

    return install


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    """Runs it in a new process, in which this machine's GPUs are hidden."""

    def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "ASYNCGRAPH_REQUIRE_GPU"}
        path = os.pathsep.join([str(tmp_path), *filter(None, [environment.get("PYTHONPATH")])])
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "asyncgraph", "doctor", *arguments],
            capture_output=True, text=True, check=False, timeout=50,
            env={**environment, "CUDA_VISIBLE_DEVICES": "", **variables, "PYTHONPATH": path},
        )  # fmt: skip

    return doctor


def backend(run: subprocess.CompletedProcess[str], name: str) -> dict[str, Any]:
    return {one["name"]: one for one in json.loads(run.stdout)["backends"]}[name]


def test_json_has_these_keys(doctor: Doctor) -> None:
    run = doctor("--json")
    report = json.loads(run.stdout)
    assert (run.returncode, run.stderr) == (0, "")
    assert {name: type(value) for name, value in report.items()} == {
        "versions": dict,
        "platform": str,
        "event_loops": dict,
        "cores": int,
        "usable_cores": int,
        "blas": list,
        "session_blas_threads": int,
        "backends": list,
        "gpus": list,
        "no_gpu": str,
    }
    assert report["versions"] == {
        "python": ".".join(map(str, sys.version_info[:3])),
        **{name: version(name) for name in ("asyncgraph", "numpy", "anyio", "threadpoolctl")},
    }
    assert {*report["event_loops"]} == {"asyncio", "uvloop"}
    assert report["usable_cores"] == ag.SessionConfig().worker_count <= report["cores"]
    assert all({*one} == {"library", "version", "threads", "file"} for one in report["blas"])
    assert backend(run, "numpy") == {
        "name": "numpy",
        "origin": f"asyncgraph_numpy:NumpyBackend of asyncgraph {version('asyncgraph')}",
        "devices": ["cpu:0"],
        "trouble": "",
        "details": {},
    }


REPORT = Report(
    versions={"python": "3.11.7", "numpy": None},
    platform="Linux",
    event_loops={"asyncio": "3.11.7", "uvloop": None},
    cores=4,
    usable_cores=2,
    blas=(BlasReport("openblas", "0.3", 2, "/openblas.so"), BlasReport("mkl", None, 4, "/mkl.so")),
    session_blas_threads=1,
    backends=(
        BackendReport("numpy", "numbers:Numbers of them 1.0", ("cpu:0",), "", {}),
        BackendReport("toy", "toys:Toy of some-toys 1.0", (), "finds no device:\nno driver", {
            "driver": "1.2", "all_well": True, "lost": None, "set": "", "memory": {"total": 1, "free": 0},
            "of": ["a", "b"], "others": [], "more": {},
        }),
    ),
    gpus=(),
    no_gpu="toy finds no device:\nno driver",
)  # fmt: skip


def test_text_is_in_two_columns() -> None:
    assert as_text(REPORT) == (
        """\
python         3.11.7
numpy          not installed
platform       Linux
event loops    asyncio 3.11.7, uvloop not installed
cores          4, of which this process may use 2
BLAS           openblas 0.3, threads: 2 (1 while a session is open)
               mkl of unknown version, threads: 4 (1 while a session is open)
backend numpy  cpu:0
               numbers:Numbers of them 1.0
backend toy    finds no device:
               no driver
               toys:Toy of some-toys 1.0
               driver: 1.2
               all well: yes
               lost: none
               set: ''
               memory: total 1, free 0
               of: a; b
               others: none
               more: none
GPU            none, for the reason given above"""
    )


def test_json_is_the_same_report() -> None:
    report = json.loads(as_json(REPORT))
    assert {*report} == {field.name for field in fields(Report)}
    assert report["backends"][1]["details"]["memory"] == {"total": 1, "free": 0}


def test_the_last_line_names_the_gpus_or_says_that_no_backend_is_for_them() -> None:
    with_gpus = replace(REPORT, gpus=("gpu:0", "gpu:1"), no_gpu="")
    assert as_text(with_gpus).splitlines()[-1] == "GPU            gpu:0, gpu:1"
    without = replace(REPORT, backends=REPORT.backends[:1], no_gpu="no backend for GPUs is installed")
    assert as_text(without).splitlines()[-1] == "GPU            none: no backend for GPUs is installed"


def test_a_backend_without_devices_says_why_and_still_tells_what_it_knows(install: Install, doctor: Doctor) -> None:
    install('raise OSError("the driver is too old:\\n470, needs 525")', 'return {"driver": 470}')
    run = doctor("--json")
    toy = backend(run, "toy")
    assert run.returncode == 0
    assert toy["devices"] == []
    assert toy["trouble"] == "finds no device: OSError: the driver is too old:\n470, needs 525"
    assert toy["details"] == {"driver": 470}
    report = json.loads(run.stdout)
    assert report["gpus"] == []
    assert f"toy {toy['trouble']}" in report["no_gpu"]


def test_details_that_break_the_contract_break_nothing_else(install: Install, doctor: Doctor) -> None:
    install('return [Device("toy")]', "raise KeyError(1)")
    assert backend(doctor("--json"), "toy")["details"] == {"details": "KeyError: 1"}


def test_a_gpu_of_any_backend_is_a_gpu(install: Install, doctor: Doctor) -> None:
    install('return [Device("gpu", 3)]')
    run = doctor("--json", "--require-gpu")
    report = json.loads(run.stdout)
    assert (run.returncode, run.stderr) == (0, "")
    assert "gpu:3" in report["gpus"]
    assert report["no_gpu"] == ""


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["--require-gpu"], {}),
        (["--require-gpu", "--json"], {"ASYNCGRAPH_REQUIRE_GPU": "0"}),
        ([], {"ASYNCGRAPH_REQUIRE_GPU": "1"}),
    ],
)
def test_where_a_gpu_is_required_the_exit_status_and_the_reason_say_that_there_is_none(
    arguments: list[str], variables: dict[str, str], install: Install, doctor: Doctor
) -> None:
    install('raise OSError("no driver")')
    run = doctor(*arguments, **variables)
    assert run.returncode == 1
    assert "backend" in run.stdout
    first, *reasons = run.stderr.splitlines()
    assert first == "a GPU is required, but none can be used"
    assert "toy finds no device: OSError: no driver" in reasons


@pytest.mark.parametrize("arguments", [[], ["docter"], ["doctor", "--jsno"]])
def test_arguments_that_mean_nothing_are_an_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert capsys.readouterr().err.startswith("usage: asyncgraph ")


def test_there_is_a_script() -> None:
    (script,) = [one for one in entry_points(group="console_scripts") if one.name == "asyncgraph"]
    assert script.load() is main


def test_no_test_tool_is_needed() -> None:
    program = "import sys; from asyncgraph.__main__ import main; main(['doctor', '--json']); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50)
    loaded = set(run.stdout.splitlines()[-1].split())
    assert loaded & {"pytest", "_pytest", "hypothesis", "asyncgraph.testing"} == set()
