"""`python -m asyncgraph doctor`: what is installed, which devices can be used, and why a GPU is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.__main__ import main

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


def test_a_backend_tells_of_its_devices(install: Install, doctor: Doctor) -> None:
    install(
        'return [Device("toy"), Device("toy", 1)]',
        'return {"driver": "1.2", "all_well": True, "lost": None, "set": "", "memory": {"total": 1, "free": 0}, '
        '"of": ["a", "b"]}',
    )
    lines = doctor().stdout.splitlines()
    at = lines.index(next(line for line in lines if line.startswith("backend toy")))
    assert [line.split(maxsplit=2)[-1] for line in lines[at : at + 1]] == ["toy:0, toy:1"]
    assert [line.strip() for line in lines[at + 1 : at + 8]] == [
        "toys:Toy of some-toys 1.0",
        "driver: 1.2",
        "all well: yes",
        "lost: none",
        "set: ''",
        "memory: total 1, free 0",
        "of: a; b",
    ]


def test_text_is_in_two_columns(doctor: Doctor) -> None:
    lines = doctor().stdout.splitlines()
    (width,) = {line.index("cpu:0") for line in lines if line.startswith("backend numpy")}
    assert {line[width - 1] for line in lines} == {" "}
    assert [line[:width].strip() for line in lines[:9]] == [
        "python", "asyncgraph", "numpy", "anyio", "threadpoolctl", "platform", "event loops", "cores", "BLAS",
    ]  # fmt: skip
    assert lines[-1].startswith("GPU ")


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
    text = doctor().stdout
    assert "finds no device: OSError: the driver is too old:\n" in text
    assert text.endswith("none, for the reason given above\n")


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
    assert "gpu:3" in doctor().stdout.splitlines()[-1]


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
