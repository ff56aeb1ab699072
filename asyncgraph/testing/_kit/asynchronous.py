"""The rules for devices that are done some time later: what a backend promises, and what sessions do with it."""

from __future__ import annotations

import asyncio
import threading
import weakref
from abc import ABC
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, final

import numpy as np
import pytest

from ... import ops
from ..._graph.building import constant, placeholder
from ..._graph.graph import Graph
from ..._graph.node import Node
from ..._graph.scopes import device
from ..._session.args import RunOptions
from ..._session.blocking import BlockingSession
from ..._session.session import Session
from ...abc import Array, Backend, Device
from ...errors import RunTimeoutError
from ...ops.custom import op
from .base import HostArray, KitBase, Submission, flush, group, on_host
from .watching import LIMIT_S, WatchingBackend, alive

_TURNS: Final = 50
_WHILE_S: Final = 0.02
"""How long the loop goes on: whatever ends a run too early has ended it by then."""


class Asynchronous(KitBase, ABC):
    """Skipped for synchronous backends. A session's device is kept busy by not telling it that the device is done."""

    @pytest.fixture
    def delayed(self, backend: Backend) -> Backend:
        """The backend, if it is asynchronous."""
        if not backend.capabilities.asynchronous:
            pytest.skip("the backend is synchronous")
        return backend

    # -- the backend alone -----------------------------------------------------------------------------

    @group("asynchronous")
    def test_submit_returns_while_the_device_is_busy(self, delayed: Backend, devices: Sequence[Device]) -> None:
        """Neither `work` nor what was submitted before holds up who submits."""
        may_end, returned = threading.Event(), threading.Event()
        submitted: list[Submission] = []

        def wait() -> None:
            may_end.wait(LIMIT_S)

        def submit() -> None:
            submitted.extend([Submission(delayed, devices[0], work) for work in (wait, _nothing)])
            returned.set()

        thread = threading.Thread(target=submit)
        thread.start()
        at_once = returned.wait(LIMIT_S / 4)
        may_end.set()
        thread.join()
        assert [one.wait() for one in submitted] == [None, None]
        assert at_once, "submit has not returned before the device was done"

    @group("asynchronous")
    def test_what_is_submitted_to_a_device_is_begun_in_order(self, delayed: Backend, devices: Sequence[Device]) -> None:
        """By a thread of the backend's own."""
        begun: list[int] = []
        threads: set[int] = set()

        def work(index: int) -> None:
            begun.append(index)
            threads.add(threading.get_ident())

        submitted = [Submission(delayed, devices[0], partial(work, index)) for index in range(50)]
        assert [one.wait() for one in submitted] == [None] * 50
        assert begun == list(range(50))
        assert threading.get_ident() not in threads

    @group("asynchronous")
    def test_done_is_called_once_with_what_work_raised(self, delayed: Backend, devices: Sequence[Device]) -> None:
        """By a thread of the backend's own; the device goes on."""
        error = ValueError("as it is")

        def fail() -> None:
            raise error

        submitted = [Submission(delayed, devices[0], work) for work in (fail, _nothing)]
        for one in submitted:
            one.wait()
        flush(delayed, devices)
        assert [one.told for one in submitted] == [[error], [None]]
        assert threading.get_ident() not in [thread for one in submitted for thread in one.threads]

    @group("asynchronous")
    @pytest.mark.parametrize("ending", ["returns", "raises"])
    def test_when_done_is_called_the_device_reads_and_writes_no_more(
        self, ending: str, delayed: Backend, devices: Sequence[Device]
    ) -> None:
        """So results can be read, and what was given may change. What `work` has dropped was there as long."""
        for where in devices:
            outcome = _Outcome(np.arange(1 << 18, dtype=self.a_float()))
            expected = outcome.given + _STEPS
            delayed.submit(where, partial(_compute, delayed, where, ending, outcome), outcome.done)
            assert outcome.over.wait(LIMIT_S)
            if ending == "returns":  # What a work that raised has moved to the host may be left undone.
                np.testing.assert_array_equal(outcome.seen, expected)
            np.testing.assert_array_equal(on_host(delayed, where, outcome.left)[0], expected)
            assert type(outcome.error) is (_StoppedError if ending == "raises" else type(None))

    # -- sessions on its devices -----------------------------------------------------------------------

    @group("asynchronous")
    def test_a_session_uses_a_device_inside_of_works_alone(self, delayed: Backend, watching: WatchingBackend) -> None:
        """Never on the loop's thread; for constants, feeds, user ops between, results on the host and on the device."""
        threads: set[int] = set()
        watching.before = lambda what, where: threads.add(threading.get_ident())
        graph, x, y, z = self._in_two_segments(watching, lambda value: value + 1)

        async def main() -> list[Any]:
            async with Session(graph) as session:
                return [
                    (await session.run([y, z], {x: [1, 2]}, RunOptions(results=where, trace=trace))).results
                    for where in ("host", "device")
                    for trace in (False, True)
                ]

        (squares, sums), *_ = asyncio.run(main())
        assert (squares.tolist(), sums.tolist()) == ([1, 4], [1, 7])
        assert threading.get_ident() not in threads
        with BlockingSession(graph) as session:
            assert session.run(z, {x: [1, 2]}).results.tolist() == [1, 7]
        assert threading.get_ident() not in threads

    @group("asynchronous")
    def test_what_waits_for_nothing_is_submitted_at_once(self, delayed: Backend, watching: WatchingBackend) -> None:
        """The transfers there, the kernels and the transfers back: one work for each run."""
        with Graph() as graph:
            x = y = placeholder(self.a_float(), (2,))
            with device(str(watching.devices()[0])):
                for _ in range(10):
                    y = ops.square(y) - x
        with BlockingSession(graph) as session:
            for count in (1, 2):
                assert session.run(y, {x: [0, 2]}).results.tolist() == [0, 2]
                assert len(watching.submitted) == count

    @group("asynchronous")
    @pytest.mark.parametrize("what", ["feeds", "a constant"])
    def test_the_loop_goes_on_while_a_device_is_busy(
        self, what: str, delayed: Backend, watching: WatchingBackend
    ) -> None:
        """Also while a plan is made, which moves constants to the device."""
        with Graph() as graph:
            x = placeholder(self.a_float(), (2,))
            with device(str(watching.devices()[0])):
                y = x * (constant(np.array([3, 4], self.a_float())) if what == "a constant" else 3)

        async def main(run: _Held) -> HostArray:
            async with Session(graph) as session, run:
                task = await run.start(session.run(y, {x: [1, 1]}))
                assert not task.done(), "a run ended before the device was done"
                run.release()
                return (await task).results

        expected = [3, 4] if what == "a constant" else [3, 3]
        assert asyncio.run(main(_Held(watching))).tolist() == expected

    @group("asynchronous")
    def test_a_busy_device_is_given_the_next_run(self, delayed: Backend, watching: WatchingBackend) -> None:
        """A run does not wait until the device has done another."""
        graph, x, y = self._squared(watching)

        async def main(run: _Held) -> list[float]:
            async with Session(graph) as session, run:
                tasks = [await run.start(session.run(y, {x: [i, i]})) for i in range(3)]
                submitted = len(watching.submitted)
                run.release()
                values = await asyncio.gather(*tasks)
                assert submitted == 3
                return [one.results[0] for one in values]

        assert asyncio.run(main(_Held(watching))) == [0, 1, 4]

    @group("asynchronous")
    def test_inputs_live_until_the_device_is_done(self, delayed: Backend, watching: WatchingBackend) -> None:
        """What was fed, what a user op returned, and what an earlier work gave."""
        made: list[weakref.ref[Any]] = []

        def passed_on(value: HostArray) -> HostArray:
            array = value + 1
            made.append(weakref.ref(array))
            watching.holds = True
            return array

        graph, x, _, z = self._in_two_segments(watching, passed_on)

        async def main(run: _Held) -> None:
            async with Session(graph) as session, run:
                watching.holds = False
                task = await run.start(session.run(z, {x: self._fed(made)}))
                if not watching.tells_what_is_alive:
                    pytest.skip("its arrays take no weak references")
                assert alive(made, 2) == 2, "what was fed, or what a user op returned, is gone"
                assert watching.alive("square", 1) == 1, "what an earlier work gave is gone"
                run.release()
                assert (await task).results.tolist() == [1, 7]

        asyncio.run(main(_Held(watching)))

    @group("asynchronous")
    @pytest.mark.parametrize("ended_by", ["cancel", "timeout"])
    def test_a_run_that_is_ended_waits_for_the_device_and_submits_no_more(
        self, ended_by: str, delayed: Backend, watching: WatchingBackend
    ) -> None:
        """However often it is cancelled. What the device reads lives as long; the next run is right."""
        graph, x, y, z = self._in_two_segments(watching, lambda value: value + 1)
        made: list[weakref.ref[Any]] = []
        timeout_s, raises = {"cancel": (None, asyncio.CancelledError), "timeout": (0.2, RunTimeoutError)}[ended_by]

        async def main(run: _Held) -> None:
            async with Session(graph) as session:
                await session.run([y, z], {x: [1, 2]})  # which makes the plan
                async with run:
                    args = [y, z], {x: self._fed(made)}, RunOptions(timeout_s=timeout_s)
                    task = await run.start(session.run(*args))
                    del args
                    submitted = len(watching.submitted)
                    for _ in range(2):
                        await (_cancel(task) if ended_by == "cancel" else asyncio.sleep(0.15))
                        assert not task.done(), "a run ended before the device was done"
                    assert alive(made, 1) == 1, "what was fed is gone, while the device reads it"
                    run.release()
                    with pytest.raises(raises):
                        await task
                assert len(watching.submitted) == submitted, "a work was submitted for a run that was ended"
                del task
                assert (await session.run([y, z], {x: [3, 4]})).results[1].tolist() == [17, 31]

        asyncio.run(main(_Held(watching)))
        flush(delayed, watching.devices())
        assert alive(made) == 0, "a run that is over keeps what was fed"

    # -- what they are made of -------------------------------------------------------------------------

    def _squared(self, watching: WatchingBackend) -> tuple[Graph, Node, Node]:
        with Graph() as graph:
            x = placeholder(self.a_float(), (2,))
            with device(str(watching.devices()[0])):
                return graph, x, ops.square(x)

    def _in_two_segments(
        self, watching: WatchingBackend, function: Callable[[HostArray], HostArray]
    ) -> tuple[Graph, Node, Node, Node]:
        """The graph of `z = function(y) + y - 2`, with `y = square(x)` and a constant for the 2."""
        graph, x, y = self._squared(watching)
        with graph:
            user = op(function, name="user", spec=f"{self.a_float()}[2]").node(y)
            with device(str(watching.devices()[0])):
                ones = constant(np.ones(2, self.a_float()))
                return graph, x, y, user + y - (ones + ones)

    def _fed(self, made: list[weakref.ref[Any]]) -> HostArray:
        array = np.array([1, 2], self.a_float())
        made.append(weakref.ref(array))
        return array


