"""What each thread of the host knows, and stand-ins for what threads hand things over with.

Whether a thread of the host is ordered after what another waited for is as much a question of clocks as it is for
streams: a reaper that has waited for an event tells nobody, unless it puts something in a queue, or lets go a lock,
that the other gets or takes afterwards. `World.watch` puts queues and locks that carry clocks in the place of a
module's own ones, so that a hand-over that is missing is found also where the threads happened to come in order.

Only threads whose name begins with `checked` are judged that way; none if it is `None`. All others, such as an event
loop's, are outside of what is tested, and hand things over by means that nobody watches: they know, at any time, what
any thread knows.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, final

from .clocks import Clock, join


@final
class HostThread:
    """An actor of the host: a thread that knows only what it was told, or all others as one."""

    def __init__(self, actor: int) -> None:
        self.actor = actor
        self.clock: Clock = {actor: 0}


@final
class HostThreads:
    """The threads of the host that have touched this world. Its methods act for the thread that calls them."""

    def __init__(self, actors: Iterator[int], lock: Any, checked: str | None) -> None:
        self._actors, self._checked = actors, checked
        self.lock = lock
        self._local = threading.local()
        self._outside = HostThread(next(actors))
        self._all = [self._outside]

    def current(self) -> HostThread:
        """The record of the calling thread, which knows all there is to know if it is not a checked one."""
        me: HostThread | None = getattr(self._local, "me", None)
        if me is None:
            name = threading.current_thread().name
            is_checked = self._checked is not None and name.startswith(self._checked)
            me = self._local.me = self._new() if is_checked else self._outside
        if me is self._outside:
            join(me.clock, self.everything())
        return me

    def _new(self) -> HostThread:
        with self.lock:
            self._all.append(HostThread(next(self._actors)))
            return self._all[-1]

    def tick(self) -> HostThread:
        """Counts one more deed of the calling thread's."""
        with self.lock:
            me = self.current()
            me.clock[me.actor] += 1
            return me

    def everything(self) -> Clock:
        """What any of the threads knows."""
        clock: Clock = {}
        for one in tuple(self._all):
            join(clock, one.clock)
        return clock

    def learn(self, clock: Clock) -> None:
        """The calling thread is from now on ordered after all that this clock knows."""
        with self.lock:
            join(self.current().clock, clock)

    def told(self) -> Clock:
        """What the calling thread knows, including all it has done so far."""
        with self.lock:
            return self.tick().clock.copy()

    def stand_ins(self) -> list[tuple[object, object]]:
        """Queues, locks and threads, and modules of them, each with what carries clocks in its place."""

        def bound(kind: type) -> Callable[..., Any]:
            return lambda *args, **kwargs: kind(self, *args, **kwargs)

        simple_queue, lock, rlock = bound(ClockedSimpleQueue), bound(ClockedLock), bound(ClockedRLock)
        event, thread = bound(ClockedEvent), bound(ClockedThread)

        def condition(lock: Any = None) -> threading.Condition:
            return threading.Condition(lock or rlock())

        own = {"Lock": lock, "RLock": rlock, "Condition": condition, "Event": event, "Thread": thread}
        return [
            (queue.SimpleQueue, simple_queue),
            (queue, SimpleNamespace(**{**vars(queue), "SimpleQueue": simple_queue})),
            (threading, SimpleNamespace(**{**vars(threading), **own})),
            *[(getattr(threading, name), new) for name, new in own.items()],
        ]


@final
class ClockedSimpleQueue:
    """`queue.SimpleQueue`: who gets an item is ordered after who put it."""

    def __init__(self, threads: HostThreads) -> None:
        self._threads = threads
        self._queue: queue.SimpleQueue[tuple[Clock, Any]] = queue.SimpleQueue()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        self._queue.put((self._threads.told(), item))

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        clock, item = self._queue.get(block, timeout)
        self._threads.learn(clock)
        return item

    def put_nowait(self, item: Any) -> None:
        self.put(item)

    def get_nowait(self) -> Any:
        return self.get(block=False)

    def empty(self) -> bool:
        return self._queue.empty()

    def qsize(self) -> int:
        return self._queue.qsize()


@final
class ClockedLock:
    """`threading.Lock`: who takes it is ordered after all who have let it go."""

    def __init__(self, threads: HostThreads) -> None:
        self._threads, self._lock, self._clock = threads, threading.Lock(), Clock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            self._threads.learn(self._clock)
        return taken

    def release(self) -> None:
        join(self._clock, self._threads.told())
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


@final
class ClockedRLock:
    """`threading.RLock`, likewise; the last three methods are what `threading.Condition` asks of one."""

    def __init__(self, threads: HostThreads) -> None:
        self._threads, self._clock = threads, Clock()
        self._lock: Any = threading.RLock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        taken: bool = self._lock.acquire(blocking, timeout)
        if taken:
            self._threads.learn(self._clock)
        return taken

    def release(self) -> None:
        join(self._clock, self._threads.told())
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()

    def _release_save(self) -> Any:
        join(self._clock, self._threads.told())
        return self._lock._release_save()

    def _acquire_restore(self, state: Any) -> None:
        self._lock._acquire_restore(state)
        self._threads.learn(self._clock)

    def _is_owned(self) -> bool:
        return self._lock._is_owned()


@final
class ClockedEvent:
    """`threading.Event`: who has seen it set is ordered after who set it."""

    def __init__(self, threads: HostThreads) -> None:
        self._threads, self._event, self._clock = threads, threading.Event(), Clock()

    def set(self) -> None:
        join(self._clock, self._threads.told())
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._seen(self._event.is_set())

    def wait(self, timeout: float | None = None) -> bool:
        return self._seen(self._event.wait(timeout))

    def _seen(self, is_set: bool) -> bool:
        if is_set:
            self._threads.learn(self._clock)
        return is_set


@final
class ClockedThread(threading.Thread):
    """`threading.Thread`: it is ordered after who started it, and who has joined it after its end."""

    def __init__(self, threads: HostThreads, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._threads, self._before, self._after = threads, Clock(), Clock()

    def start(self) -> None:
        self._before = self._threads.told()
        super().start()

    def run(self) -> None:
        self._threads.learn(self._before)
        try:
            super().run()
        finally:
            self._after = self._threads.told()

    def join(self, timeout: float | None = None) -> None:
        super().join(timeout)
        if not self.is_alive():
            self._threads.learn(self._after)
