"""The coroutines of one run: awaited by a few tasks, each of which goes on with the next that is ready.

So a chain of async ops is one task, as it would be if a user had written it. Each op's function runs in a
context of its own all the same.
"""

from __future__ import annotations

import asyncio
import inspect
from asyncio import CancelledError, Task
from collections import deque
from concurrent.futures import Future as ThreadFuture
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, final

from .calls import Awaited, CallSite, cancelled_by_itself, drive

if TYPE_CHECKING:
    from .run import Run

MOST_TASKS: Final = 1000
"""Coroutines of one run that are awaited at once; more wait for one to end."""


@final
class Coroutines:
    """What a run awaits. On the loop alone.

    The run is an argument and no field: a ring of the two would keep all that the run was given until the
    garbage collector comes.

    Fields:
        _waiting: segments that no task has taken yet; with the call and what it returned, if it was made already.
        _awaited: the task of each segment that is awaited now.
        _tasks: all tasks that have not ended. The loop itself holds tasks only weakly.
        _over: whether the run is over, so that nothing is begun.
    """

    __slots__ = ("_awaited", "_over", "_tasks", "_waiting")

    def __init__(self) -> None:
        self._waiting: Final[deque[tuple[int, CallSite | None, Awaited | None]]] = deque()
        self._awaited: Final[dict[int, Task[None]]] = {}
        self._tasks: Final[set[Task[None]]] = set()
        self._over = False

    def add(self, run: Run, segment: int, site: CallSite | None = None, returned: Awaited | None = None) -> None:
        """Has a segment's coroutine awaited, soon; `returned` is it, if the call `site` was made elsewhere."""
        self._waiting.append((segment, site, returned))
        if self._over:
            self._discard_waiting(run)
        elif len(self._tasks) < MOST_TASKS:
            task = run.host.loop.create_task(self._await_all(run), name="asyncgraph: ops of a run")
            self._tasks.add(task)
            task.add_done_callback(partial(self._task_ended, run))

    def awaits(self, segment: int) -> bool:
        """Whether a segment's coroutine is awaited now."""
        return segment in self._awaited

    def cancel(self, run: Run) -> None:
        """The run is over: what is awaited is cancelled, once; what is not is never begun."""
        if self._over:
            return
        self._over = True
        self._discard_waiting(run)
        for task in self._awaited.values():
            task.cancel()

    def _discard_waiting(self, run: Run) -> None:
        while self._waiting:
            segment, site, returned = self._waiting.popleft()
            if site is not None and returned is not None:
                _discard(returned)
                run.drop_call(segment, site)

    async def _await_all(self, run: Run) -> None:
        task = asyncio.current_task()
        assert task is not None
        while self._waiting:
            segment, site, returned = self._waiting.popleft()
            if site is None:
                site = run.begin_call(segment)
                if site is None:
                    return
            self._awaited[segment] = task
            # An op before it may have cancelled this task, and have swallowed that.
            cancellations = task.cancelling()
            start = perf_counter()
            try:
                value = await drive(site.wait(returned), site.context)
            except CancelledError as error:
                del self._awaited[segment]
                self._cancelled(run, segment, site, error, task.cancelling() > cancellations)
            except BaseException as error:
                if isinstance(error, GeneratorExit) and asyncio.current_task(run.host.loop) is not task:
                    raise  # The loop was closed over it: nothing can be awaited any more.
                del self._awaited[segment]
                run.fail_call(segment, site, error)
            else:
                del self._awaited[segment]
                self._go_on(run, run.finish_call(segment, site, value, start))
                del value  # Nor does the next one wait with the values of this one in hand.
            del site, returned

    def _go_on(self, run: Run, ready: list[int]) -> None:
        """Places what became ready; of its coroutines, the task that is here awaits the first itself."""
        mine: int | None = None
        for segment in ready:
            if mine is None and run.is_async(segment):
                mine = segment
                self._waiting.append((segment, None, None))
            else:
                run.place(segment)

    def _cancelled(self, run: Run, segment: int, site: CallSite, error: CancelledError, asked: bool) -> None:
        if not run.scheduler.stopped:
            if not asked:
                wrapped = cancelled_by_itself(site.node)
                wrapped.__cause__ = error
                run.fail_call(segment, site, wrapped)
                return
            # Somebody cancels all tasks of the loop, as asyncio.run does at its end.
            run.stop(error)
        run.drop_call(segment, site)

    def _task_ended(self, run: Run, task: Task[None]) -> None:
        self._tasks.discard(task)
        if self._waiting and task.cancelled() and not self._over:
            # Cancelled before it began, by somebody who cancels all tasks of the loop.
            run.stop(CancelledError())


def _discard(returned: Awaited) -> None:
    """Ends what nobody will await."""
    awaitable = returned.awaitable
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    elif isinstance(awaitable, (asyncio.Future, ThreadFuture)):
        awaitable.cancel()
