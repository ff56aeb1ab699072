"""A run in the thread that asks for it: no scheduler, no hop."""

from __future__ import annotations

from asyncio import CancelledError
from contextvars import copy_context
from math import inf
from threading import Event
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, final

from .._exec.calls import Awaited, CallSite, current_call, timed_out
from .._exec.inline import explain_failure
from .._exec.notes import explain_call
from .._exec.recorder import Recorder, run_chunk
from .._exec.results import deliver
from .._exec.submitted import SubmittedSegment
from .._plan.chunk import Chunk, Frame
from .._plan.control import Stopped, is_stopped
from .._plan.lower import Kind
from .._plan.plan import Plan
from .._plan.segment import Segment
from ..errors import RunArgsError
from .args import RunArgs, number_of, out_of_time, untyped_args
from .engine import Request
from .transaction import Transaction, parent_in
from .values import RunValues

if TYPE_CHECKING:
    from .blocking import BlockingSession


@final
class RunHere:
    """One run in the calling thread: the segments in the plan's order, in which inputs come first.

    Fields:
        session: whose run it is; it lends its loop for what has to be awaited.
        transaction: what it has to do with variables; `None` if nothing.
        _number: that of the run, if its random numbers are drawn from one.
        _deadline: when its time is up, in `perf_counter`'s time.
    """

    def __init__(self, session: BlockingSession, args: RunArgs[Any], began: float) -> None:
        if args.options.hooks:
            raise RunArgsError("a BlockingSession calls no hooks\n  give hooks to a Session, and await its run")
        timeout_s = args.options.timeout_s
        self.session: Final = session
        self.transaction: Transaction | None = None
        self._args = args
        self._number: Final = number_of(args)
        self._began: Final = began
        self._deadline: Final = inf if timeout_s is None else began + timeout_s
        self._context: Final = copy_context()
        self._recorder: Final = Recorder() if args.options.trace else None

    def values(self) -> RunValues[Any]:
        """Runs it. Once.

        Raises:
            BaseException: as `BlockingSession.run`.
        """
        args, options = self._args, self._args.options
        # What a node raises may keep this run, which shall not keep what was fed.
        self._args = untyped_args(args.fetches, None, options)
        engine = self.session.engine
        request = engine.request(args, self._check_time)
        if request.plan.needs_loop:
            return self.session.on_loop().run(self._began, args)
        fed = tuple(args.feeds.values())
        feeds, _ = request.bind(fed, options.copy_feeds)
        if not request.plan.stateful:
            del args, fed  # The frames of what a node raises lead back to this one.
            return self._values(request, feeds)
        first = engine.first_values(request.plan, feeds, options.timeout_s)
        if first is not None:
            RunHere(self.session, first, self._began).values()
        try:
            while (state := self._state(request.plan)) is None:
                # It gives first values to variables that others have given values meanwhile.
                request = engine.request(args, self._check_time)
                feeds, _ = request.bind(fed, options.copy_feeds)
            del args, fed
            return self._values(request, feeds + state)
        finally:
            if self.transaction is not None:
                self.transaction.end()

    def _state(self, plan: Plan) -> list[Any] | None:
        """What a plan is given of the variables, once the run has what it needs; `None` if another plan is needed."""
        store = self.session.engine.store
        parent, nested = parent_in(self._context, store), self._context.get(current_call) is not None
        self.transaction = transaction = Transaction(store, parent, self._args.options.seed, self._number, nested)
        granted = Event()
        try:
            if not transaction.enter(plan, granted.set):
                if nested:
                    self.session.urge()
                while transaction.waits:
                    granted.wait(None if self._deadline == inf else max(0.0, self._deadline - perf_counter()))
                    self._check_time()
            state = transaction.begin(plan)
        except BaseException:
            transaction.end()
            raise
        if state is None:
            transaction.end()
        return state

    def _values(self, request: Request, feeds: list[Any]) -> RunValues[Any]:
        plan, options = request.plan, self._args.options
        frame = plan.frame(feeds)
        plan.count_run()
        try:
            self._run(plan, frame)
            results = request.results(self._args.fetches, deliver(plan.fetches, frame))
            if self.transaction is not None:
                self.transaction.succeed(plan, frame)
                self.transaction.commit()
        finally:
            # Contexts and exceptions that user code has kept lead here.
            frame.clear()
            feeds.clear()
        return RunValues(results, options, plan, perf_counter() - self._began, self._recorder)

    def _run(self, plan: Plan, frame: Frame) -> None:
        self._check_time()  # Also of a plan without segments.
        unread = dict(plan.readers)
        for segment in plan.segments:
            self._check_time()
            if segment.kind is Kind.KERNEL:
                self._compute(plan, segment.index, frame)
            else:
                self._call(segment, frame)
            for slot in segment.reads:
                unread[slot] -= 1
                if not unread[slot]:
                    frame[slot] = None

    def _compute(self, plan: Plan, segment: int, frame: Frame) -> None:
        device = plan.segments[segment].device
        if device is not None:
            work = SubmittedSegment(plan, segment, frame, copy_context(), self._recorder, self._is_over)
            try:
                device.now(work)
            except Exception as error:  # An interrupt is of this thread, which waits, and of no node.
                work.explain(error)
                raise
            self._check_time()  # Or the work may have begun too late to compute anything.
            return
        for chunk in plan.chunks[segment]:
            self._check_time()
            try:
                if plan.bodies[segment]:
                    # In a context of its own: the caller's is not to know.
                    copy_context().run(self._run_bodies, chunk, frame)
                else:
                    run_chunk(chunk, frame, self._recorder)
            except Stopped:
                self._check_time()
            except BaseException as error:
                explain_failure(plan, segment, error)
                raise

    def _run_bodies(self, chunk: Chunk, frame: Frame) -> None:
        is_stopped.set(self._is_over)
        run_chunk(chunk, frame, self._recorder)

    def _call(self, segment: Segment, frame: Frame) -> None:
        instruction = segment.instructions[0]
        start = perf_counter()
        site = CallSite(instruction.node, [frame[slot] for slot in instruction.operands], self._context, self)
        site.scope.deadline = self._deadline if site.timeout_s is None else min(self._deadline, start + site.timeout_s)
        try:
            value = site.call()
            if isinstance(value, Awaited):
                left_s = None if self._deadline == inf else max(0.0, self._deadline - perf_counter())
                value = self.session.on_loop().wait(value, site, left_s)
        except BaseException as error:
            told = self._explained(error, site)
            if told is error:
                raise
            raise told from None
        if self._recorder is not None:
            self._recorder.add(site.node, start, perf_counter())
        frame[instruction.out] = value

    def _explained(self, error: BaseException, site: CallSite) -> BaseException:
        """What a call's failure means for the run: the run's time may be up, or the call's."""
        if isinstance(error, (CancelledError, TimeoutError)):
            self._check_time()
        if isinstance(error, CancelledError) and site.timeout_s is not None:
            error = timed_out(site.node)  # The op looked at the clock itself, by `check_cancelled`.
        explain_call(error, site.node, site.args)
        return error

    def _is_over(self) -> bool:
        return perf_counter() >= self._deadline

    def _check_time(self) -> None:
        if self._is_over():
            raise out_of_time(self._args.options)
