"""A run in flight, and the future that delivers it."""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Hashable
from contextvars import Context
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from .._exec.calls import current_call
from .._exec.inline import InlineRun
from .._exec.recorder import Recorder
from .._exec.results import deliver
from .._exec.run import Post, Run
from .._graph.node import Node
from .._plan.plan import Plan
from ..errors import FetchError
from .args import RunArgs, number_of, out_of_time, untyped_args
from .delivery import RunFuture
from .engine import Engine, Request
from .fetches import leaves_of, resolve
from .planning import Planning
from .transaction import Transaction, parent_in
from .values import RunMetadata, RunValues

if TYPE_CHECKING:
    from .session import Session

T = TypeVar("T")


@final
class PlainRunFuture(RunFuture[T]):
    """A run in flight, without hooks."""

    # Fields:
    #   _session, _args, _context, _began: what is run, for whom, since when.
    #   _copies: whether the fed values are still to be copied.
    #   _request, _values, _largest: what the args mean and the fed values, once they are checked.
    #   _run: what runs it; None until it starts and after it has ended.
    #   _transaction: what it has to do with variables, from when that is asked for to its end.
    #   _given: what its plan is given of them.
    #   _before: the run that gives variables the first values that it needs, while it waits for that.
    #   _deadline: ends the run when its time is up.
    #   _taken: whether it is committed by `take`.
    #   has_place: whether it is one of the runs that execute and whose number is limited.
    #   nested: whether a node of another run started it, which may hold what it would wait for.
    #   _stopping: why it ends, if it was told to before it started.
    #   _provisional: values that were handed out before the end, by fetch.
    #   _delivered_values: the values of the plan's fetches, once the run has succeeded.
    #   _watchers: who waits for a fetch.
    #   _fetched: its fetches, once somebody has asked for one.
    #   _places: of each, its place among the plan's and the segment that computes it, once somebody waits.

    def __init__(
        self, session: Session, args: RunArgs[T], context: Context, began: float, for_another: bool = False
    ) -> None:
        super().__init__(loop=session.host.loop)
        self._session: Final = session
        self._args = args
        self._context: Final = context
        self._began: Final = began
        self._copies = args.options.copy_feeds
        self._request: Request | None = None
        self._values: list[Any] | None = None
        self._largest = 0
        self._run: Run | InlineRun | None = None
        self._transaction: Transaction | None = None
        self._given: list[Any] = []
        self._before: PlainRunFuture[Any] | None = None
        self._recorder: Recorder | None = Recorder() if args.options.trace else None
        self._deadline: asyncio.TimerHandle | None = None
        self._taken = False
        self.has_place = False
        self._stopping: BaseException | None = None
        self._failures: tuple[BaseException, ...] = ()
        self._provisional: dict[int, Any] = {}
        self._delivered_values: list[Any] = []
        self._watchers: dict[Node, list[asyncio.Future[Any]]] = {}
        self._fetched: frozenset[Node] = frozenset()
        self._places: dict[Node, tuple[int, int | None]] = {}
        call = context.get(current_call)
        self.nested: Final = for_another or (call is not None and not call.of_hooks)

    # -- what callers use ------------------------------------------------------------------------------

    @property
    def metadata(self) -> RunMetadata:
        """As `RunFuture.metadata`."""
        count = 0 if self._request is None else len(self._request.plan.program.nodes)
        return RunMetadata(perf_counter() - self._began, count, self._failures, self._recorder)

    def fetched(self, fetch: Node | str) -> asyncio.Future[Any]:
        """As `RunFuture.fetched`."""
        graph = self._session.graph
        node = resolve(fetch, graph)
        if not self._fetched:
            self._fetched = frozenset([resolve(leaf, graph) for leaf in leaves_of(self._args.fetches)])
        if node not in self._fetched:
            raise FetchError(f"{node!r} is not among the fetches of this run")
        waiter: asyncio.Future[Any] = self.get_loop().create_future()
        self._watchers.setdefault(node, []).append(waiter)
        if self.done():
            self._release_watchers()
        else:
            self._watch()
        return waiter

    async def take(self) -> RunValues[T]:
        """Awaits it for the only one who knows of it, and commits when that one has the values.

        Who awaits may be cancelled when the run has ended already: then nothing was changed.
        """
        self._taken = True
        try:
            values = await self
            if self._transaction is not None:
                self._transaction.commit()
            return values
        finally:
            self._end_transaction()
            del self  # As in `__await__`.

    # -- the way of a run ------------------------------------------------------------------------------

    def is_run_by(self, run: object) -> bool:
        """Whether that is what runs it."""
        return self._run is not None and self._run is run

    def prepare(self) -> None:
        """Finds the plan, and checks and converts the feeds.

        Raises:
            RunArgsError: the graph cannot give what is asked for, or a value does not fit. Nothing has run.
        """
        engine = self._session.engine
        self._request = engine.request(self._args, self.check_in_time)
        self._bind()

    def take_feeds(self) -> None:
        """Checks the fetches and feeds, and copies the feeds if that is asked for, before there is a plan.

        Raises:
            RunArgsError: as `prepare`, but for feeds that are missing.
        """
        self._args = self._session.engine.check(self._args)
        self._copies = False

    def _bind(self) -> None:
        assert self._request is not None
        self._values, self._largest = self._request.bind(tuple(self._args.feeds.values()), self._copies)

    def takes_state(self) -> bool:
        """Whether it has what it needs of the variables; if it has to wait for that, it is resumed then.

        Raises:
            StateConflictError: it is nested, and would wait for a run that waits for it.
        """
        assert self._request is not None
        plan = self._request.plan
        if not plan.stateful:
            return True
        if self._transaction is None:
            assert self._values is not None
            first = self._session.engine.first_values(plan, self._values)
            if first is not None:
                self._session.runs.initialize(self, first)
                return False
            store = self._session.engine.store
            parent = parent_in(self._context, store)
            self._transaction = Transaction(store, parent, self._args.options.seed, number_of(self._args), self.nested)
            if not self._transaction.enter(plan, partial(self._session.host.mailbox.post, self.resume)):
                if self.nested:
                    self._session.host.calls.urge()
                return False
        elif self._transaction.waits:
            return False
        state = self._transaction.begin(plan)
        if state is None:
            # Its plan gives first values to variables that others have given values meanwhile: it takes another.
            self._transaction.end()
            self._transaction = self._request = None
            self.resume()
            return False
        self._given = state
        return True

    def initialize(self, args: RunArgs[Any]) -> PlainRunFuture[Any]:
        """Starts what gives variables the first values that it needs, on its behalf; it is resumed when that has ended.

        It ends with what that raises.
        """
        before = self._before = PlainRunFuture(self._session, args, self._context, perf_counter(), for_another=True)
        before.add_done_callback(self._initialized)
        before.resume()
        return before

    def _initialized(self, before: asyncio.Future[Any]) -> None:
        self._before = None
        error = CancelledError() if before.cancelled() else before.exception()
        error = self._stopping or error
        if error is None:
            self.resume()
        else:
            self._finish(error)

    @property
    def is_prepared(self) -> bool:
        """Whether its plan is found and its feeds are checked."""
        return self._request is not None

    @property
    def needs_worker_to_plan(self) -> bool:
        """Whether planning would hold the loop for long."""
        engine = self._session.engine
        return self._request is None and not engine.is_planned(self._args) and not engine.plans_at_once(self._args)

    @property
    def asked(self) -> Hashable:
        """What it asks for, without the values: runs that agree in it share a plan."""
        return self._session.engine.key(self._args)

    def resources_to_plan(self) -> tuple[Post, Engine, RunArgs[T]]:
        """How to reach the loop, and what the plan is made from and of. For the worker that makes it."""
        return self._session.host.mailbox.post, self._session.engine, self._args

    def limit_time(self) -> None:
        """Starts the clock, if the run has a deadline."""
        timeout_s = self._args.options.timeout_s
        if timeout_s is not None and self._deadline is None:
            left_s = timeout_s - (perf_counter() - self._began)
            self._deadline = self.get_loop().call_later(left_s, self._out_of_time)

    def resume(self) -> None:
        """Has its next slice done in a later turn of the loop."""
        self._session.host.turn.wait(self.slice)

    def slice(self) -> bool:
        """The next part of the run, if it runs inline; whether there is more. For `Turn`."""
        if self._run is None:
            if self.done():
                return False
            if self._stopping is not None:
                self._finish(self._stopping)
                return False
            try:
                self._session.runs.start(self)
            except BaseException as error:
                self._finish(error)
                return False
        return isinstance(self._run, InlineRun) and self._run.advance()

    def plan_on_worker(self) -> None:
        """Has the plan made by a worker, and starts the run afterwards."""
        work = partial(self._context.copy().run, Planning(self).make)
        # A small graph is planned elsewhere than on the loop for having to wait, as ops do. The workers compute.
        host = self._session.host
        pool = host.calls if self._session.engine.is_small else host.kernels
        pool.submit(work, at_once=self.nested)

    def planned(self, request: Request | None, error: BaseException | None) -> None:
        """A worker has made the plan, or failed to."""
        error = error or self._stopping
        if error is not None:
            self._finish(error)
            return
        self._request = request
        try:
            self._bind()
        except BaseException as error:
            self._finish(error)
            return
        self.resume()  # Not here: what fails would lead to this frame, and this future keeps what failed.

    def start(self) -> None:
        """Starts the run: admitted, its feeds in hand. Ends it, if its time is over already."""
        assert self._request is not None
        assert self._values is not None
        options = self._args.options
        if options.timeout_s is not None and perf_counter() - self._began >= options.timeout_s:
            # Not raised: its traceback would lead back to this future, which keeps it.
            self._finish(out_of_time(options))
            return
        plan, host = self._request.plan, self._session.host
        frame = plan.frame([*self._values, *self._given])
        self._values = None
        self._given = []
        plan.count_run()
        if plan.single and plan.work.seconds(self._largest) <= host.turn.budget_s:
            self._run = InlineRun(plan, frame, self._context, self._inline_ended, self._recorder)
            return
        run = Run(host, plan, frame, self._context, self._largest, self._run_ended, self.nested, self._recorder)
        self._run = run
        if self._transaction is not None:
            run.transaction, run.is_urgent = self._transaction, self._transaction.is_urgent
        self._watch()
        run.start()

    def _stop(self, error: BaseException) -> None:
        if self._run is not None:
            self._run.stop(error)
        elif self._stopping is None:
            self._stopping = error
            if self._before is not None:
                self._before.cancel()
            elif not self._session.runs.is_planning(self):
                self._finish(error)

    def _out_of_time(self) -> None:
        if not self.done():
            self._stop(out_of_time(self._args.options))

    def check_in_time(self) -> None:
        """Raises what ends the run, if something has."""
        if self._stopping is not None:
            raise self._stopping

    # -- its end ---------------------------------------------------------------------------------------

    def _inline_ended(self, run: InlineRun) -> None:
        self._finish(run.error)

    def _run_ended(self, run: Run) -> None:
        error = run.error()
        self._failures = tuple(run.scheduler.failures[1:])
        self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        """Nothing of the run is left; tells everybody. Once."""
        if self.done():
            return
        if self._deadline is not None:
            self._deadline.cancel()
        values: RunValues[T] | None = None
        if error is None:
            try:
                values = self._delivered()
                self._succeed()
            except BaseException as failure:  # A backend's transfer can fail like any kernel, and so can a commit.
                values, error = None, failure
        if not (self._taken and values is not None):
            self._end_transaction()
        self._run = self._values = self._stopping = None
        self._given = []
        # A future may be kept for long: it shall not keep what was fed.
        self._args = untyped_args(self._args.fetches, None, self._args.options)
        self._provisional.clear()
        self._session.runs.leave(self)
        self._deliver(values, error)
        self._release_watchers()

    def _delivered(self) -> RunValues[T]:
        assert self._request is not None
        plan = self._request.plan
        values = self._delivered_values = [self._value(index, plan) for index in range(len(plan.fetches))]
        results = results_of(self._request, self._args, values)
        return RunValues(results, self._args.options, plan, perf_counter() - self._began, self._recorder)

    def _succeed(self) -> None:
        """Commits what it has assigned; or has that ready, for `take`."""
        if self._transaction is not None:
            assert self._run is not None
            self._transaction.succeed(self._run.plan, self._run.frame)
            if not self._taken:
                self._transaction.commit()

    def _end_transaction(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.end()

    def _value(self, index: int, plan: Plan) -> Any:
        assert self._run is not None
        if index in self._provisional:
            return self._provisional[index]
        (value,) = deliver(plan.fetches[index : index + 1], self._run.frame)
        return value

    # -- values before the end -------------------------------------------------------------------------

    def _watch(self) -> None:
        if not self._watchers or not isinstance(self._run, Run):
            return
        if not self._places:
            plan = self._run.plan
            self._places = {one.node: (index, plan.filled_by(one.slot)) for index, one in enumerate(plan.fetches)}
            self._run.watch = self._look
        self._look()

    def _look(self) -> None:
        """Hands out the fetches that are there."""
        run = self._run
        if not isinstance(run, Run) or run.scheduler.stopped:
            return
        for node in list(self._watchers):
            index, segment = self._places[node]
            if segment is None or run.scheduler.is_done(segment):
                if index not in self._provisional:
                    self._provisional[index] = self._value(index, run.plan)
                for waiter in self._watchers.pop(node):
                    if not waiter.done():
                        waiter.set_result(self._provisional[index])

    def _release_watchers(self) -> None:
        """The run has ended: those who wait for a fetch get its value, or what ended the run."""
        watchers, self._watchers = self._watchers, {}
        if not watchers:
            return
        error = None if self.cancelled() else self.exception()
        fetches = () if self._request is None else self._request.plan.fetches
        values = {one.node: value for one, value in zip(fetches, self._delivered_values, strict=False)}
        for node, waiters in watchers.items():
            for waiter in waiters:
                if waiter.done():
                    continue
                if self.cancelled():
                    waiter.cancel()
                elif error is not None:
                    waiter.set_exception(error)
                    waiter.exception()  # Who does not look at it any more need not be told.
                else:
                    waiter.set_result(values[node])


def results_of(request: Request, args: RunArgs[Any], values: list[Any]) -> Any:
    """The results of a run, in the structure of its fetches, from the values of its plan's fetches."""
    return request.results(args.fetches, values)
