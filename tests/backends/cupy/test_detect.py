"""Detection of GPUs: each that works is found, and every broken set-up has a reason of its own."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncgraph.errors import DeviceNotFoundError
from asyncgraph_cupy import _detect
from asyncgraph_cupy._cuda_api import CudaApi
from asyncgraph_cupy._detect import CudaDevice, CudaStatus, details, distributions, driver_present, probe

from ...standin.world import World
from .set_ups import SET_UPS, WORKING, SetUp, counting, raising, using

NO_CUPY = not distributions()
CLEARED = ("ASYNCGRAPH_REQUIRE_GPU", "CUDA_VISIBLE_DEVICES", "CUPY_CACHE_DIR")
"""Variables that must not be this machine's."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that modules are imported from, and forgotten after the test."""
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ("cupy", "cupyx")}
    for name in before:
        del sys.modules[name]
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in ("cupy", "cupyx")]:
        del sys.modules[name]
    sys.modules.update(before)


def variables() -> dict[str, str]:
    # pytest notes the test in the environment.
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


def probed(set_up: SetUp, site: Path, monkeypatch: pytest.MonkeyPatch) -> CudaStatus:
    for name, value in set_up.install(site).items():
        monkeypatch.setenv(name, value)
    importlib.invalidate_caches()
    return probe(CudaApi.load, distributions())


