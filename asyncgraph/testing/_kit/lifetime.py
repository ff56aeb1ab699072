"""Lifetime: nothing is kept longer than it is needed, neither by a backend nor by a session on its devices."""

from __future__ import annotations

import threading
import weakref
from abc import ABC
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ..._graph.building import placeholder
from ..._graph.graph import Graph
from ..._graph.scopes import device
from ...abc import Backend, Device
from .base import SESSIONS, KitBase, Submission, flush, group, running, within
from .placement import ON_DEVICE
from .watching import WatchingBackend, alive


class Lifetime(KitBase, ABC):
    """Weak references tell what is still there; a backend whose arrays take none is not asked."""

    @group("lifetime")
    def test_what_was_submitted_is_dropped_when_it_is_done(self, backend: Backend, devices: Sequence[Device]) -> None:
        """`work` and what it used, once the device has nothing to do."""
        used: list[weakref.ref[Any]] = []

        def submit(where: Device) -> None:
            array = np.arange(6.0, dtype=self.a_float())
            used.append(weakref.ref(array))
            within(backend, where, lambda: backend.to_host(backend.to_device(array, where)))

        for one in devices:
            submit(one)
        flush(backend, devices)
        assert alive(used) == 0

    @group("lifetime")
    def test_closing_ends_all_threads_and_may_be_repeated(self, devices: Sequence[Device]) -> None:
        """When what was submitted is done, it ends what the backend has started."""
        before = set(threading.enumerate())
        made = type(self).backend_class()
        submitted = [Submission(made, one, lambda: None) for one in made.devices()]
        made.close()
        assert [one.told for one in submitted] == [[None]] * len(devices), "close did not wait for what was submitted"
        made.close()
        assert set(threading.enumerate()) - before == set()

    @group("lifetime")
    @pytest.mark.parametrize("kind", SESSIONS)
    def test_arrays_of_a_run_live_as_long_as_its_results(self, kind: str, watching: WatchingBackend) -> None:
        """What was fed, or computed on the way, is gone when the run is over, though the session is still open.

        Results on their devices are gone when their caller drops them.
        """
        with Graph() as graph:
            x = y = placeholder(self.a_float(), (3,))
            for one in watching.devices():
                with device(str(one)):
                    y = y * 2 + 1
        fed: list[weakref.ref[Any]] = []

        def feed() -> dict[Any, Any]:
            array = np.arange(3, dtype=self.a_float())
            fed.append(weakref.ref(array))
            return {x: array}

        with running(kind, graph) as run:
            results = [run(y, feed(), ON_DEVICE)]
            if not watching.tells_what_is_alive:
                pytest.skip("its arrays take no weak references")
            flush(watching, watching.devices())
            assert alive(fed) == 0, "a run that is over keeps what was fed"
            assert watching.alive(expected=len(results)) == len(results), (
                "a run that is over keeps what was computed on the way"
            )
            results.clear()
            assert watching.alive() == 0, "a run that is over keeps its results"
