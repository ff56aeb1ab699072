"""One run of a plan with more than one segment, or with one that cannot run where it was asked for.

The scheduler says what may start; this drives it. Segments run in three places: kernels that are cheap
on the loop, within its budget; others on workers; user ops on threads of their own, or as coroutines on
the loop. Whoever finishes a segment tells the scheduler and goes on with a successor that belongs to the
same place; the rest is handed over. The loop is woken for coroutines and for the end, and nothing else.

Nothing here is a task for each node: kernels are called, and the coroutines of a run are awaited by a
few tasks, each of which goes on with the next that is ready.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any, Final, final

from .._graph.node import Node
from .._plan.chunk import Frame
from .._plan.lower import Instruction, Kind
from .._plan.plan import Plan
from .calls import Awaited, CallSite, cancelled_by_itself, drive, timed_out
from .host import Host
from .notes import add_failure_line, add_node_note, trim_traceback
from .recorder import Recorder
from .scheduler import Scheduler
from .workers import Work

_MOST_COROUTINES: Final = 1000
"""Coroutines of one run that are awaited at once; more wait for one to end."""


@final
class Run:
    """The state of one run. The scheduler is advanced under the lock; all else belongs to the loop.

    Fields:
        plan, frame: what is run, and its values. The frame is emptied when the run ends without success.
        context: the caller's; every segment runs in a copy of it.
        elements: the size of the largest fed array, for estimates.
        nested: whether a node of another run started it, so that its work waits for no limit.
        scheduler: what may start.
        failed_nodes: for each failure of the scheduler's, the node, or `None` for what came from outside.
        tasks: the tasks that await coroutines.
        sites: calls of user ops that have begun and not ended, by segment.
        abandoned: of these, the ones nobody waits for.
        watch: called on the loop after a segment that fills a fetched slot, once somebody wants to know.
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
        self.plan: Final = plan
        self.frame: Final = frame
        self.scheduler: Final = Scheduler(plan)
        self.failed_nodes: Final[list[Node | None]] = []
        self.watch: Callable[[], None] | None = None
        self._host: Final = host
        self._context: Final = context
        self._elements: Final = elements
        self._nested: Final = nested
        self._recorder: Final = recorder
        self._on_end: Final = on_end
        self._lock: Final = Lock()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._sites: Final[dict[int, CallSite]] = {}
        self._coroutines: Final[deque[int]] = deque()
        self._timers: Final[dict[int, asyncio.TimerHandle]] = {}
        self._winding = False
        self._ended = False

    # -- on the loop -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts what waits for nothing."""
        with self._lock:
            ready = self.scheduler.start()
        if not ready:
            self._end()
        for segment in ready:
            self._place(segment)

    def stop(self, error: BaseException) -> None:
        """Ends the run with `error`: cancelled, or out of time. What is running is waited for, unless it may be abandoned."""
        with self._lock:
            if not self.scheduler.stop(error):
                return
            self.failed_nodes.append(None)
        self._wind_down()

    def _wind_down(self) -> None:
        """After the scheduler has stopped: tells what is running, abandons what may be, ends if nothing is left."""
        for segment, site in list(self._sites.items()):
            self._tell_over(segment, site)
        if not self._winding:
            self._winding = True
            current = asyncio.current_task() if self._tasks else None
            for task in self._tasks:
                if task is not current:
                    task.cancel()
        self._end_if_over()

    def _tell_over(self, segment: int, site: CallSite) -> None:
        """Tells a call that its run is over, and leaves it to itself if its op allows that."""
        site.scope.over.set()
        if not site.may_be_abandoned or self.plan.segments[segment].kind is not Kind.THREAD:
            return
        # Whoever takes the site out of the table has the say: the call may be returning right now.
        if self._sites.pop(segment, None) is site:
            self._host.abandon(site, site.node.name)
            with self._lock:
                self.scheduler.abandon(segment)

    def _end_if_over(self) -> None:
        with self._lock:
            over = self.scheduler.over
        if over:
            self._end()

    def _end(self) -> None:
        """Nothing of the run is left. Once."""
        if self._ended:
            return
        self._ended = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._coroutines.clear()
        if not self.scheduler.succeeded:
            self.frame.clear()
        self._on_end(self)

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

    def _place(self, segment: int) -> None:
        """Hands a ready segment over to where it runs. On the loop."""
        kind = self.plan.segments[segment].kind
        if kind is Kind.KERNEL and self._is_cheap(segment):
            self._host.turn.do(self._inline(segment))
        elif kind is Kind.INLINE:
            self._host.turn.do(partial(self._call_inline, segment))
        elif kind is Kind.ASYNC:
            self._await_soon(segment)
        else:
            self._hand_over(segment)

    def _hand_over(self, segment: int) -> None:
        """Puts a segment into the queue of its pool. From any thread."""
        if self.plan.segments[segment].kind is Kind.THREAD:
            self._host.calls.submit(partial(self._call_in_thread, segment), at_once=self._nested)
        else:
            self._host.kernels.submit(partial(self._compute_in_worker, segment), at_once=self._nested)

    def _is_cheap(self, segment: int) -> bool:
        return self.plan.segments[segment].work.seconds(self._elements) <= self._host.turn.budget_s

    def _go_on(self, ready: list[int], here: Kind) -> Work | None:
        """Hands over what became ready on a thread, but for one segment that the thread itself does next."""
        mine: int | None = None
        for segment in ready:
            kind = self.plan.segments[segment].kind
            if kind is Kind.ASYNC or kind is Kind.INLINE:
                self._host.mailbox.post(partial(self._place, segment))
            elif mine is None and (kind is here or (kind is Kind.KERNEL and self._is_cheap(segment))):
                mine = segment
            else:
                self._hand_over(segment)
        if mine is None:
            return None
        if self.plan.segments[mine].kind is Kind.KERNEL:
            return partial(self._compute_in_worker, mine, here)
        return partial(self._call_in_thread, mine)

    # -- kernels ---------------------------------------------------------------------------------------

    def _inline(self, segment: int) -> Callable[[], bool]:
        """The slices of a segment of kernels on the loop: one chunk each."""
        position = -1

        def next_chunk() -> bool:
            nonlocal position
            if position < 0:
                if not self._begin(segment):
                    return False
                self._host.counters.inline_segments += 1
                position = 0
            try:
                self._context.run(self._run_chunk, segment, position)
            except BaseException as error:
                self._failed(segment, error, _now)
                return False
            position += 1
            if position < len(self.plan.chunks[segment]):
                if not self.scheduler.stopped:
                    return True
                self._dropped(segment, _now)
                return False
            for one in self._finished(segment, _now):
                self._place(one)
            return False

        return next_chunk

    def _compute_in_worker(self, segment: int, here: Kind = Kind.KERNEL) -> Work | None:
        if not self._begin(segment):
            return None
        post = self._host.mailbox.post
        try:
            context = self._context.copy()
            for position in range(len(self.plan.chunks[segment])):
                if self.scheduler.stopped:
                    self._dropped(segment, post)
                    return None
                context.run(self._run_chunk, segment, position)
        except BaseException as error:
            self._failed(segment, error, post)
            return None
        self._host.counters.offloaded_segments += 1
        return self._go_on(self._finished(segment, post), here)

    def _begin(self, segment: int) -> bool:
        with self._lock:
            return self.scheduler.begin(segment)

    def _run_chunk(self, segment: int, position: int) -> None:
        chunk = self.plan.chunks[segment][position]
        if self._recorder is None:
            chunk.run(self.frame)
        else:
            chunk.run_traced(self.frame, self._recorder.add)

    # -- user ops --------------------------------------------------------------------------------------

    def _site(self, segment: int) -> CallSite | None:
        """The call of a segment, which begins now; `None` if the run is over."""
        if not self._begin(segment):
            return None
        instruction = self._instruction(segment)
        values = [self.frame[slot] for slot in instruction.operands]
        site = self._sites[segment] = CallSite(instruction.node, values, self._context, self)
        if self.scheduler.stopped:
            # It stopped after the call had begun, and may have looked for calls before this one was there.
            self._host.mailbox.post(partial(self._tell_over_late, segment, site))
        return site

    def _tell_over_late(self, segment: int, site: CallSite) -> None:
        if self._sites.get(segment) is site:
            self._tell_over(segment, site)
            self._end_if_over()

    def _instruction(self, segment: int) -> Instruction:
        return self.plan.segments[segment].instructions[0]

    def _call_in_thread(self, segment: int) -> Work | None:
        site = self._site(segment)
        if site is None:
            return None
        post = self._host.mailbox.post
        if site.timeout_s is not None:
            post(partial(self._limit, segment, site))
        start = perf_counter()
        try:
            value = site.call()
        except BaseException as error:
            self._call_failed(segment, site, error, post)
            return None
        self._record(site.node, start)
        if isinstance(value, Awaited):
            post(partial(self._await_result, segment, site, value))
            return None
        return self._go_on(self._call_finished(segment, site, value, post), Kind.THREAD)

    def _call_inline(self, segment: int) -> bool:
        site = self._site(segment)
        if site is None:
            return False
        start = perf_counter()
        try:
            value = site.call()
        except BaseException as error:
            self._call_failed(segment, site, error, _now)
            return False
        self._record(site.node, start)
        if isinstance(value, Awaited):
            self._await_result(segment, site, value)
            return False
        for one in self._call_finished(segment, site, value, _now):
            self._place(one)
        return False

    def _limit(self, segment: int, site: CallSite) -> None:
        """Starts the clock of a call in a thread, or starts it again for another attempt. On the loop."""
        if self._sites.get(segment) is not site or self.scheduler.stopped:
            return
        left_s = site.time_left_s()
        if left_s > 0:
            self._timers[segment] = self._host.loop.call_later(left_s, self._limit, segment, site)
            return
        error = timed_out(site.node)
        add_node_note(error, site.node, None, site.args)
        with self._lock:
            if not self.scheduler.stop(error):
                return
            self.failed_nodes.append(site.node)
        self._wind_down()

    # -- coroutines ------------------------------------------------------------------------------------

    def _await_soon(self, segment: int) -> None:
        self._coroutines.append(segment)
        if len(self._tasks) < _MOST_COROUTINES:
            self._start_task(self._await_all(None))

    def _await_result(self, segment: int, site: CallSite, first: Awaited) -> None:
        """Awaits what a function returned, beside the other coroutines. On the loop."""
        task = self._start_task(self._await_all((segment, site, first)))
        if self.scheduler.stopped:
            task.cancel()

    def _start_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._host.loop.create_task(coroutine, name="asyncgraph: ops of a run", context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _await_all(self, begun: tuple[int, CallSite, Awaited] | None) -> None:
        """Awaits one coroutine after the other, as long as some are ready."""
        while begun is not None or self._coroutines:
            if begun is None:
                segment, first = self._coroutines.popleft(), None
                site = self._site(segment)
                if site is None:
                    return
            else:
                segment, site, first = begun
                begun = None
            start = perf_counter()
            try:
                value = await drive(site.wait(first), site.context)
            except CancelledError as error:
                self._coroutine_cancelled(segment, site, error)
                continue
            except BaseException as error:
                self._call_failed(segment, site, error, _now)
                continue
            self._record(site.node, start)
            self._place_all(self._call_finished(segment, site, value, _now))

    def _place_all(self, ready: list[int]) -> None:
        """Places segments from a task that awaits coroutines, and will await the first of them itself."""
        mine = next((one for one in ready if self.plan.segments[one].kind is Kind.ASYNC), None)
        for segment in ready:
            if segment == mine:
                self._coroutines.append(segment)
            else:
                self._place(segment)

    def _coroutine_cancelled(self, segment: int, site: CallSite, error: CancelledError) -> None:
        task = asyncio.current_task()
        if self.scheduler.stopped:
            self._call_failed(segment, site, error, _now)
        elif task is not None and task.cancelling():
            # Somebody cancels all tasks of the loop, as asyncio.run does at its end.
            self.stop(error)
            self._call_failed(segment, site, error, _now)
        else:
            wrapped = cancelled_by_itself(site.node)
            wrapped.__cause__ = error
            self._call_failed(segment, site, wrapped, _now)

    # -- the end of a segment --------------------------------------------------------------------------

    def _finished(self, segment: int, post: Post) -> list[int]:
        with self._lock:
            ready = self.scheduler.finish(segment, self.frame)
            over = self.scheduler.over
        if over:
            post(self._end)
        elif self.watch is not None and self.plan.segments[segment].fills:
            post(self._watched)
        return ready

    def _watched(self) -> None:
        if self.watch is not None and not self._ended:
            self.watch()

    def _dropped(self, segment: int, post: Post) -> None:
        with self._lock:
            self.scheduler.drop(segment)
        post(self._end_if_over)

    def _failed(self, segment: int, error: BaseException, post: Post) -> None:
        failure = self.plan.failed(segment, error)
        node = None
        if failure is not None:
            node = failure.instruction.node
            add_node_note(error, node, failure.instruction.where, failure.operands)
        trim_traceback(error)
        self._fail(segment, node, error, post)

    def _fail(self, segment: int, node: Node | None, error: BaseException, post: Post) -> None:
        with self._lock:
            before = len(self.scheduler.failures)
            self.scheduler.fail(segment, error)
            if len(self.scheduler.failures) > before:
                self.failed_nodes.append(node)
        post(self._wind_down)

    def _call_finished(self, segment: int, site: CallSite, value: Any, post: Post) -> list[int]:
        if self._sites.pop(segment, None) is not site:
            post(partial(self._host.returned, site))
            return []
        self._host.counters.user_calls += 1
        self.frame[self._instruction(segment).out] = value
        return self._finished(segment, post)

    def _call_failed(self, segment: int, site: CallSite, error: BaseException, post: Post) -> None:
        if self._sites.pop(segment, None) is not site:
            post(partial(self._host.returned, site))
            return
        if isinstance(error, CancelledError) and self.scheduler.stopped:
            self._dropped(segment, post)
            return
        add_node_note(error, site.node, None, site.args)
        trim_traceback(error)
        self._fail(segment, site.node, error, post)

    def _record(self, node: Node, start: float) -> None:
        if self._recorder is not None:
            self._recorder.add(node, start, perf_counter())


Post = Callable[[Callable[[], None]], None]
"""Has something done on the loop: the mailbox's `post`, or at once for who is there already."""


def _now(call: Callable[[], None]) -> None:
    call()
