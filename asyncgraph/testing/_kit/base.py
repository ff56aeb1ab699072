"""What the tests of all groups share: what a subclass sets, and the backend under test."""

from __future__ import annotations

import asyncio
from abc import ABC
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from inspect import getmembers, isfunction
from threading import Event, get_ident
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast, final

import numpy as np
import pytest

from ..._graph.graph import Graph
from ..._registry import registry
from ..._session.blocking import BlockingSession
from ..._session.session import Session
from ...abc import Array, Backend, Device
from . import GROUPS
from .cases import DTYPES
from .watching import LIMIT_S, WatchingBackend

T = TypeVar("T")
HostArray = np.ndarray[Any, Any]

SESSIONS: Final = ("async", "blocking")
"""The kinds of session."""


def group(name: str) -> pytest.MarkDecorator:
    """The marker of the tests of a group."""
    assert name in GROUPS, name
    return pytest.mark.conformance(group=name)


class MakesBackend(Protocol):
    """A class of backends, or a function that gives one."""

    def __call__(self) -> Backend:
        """A backend."""
        ...


class KitBase(ABC):
    """A part of `BackendConformance`."""

    backend_class: ClassVar[MakesBackend]
    """The backend: its class, or a function that makes one. Several are made, and closed."""

    exact: ClassVar[bool] = False
    """Whether values equal NumPy's bit for bit; otherwise floats may differ as far as rounding can account for."""

    tolerances: ClassVar[Mapping[tuple[str, str], float]] = {}
    """Relative tolerances by class of op and dtype, such as `("reduction", "float16"): 0.05`, where those of
    `asyncgraph.testing._kit.tolerances` do not do."""

    flushed: ClassVar[Sequence[str]] = ()
    """The dtypes of which its devices take subnormal numbers for 0: none are tried."""

    dtypes: ClassVar[Sequence[str]] = DTYPES
    """The dtypes that its devices have. What needs, or gives, any other is not asked for."""

    expected_failures: ClassVar[Mapping[str, str]] = {}
    """Tests that fail, by their names as pytest prints them ("test_values[sin-int]"), with the reason. Strict: one
    that passes is a failure, so that the list stays true."""

    # -- fixtures --------------------------------------------------------------------------------------

    @pytest.fixture(autouse=True)
    def _expect_failure(self, request: pytest.FixtureRequest) -> None:
        reason = self.expected_failures.get(cast("pytest.Item", request.node).name)
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> Iterator[Backend]:
        """The backend, for all tests."""
        yield from opened(cls.backend_class)

    @pytest.fixture(scope="class")
    @classmethod
    def devices(cls, backend: Backend) -> Sequence[Device]:
        """Its devices."""
        return tuple(backend.devices())

    @pytest.fixture
    def watching(self, backend: Backend) -> Iterator[WatchingBackend]:
        """A backend that watches this one, and that sessions find in its place."""
        watching = WatchingBackend(backend)
        with registry.lend(watching):
            yield watching

    @pytest.fixture
    def another(self) -> Iterator[Backend]:
        """A backend of this test alone, which may be lost."""
        yield from opened(type(self).backend_class)

    # -- what the tests are made of --------------------------------------------------------------------

    def a_float(self) -> str:
        """A dtype that serves where any float does."""
        return next(one for one in ("float64", "float32", *self.dtypes) if one in self.dtypes)

    @classmethod
    def names_of_tests(cls) -> Iterator[str]:
        """The names of the tests, as pytest prints them."""
        for name, function in getmembers(cls, isfunction):
            marks: list[pytest.Mark] = getattr(function, "pytestmark", [])
            parameters = [one.args[1] for one in marks if one.name == "parametrize"]
            yield from [f"{name}[{one}]" for one in parameters[0]] if parameters else [name]


def opened(make: MakesBackend) -> Iterator[Backend]:
    """A backend, whose threads run already: no test is to blame for them. It is closed at the end.

    On a machine where it finds no device the test is skipped, and says why.
    """
    backend = make()
    try:
        devices = backend.devices()
    except Exception as error:
        pytest.skip(f"no device: {error}")
    flush(backend, devices)
    yield backend
    backend.close()


def flush(backend: Backend, devices: Sequence[Device]) -> None:
    """Returns when each device has done something else."""
    for one in devices:
        within(backend, one, lambda: None)


@final
class Submission:
    """Something that was submitted.

    Fields:
        told: what `done` was called with, each time.
        threads: the threads that called it.
    """

    def __init__(self, backend: Backend, device: Device, work: Callable[[], None]) -> None:
        self.told: Final[list[BaseException | None]] = []
        self.threads: Final[list[int]] = []
        self._over: Final = Event()
        self._device: Final = device
        backend.submit(device, work, self._done)

    def wait(self) -> BaseException | None:
        """What `done` was called with; when it was.

        Raises:
            AssertionError: nobody calls it.
        """
        assert self._over.wait(LIMIT_S), f"`done` has not been called {LIMIT_S} s after a submit to {self._device}"
        return self.told[0]

    def _done(self, error: BaseException | None) -> None:
        self.told.append(error)
        self.threads.append(get_ident())
        self._over.set()


def within(backend: Backend, device: Device, work: Callable[[], T]) -> T:
    """What `work` gives, once the device has done it. It is submitted, as kernels and transfers have to be.

    Raises:
        AssertionError: nobody says that it is done.
        BaseException: what `work` raised, or the device.
    """
    context = copy_context()
    results: list[T] = []

    def call() -> None:
        results[:] = [context.run(work)]

    error = Submission(backend, device, call).wait()
    if error is not None:
        raise error
    return results[0]


@contextmanager
def running(kind: str, graph: Graph) -> Generator[Callable[..., Any]]:
    """A function that runs fetches of a graph and gives their results, by an open session of one of `SESSIONS`."""
    if kind == "blocking":
        with BlockingSession(graph) as session:
            yield lambda *args: session.run(*args).results
    else:
        with asyncio.Runner() as loop:
            session = loop.run(_opened_session(graph))
            try:
                yield partial(_run, loop, session)
            finally:
                loop.run(session.aclose())


async def _opened_session(graph: Graph) -> Session:
    return await Session(graph).__aenter__()


def _run(loop: asyncio.Runner, session: Session, *args: Any) -> Any:
    async def results() -> Any:
        return (await session.run(*args)).results

    try:
        return loop.run(results())
    finally:
        loop.run(asyncio.sleep(0))  # What a loop has still to call, when it stops, keeps what it is called with.


def listed(results: Any) -> list[Any]:
    """The results of an op, which may have one alone."""
    return list(cast("Sequence[Any]", results)) if isinstance(results, (tuple, list)) else [results]


def on_host(backend: Backend, device: Device, value: Array) -> list[HostArray]:
    """The results of an op of a device, on the host."""
    return within(backend, device, lambda: [backend.to_host(one) for one in listed(value)])


def on_device(backend: Backend, device: Device, array: HostArray) -> Array:
    """An array of the host, on a device."""
    return within(backend, device, lambda: backend.to_device(array, device))
