"""Programs whose order of events is drawn from a seed: what happens once in a million happens again.

`Simulation(seed).run(main())` runs a coroutine as `asyncio.run` does. Tasks, futures and the order of the
loop's callbacks are asyncio's own, and sessions are what they always are. Simulated are:

threads     those of sessions. Their work is done here, a step at a time, between two callbacks of the loop
            or while it waits. A step is what the library does without looking at others: to begin a call,
            to make it, to compute a chunk of kernels.
wake-ups    what threads post to the loop arrives later than other things, or sooner.
time        the loop's clock, and the one that sessions look at. A sleep of an hour takes no time.

Which of them goes on is drawn. If none can, and `main` has not returned, that is an error at once, not a
test that hangs.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import AbstractEventLoop, Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import lru_cache
from heapq import heappop, heappush
from random import Random
from threading import Event
from time import perf_counter
from typing import Any, Final, TypeVar, final

from .._exec.workers import Pool, Work, pool_factory
from ..errors import SimulationError

T = TypeVar("T")

_MOST_STEPS: Final = 1_000_000
_LOOK_S: Final = 200e-6
"""What a look at the clock takes, at most: so inline work uses up the loop's budget, sooner or later."""
_SLOW_S: Final = 0.02
"""How long a thread may rest between two steps."""
_SOON_S: Final = 0.1
"""How far off an event may be for time to pass until then, although something else could go on."""


