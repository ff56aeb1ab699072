"""Every name and keyword that the backend uses of CuPy exists, in CuPy and in its stand-in, with that signature.

CuPy is imported without a GPU. How each is compared: a ufunc by its numbers of operands and results, a function of
Python by its signature, a compiled one by the signature that its documentation begins with, a keyword that is taken
from a dictionary by being spoken of in its documentation.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from asyncgraph.testing._kit.cases import CASES
from asyncgraph_cupy._cuda_api import CudaApi

from ...standin.world import World
from .expected import OTHER_LOOPS
from .kernel_calls import compute, quiet, tried
from .promotion import loops
from .surface import BACKEND, RecordingNamespace, Use, promised, protocols, signature_of, written, wrong

HOW = "uv run --group cupy pytest tests/backends/cupy/test_names.py"


@pytest.fixture(scope="module")
def cupy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if importlib.util.find_spec("cupy") is None:
        pytest.skip(f"CuPy is not installed: {HOW}")
    with pytest.MonkeyPatch.context() as patch:
        # Its import makes a folder for compiled kernels, and fails where it cannot.
        patch.setenv("CUPY_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        return importlib.import_module("cupy")


@pytest.fixture(scope="module")
def installed(cupy: Any) -> dict[str, Any]:
    cuda = cupy.cuda
    return {
        "cupy": cupy,
        "cupyx": importlib.import_module("cupyx"),
        "DeviceArray": cupy.ndarray,
        "DeviceHandle": cuda.Device,
        "Event": cuda.Event,
        "Flags": importlib.import_module("cupy._core.flags").Flags,
        "MemoryPool": cuda.MemoryPool,
        "PinnedMemoryPool": cuda.PinnedMemoryPool,
        "Runtime": cuda.runtime,
        "Stream": cuda.Stream,
    }


@pytest.fixture(scope="module")
def stand_in() -> dict[str, Any]:
    world = World(devices=1)
    array = world.cupy.empty((1,), "uint8")
    cuda = world.cupy.cuda
    return {
        "cupy": world.cupy,
        "cupyx": world.cupyx,
        "DeviceArray": array,
        "DeviceHandle": cuda.Device(0),
        "Event": cuda.Event(block=True, disable_timing=True),
        "Flags": array.flags,
        "MemoryPool": world.cupy.get_default_memory_pool(),
        "PinnedMemoryPool": world.cupy.get_default_pinned_memory_pool(),
        "Runtime": cuda.runtime,
        "Stream": cuda.Stream(non_blocking=True),
    }


@cache
def called_by_kernels() -> frozenset[Use]:
    """What kernels call for each case and kind of dtypes."""
    recording = RecordingNamespace()
    api = CudaApi(recording, recording)
    with quiet():
        for one in map(tried, CASES):
            if one.expected is not None:
                compute(one, api, lambda array: array)
    return frozenset(recording.uses)


def used() -> list[Use]:
    return sorted(called_by_kernels() | written() | promised(), key=str)


def test_the_uses_are_collected_from_all_sources() -> None:
    assert {Use("cupy.add", 2), Use("cupy.reshape", 2), Use("cupy.var", 1, frozenset({"ddof"}))} <= called_by_kernels()
    assert Use("cupy.cuda.Stream", 0, frozenset({"non_blocking"})) in written()
    assert Use("cupyx.empty_pinned", 2) in written()
    assert {Use("Stream.wait_event", 1), Use("DeviceArray.nbytes"), Use("Flags.c_contiguous")} <= promised()


def test_cupy_has_whatever_the_backend_uses(installed: dict[str, Any]) -> None:
    assert "\n".join(problem for use in used() if (problem := wrong(use, installed))) == ""


def test_the_stand_in_has_whatever_the_backend_uses(stand_in: dict[str, Any]) -> None:
    assert "\n".join(problem for use in used() if (problem := wrong(use, stand_in))) == ""


def test_each_protocol_stands_for_a_type_that_is_compared(installed: dict[str, Any], stand_in: dict[str, Any]) -> None:
    assert set(protocols()) == set(installed) - {"cupy", "cupyx"} == set(stand_in) - {"cupy", "cupyx"}


def test_the_functions_of_the_stand_in_have_the_parameters_that_cupys_have(cupy: Any, stand_in: dict[str, Any]) -> None:
    """All of them, not only those that the backend calls: users' own ops call others."""
    offences: list[str] = []
    compared = 0
    for name, function in vars(stand_in["cupy"]).items():
        real = getattr(cupy, name)
        if not inspect.isfunction(function) or isinstance(real, cupy.ufunc):
            continue
        ours, theirs = signature_of(function), signature_of(real)
        if ours is None or theirs is None or set(ours.parameters) == {"args", "kwargs"}:
            continue
        compared += 1
        if parameters(ours) != parameters(theirs):
            offences.append(f"{name}: {ours}, not {theirs}")
    assert compared > 100
    assert offences == []


def parameters(signature: inspect.Signature) -> list[tuple[str, object, bool]]:
    return [(one.name, one.kind, one.default is one.empty) for one in signature.parameters.values()]


def test_cupy_chooses_the_dtypes_that_numpy_chooses(cupy: Any) -> None:
    """All ufuncs that kernels call, of all dtypes and kinds of Python numbers, but for those known to differ."""
    paths = [use.path.split(".") for use in called_by_kernels()]
    names = {name for _, name, *method in paths if not method}
    differing = {
        name: found
        for name in sorted(names)
        if isinstance(getattr(cupy, name), cupy.ufunc) and (found := loops(cupy, name))
    }
    assert differing == OTHER_LOOPS


def test_one_module_alone_imports_cupy() -> None:
    assert {path.name for path in sorted(BACKEND.glob("*.py")) if imports_cupy(path)} == {"_cuda_api.py"}


def imports_cupy(path: Path) -> bool:
    """Whether it does so by a statement, or by a call with the name of the module."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            names += [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
    return any(name.split(".")[0] in ("cupy", "cupyx", "cupy_backends") for name in names)
