"""The pool of threads, with threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from threading import Barrier, Event, Semaphore

import pytest

from asyncgraph._exec.workers import ThreadPool, Work, make_pool, pool_factory

from .helpers import PATIENCE_S


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool("test", 2)
    yield pool
    pool.close()
    pool.join()


def once(call: Callable[[], object]) -> Work:
    """Work of one step."""

    def work() -> None:
        call()

    return work


def test_no_thread_is_started_before_there_is_work(pool: ThreadPool) -> None:
    assert pool.threads == 0


def test_at_most_as_many_threads_work_at_once_as_the_limit_says(pool: ThreadPool) -> None:
    release, started, done = Event(), Semaphore(0), Semaphore(0)

    def hold() -> None:
        started.release()
        release.wait(PATIENCE_S)
        done.release()

    for _ in range(5):
        pool.submit(once(hold))
    for _ in range(2):
        assert started.acquire(timeout=PATIENCE_S)
    third = started.acquire(timeout=0.02)
    threads = pool.threads
    release.set()
    for _ in range(5):
        assert done.acquire(timeout=PATIENCE_S)
    assert (third, threads) == (False, 2)


def test_work_that_must_start_at_once_gets_a_thread_beyond_the_limit_which_then_goes(pool: ThreadPool) -> None:
    barrier = Barrier(4)  # Broken unless three threads work at once.
    for _ in range(3):
        pool.submit(once(lambda: barrier.wait(PATIENCE_S)), at_once=True)
    barrier.wait(PATIENCE_S)
    assert not barrier.broken
    gone = Event()
    pool.submit(once(gone.set))
    assert gone.wait(PATIENCE_S)
    while pool.threads > 2:
        ran = Event()
        pool.submit(once(ran.set))
        assert ran.wait(PATIENCE_S)


def test_a_thread_that_waits_for_work_is_used_again(pool: ThreadPool) -> None:
    names: list[str] = []
    for _ in range(20):
        ran = Event()
        pool.submit(once(lambda ran=ran: (names.append(threading.current_thread().name), ran.set())))
        assert ran.wait(PATIENCE_S)
    assert pool.threads <= 2
    assert set(names) <= {"asyncgraph test 1", "asyncgraph test 2"}


def test_the_steps_of_one_work_are_done_by_one_thread(pool: ThreadPool) -> None:
    seen: list[int] = []
    done = Event()

    def step(left: int) -> Work | None:
        seen.append(threading.get_ident())
        if left:
            return lambda: step(left - 1)
        done.set()
        return None

    pool.submit(lambda: step(9))
    assert done.wait(PATIENCE_S)
    assert len(seen) == 10
    assert len(set(seen)) == 1


def test_closing_ends_the_threads_after_all_that_is_queued_is_done() -> None:
    pool = ThreadPool("test", 2)
    done: list[int] = []
    for index in range(100):
        pool.submit(once(lambda index=index: done.append(index)))
    threads = [one for one in threading.enumerate() if one.name.startswith("asyncgraph test")]
    pool.close()
    pool.join()
    assert sorted(done) == list(range(100))
    assert pool.threads == 0
    assert not any(one.is_alive() for one in threads)


def test_a_pool_that_never_worked_can_be_closed_and_joined() -> None:
    pool = ThreadPool("test", 2)
    pool.close()
    pool.join()


def test_no_work_is_lost_while_threads_beyond_the_limit_come_and_go() -> None:
    pool = ThreadPool("test", 1)
    for _ in range(300):
        ran = Semaphore(0)
        for _ in range(3):
            pool.submit(once(ran.release), at_once=True)
        pool.submit(once(ran.release))
        for _ in range(4):
            assert ran.acquire(timeout=PATIENCE_S)
    pool.close()
    pool.join()


def test_a_system_that_gives_no_more_threads_is_served_by_those_that_there_are(
    pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Semaphore(0)
    pool.submit(once(ran.release))
    assert ran.acquire(timeout=PATIENCE_S)
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    for _ in range(5):
        pool.submit(once(ran.release))
    for _ in range(5):
        assert ran.acquire(timeout=PATIENCE_S)
    assert pool.threads == 1


def test_a_system_that_gives_no_thread_at_all_is_an_error(pool: ThreadPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        pool.submit(once(lambda: None))
    assert pool.threads == 0


def no_thread(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_context_may_say_how_pools_are_made() -> None:
    made: list[tuple[str, int]] = []

    def factory(name: str, limit: int) -> ThreadPool:
        made.append((name, limit))
        return ThreadPool(name, limit)

    token = pool_factory.set(factory)
    make_pool("some", 3)
    pool_factory.reset(token)
    make_pool("other", 3)
    assert made == [("some", 3)]
