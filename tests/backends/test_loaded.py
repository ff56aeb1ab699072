"""What is loaded of a file, on devices: moved when a plan is made, once it was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, final

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._plan.compiler import no_checkpoint
from asyncgraph._registry import registry
from asyncgraph.abc import Array, Backend, Device, Kernel, Spec
from asyncgraph.testing._kit.watching import WatchingBackend

from .strict_backend import StrictBackend

MATRIX = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.fixture
def strict() -> Iterator[WatchingBackend]:
    """array-api-strict, with an account of what is moved."""
    backend = WatchingBackend(StrictBackend())
    with registry.lend(backend):
        yield backend


@pytest.fixture
def path(tmp_path: Path) -> Path:
    np.save(tmp_path / "w.npy", MATRIX)
    return tmp_path / "w.npy"


def test_it_is_moved_to_each_device_when_the_plan_is_made_and_not_again(path: Path, strict: WatchingBackend) -> None:
    with ag.Graph() as graph:
        x, w = ag.placeholder("float32", (3, 4)), ag.load(path)
        sums: list[ag.Node] = []
        for device in ("strict:1", "strict:2", "cpu:0"):
            with ag.device(device):
                sums.append(ag.ops.add(x, w))
    moved: list[int] = []
    with ag.BlockingSession(graph) as session:
        for _ in range(4):
            for result in session.run(sums, {x: MATRIX}).results:
                np.testing.assert_array_equal(result, MATRIX + MATRIX)
            moved.append(len(strict.to_devices))
    # What is fed and what is loaded, to two devices; the same for the new plan; and then only what is fed.
    assert moved == [4, 8, 10, 12]


@final
class Sharing(Backend):
    """array-api-strict, whose devices have copies of the host's arrays, and lend the host their own."""

    name: ClassVar[str] = "sharing"

    def __init__(self) -> None:
        self.inside: Final = StrictBackend()

    def devices(self) -> Sequence[Device]:
        return self.inside.devices()

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        return self.inside.kernel(op, params, operands, device)

    def to_device(self, array: np.ndarray[Any, Any], device: Device) -> Array:
        return self.inside.to_device(array.copy(), device)

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        return self.inside.to_host(array)


@pytest.mark.parametrize("device", ["strict:0", "strict:1"])
@pytest.mark.parametrize("rows", [3, 30_000], ids=["folded", "too large to fold"])
def test_views_on_a_device_are_their_callers_in_every_run(rows: int, device: str, tmp_path: Path) -> None:
    array = np.ones((rows, 4), "float32")
    np.save(tmp_path / "w.npy", array)
    with ag.Graph() as graph:
        w = ag.load(tmp_path / "w.npy")
        with ag.device(device):
            turned = w.T
    with registry.lend(Sharing()), ag.BlockingSession(graph) as session:
        for _ in range(4):
            result = session.run(turned).results
            np.testing.assert_array_equal(result, array.T)
            result[...] = -1


def test_a_plan_that_moves_what_is_fed_for_it_stays(path: Path, strict: WatchingBackend) -> None:
    with ag.Graph() as graph:
        w = ag.load(path)
        with ag.device("strict:1"):
            args = ag.RunArgs(w + 1, {w: MATRIX})
    with ag.BlockingSession(graph) as session:
        session.run(w)
        plan = session.engine.request(args, no_checkpoint).plan
        assert session.engine.request(args, no_checkpoint).plan is plan