_STEPS: Final = 20


@final
class _StoppedError(Exception):
    """A work raised it."""


@final
class _Outcome:
    """What became of a submission.

    Fields:
        given: what it reads; written over when `done` is called.
        left: what it computed, on the device.
        back: the same on the host.
        seen: a copy of `back` that was made when `done` was called.
        error: what `done` was told.
        over: set then.
    """

    def __init__(self, given: HostArray) -> None:
        self.given: Final = given
        self.left: Array = None
        self.back: HostArray = np.empty(0)
        self.seen: HostArray = np.empty(0)
        self.error: BaseException | None = None
        self.over: Final = threading.Event()

    def done(self, error: BaseException | None) -> None:
        self.seen, self.error = self.back.copy(), error
        self.given[...] = -1
        self.over.set()


def _compute(backend: Backend, where: Device, ending: str, outcome: _Outcome) -> None:
    """Adds 1 some times, to what is given and first of all an array of its own, which it drops like all on the way."""
    given = outcome.given
    add = backend.kernel("add", {}, [given, given], where)
    value = add(backend.to_device(given, where), backend.to_device(np.ones_like(given), where))
    add = backend.kernel("add", {}, [given, 1], where)
    for _ in range(_STEPS - 1):
        value = add(value, 1)
    outcome.left, outcome.back = value, backend.to_host(value)
    if ending == "raises":
        raise _StoppedError


def _nothing() -> None:
    pass


@final
class _Held:
    """In its context no device is ever done, until `release`. If that makes the loop wait, it ends by an error."""

    def __init__(self, watching: WatchingBackend) -> None:
        self._watching: Final = watching
        self._holding: Any = None

    async def __aenter__(self) -> _Held:
        self._holding = self._watching.holding()
        self._holding.__enter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._holding.__exit__(None, None, None)

    async def start(self, run: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of that run, when the device would be done and the loop has gone on for a while."""
        task = asyncio.ensure_future(run)
        del run
        await asyncio.to_thread(self._watching.wait_until_held)
        await _go_on()
        assert not self._watching.gave_up, "the loop was blocked until the device was done"
        return task

    def release(self) -> None:
        """The devices are done."""
        self._watching.release()


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await _go_on()


async def _go_on() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    await asyncio.sleep(_WHILE_S)
