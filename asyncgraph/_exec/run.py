"""One run of a plan with more than one segment, or with one that cannot run where it was asked for.

The scheduler says what may start; this drives it. Segments run in three places: kernels that are cheap
on the loop, within its budget; others on workers; user ops on threads of their own, or as coroutines on
the loop. Whoever finishes a segment tells the scheduler and goes on with a successor that belongs to the
same place; the rest is handed over. The loop is woken for coroutines and for the end, and nothing else.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from functools import partial
from threading import Event, Lock
from time import perf_counter
from typing import Any, Final, final

from .._graph.node import Node
from .._plan.chunk import Frame
from .._plan.control import Stopped, is_stopped
from .._plan.lower import Instruction, Kind
from .._plan.plan import Plan
from .._plan.program import Placement
from .._plan.sizes import largest
from ..abc import Done
from ..errors import SessionError
from .bodies import call_of
from .calls import Awaited, CallSite, timed_out
from .coroutines import Coroutines
from .host import Counters, Host
from .inline import explain_failure
from .launch import start_on
from .notes import add_failure_line, add_node_note, explain_call
from .recorder import Recorder, run_chunk
from .scheduler import Scheduler
from .submitted import SubmittedSegment
from .workers import Work

Post = Callable[[Callable[[], None]], None]
"""Has something done on the loop: the mailbox's `post`, or at once for who is there already."""


def _now(call: Callable[[], None]) -> None:
    call()


