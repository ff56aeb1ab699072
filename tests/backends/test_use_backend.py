"""A backend that is not installed is found where a program says so, and nowhere else."""

from __future__ import annotations

from threading import Thread

import pytest

import asyncgraph as ag
from asyncgraph.errors import DeviceNotFoundError

from .late_backend import LateBackend
from .strict_backend import StrictBackend

STRICT = ag.SessionConfig(soft_placement=False)


def squares() -> tuple[ag.Graph, ag.Node, ag.Node]:
    with ag.Graph() as graph, ag.device("strict:1"):
        x = ag.placeholder("float64", ("n",), name="x")
        return graph, x, ag.ops.square(x, name="y")


def test_sessions_inside_run_on_its_devices_whatever_their_thread() -> None:
    graph, x, y = squares()
    found: list[object] = []

    def run() -> None:
        with ag.BlockingSession(graph, config=STRICT) as session:
            found.append((session.explain(y, {x: [1.0]}).devices[y], session.run(y, {x: [1, 2]}).results.tolist()))

    with ag.use_backend(StrictBackend()):
        run()
        thread = Thread(target=run)
        thread.start()
        thread.join()
    assert found == [("strict:1", [1.0, 4.0])] * 2


def test_a_session_keeps_the_device_that_it_has_found_and_later_ones_do_not_find_it() -> None:
    graph, x, y = squares()
    with ag.BlockingSession(graph, config=STRICT) as session:
        with ag.use_backend(StrictBackend()):
            session.run(y, {x: [1.0]})
        assert session.run(y, {x: [3.0]}).results.tolist() == [9.0]
    with ag.BlockingSession(graph, config=STRICT) as session, pytest.raises(DeviceNotFoundError, match="'strict:1'"):
        session.run(y, {x: [1.0]})


def test_a_class_in_place_of_a_backend_is_an_error_that_says_so() -> None:
    with pytest.raises(TypeError) as raised:
        ag.use_backend(StrictBackend)  # pyright: ignore[reportArgumentType]  # the mistake
    assert str(raised.value) == (
        f"use_backend takes an object of a class of asyncgraph.abc.Backend, not {StrictBackend!r}"
    )


def test_why_a_backend_finds_no_device_is_raised_at_once() -> None:
    class Broken(ag.abc.Backend):
        name = "broken"

        def devices(self) -> list[ag.abc.Device]:
            raise OSError("the driver is too old")

        kernel = to_device = to_host = devices  # pyright: ignore[reportAssignmentType]  # never called

    with pytest.raises(OSError, match="the driver is too old"), ag.use_backend(Broken()):
        pass


async def test_a_forked_child_finds_no_backend_whose_threads_are_its_parent_s(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = LateBackend()
    with ag.use_backend(backend), ag.Graph() as graph, ag.device("late:0"):
        y = ag.ops.ones((2,))
        # What a child would be told: to fork the tests' own process is more than a test may do.
        monkeypatch.setattr("os.getpid", lambda: 1)
        async with ag.Session(graph, config=ag.SessionConfig(soft_placement=False)) as session:
            with pytest.raises(DeviceNotFoundError, match="before this process was forked"):
                await session.run(y)
    backend.close()
