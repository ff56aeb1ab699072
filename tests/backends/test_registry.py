"""Installed backends: found by entry point, named when they are broken, and never in each other's way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from asyncgraph._registry import Registry
from asyncgraph.abc import Device
from asyncgraph.errors import BackendNotFoundError, DeviceNotFoundError
from asyncgraph_numpy import NumpyBackend

from .strict_backend import StrictBackend

pytestmark = pytest.mark.usefixtures("numpy_alone")

CPU, TOY = Device("cpu"), Device("toy")
WORKS = """
from asyncgraph.abc import Device
from asyncgraph_numpy import NumpyBackend
class Toy(NumpyBackend.__base__):
    name = "toy"
    made = 0
    def __init__(self): type(self).made += 1
    def devices(self): return [Device("toy")]
    def kernel(self, op, params, operands, device): raise NotImplementedError
    def to_device(self, array, device): return array
    def to_host(self, array): return array
"""
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution with an entry point, and its module unless that has no source."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, value: str, source: str | None, distribution: str = "some-toy") -> None:
        module = value.partition(":")[0]
        monkeypatch.delitem(sys.modules, module, raising=False)
        if source is not None:
            (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[asyncgraph.backends]\n{name} = {value}\n")

    return install


def why_not(device: Device) -> str:
    with pytest.raises(DeviceNotFoundError) as raised:
        Registry().find(device)
    return str(raised.value)


def test_a_device_leads_to_the_backend_that_has_it(install: Install) -> None:
    install("toy", "toy_that_works:Toy", WORKS)
    registry = Registry()

    assert registry.names() == ("numpy", "toy")
    assert isinstance(registry.find(CPU), NumpyBackend)
    assert registry.find(TOY) is registry.backend("toy")


def test_a_backend_is_loaded_when_it_is_first_asked_and_once(install: Install) -> None:
    install("toy", "toy_loaded_late:Toy", WORKS)
    registry = Registry()

    registry.find(CPU)
    assert "toy_loaded_late" not in sys.modules

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(registry.find, [TOY] * 8))
    assert len(found) == 1
    assert sys.modules["toy_loaded_late"].Toy.made == 1


@pytest.mark.parametrize(
    ("value", "source", "reason"),
    [
        (
            "toy_that_lacks_a_library:Toy",
            "import a_library_that_is_not_there",
            "does not load: ModuleNotFoundError: No module named 'a_library_that_is_not_there'; "
            "install 'a_library_that_is_not_there'",
        ),
        (
            "toy_that_is_gone:Toy",
            None,
            "does not load: ModuleNotFoundError: No module named 'toy_that_is_gone'; "
            "install some-toy again: it lacks a module of its own",
        ),
        (
            "toy_with_its_own_words:Toy",
            "raise ModuleNotFoundError('for CUDA 12: pip install toy[cuda12]')",
            "does not load: ModuleNotFoundError: for CUDA 12: pip install toy[cuda12]",
        ),
        (
            "toy_without_the_class:Toy",
            "",
            "does not load: AttributeError: module 'toy_without_the_class' has no attribute 'Toy'",
        ),
        (
            "toy_that_cannot_be_made:Toy",
            "def Toy(): raise OSError('the driver is too old: 470, needs 525')",
            "does not load: OSError: the driver is too old: 470, needs 525",
        ),
        ("toy_of_another_kind:Toy", "Toy = dict", "is no asyncgraph.abc.Backend: it is {}"),
        ("toy_that_is_abstract:Toy", "from asyncgraph.abc import Backend as Toy", None),
        ("toy_without_devices:Toy", WORKS.replace('[Device("toy")]', "[]"), "finds no device"),
    ],
)
def test_a_broken_backend_is_named_with_what_to_do_and_the_others_go_on(
    value: str, source: str | None, reason: str | None, install: Install
) -> None:
    install("toy", value, source)

    message = why_not(TOY)

    expected = f"backend 'toy' ({value} of some-toy 1.0) {reason or 'does not load: TypeError: '}"
    assert f"no backend has the device 'toy:0'\n  backend 'numpy' has cpu:0\n  {expected}" in message
    with pytest.raises(BackendNotFoundError) as raised:
        Registry().backend("toy")
    assert str(raised.value).startswith(expected)
    assert isinstance(Registry().find(CPU), NumpyBackend)


def test_a_reason_of_several_lines_stays_under_its_backend(install: Install) -> None:
    install("toy", "toy_that_says_much:Toy", "raise RuntimeError('no driver\\ninstall it')")
    assert why_not(TOY).endswith("RuntimeError: no driver\n  install it")


def test_two_distributions_with_backends_of_one_name_are_both_named(install: Install) -> None:
    install("toy", "toy_of_one:Toy", WORKS)
    install("toy", "toy_of_another:Toy", WORKS, "another-toy")

    message = why_not(TOY)

    assert "toy_of_one:Toy of some-toy 1.0" in message
    assert "toy_of_another:Toy of another-toy 1.0" in message
    assert message.endswith(") is given by several distributions: uninstall all but one")


def test_numpy_is_asked_first_whatever_the_others_are_called(install: Install) -> None:
    install("a", "toy_that_has_cpu:Toy", WORKS.replace('Device("toy")', 'Device("cpu")'))
    registry = Registry()

    assert registry.names() == ("numpy", "a")
    assert isinstance(registry.find(CPU), NumpyBackend)


def test_a_backend_that_is_not_installed_is_an_error_that_lists_those_that_are() -> None:
    with pytest.raises(BackendNotFoundError) as raised:
        Registry().backend("jax")
    assert str(raised.value) == (
        "no backend named 'jax' is installed\n"
        "  installed: numpy\n"
        "  a backend is found by its entry point in the group 'asyncgraph.backends'"
    )


def test_a_backend_that_asks_for_devices_while_it_is_loaded_is_no_deadlock(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry()
    asking = ModuleType("registry_in_use")
    asking.find = lambda: registry.find(TOY)  # pyright: ignore[reportAttributeAccessIssue]  # modules take any
    monkeypatch.setitem(sys.modules, asking.__name__, asking)
    install("toy", "toy_that_asks:Toy", f"import registry_in_use\nregistry_in_use.find()\n{WORKS}")

    with pytest.raises(DeviceNotFoundError, match="does not load"):
        registry.find(TOY)


def test_all_that_is_installed_is_told_with_what_became_of_it(install: Install) -> None:
    install("lost", "toy_that_was_removed:Toy", None, "lost-toy")
    install("toy", "toy_that_is_told:Toy", WORKS)

    numpy, lost, toy = Registry().installed()

    assert isinstance(numpy.backend, NumpyBackend)
    assert (numpy.name, numpy.devices, numpy.trouble) == ("numpy", (CPU,), "")
    assert (lost.origin, lost.backend, lost.devices) == ("toy_that_was_removed:Toy of lost-toy 1.0", None, ())
    assert lost.trouble.startswith("does not load: ModuleNotFoundError: ")
    assert (toy.name, toy.devices, toy.trouble) == ("toy", (TOY,), "")


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ("asyncgraph.errors.DeviceNotFoundError('no driver: install one')", "no driver: install one"),
        ("ModuleNotFoundError('not installed: pip install toy[all]')", "not installed: pip install toy[all]"),
        ("ModuleNotFoundError(\"No module named 'toys'\", name='toys')",
         "ModuleNotFoundError: No module named 'toys'; install 'toys'"),
        ("KeyError('toy')", "KeyError: 'toy'"),
    ],
)  # fmt: skip
def test_a_backend_without_devices_is_kept_with_its_reason(raised: str, reason: str, install: Install) -> None:
    source = WORKS.replace('return [Device("toy")]', f"raise {raised}")
    install("toy", "toy_that_finds_none:Toy", f"import asyncgraph.errors\n{source}")
    registry = Registry()

    toy = registry.installed()[1]

    assert toy.backend is not None
    assert toy.backend.details() == {}
    assert toy.trouble == f"finds no device: {reason}"
    with pytest.raises(BackendNotFoundError) as error:
        registry.backend("toy")
    assert str(error.value) == f"backend 'toy' (toy_that_finds_none:Toy of some-toy 1.0) finds no device: {reason}"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_backend_is_closed_at_the_end_of_the_process_that_made_it_and_of_no_child(
    install: Install, tmp_path: Path
) -> None:
    install("toy", "toy_that_is_closed:Toy", f"{WORKS}    def close(self): print('closed', flush=True)\n")
    program = (
        "import os, sys\n"
        "from asyncgraph._registry import registry\n"
        "registry.installed()\n"
        "if child := os.fork():\n"
        "    os.waitpid(child, 0)\n"
        "    print('parent', flush=True)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert run.stdout == "parent\nclosed\n"


def test_a_lent_backend_is_asked_before_others_as_long_as_it_is_lent() -> None:
    registry, first, second = Registry(), StrictBackend(), StrictBackend()
    strict = Device("strict")
    with registry.lend(first):
        with registry.lend(second):
            assert registry.find(strict) is second
        assert registry.find(strict) is first
        assert isinstance(registry.find(CPU), NumpyBackend)
    with pytest.raises(DeviceNotFoundError):
        registry.find(strict)