@final
class Run:
    """The state of one run. What other threads change is marked; all else belongs to the loop.

    Fields:
        host: where it runs.
        plan, frame: what is run, and its values. A slot is filled by the segment it belongs to, and emptied
            by the scheduler; when the run ends, all of it is.
        scheduler: what may start. Advanced under the lock.
        failed_nodes: for each failure of the scheduler's, the node, or `None` for what came from outside.
            Under the lock.
        transaction: what the session knows of its variables, for runs that its nodes start.
        is_urgent: whether threads may be waiting for what it holds.
        nested: whether a node of another run started it, so that its work waits for no limit.
        recorder: notes what it does, if it is traced.
        watch: called on the loop after a segment that fills a fetched slot, once somebody wants to know.
        _context: the caller's; every segment runs in a copy of it.
        _elements: the size of the largest fed array, for estimates.
        _coroutines: what is awaited.
        _sites: calls of user ops that have begun and not ended, by segment. Whoever takes one out decides
            how it ends: its thread, with what it returned; or the loop, which abandons it.
        _timers: end calls in threads that take too long, by segment. They must not keep the calls' arguments.
        _counts: what it adds to the host's counters at its end. Under the lock.
        _on_end: told, once, that nothing of it is left; `None` from then on.
    """

    def __init__(
        self,
        host: Host,
        plan: Plan,
        frame: Frame,
        context: Context,
        elements: int,
        on_end: Callable[[Run], None],
        nested: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        self.host: Final = host
        self.plan: Final = plan
        self.frame: Final = frame
        self.scheduler: Final = Scheduler(plan)
        self.failed_nodes: Final[list[Node | None]] = []
        self.nested: Final = nested
        self.recorder: Final = recorder
        self.transaction: object = None
        self.is_urgent: Callable[[], bool] = bool  # never
        self.watch: Callable[[], None] | None = None
        self._context: Final = context
        self._elements: Final = elements
        self._on_end: Callable[[Run], None] | None = on_end
        self._lock: Final = Lock()
        self._coroutines: Final = Coroutines()
        self._sites: Final[dict[int, CallSite]] = {}
        self._timers: Final[dict[int, asyncio.TimerHandle]] = {}
        self._counts: Final = Counters()

    # -- its beginning and its end, on the loop --------------------------------------------------------

    def start(self) -> None:
        """Starts what waits for nothing."""
        with self._lock:
            ready = self.scheduler.start()
        if not ready:
            self._end()
        for segment in ready:
            self.place(segment)

    def stop(self, error: BaseException) -> None:
        """Ends the run with `error`: cancelled, or out of time.

        What is running is waited for, unless it may be abandoned. Up to the moment at which the run has
        ended it can be stopped, even if all its values are there.
        """
        self._stop(error, None)

    def _stop(self, error: BaseException, node: Node | None) -> None:
        with self._lock:
            if self._on_end is None or not self.scheduler.stop(error):
                return
            self.failed_nodes.append(node)
        self._wind_down()

    def _wind_down(self) -> None:
        """After the scheduler has stopped: tells what is running, abandons what may be, ends if nothing is left."""
        self._coroutines.cancel(self)
        for segment, site in list(self._sites.items()):
            site.scope.end()
            if site.may_be_abandoned and self._is_in_thread(segment) and self._sites.pop(segment, None) is not None:
                self.host.abandon(site, site.node.name)
                with self._lock:
                    self.scheduler.abandon(segment)
        self._end_if_over()

    def _is_in_thread(self, segment: int) -> bool:
        return self.plan.segments[segment].kind is Kind.THREAD and not self._coroutines.awaits(segment)

    def _end_if_over(self) -> None:
        with self._lock:
            over = self.scheduler.over
        if over:
            self._end()

    def _end(self) -> None:
        """Nothing of the run is left. Once."""
        if self._on_end is None:
            return
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.host.counters.add(self._counts)
        if not self.scheduler.succeeded:
            self.frame.clear()
        on_end, self._on_end = self._on_end, None
        on_end(self)
        # Contexts that user code keeps lead here: they shall not keep values, nor those who waited for them.
        self.frame.clear()
        self.scheduler.failures.clear()
        self.watch = None

    def error(self) -> BaseException | None:
        """What ended the run, told of what else failed; `None` if it succeeded."""
        failures = self.scheduler.failures
        if not failures:
            return None
        first = failures[0]
        for node, other in zip(self.failed_nodes[1:], failures[1:], strict=True):
            if node is not None:
                add_failure_line(first, node.name, other)
        return first

    # -- where a segment goes --------------------------------------------------------------------------

    def place(self, segment: int) -> None:
        """Hands a ready segment over to where it runs. On the loop."""
        if self.scheduler.stopped:
            return
        this = self.plan.segments[segment]
        kind = this.kind
        if this.device is not None:
            self._submit(segment, this.device)
        elif kind is Kind.KERNEL and self._is_cheap(segment, self._largest_read(segment)):
            self.host.turn.do(self._inline(segment))
        elif kind is Kind.INLINE:
            self.host.turn.do(partial(self._call_inline, segment))
        elif kind is Kind.ASYNC:
            self._coroutines.add(self, segment)
        else:
            self._hand_over(segment)

    def is_async(self, segment: int) -> bool:
        """Whether a segment is a coroutine."""
        return self.plan.segments[segment].kind is Kind.ASYNC

    def _hand_over(self, segment: int) -> None:
        """Puts a segment into the queue of its pool, or its device. From any thread."""
        this = self.plan.segments[segment]
        try:
            if this.device is not None:
                self._submit(segment, this.device)
            elif this.kind is Kind.THREAD:
                at_once = self.nested or self.is_urgent()
                self.host.calls.submit(partial(self._call_in_thread, segment), at_once=at_once)
            else:
                self.host.kernels.submit(partial(self._compute, segment), at_once=self.nested)
        except RuntimeError as error:  # The system gives no thread.
            self.host.mailbox.post(partial(self.stop, error))

    def _is_cheap(self, segment: int, elements: int = 0) -> bool:
        work = self.plan.segments[segment].work
        return work.seconds(max(elements, self._elements)) <= self.host.turn.budget_s

    def _largest_read(self, segment: int) -> int:
        """The size of the largest array that it reads of other segments: user ops return any size."""
        return largest([self.frame[slot] for slot in self.plan.segments[segment].reads])

    def _go_on(self, ready: list[int], here: Kind | None) -> Work | None:
        """Hands over what became ready on a thread, but for one segment that the thread itself does next.

        A thread that has called a user op computes what follows before it takes another, or waits for the device
        that does: loads must not run ahead of what makes them small. A thread of a backend, where `here` is `None`,
        does nothing itself.
        """
        mine: int | None = None
        device_is_done: Event | None = None
        for segment in ready:
            this = self.plan.segments[segment]
            if this.kind is Kind.ASYNC or this.kind is Kind.INLINE:
                self.host.mailbox.post(partial(self.place, segment))
            elif mine is None and here is not None and this.device is None and this.kind in (here, Kind.KERNEL):
                mine = segment
            elif this.device is not None and here is Kind.THREAD:
                device_is_done = Event()
                self._submit(segment, this.device, device_is_done)
            else:
                self._hand_over(segment)
        if mine is None or here is None:
            return None if device_is_done is None else self.host.calls.until(device_is_done)
        if self.plan.segments[mine].kind is Kind.KERNEL:
            return partial(self._compute, mine, here)
        return partial(self._call_in_thread, mine)

    # -- kernels ---------------------------------------------------------------------------------------

    def _submit(self, segment: int, device: Placement, is_done: Event | None = None) -> None:
        """Has a device do a segment of kernels. From any thread. `is_done` is set when nothing of that is left."""
        if not self._begin(segment):
            if is_done is not None:
                is_done.set()
            return
        work = SubmittedSegment(self.plan, segment, self.frame, self._context.copy(), self.recorder, self._is_stopped)
        try:
            device.backend.submit(device.device, work, partial(self._device_is_done, segment, work, is_done))
        except BaseException as error:
            self._device_is_done(segment, work, is_done, error)

    def _is_stopped(self) -> bool:
        return self.scheduler.stopped

    def _device_is_done(
        self, segment: int, work: SubmittedSegment, is_done: Event | None, error: BaseException | None
    ) -> None:
        """The device has done all that `work` had started. On a thread of the backend's."""
        post = self.host.mailbox.post
        if error is not None:
            self._fail(segment, work.explain(error), error, post)
        elif self.scheduler.stopped:
            work.drop()
            self._dropped(segment, post)
        else:
            self._go_on(self._finished(segment, post, submitted=1), None)
        if is_done is not None:
            is_done.set()

    def _inline(self, segment: int) -> Callable[[], bool]:
        """The slices of a segment of kernels on the loop: one chunk each."""
        position = -1

        def next_chunk() -> bool:
            nonlocal position
            if position < 0:
                if not self._begin(segment):
                    return False
                position = 0
            elif self.scheduler.stopped:
                self._dropped(segment, _now)
                return False
            try:
                self._context.run(run_chunk, self.plan.chunks[segment][position], self.frame, self.recorder)
            except BaseException as error:
                self._failed(segment, error, _now)
                return False
            position += 1
            if position < len(self.plan.chunks[segment]):
                return True
            for one in self._finished(segment, _now, inline=1):
                self.place(one)
            return False

        return next_chunk

    def _compute(self, segment: int, here: Kind = Kind.KERNEL) -> Work | None:
        """A segment of kernels on a thread; the next steps are its chunks."""
        if not self._begin(segment):
            return None
        # Threads of user ops compute, too: with the workers, no more at a time than there are cores for it.
        cores = nullcontext() if self._is_cheap(segment, self._largest_read(segment)) else self.host.cores
        return partial(self._compute_chunk, segment, 0, self._context.copy(), cores, here)

    def _compute_chunk(
        self, segment: int, position: int, context: Context, cores: AbstractContextManager[object], here: Kind
    ) -> Work | None:
        post = self.host.mailbox.post
        if self.scheduler.stopped:
            self._dropped(segment, post)
            return None
        try:
            with cores:
                context.run(self._run_chunk, segment, position)
        except BaseException as error:
            self._failed(segment, error, post)
            return None
        if position + 1 < len(self.plan.chunks[segment]):
            return partial(self._compute_chunk, segment, position + 1, context, cores, here)
        return self._go_on(self._finished(segment, post, offloaded=1), here)

    def _begin(self, segment: int) -> bool:
        with self._lock:
            return self.scheduler.begin(segment)

    def _run_chunk(self, segment: int, position: int) -> None:
        if self.plan.bodies[segment]:
            is_stopped.set(self._is_stopped)
        run_chunk(self.plan.chunks[segment][position], self.frame, self.recorder)

    # -- user ops --------------------------------------------------------------------------------------

    def begin_call(self, segment: int) -> CallSite | None:
        """The call of a segment, which begins now; `None` if it does not, since the run is over. From any thread."""
        if not self._begin(segment):
            return None
        instruction, post = self._instruction(segment), self.host.mailbox.post
        try:
            values = [self.frame[slot] for slot in instruction.operands]
            where = instruction.where
            launcher = None if where is None else partial(self._launch, where)
            call = call_of(self, instruction)
            site = self._sites[segment] = CallSite(instruction.node, values, self._context, self, where, launcher, call)
        except BaseException as error:  # A user's subclass of an array has a say in views of it.
            self._fail(segment, instruction.node, error, post)
            return None
        if self.scheduler.stopped:
            # It stopped after the call had begun, and may have looked for calls before this one was there.
            post(self._wind_down)
        return site

    def _launch(self, where: Placement, work: Callable[[], None], done: Done) -> None:
        """Has a device do what an op starts there. `done` is called on the loop. A SessionError if it is too late."""
        if self._on_end is None or asyncio.get_running_loop() is not self.host.loop:
            raise SessionError(
                "launch was called after the op's run was over, or on another event loop than the run's\n"
                "  await it in the op itself, or in tasks that the op waits for"
            )
        start_on(where, self.host, work, done, at_once=self.nested)

    def _instruction(self, segment: int) -> Instruction:
        return self.plan.segments[segment].instructions[0]

    def _call_in_thread(self, segment: int) -> Work | None:
        """A call on a thread; the next step makes it."""
        site = self.begin_call(segment)
        if site is None:
            return None
        if site.timeout_s is not None:
            self.host.mailbox.post(partial(self._limit, segment))
        return partial(self._make_call, segment, site)

    def _make_call(self, segment: int, site: CallSite) -> Work | None:
        post = self.host.mailbox.post
        start = perf_counter()
        try:
            value = site.call()
        except BaseException as error:
            self.fail_call(segment, site, error, post)
            return None
        if isinstance(value, Awaited):
            post(partial(self._coroutines.add, self, segment, site, value))
            return None
        return self._go_on(self.finish_call(segment, site, value, start, post), Kind.THREAD)

    def _call_inline(self, segment: int) -> bool:
        site = self.begin_call(segment)
        if site is None:
            return False
        start = perf_counter()
        try:
            value = site.call()
        except BaseException as error:
            self.fail_call(segment, site, error)
            return False
        if isinstance(value, Awaited):
            self._coroutines.add(self, segment, site, value)
            return False
        for one in self.finish_call(segment, site, value, start):
            self.place(one)
        return False

    def _limit(self, segment: int) -> None:
        """Starts the clock of a call in a thread, or starts it again for another attempt. On the loop."""
        site = self._sites.get(segment)
        if site is None or self.scheduler.stopped:
            return
        left_s = site.time_left_s()
        if left_s > 0:
            self._timers[segment] = self.host.loop.call_later(left_s, self._limit, segment)
            return
        error = timed_out(site.node)
        add_node_note(error, site.node, site.home, site.args)
        self._stop(error, site.node)

    # -- the end of a segment --------------------------------------------------------------------------

    def finish_call(self, segment: int, site: CallSite, value: Any, start: float, post: Post = _now) -> list[int]:
        """A call that began at `start` has returned: what may begin now."""
        if self._sites.pop(segment, None) is None:
            post(partial(self.host.returned, site))
            return []
        if self.recorder is not None:
            self.recorder.add(site.node, start, perf_counter())
        self.frame[self._instruction(segment).out] = value
        return self._finished(segment, post, calls=1)

    def fail_call(self, segment: int, site: CallSite, error: BaseException, post: Post = _now) -> None:
        """A call has raised."""
        if isinstance(error, CancelledError) and self.scheduler.stopped:
            self.drop_call(segment, site, post)
            return
        if self._sites.pop(segment, None) is None:
            post(partial(self.host.returned, site))
            return
        explain_call(error, site.node, site.args, site.home)
        self._fail(segment, site.node, error, post)

    def drop_call(self, segment: int, site: CallSite, post: Post = _now) -> None:
        """A call has ended because its run is over."""
        if self._sites.pop(segment, None) is None:
            post(partial(self.host.returned, site))
        else:
            self._dropped(segment, post)

    def _finished(
        self, segment: int, post: Post, inline: int = 0, offloaded: int = 0, submitted: int = 0, calls: int = 0
    ) -> list[int]:
        with self._lock:
            self._counts.submitted_segments += submitted
            self._counts.inline_segments += inline
            self._counts.offloaded_segments += offloaded
            self._counts.user_calls += calls
            ready = self.scheduler.finish(segment, self.frame)
            over = self.scheduler.over
        if over:
            post(self._end)
        elif self.watch is not None and self.plan.segments[segment].fills:
            post(self._watched)
        return ready

    def _watched(self) -> None:
        if self.watch is None:
            return
        try:
            self.watch()
        except BaseException as error:  # A backend's transfer can fail like any kernel.
            self.stop(error)

    def _dropped(self, segment: int, post: Post) -> None:
        with self._lock:
            self.scheduler.drop(segment)
        post(self._end_if_over)

    def _failed(self, segment: int, error: BaseException, post: Post) -> None:
        if isinstance(error, Stopped):
            self._dropped(segment, post)
        else:
            self._fail(segment, explain_failure(self.plan, segment, error), error, post)

    def _fail(self, segment: int, node: Node | None, error: BaseException, post: Post) -> None:
        with self._lock:
            if self.scheduler.fail(segment, error):
                self.failed_nodes.append(node)
        post(self._wind_down)
