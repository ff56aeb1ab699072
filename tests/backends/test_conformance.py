"""The kit itself: what it must not let pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import pytest

from asyncgraph._graph.rules.tables import SPECS
from asyncgraph.abc import Array, Backend, Capabilities, Device, Kernel, Spec, array_api_kernel
from asyncgraph.testing import BackendConformance
from asyncgraph.testing._kit.cases import OPS
from asyncgraph.testing._kit.watching import WatchingBackend

from .strict_backend import StrictBackend


@final
class FaultyBackend(Backend):
    """NumPy with one thing wrong: a kernel, or a transfer."""

    name = "faulty"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.wrong_kernel: Callable[[Kernel], Kernel] = lambda kernel: kernel
        self.wrong_to_device: Callable[[Array], Array] = lambda array: array

    def devices(self) -> Sequence[Device]:
        return (Device("faulty", 0),)

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        return self.wrong_kernel(array_api_kernel(np, op, params))

    def to_device(self, array: np.ndarray[Any, Any], device: Device) -> Array:
        return self.wrong_to_device(array.copy())

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        return np.asarray(array)


class Conformance(BackendConformance):
    backend_class = FaultyBackend


def writes(kernel: Kernel) -> Kernel:
    def call(*arrays: Array) -> Array:
        result = kernel(*arrays)
        arrays[0][...] = 0
        return result

    return call


def reads_memory_in_order(kernel: Kernel) -> Kernel:
    return lambda *arrays: kernel(*[np.ravel(one, order="K").reshape(np.shape(one)) for one in arrays])


def gives_operand_away(kernel: Kernel) -> Kernel:
    return lambda x, *others: kernel(x, *others) if others else x


def shares_state(kernel: Kernel) -> Kernel:
    kept: list[Array] = []

    def call(*arrays: Array) -> Array:
        if not kept:
            kept.append(np.zeros_like(kernel(*arrays)))
        kept[0] += kernel(*arrays)
        return kept[0]

    return call


@pytest.mark.parametrize(
    ("fault", "test", "argument"),
    [
        (lambda kernel: lambda *arrays: kernel(*arrays).astype("float32"), "test_values", "exp-float"),
        (lambda kernel: lambda *arrays: kernel(*arrays) * (1 + 1e-9), "test_values", "exp-float"),
        (lambda kernel: lambda *arrays: kernel(*arrays)[..., None], "test_values", "sum-int"),
        (lambda kernel: lambda *arrays: np.abs(kernel(*arrays)), "test_values", "ceil-special"),
        (lambda kernel: lambda *arrays: 1 / 0, "test_values", "add-int"),
        (lambda kernel: lambda *arrays: kernel(*arrays, initial=0), "test_values", "max-int"),
        (reads_memory_in_order, "test_values_of_any_layout", "add"),
        (lambda kernel: lambda *arrays: -np.abs(kernel(*arrays)), "test_values", "positive-special"),
        (writes, "test_a_kernel_writes_to_no_operand", "add"),
        (gives_operand_away, "test_a_kernel_writes_to_no_operand", "positive"),
        (shares_state, "test_a_kernel_may_be_called_by_several_threads", "add"),
    ],
)
def test_a_faulty_kernel_fails_the_test_for_it(fault: Callable[[Kernel], Kernel], test: str, argument: str) -> None:
    backend, kit = FaultyBackend(), Conformance()
    getattr(kit, test)(argument, backend, backend.devices())  # as long as there is no fault

    backend.wrong_kernel = fault

    with pytest.raises(AssertionError):
        getattr(kit, test)(argument, backend, backend.devices())


@pytest.mark.parametrize("fault", [np.ascontiguousarray, np.ravel, lambda array: array.astype("float64"), np.negative])
def test_a_faulty_transfer_fails_the_test_for_it(fault: Callable[[Array], Array]) -> None:
    backend, kit = FaultyBackend(), Conformance()
    kit.test_an_array_comes_back_as_it_was("float32", backend, backend.devices())

    backend.wrong_to_device = fault

    with pytest.raises(AssertionError):
        kit.test_an_array_comes_back_as_it_was("float32", backend, backend.devices())


def test_a_kernel_that_gets_an_array_of_another_device_is_told_on() -> None:
    watching = WatchingBackend(StrictBackend())
    first, second, _ = watching.devices()
    x, y = (watching.to_device(np.ones(3), one) for one in (first, second))
    spec = np.ones(3)
    add = watching.kernel("add", {}, [spec, spec], first)

    with pytest.raises(AssertionError, match="'add' on strict:0 was given an array of strict:1"):
        add(x, y)


def test_every_op_of_the_vocabulary_has_a_case() -> None:
    assert set(OPS) == set(SPECS)


def test_an_expected_failure_that_passes_or_names_no_test_is_a_failure(tmp_path: Any) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from asyncgraph.testing import BackendConformance\n"
        "from asyncgraph_numpy import NumpyBackend\n"
        "class TestMine(BackendConformance):\n"
        "    backend_class = NumpyBackend\n"
        "    expected_failures = {'test_values[add-int]': 'it does not add', 'test_values[ad-int]': 'a slip'}\n"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "add-int or expected", "test_mine.py"],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=50,
    )  # fmt: skip
    assert "test_mine.py::TestMine::test_values[add-int]" in run.stdout
    assert "[XPASS(strict)] it does not add" in run.stdout
    assert "test_mine.py::TestMine::test_every_expected_failure_is_the_name_of_a_test" in run.stdout
    assert "2 failed" in run.stdout


def test_what_is_there_for_tests_is_imported_without_pytest() -> None:
    program = "import sys, asyncgraph.testing; print('pytest' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert run.stdout == "False\n"
