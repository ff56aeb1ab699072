"""The backend of the examples, which README shows: all that it takes, in less than a hundred lines."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Barrier, Event, current_thread
from types import ModuleType

import pytest

from asyncgraph.abc import Backend, Device
from asyncgraph.testing import BackendConformance

PATH = Path(__file__).parent.parent.parent / "examples" / "custom_backend.py"
FIRST, SECOND = Device("pool", 0), Device("pool", 1)


def load() -> ModuleType:
    """The example as a module: its `main` does not run."""
    spec = importlib.util.spec_from_file_location("custom_backend", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLE = load()


class TestPoolBackend(BackendConformance):
    backend_class = EXAMPLE.PoolBackend


@pytest.fixture
def pool() -> Iterator[Backend]:
    with closing(EXAMPLE.PoolBackend()) as pool:
        yield pool


def test_it_has_less_than_100_lines() -> None:
    assert PATH.read_text().count("\n") < 100


def test_submit_returns_before_work_is_begun_and_done_is_called_after_it(pool: Backend) -> None:
    may_begin, over, log = Event(), Event(), list[str]()

    def work() -> None:
        may_begin.wait(timeout=30)
        log.append("work")

    def done(error: BaseException | None) -> None:
        log.append(f"done: {error}")
        over.set()

    pool.submit(FIRST, work, done)
    log.append("submitted")
    may_begin.set()
    assert over.wait(timeout=30)
    assert log == ["submitted", "work", "done: None"]


def test_what_work_raises_reaches_done_and_the_device_goes_on(pool: Backend) -> None:
    over, errors = Event(), list[BaseException | None]()

    def done(error: BaseException | None) -> None:
        errors.append(error)
        if len(errors) == 2:
            over.set()

    pool.submit(FIRST, lambda: [][0], done)
    pool.submit(FIRST, lambda: None, done)
    assert over.wait(timeout=30)
    assert [type(error) for error in errors] == [IndexError, type(None)]


def test_its_devices_work_at_once_and_each_does_one_thing_at_a_time(pool: Backend) -> None:
    together, names, log = Barrier(3), set[str](), list[int]()

    def meet() -> None:
        names.add(current_thread().name)
        together.wait(timeout=30)

    for device in (FIRST, SECOND):
        pool.submit(device, meet, lambda _: None)
    for number in range(20):
        pool.submit(FIRST, lambda number=number: log.append(number), lambda _: None)
    assert log == []
    together.wait(timeout=30)
    pool.close()
    assert len(names) == 2
    assert log == list(range(20))


def test_close_waits_for_what_was_submitted_and_may_be_repeated(pool: Backend) -> None:
    log: list[str] = []
    for _ in range(1000):
        pool.submit(FIRST, lambda: log.append("work"), lambda _: log.append("done"))
    pool.close()
    pool.close()
    assert log == ["work", "done"] * 1000