@pytest.mark.skipif(not NO_CUPY, reason="CuPy itself is installed, and would be found")
@pytest.mark.parametrize("name", SET_UPS)
def test_a_broken_set_up_has_a_code_and_a_reason_that_says_what_to_do(
    name: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up = SET_UPS[name]
    status = probed(set_up, site, monkeypatch)
    assert status.code == set_up.code
    assert set_up.says in status.reason
    assert not status.ok
    assert status.usable == ()


def test_there_is_a_set_up_for_every_code_and_no_two_codes_say_the_same() -> None:
    texts = _detect._TEXTS
    driverless = {"no_driver", "no_libcuda"}
    assert {one.code for one in SET_UPS.values()} == set(texts) - driverless
    assert len({text[:40] for text in texts.values()}) == len(texts)


def test_gpus_that_compute_are_found(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = probed(SetUp("ok", "", counting("return 2")), site, monkeypatch)
    gpus = tuple([CudaDevice(index, "NVIDIA H200", 150 * 2**30, "9.0") for index in range(2)])
    assert status == CudaStatus("ok", "", gpus, "14.2.0", "13.0", "13.2")
    assert status.ok
    assert status.usable == gpus


def test_the_gpus_of_the_stand_in_are_found() -> None:
    world = World(devices=3)
    status = probe(lambda: CudaApi.load(world.cupy, world.cupyx))
    assert (status.code, status.reason) == ("ok", "")
    assert [one.index for one in status.usable] == [0, 1, 2]
    assert all(one.name and one.total_bytes and one.compute_capability for one in status.usable)


def test_a_gpu_that_fails_takes_no_other_with_it(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = using(f"\n    if index == 0: {raising(46)}\ndef count(): return 2")
    status = probed(SetUp("ok", "", fails), site, monkeypatch)
    broken, works = status.devices
    assert status.ok
    assert status.usable == (works,)
    assert works.index == 1
    assert broken.code == "busy"
    assert broken.reason == (
        "gpu:0 (NVIDIA H200): the GPU is in use by another process, alone: see what nvidia-smi says"
    )


def test_a_gpu_that_is_in_use_by_others_takes_no_other_with_it_though_threads_begin_with_it() -> None:
    """To make it the current one fails, also where that is done to leave another one."""
    world = World(devices=3)
    world.devices[0].lose(46)
    status = probe(lambda: CudaApi.load(world.cupy, world.cupyx))
    assert [one.code for one in status.devices] == ["busy", "ok", "ok"]
    assert world.cupy.cuda.runtime.getDevice() == 0


def test_if_all_fail_the_reason_of_each_is_given(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = using(f"{raising(46)}\ndef count(): return 2")
    status = probed(SetUp("busy", "", fails), site, monkeypatch)
    assert not status.ok
    assert [line[:5] for line in status.reason.splitlines()] == ["gpu:0", "gpu:1"]


@pytest.mark.parametrize(
    ("files", "code", "says"),
    [
        ([], "no_driver", "there is no NVIDIA driver: install it"),
        (["nvidiactl"], "no_libcuda", "docker run --gpus all"),
    ],
)
def test_without_libcuda_files_tell_whether_there_is_a_driver(
    files: list[str], code: str, says: str, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in files:
        (site / name).write_text("")
    monkeypatch.setattr(_detect, "_DRIVER_FILES", (site / "version", site / "nvidiactl"))
    monkeypatch.setattr(sys, "platform", "linux")
    status = probed(SetUp(code, says, counting(raising(35), "driver = 0")), site, monkeypatch)
    assert driver_present() is bool(files)
    assert status.code == code
    assert says in status.reason
    assert status.driver == ""


def test_modules_that_stand_in_for_cupy_are_probed_whatever_is_installed(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert probed(SET_UPS["two wheels"], site, monkeypatch).code == "two_wheels"
    assert probe(CudaApi.load).ok


def test_that_two_wheels_are_installed_is_understood_where_warnings_are_errors() -> None:
    def load() -> CudaApi:
        warnings.warn("\n  CuPy may not function correctly because multiple CuPy packages are installed", stacklevel=2)
        raise AssertionError

    assert probe(load).code == "two_wheels"


def test_only_a_missing_cupy_is_a_module_that_is_not_found() -> None:
    assert isinstance(CudaStatus("not_installed", "install it").error(), ModuleNotFoundError)
    error = CudaStatus("no_driver", "there is none").error()
    assert isinstance(error, DeviceNotFoundError)
    assert str(error) == "there is none"


@pytest.mark.skipif(not NO_CUPY, reason="CuPy itself is installed, and would be found")
def test_what_is_known_before_a_probe_is_known_without_importing_cupy(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    SetUp("ok", "").install(site)
    assert details(None) == {
        "driver_present": driver_present(),
        "distributions": ("cupy-cuda13x 14.2.0",),
        "environment": {"CUDA_VISIBLE_DEVICES": "1"},
    }
    assert "cupy" not in sys.modules


def test_details_are_what_was_found_without_the_reason() -> None:
    told = details(CudaStatus("busy", "in use", (CudaDevice(0, "NVIDIA H200", 9, "9.0", "busy", "gpu:0: in use"),)))
    assert {name: told[name] for name in ("code", "devices", "cupy", "driver", "runtime")} == {
        "code": "busy",
        "devices": (
            {
                "index": 0,
                "name": "NVIDIA H200",
                "total_bytes": 9,
                "compute_capability": "9.0",
                "code": "busy",
                "reason": "gpu:0: in use",
            },
        ),
        "cupy": None,
        "driver": None,
        "runtime": None,
    }
    assert "reason" not in told


def test_a_probe_writes_no_file_and_no_variable_of_its_own(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = WORKING.replace("os.makedirs(cache, exist_ok=True)", "")
    set_up = SetUp("ok", "", source)
    for name, value in set_up.install(site).items():
        monkeypatch.setenv(name, value)
    environment = variables()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = sorted(site.rglob("*"))
    assert probe(CudaApi.load).ok
    assert sorted(site.rglob("*")) == before
    assert variables() == environment


def test_a_probe_leaves_no_thread(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.enumerate()
    assert probed(SetUp("ok", ""), site, monkeypatch).code in ("ok", "two_wheels")
    assert threading.enumerate() == before


DOCTOR = """
import json, os, sys
from asyncgraph.__main__ import main

for folder, variables in json.load(sys.stdin):
    child = os.fork()
    if not child:
        os.environ.update(variables)
        sys.path.insert(0, folder)
        sys.stdout = open(folder + ".json", "w")
        status = main(["doctor", "--json"])
        sys.stdout.close()
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.skipif(not NO_CUPY, reason="CuPy itself is installed, and would be found")
def test_doctor_gives_each_set_up_its_reason(tmp_path: Path) -> None:
    # Each has a process of its own, but only one of them has to import what all of them need.
    folders = {name: tmp_path / str(number) for number, name in enumerate(SET_UPS)}
    given = [(str(folders[name]), one.install(folders[name])) for name, one in SET_UPS.items()]
    others = {name: value for name, value in os.environ.items() if name not in CLEARED}
    subprocess.run(
        [sys.executable, "-c", DOCTOR], input=json.dumps(given), env=others, text=True, check=True, timeout=50
    )
    for name, folder in folders.items():
        report = json.loads(Path(f"{folder}.json").read_text())
        (cupy,) = [one for one in report["backends"] if one["name"] == "cupy"]
        assert cupy["details"]["code"] == SET_UPS[name].code, name
        assert cupy["trouble"].startswith("finds no device: "), name
        assert SET_UPS[name].says.replace("site/", f"{folder.name}/") in cupy["trouble"], name
        assert report["no_gpu"].startswith("cupy finds no device: "), name
