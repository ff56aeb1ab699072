"""Threads that take work from a queue.

Work is a callable that does one step and returns the next, or `None`: so a worker that has finished a
segment goes on with a successor, and the simulator can run the same work one step at a time. Work never
raises. `SimpleQueue` is written in C; a hop over it takes 17 to 25 µs while the worker is awake.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import count
from queue import SimpleQueue
from threading import Event, Lock, Thread, current_thread, get_native_id
from typing import Any, Final, final

Work = Callable[[], Any]
"""One step; returns the `Work` that follows, or `None`. (A recursive type, which Python cannot write.)"""


class Pool(ABC):
    """Runs work, somewhere else than where it is submitted."""

    @abstractmethod
    def submit(self, work: Work, *, at_once: bool = False) -> None:
        """Queues work. `at_once`: a new thread takes it if none is free, whatever the limit.

        Work of nested runs asks for that: a thread of the pool may be waiting for it.
        """

    @abstractmethod
    def urge(self) -> None:
        """Has a new thread begin with what is queued if none is free, whatever the limit.

        All threads may be waiting for that: for what holds variables that nested runs want.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the threads, once what is queued is done. Does not wait for them."""

    @abstractmethod
    def join(self) -> None:
        """Waits for the threads to end, after `close`. Blocks."""

    @abstractmethod
    def until(self, event: Event) -> Work:
        """A step that a thread of the pool spends waiting."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """How many threads there are."""


PoolFactory = Callable[[str, int], Pool]

pool_factory: ContextVar[PoolFactory | None] = ContextVar("asyncgraph pools", default=None)
"""Makes pools from a name and a limit: the simulator's, while it runs."""


def make_pool(name: str, limit: int, niceness: int = 0) -> Pool:
    """A pool of at most `limit` threads; `niceness` as `SessionConfig.worker_niceness`."""
    factory = pool_factory.get()
    return ThreadPool(name, limit, niceness) if factory is None else factory(name, limit)


@final
class ThreadPool(Pool):
    """Threads, started when they are needed.

    Fields:
        _queue: work that no thread has taken; `None` ends one thread.
        _queued: how much of that there is.
        _idle: how many threads wait for work.
        _threads: those that take work.
        _leaving: those that take no more, and may not have ended.
    """

    def __init__(self, name: str, limit: int, niceness: int = 0) -> None:
        self._name: Final = name
        self._limit: Final = limit
        self._niceness: Final = niceness
        self._queue: Final[SimpleQueue[Work | None]] = SimpleQueue()
        self._lock: Final = Lock()
        self._queued = 0
        self._idle = 0
        self._threads: Final[set[Thread]] = set()
        self._leaving: set[Thread] = set()
        self._serial: Final = count(1)

    def submit(self, work: Work, *, at_once: bool = False) -> None:
        """As `Pool.submit`.

        Raises:
            RuntimeError: the system gives no thread, and there is none yet.
        """
        with self._lock:
            if self._queued >= self._idle and (at_once or len(self._threads) < self._limit):
                self._start()
            self._queued += 1
        self._queue.put(work)

    def urge(self) -> None:
        """As `Pool.urge`."""
        with self._lock:
            if self._queued > self._idle:
                self._start()

    def close(self) -> None:
        """As `Pool.close`."""
        with self._lock:
            threads = len(self._threads)
        for _ in range(threads):
            self._queue.put(None)

    def join(self) -> None:
        """As `Pool.join`."""
        with self._lock:
            threads = self._threads | self._leaving
        for thread in threads:
            if thread is not current_thread():
                thread.join()

    def until(self, event: Event) -> Work:
        """As `Pool.until`."""
        return partial(_wait, event)

    @property
    def threads(self) -> int:
        """As `Pool.threads`."""
        return len(self._threads)

    def _start(self) -> None:
        # A daemon: a session that nobody closed must not keep the process from ending.
        thread = Thread(target=self._serve, name=f"asyncgraph {self._name} {next(self._serial)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if self._threads:
                return  # The system gives no more: those that there are will do.
            raise
        self._threads.add(thread)
        self._idle += 1

    def _serve(self) -> None:
        if self._niceness:
            _be_nice(self._niceness)
        get = self._queue.get
        while True:
            work = get()
            if work is None:
                break
            with self._lock:
                self._queued -= 1
                self._idle -= 1
            while work is not None:
                work = work()
            with self._lock:
                # A thread beyond the limit was for a nested run; it goes when there is nothing to do.
                if len(self._threads) > self._limit and not self._queued:
                    self._leave()
                    return
                self._idle += 1
        with self._lock:
            self._idle -= 1
            self._leave()

    def _leave(self) -> None:
        """Takes no more work. In the same breath as the decision: `submit` must not count on this thread."""
        self._threads.discard(current_thread())
        self._leaving = {one for one in self._leaving if one.is_alive()} | {current_thread()}


def _wait(event: Event) -> None:
    event.wait()


def _be_nice(niceness: int) -> None:
    """Lets other threads go first where cores are short."""
    # Only on Linux is a thread's priority its own; elsewhere this would slow down the whole process.
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + niceness)
