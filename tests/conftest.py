"""Nothing outlives a test: no thread of asyncgraph's, no task; and nothing the suite: no session."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
from collections.abc import AsyncIterator, Iterator

import pytest


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
def standin_in_numpy_s_place() -> Iterator[None]:
    """With ASYNCGRAPH_BACKEND=stand-in every test runs on the stand-in for a GPU, whatever it is a test of."""
    if os.environ.get("ASYNCGRAPH_BACKEND") != "stand-in":
        yield
        return
    from .standin.as_host import in_numpy_s_place

    with in_numpy_s_place():
        yield


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
