"""The runs of a session that are in flight: how many may execute, who waits, and when none is left."""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final, final

from .._exec.calls import current_call
from ..errors import SessionClosedError, SessionOverloadedError
from .config import SessionConfig

if TYPE_CHECKING:
    from .args import RunArgs
    from .future import PlainRunFuture
    from .hooked import HookedRunFuture


@final
class RunsInFlight:
    """The runs of one session that have been asked for and have not ended. Used on its loop alone.

    Runs that a node of another run started are nested: they wait for no place and count for no limit,
    since the run that they would wait for may be waiting for them.

    Fields:
        futures: all of them, but those that finish where they are called. Kept here, or a run that nobody
            holds could be collected half-way.
        executing: how many have a place among `max_concurrent_runs`.
        waiting: those that wait for a place, first come, first served. A place that falls free is given
            away at once, so that nobody who comes later, and no cancellation, can take it.
        hooked: those that have hooks. The runs proper inside of them are in flight as others are.
        in_hooks: how many of these call hooks just now. So each is counted once, here or as a run proper.
        inline: those that wait for a turn of the loop, or for variables, and are not among `futures`.
        in_line: of these, those that wait for variables: what they await.
        started, ended: how many so far.
        ends: how often all were to end.
        _limited: how many of `futures` are not nested.
        _planning: those whose plan a worker makes, with what the plan is for.
        _following: for each of that, who else waits for the plan: thousands that start together make one.
        _initializing: what gives variables their first values, on behalf of one that is not nested.
        _uninitialized: who else waits for that.
        _watchers: who waits until nothing is in flight.
    """

    def __init__(self, config: SessionConfig) -> None:
        self.futures: Final[set[PlainRunFuture[Any]]] = set()
        self.executing = 0
        self.waiting: Final[dict[PlainRunFuture[Any], None]] = {}
        self.hooked: Final[set[HookedRunFuture[Any]]] = set()
        self.in_hooks = 0
        self.inline = 0
        self.in_line: Final[set[Future[None]]] = set()
        self.ends = 0
        self.started = 0
        self.ended = 0
        self._most_executing: Final = config.max_concurrent_runs
        self._most: Final = config.max_concurrent_runs + config.max_pending_runs
        self._limited = 0
        self._planning: Final[dict[PlainRunFuture[Any], Hashable]] = {}
        self._following: Final[dict[Hashable, list[PlainRunFuture[Any]]]] = {}
        self._initializing: PlainRunFuture[Any] | None = None
        self._uninitialized: list[PlainRunFuture[Any]] = []
        self._watchers: Final[list[Future[None]]] = []

    def __bool__(self) -> bool:
        return bool(self.futures or self.hooked) or self.inline > 0

    def contains(self, run: object) -> bool:
        """Whether `run` is what runs one of them."""
        return any(future.is_run_by(run) for future in (*self.hooked, *self.futures))

    def counts(self) -> tuple[int, int]:
        """How many execute, and how many wait for a turn, a place, or cheap ones for variables."""
        nested = len(self.futures) - self._limited
        waiting = self._limited + self.inline - self.executing
        return self.executing + nested + self.in_hooks, waiting

    # -- a run's way -----------------------------------------------------------------------------------

    def check_load(self) -> None:
        """Raises if no more runs may be asked for.

        Raises:
            SessionOverloadedError: as many are in flight as may be, and this one is not nested.
        """
        count = self._limited + self.inline + self.in_hooks
        if count >= self._most and current_call.get() is None:
            raise SessionOverloadedError(
                f"{count} runs are in flight, and the session takes {self._most}\n"
                "  wait for some of them, or raise SessionConfig(max_pending_runs=...)"
            )

    def enter(self, future: PlainRunFuture[Any]) -> None:
        """Takes a run in.

        Raises:
            SessionOverloadedError: as `check_load`.
        """
        self.check_load()
        self.futures.add(future)
        self.started += 1
        self._limited += not future.nested

    def enter_hooks(self, future: HookedRunFuture[Any]) -> None:
        """Takes a run with hooks in, which waits for no place: the run proper does.

        Raises:
            SessionOverloadedError: as `check_load`.
        """
        self.check_load()
        self.hooked.add(future)
        self.in_hooks += 1

    def leave_hooks(self, future: HookedRunFuture[Any]) -> None:
        """A run with hooks has ended."""
        self.hooked.remove(future)
        self.in_hooks -= 1
        self._tell_watchers()

    def start(self, future: PlainRunFuture[Any]) -> None:
        """Starts a run if no more execute than may; otherwise has it wait.

        Raises:
            RunArgsError: the graph cannot give what it asks for.
            StateConflictError: it is nested, and would wait for a run that waits for it.
        """
        if future.needs_worker_to_plan:
            self._plan_on_worker(future)
            return
        self._has_planned(future)
        if not future.is_prepared:
            future.prepare()
        if not future.nested and not future.has_place:
            if self.executing >= self._most_executing:
                self.waiting[future] = None
                return
            self._give_place(future)
        # With a place in hand: a nested run may wait for who holds variables, and that one for no place.
        if future.takes_state():
            future.start()

    def initialize(self, future: PlainRunFuture[Any], args: RunArgs[Any]) -> None:
        """Has variables get the first values that a run needs, which then goes on.

        One run at a time does that, for all that are not nested: thousands that start together compute them once.
        """
        if future.nested:
            self._enter_for_another(future.initialize(args))
        elif self._initializing is None:
            self._initializing = future.initialize(args)
            self._enter_for_another(self._initializing)
            self._initializing.add_done_callback(self._has_initialized)
        else:
            self._uninitialized.append(future)

    def _enter_for_another(self, future: PlainRunFuture[Any]) -> None:
        self.futures.add(future)
        self.started += 1

    def _has_initialized(self, _: object) -> None:
        """Those who wait until variables have their first values go on, and see for themselves."""
        self._initializing = None
        waiting, self._uninitialized = self._uninitialized, []
        for one in waiting:
            one.resume()

    def _plan_on_worker(self, future: PlainRunFuture[Any]) -> None:
        asked = future.asked
        if asked in self._following and not future.nested:
            self._following[asked].append(future)
            return
        self._following.setdefault(asked, [])
        self._planning[future] = asked
        future.plan_on_worker()

    def _has_planned(self, future: PlainRunFuture[Any]) -> None:
        """A worker has made the plan of a run, or has failed: those who follow go on, and see for themselves."""
        if future in self._planning:
            for one in self._following.pop(self._planning.pop(future), ()):
                one.resume()

    def is_planning(self, future: PlainRunFuture[Any]) -> bool:
        """Whether a worker makes the plan of a run, and will say so."""
        return future in self._planning

    def leave(self, future: PlainRunFuture[Any]) -> None:
        """A run has ended; those that wait may start."""
        self.futures.discard(future)
        self._has_planned(future)
        self.waiting.pop(future, None)
        self.ended += 1
        self._limited -= not future.nested
        self.executing -= future.has_place
        while self.waiting and self.executing < self._most_executing:
            following = next(iter(self.waiting))
            del self.waiting[following]
            self._give_place(following)
            following.resume()
        self._tell_watchers()

    def leave_inline(self) -> None:
        """A run that waited for its turn, or for variables, waits no longer."""
        self.inline -= 1
        if self._watchers:
            self._tell_watchers()

    def count_inline(self) -> None:
        """A cheap run has begun and ended, however it did."""
        self.started += 1
        self.ended += 1

    def _give_place(self, future: PlainRunFuture[Any]) -> None:
        self.executing += 1
        future.has_place = True

    # -- the end of all --------------------------------------------------------------------------------

    def end_waiting(self) -> None:
        """Ends the runs that have no place yet."""
        for future in list(self.waiting):
            future.end(SessionClosedError("the session was closed before the run could start"))

    def end_all(self) -> None:
        """Ends all runs."""
        self.ends += 1
        for future in [*self.hooked, *self.futures]:
            future.end(_closed())
        for come in self.in_line:
            if not come.done():
                come.set_exception(_closed())

    def check_not_ended(self, ends: int) -> None:
        """Of a run that is in none of the tables and goes on now; it came when all were to end so often.

        Raises:
            SessionClosedError: all runs were to end meanwhile.
        """
        if self.ends != ends:
            raise _closed()

    async def wait_until_none(self, loop: AbstractEventLoop) -> None:
        """Waits until nothing is in flight."""
        while self:
            watcher: Future[None] = loop.create_future()
            self._watchers.append(watcher)
            await watcher

    def _tell_watchers(self) -> None:
        if self._watchers and not self:
            for watcher in self._watchers:
                if not watcher.done():
                    watcher.set_result(None)
            self._watchers.clear()


def _closed() -> SessionClosedError:
    return SessionClosedError("the session was closed before the run could end")