@final
class Simulation:
    """A loop, threads and a clock, whose order is drawn from a seed.

    To be used once, where no loop is running, and by one thread of a process at a time: while it runs, the
    library's clock is this one.

    Args:
        seed: the same seed, the same program, the same order.

    Fields:
        seed: as given.
        random: for whatever else the program draws, so that the seed decides it too.
        log: what was done, in order: the thread that did a step, a wake-up, or the time that it became.
    """

    # Fields:
    #   _now: seconds, of the loop's clock and the library's.
    #   _threads: the simulated threads that have something to do.
    #   _posted: calls for the loop that have not been delivered.
    #   _times: when something is due on the loop: a heap, also of what was cancelled.

    def __init__(self, seed: int) -> None:
        self.seed: Final = seed
        self.random: Final = Random(seed)
        self.log: Final[list[str]] = []
        self._draw: Final = self.random.random
        self._now = 0.0
        self._threads: Final[list[_Thread]] = []
        self._posted: Final[deque[tuple[Handle, Callable[..., Any], tuple[Any, ...], Context | None]]] = deque()
        self._times: Final[list[float]] = []
        self._loop: Final = _Loop(self)

    def time(self) -> float:
        """Seconds since the simulation began. Looking takes no time."""
        return self._now

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """What `main` returns.

        Raises:
            SimulationError: nothing can go on, or it goes on for ever. The message has the seed.
            BaseException: what `main` raises.
        """
        context = copy_context()
        context.run(pool_factory.set, self._make_pool)
        loop = self._loop
        with _clock(self._look):
            task = loop.create_task(main, context=context)
            try:
                return loop.run_until_complete(task)
            finally:
                _unwind(loop)
                loop.close()

    # -- for the loop ----------------------------------------------------------------------------------

    def post(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context | None) -> Handle:
        """Takes a call for the loop that another thread wants made, and holds it back."""
        handle = Handle(callback, args, self._loop, context)
        self._posted.append((handle, callback, args, context))
        return handle

    def expect(self, when: float) -> None:
        """Notes that something will be due on the loop."""
        heappush(self._times, when)

    def between(self, callback: Callable[..., Any], *args: Any) -> None:
        """A callback of the loop; before it, others may go on."""
        if self._draw() < 0.3:
            self._go_on_a_little()
        try:
            callback(*args)
        finally:
            # A task's frame that an exception keeps may lead back to this one, and its future to the exception.
            del callback, args

    def wait(self, idle: bool) -> None:
        """Between two turns of the loop, which is `idle` if it has nothing to do before somebody wakes it."""
        times = self._times
        while times and times[0] <= self._now:
            heappop(times)  # The loop sees to these when this returns, or has done so.
        if not idle:
            if self._draw() < 0.5:
                self._go_on_a_little()
            if self._draw() < 0.1 and self._next_event() < self._now + _SOON_S:
                self._let_time_pass()
            return
        woken = False
        while not woken and not (times and times[0] <= self._now):
            free = self._free()
            if not (free or self._posted) or (self._draw() < 0.1 and self._next_event() < self._now + _SOON_S):
                self._let_time_pass()
            else:
                woken = self._go_on(free)

    # -- what goes on ----------------------------------------------------------------------------------

    def _go_on_a_little(self) -> None:
        while True:
            free = self._free()
            if not (free or self._posted):
                return
            self._go_on(free)
            if self._draw() < 0.5:
                return

    def _go_on(self, free: list[_Thread]) -> bool:
        """Does one thing that can be done now; whether the loop was woken by it."""
        self._count()
        chosen = int(self._draw() * (len(free) + bool(self._posted)))
        if chosen < len(free):
            self.step(free[chosen])
            return False
        self.log.append("wake-up")
        handle, callback, args, context = self._posted.popleft()
        if not handle.cancelled():
            self._loop.call_soon(callback, *args, context=context)
        return True

    def _free(self) -> list[_Thread]:
        return [thread for thread in self._threads if thread.free_at <= self._now]

    def _next_event(self) -> float:
        """When something happens that waits for the time alone."""
        due = self._times[0] if self._times else float("inf")
        return min([due, *[thread.free_at for thread in self._threads if thread.free_at > self._now]])

    def _let_time_pass(self) -> None:
        self._count()
        then = self._next_event()
        if then == float("inf"):
            raise SimulationError(
                f"seed {self.seed}: nothing can go on, and the program has not ended\n{self._state()}"
            )
        self._now = max(self._now, then)
        self.log.append(f"{self._now:.6f} s")

    def _count(self) -> None:
        if len(self.log) > _MOST_STEPS:
            raise SimulationError(f"seed {self.seed}: the program does not end\n{self._state()}")

    def _state(self) -> str:
        tasks = [f"  {task!r}" for task in asyncio.all_tasks(self._loop)]
        return "\n".join([f"  after {len(self.log)} steps, at {self._now:.6f} s", *tasks])

    def _look(self) -> float:
        """The time, for whoever is not the loop. Looking takes some."""
        self._now += self._draw() * _LOOK_S
        return self._now

    # -- threads ---------------------------------------------------------------------------------------

    def _make_pool(self, name: str, limit: int) -> Pool:
        return _Pool(self, name, limit)

    def occupy(self, thread: _Thread) -> None:
        """A thread has something to do; it may take its time to begin."""
        thread.free_at = self._now + (self._draw() * _SLOW_S if self._draw() < 0.2 else 0.0)
        self._threads.append(thread)

    def step(self, thread: _Thread) -> None:
        """One step of a thread, which has one."""
        assert thread.work is not None
        self.log.append(thread.name)
        # There is no loop in a thread, and no context.
        asyncio.events._set_running_loop(None)
        try:
            thread.work = Context().run(thread.work)
        finally:
            asyncio.events._set_running_loop(self._loop)
        if thread.work is None:
            self._threads.remove(thread)
            thread.pool.freed(thread)
        elif self._draw() < 0.3:
            thread.free_at = self._now + self._draw() * _SLOW_S

    def finish(self, pool: _Pool) -> None:
        """Goes on until no thread of a pool has anything to do, as who joins them waits for."""
        while mine := [thread for thread in self._threads if thread.pool is pool]:
            thread = mine[int(self._draw() * len(mine))]
            self._now = max(self._now, thread.free_at)
            self.step(thread)


@final
class _Thread:
    """A simulated thread.

    Fields:
        pool, name: what it belongs to, and is called.
        work: its next step.
        free_at: when it does that, at the earliest.
    """

    __slots__ = ("free_at", "name", "pool", "work")

    def __init__(self, pool: _Pool, name: str) -> None:
        self.pool: Final = pool
        self.name: Final = name
        self.work: Work | None = None
        self.free_at = 0.0


