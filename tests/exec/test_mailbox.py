from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from asyncgraph._exec.mailbox import Mailbox

from .helpers import CountingLoop, on_a_counting_loop


def test_many_calls_wake_the_loop_once_and_are_made_in_order() -> None:
    async def main(loop: CountingLoop) -> None:
        mailbox = Mailbox(loop)
        calls: list[int] = []
        for index in range(1000):
            mailbox.post(partial(calls.append, index))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert calls == list(range(1000))
        assert loop.woken == 1

    on_a_counting_loop(main)


async def test_no_call_of_many_threads_is_lost_and_each_threads_calls_are_in_order() -> None:
    mailbox = Mailbox(asyncio.get_running_loop())
    calls: list[tuple[int, int]] = []
    done = asyncio.Event()

    def arrive(thread: int, index: int) -> None:
        calls.append((thread, index))
        if len(calls) == 8000:
            done.set()

    def send(thread: int) -> None:
        for index in range(2000):
            mailbox.post(partial(arrive, thread, index))

    threads = [threading.Thread(target=send, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    await asyncio.wait_for(done.wait(), 20)
    for thread in threads:
        thread.join()
    for one in range(4):
        assert [index for thread, index in calls if thread == one] == list(range(2000))


async def test_what_a_call_posts_is_made_in_a_later_turn() -> None:
    mailbox = Mailbox(asyncio.get_running_loop())
    calls: list[str] = []

    def first() -> None:
        calls.append("first")
        mailbox.post(lambda: calls.append("second"))

    mailbox.post(first)
    await asyncio.sleep(0)
    assert calls == ["first"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert calls == ["first", "second"]


async def test_a_call_that_raises_takes_no_other_with_it() -> None:
    loop = asyncio.get_running_loop()
    told: list[Any] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))
    mailbox = Mailbox(loop)
    calls: list[str] = []
    error = ValueError()

    def fail() -> None:
        raise error

    mailbox.post(fail)
    mailbox.post(lambda: calls.append("after"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert calls == ["after"]
    assert told == [error]


def test_posting_to_a_closed_loop_is_no_error_and_keeps_nothing() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    mailbox = Mailbox(loop)
    mailbox.post(pytest.fail)
    assert not mailbox._calls
