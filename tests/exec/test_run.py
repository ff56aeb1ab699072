"""A run on real threads: where its segments run, in which tasks and contexts, and how often the loop hears of it."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import numpy as np

import asyncgraph as ag

from .helpers import PATIENCE_S, CountingLoop, Watched, on_a_counting_loop, open_host, plan_of


@ag.op
def where(*values: Any) -> tuple[int, ...]:
    """The threads that computed this and what it is made of."""
    return (*[one for value in values for one in value], threading.get_ident())


@ag.op
async def where_awaited(*values: Any) -> tuple[Any, ...]:
    return (*[one for value in values for one in value], asyncio.current_task())


def test_a_chain_in_threads_stays_in_its_thread_and_wakes_the_loop_once() -> None:
    with ag.Graph() as graph:
        node = where.node()
        for _ in range(99):
            node = where(node)

    async def main(loop: CountingLoop) -> None:
        async with open_host() as host:
            before = loop.woken
            (threads,) = await Watched(host, plan_of(graph, [node])).values()
            assert loop.woken == before + 1
        assert len(threads) == 100
        assert len(set(threads)) == 1

    on_a_counting_loop(main)


def test_kernels_on_workers_wake_the_loop_once() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (1000,))
        node = x
        for _ in range(20):
            with ag.control_dependencies([node]):
                node = ag.ops.sin(node) + ag.ops.cos(node)

    async def main(loop: CountingLoop) -> None:
        async with open_host(budget_s=0.0) as host:
            before = loop.woken
            run = Watched(host, plan_of(graph, [node], [x]), [np.zeros(1000)])
            await run.values()
            assert loop.woken == before + 1
            assert host.counters.offloaded_segments == len(run.run.plan.segments)

    on_a_counting_loop(main)


def test_a_chain_of_coroutines_is_awaited_by_one_task() -> None:
    with ag.Graph() as graph:
        node = where_awaited.node()
        for _ in range(99):
            node = where_awaited(node)

    async def main(loop: CountingLoop) -> None:
        async with open_host() as host:
            before = loop.tasks
            (tasks,) = await Watched(host, plan_of(graph, [node])).values()
            assert loop.tasks == before + 1
        assert len(tasks) == 100
        assert len(set(tasks)) == 1

    on_a_counting_loop(main)


async def test_independent_calls_run_at_once_in_threads_of_their_own() -> None:
    barrier = threading.Barrier(3)

    @ag.op
    def meet(number: int) -> int:
        barrier.wait(PATIENCE_S)  # Broken unless all three are there.
        return number

    with ag.Graph() as graph:
        nodes = [meet.node(number) for number in range(3)]
    async with open_host(threads=3) as host:
        assert await Watched(host, plan_of(graph, nodes)).values() == [0, 1, 2]


async def test_at_most_a_thousand_coroutines_of_a_run_are_awaited_at_once() -> None:
    now = most = 0

    @ag.op
    async def count() -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    with ag.Graph() as graph:
        nodes = [count.node() for _ in range(1500)]
    async with open_host() as host:
        await Watched(host, plan_of(graph, nodes)).values()
    assert most == 1000


async def test_each_call_has_a_context_of_its_own_that_is_a_copy_of_the_callers() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("caller")

    @ag.op
    async def change(_: object = None) -> str:
        seen = variable.get()
        variable.set("changed")
        await asyncio.sleep(0)
        return f"{seen}, {variable.get()}"

    @ag.op
    def change_in_thread(_: object = None) -> str:
        seen = variable.get()
        variable.set("changed")
        return f"{seen}, {variable.get()}"

    with ag.Graph() as graph:
        first = change.node()
        nodes = [first, change(first), change_in_thread(first)]
    async with open_host() as host:
        assert await Watched(host, plan_of(graph, nodes)).values() == ["caller, changed"] * 3
    assert variable.get() == "caller"


async def test_a_run_counts_what_it_did_when_it_ends() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (3,))
        node = where(where.node(), where_awaited.node())
        nodes = [ag.ops.sin(x), node]
    async with open_host() as host:
        await Watched(host, plan_of(graph, nodes, [x]), [np.zeros(3)]).values()
        counters = host.counters
        assert (counters.inline_segments, counters.offloaded_segments, counters.user_calls) == (1, 0, 3)


async def test_a_chain_of_inline_calls_needs_no_recursion() -> None:
    @ag.op(where="inline")
    def add_one(x: int = 0) -> int:
        return x + 1

    with ag.Graph() as graph:
        node = add_one.node()
        for _ in range(4999):
            node = add_one(node)
    async with open_host(budget_s=60.0) as host:
        assert await Watched(host, plan_of(graph, [node])).values() == [5000]