@final
class _Pool(Pool):
    """Simulated threads, under the rules of real ones."""

    def __init__(self, simulation: Simulation, name: str, limit: int) -> None:
        self._simulation: Final = simulation
        self._name: Final = name
        self._limit: Final = limit
        self._queue: Final[deque[Work]] = deque()
        self._idle: Final[list[_Thread]] = []
        self._count = 0

    def submit(self, work: Work, *, at_once: bool = False) -> None:
        """As `Pool.submit`."""
        if not self._idle and (at_once or self._count < self._limit):
            self._count += 1
            self._idle.append(_Thread(self, f"{self._name} {self._count}"))
        if self._idle:
            thread = self._idle.pop()
            thread.work = work
            self._simulation.occupy(thread)
        else:
            self._queue.append(work)

    def urge(self) -> None:
        """As `Pool.urge`."""
        if self._queue:
            self.submit(self._queue.popleft(), at_once=True)

    def freed(self, thread: _Thread) -> None:
        """A thread has done what it had to do."""
        if self._queue:
            thread.work = self._queue.popleft()
            self._simulation.occupy(thread)
        elif self._count > self._limit:
            self._count -= 1
        else:
            self._idle.append(thread)

    def close(self) -> None:
        """As `Pool.close`."""
        self._count -= len(self._idle)
        self._idle.clear()

    def join(self) -> None:
        """As `Pool.join`."""
        self._simulation.finish(self)
        self.close()

    def until(self, event: Event) -> Work:
        """As `Pool.until`."""
        return lambda: None if event.is_set() else self.until(event)

    @property
    def threads(self) -> int:
        """As `Pool.threads`."""
        return self._count


@final
class _Loop(asyncio.BaseEventLoop):
    """asyncio's loop, on the time of a simulation, which goes on where a real one would wait. It has no sockets."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self._simulation: Final = simulation
        self._selector: Final = self  # It selects nothing.
        self.set_debug(False)

    def time(self) -> float:
        """As of any loop."""
        return self._simulation.time()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Handle:
        """As of any loop."""
        return super().call_soon(self._simulation.between, callback, *args, context=context)

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Handle:
        """As of any loop."""
        return self._simulation.post(callback, args, context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """As of any loop."""
        self._simulation.expect(when)
        return super().call_at(when, callback, *args, context=context)

    def select(self, timeout: float | None) -> list[Any]:
        """As of a selector: returns when there may be something to do."""
        self._simulation.wait(timeout is None or timeout > 0)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        return


@contextmanager
def _clock(clock: Callable[[], float]) -> Generator[None]:
    """Has every module of the library look at `clock`, as if it were `perf_counter`."""
    using = _modules_with_a_clock(len(sys.modules))
    for names in using:
        names["perf_counter"] = clock
    try:
        yield
    finally:
        for names in using:
            names["perf_counter"] = perf_counter


@lru_cache(maxsize=1)
def _modules_with_a_clock(count: int) -> list[dict[str, Any]]:
    """The names of each module of the library that looks at the clock, while `count` modules are imported."""
    package = __name__.partition(".")[0]
    modules = [vars(one) for name, one in list(sys.modules.items()) if name.partition(".")[0] == package]
    return [names for names in modules if names.get("perf_counter") is perf_counter and names is not globals()]


def _unwind(loop: AbstractEventLoop) -> None:
    """Ends what is left, as `asyncio.run` does: nothing, if all went well."""
    left = asyncio.all_tasks(loop)
    if left:
        loop.set_exception_handler(_say_nothing)
        for task in left:
            task.cancel()
        try:
            loop.run_until_complete(asyncio.wait(left))
        except Exception:  # It cannot be worse than what is being raised already.
            for task in asyncio.all_tasks(loop):
                _abort(task, loop)
            return
    loop.run_until_complete(loop.shutdown_asyncgens())


def _abort(task: asyncio.Task[Any], loop: AbstractEventLoop) -> None:
    """Ends a task that not even a cancellation ends: what it waits for will never happen."""
    coroutine = task.get_coro()
    # As if the task did it, on its loop: scopes may only be left by their own.
    asyncio.events._set_running_loop(loop)
    asyncio.tasks._enter_task(loop, task)
    try:
        coroutine.close()
    except Exception:
        return  # It was told already that nothing can go on.
    finally:
        asyncio.tasks._leave_task(loop, task)
        asyncio.events._set_running_loop(None)


def _say_nothing(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles what tasks complain of that will never end."""
