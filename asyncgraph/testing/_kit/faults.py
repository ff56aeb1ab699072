"""Faults: what fails ends the runs that need it, by its own error, and no others."""

from __future__ import annotations

import asyncio
import weakref
from abc import ABC
from collections.abc import Iterator, Sequence
from typing import Any, Final, final

import numpy as np
import pytest

from ... import ops
from ..._graph.building import placeholder
from ..._graph.graph import Graph
from ..._graph.node import Node
from ..._graph.scopes import device
from ..._registry import registry
from ..._session.session import Session
from ...abc import Backend, Device
from ...errors import DeviceLostError
from .base import SESSIONS, KitBase, Submission, flush, group, running
from .watching import LIMIT_S, WatchingBackend, alive


@final
class PlantedError(Exception):
    """Something fails because it was told to."""


@final
class _Plant:
    """Raises an error in the first calls of something."""

    def __init__(self, what: str, error: BaseException, times: int = 1) -> None:
        self._what: Final = what
        self._error: Final = error
        self._left = times

    def __call__(self, what: str, where: Device) -> None:
        if what == self._what and self._left:
            self._left -= 1
            raise self._error


class Faults(KitBase, ABC):
    """Each is planted in a backend of the test's own, which may be the worse for it."""

    @pytest.fixture
    def faulty(self, devices: Sequence[Device], another: Backend) -> Iterator[WatchingBackend]:
        """A backend that fails as it is told, and that sessions find."""
        faulty = WatchingBackend(another)
        with registry.lend(faulty):
            yield faulty

    @group("faults")
    @pytest.mark.parametrize("kind", SESSIONS)
    def test_what_fails_ends_its_run_by_its_own_error(self, kind: str, faulty: WatchingBackend) -> None:
        """With a note that names the node and the device. The next run of the session is right."""
        graph, x, y, _ = self._on_two_devices(faulty)
        with running(kind, graph) as run:
            for what, node in _blamed(faulty):
                error = PlantedError(what)
                faulty.before = _Plant(what, error)
                with pytest.raises(PlantedError) as raised:
                    run(y, {x: [1, 2]})
                assert raised.value is error
                (note,) = [one for one in error.__notes__ if one.startswith("asyncgraph: ")]
                assert repr(node) in note
                assert str(faulty.devices()[0]) in note
                assert run(y, {x: [1, 2]}).tolist() == [1, 4]

    @group("faults")
    @pytest.mark.parametrize("kind", SESSIONS)
    def test_a_run_that_failed_keeps_nothing(self, kind: str, faulty: WatchingBackend) -> None:
        """Of what was fed or computed, once its error is dropped."""
        graph, x, y, _ = self._on_two_devices(faulty)
        fed: list[weakref.ref[Any]] = []

        def feed() -> dict[Node, Any]:
            array = np.array([1, 2], self.a_float())
            fed.append(weakref.ref(array))
            return {x: array}

        with running(kind, graph) as run:
            for what, _ in _blamed(faulty):
                faulty.before = _Plant(what, PlantedError(what))
                with pytest.raises(PlantedError):
                    run(y, feed())
                faulty.before = _Plant("", PlantedError())
                flush(faulty, faulty.devices())
                assert alive(fed) == 0, f"a run that failed in {what} keeps what was fed"
                assert not faulty.tells_what_is_alive or faulty.alive() == 0, f"... in {what} keeps arrays"

    @group("faults")
    @pytest.mark.parametrize("kind", SESSIONS)
    def test_memory_that_runs_out_is_a_memory_error_at_worst(self, kind: str, faulty: WatchingBackend) -> None:
        """Of the run that needs it: it may be tried again, and is right then. The next run is right."""
        graph, x, y, _ = self._on_two_devices(faulty)
        with running(kind, graph) as run:
            for what, _ in _blamed(faulty):
                faulty.before = _Plant(what, MemoryError("for once"))
                try:
                    result = run(y, {x: [1, 2]})
                except MemoryError:
                    pass
                else:
                    assert result.tolist() == [1, 4]
                faulty.before = _Plant(what, MemoryError("as often as it is tried"), times=1000)
                with pytest.raises(MemoryError):
                    run(y, {x: [1, 2]})
                faulty.before = _Plant("", PlantedError())
                assert run(y, {x: [3, 4]}).tolist() == [9, 16]

    @group("faults")
    def test_a_work_that_runs_out_of_memory_is_called_twice_at_most(
        self, another: Backend, devices: Sequence[Device]
    ) -> None:
        """And `done` once: with the error, or with none if it went well the second time."""
        for times in (1, 2):
            error = MemoryError("no memory is left")
            plant = _Plant("work", error, times)
            calls: list[int] = []

            def work(plant: _Plant = plant, calls: list[int] = calls) -> None:
                calls.append(1)
                plant("work", devices[0])

            submission = Submission(another, devices[0], work)
            submission.wait()
            flush(another, devices)
            assert len(calls) <= 2
            assert submission.told == [None if len(calls) > times else error]

    @group("faults")
    @pytest.mark.parametrize("kind", SESSIONS)
    def test_a_lost_device_ends_its_own_runs_alone(self, kind: str, faulty: WatchingBackend) -> None:
        """By a DeviceLostError; the session and the other devices go on."""
        if faulty.devices() == (Device("cpu", 0),):
            pytest.skip("the backend has no other device")
        graph, x, y, z = self._on_two_devices(faulty)
        with running(kind, graph) as run:
            assert [one.tolist() for one in run([y, z], {x: [1, 2]})] == [[1, 4], [-1, -2]]
            faulty.lost.add(faulty.devices()[0])
            for fetches in (y, [y, z], y):
                with pytest.raises(DeviceLostError):
                    run(fetches, {x: [1, 2]})
                assert run(z, {x: [3, 4]}).tolist() == [-3, -4]

    @group("faults")
    def test_a_device_that_is_lost_ends_what_was_submitted(self, faulty: WatchingBackend) -> None:
        """Runs on other devices, at the same time, are right."""
        if not faulty.capabilities.asynchronous:
            pytest.skip("the backend is synchronous")
        graph, x, y, z = self._on_two_devices(faulty)

        async def main() -> None:
            async with Session(graph) as session:
                with faulty.holding():
                    lost = [asyncio.ensure_future(session.run(y, {x: [i, i]})) for i in range(2)]
                    going_on = asyncio.ensure_future(session.run(z, {x: [1, 2]}))
                    await asyncio.to_thread(faulty.wait_until_held, 3)
                    faulty.lost.add(faulty.devices()[0])
                ended = await asyncio.wait_for(asyncio.gather(*lost, return_exceptions=True), LIMIT_S)
                assert [type(one) for one in ended] == [DeviceLostError] * 2
                assert (await going_on).results.tolist() == [-1, -2]

        asyncio.run(main())

    def _on_two_devices(self, faulty: WatchingBackend) -> tuple[Graph, Node, Node, Node]:
        """The graph of `square(x)` on the first device and `negative(x)` on another one, if need be the host's."""
        first, *others = map(str, faulty.devices())
        with Graph() as graph:
            x = placeholder(self.a_float(), (2,), name="x")
            with device(first):
                y = ops.square(x, name="y")
            with device([*others, "cpu:0"][0]):
                return graph, x, y, ops.negative(x)


def _blamed(faulty: WatchingBackend) -> list[tuple[str, str]]:
    """What may fail in a run of `y`, and the node that it is blamed on."""
    return [("square", "y"), *([] if faulty.capabilities.host_arrays else [("to_device", "x"), ("to_host", "y")])]
