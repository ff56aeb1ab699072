"""Nothing outlives a test: no thread of asyncgraph's, no task; and nothing the suite: no session."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Final
from zlib import crc32

import pytest

BACKEND: Final = "ASYNCGRAPH_BACKEND"
"""The environment variable that says on which backend the tests run that ask for none."""
NUMPY: Final = "numpy"
STAND_IN: Final = "stand-in"


def backend() -> str:
    """What that variable says: NumPy's if it is not set."""
    return os.environ.get(BACKEND) or NUMPY


def pytest_configure() -> None:
    if backend() not in (NUMPY, STAND_IN):
        raise pytest.UsageError(f"{BACKEND}={backend()!r}: tests run on {NUMPY!r}, or on {STAND_IN!r} for a GPU")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if backend() == STAND_IN:
        from .standin import expected

        expected.apply(items)


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a test that leaves threads, and through `no_task_is_left` one that leaves tasks."""
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("no_task_is_left")
    before = set(threading.enumerate())
    yield
    left = [one for one in threading.enumerate() if one not in before and one.name.startswith("asyncgraph")]
    assert left == []


@pytest.fixture(autouse=True)
def standin_in_numpy_s_place(request: pytest.FixtureRequest) -> Iterator[None]:
    """With ASYNCGRAPH_BACKEND=stand-in, fails a test that has races or leaves memory on the GPU that it runs on.

    What the GPU does is in an order of the test's own, which is the same each time, as far as threads are.
    """
    if backend() != STAND_IN:
        yield
        return
    from .standin.as_host import in_numpy_s_place

    failed = request.session.testsfailed
    with in_numpy_s_place(crc32(request.node.nodeid.encode())) as world:
        yield
    # A failed test keeps its frames, and with them what they have on the GPU.
    if request.session.testsfailed == failed and request.node.get_closest_marker("xfail") is None:
        world.check()


@pytest.fixture
async def no_task_is_left() -> AsyncIterator[None]:
    """Fails a test that leaves tasks in its loop."""
    yield
    assert asyncio.all_tasks() - {asyncio.current_task()} == set()


@pytest.fixture(autouse=True, scope="session")
def no_session_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the suite if a session is held after all tests; once, since looking takes a tenth of a second."""
    yield
    gc.collect()
    kinds = {("asyncgraph", "Session"), ("asyncgraph", "BlockingSession")}
    left = [one for one in gc.get_objects() if (str(type(one).__module__).split(".")[0], type(one).__name__) in kinds]
    # A failed test keeps its frames, and with them whatever it had made.
    assert request.session.testsfailed or not left, left
