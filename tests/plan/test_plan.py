"""A plan prints, says who reads what, and turns into Python when it is hot."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._plan.chunk import CHUNK_SIZE
from asyncgraph._plan.ownership import Owner
from asyncgraph._plan.plan import Plan

from .compiled import awaited, compiled, compute, emit_all, thread


def test_a_plan_prints_what_runs_where_and_who_owns_the_results() -> None:
    with ag.Graph():
        x, w = ag.placeholder("float32", ("n", 2), name="x"), ag.constant(np.ones((2, 2), np.float32), name="w")
        h = ag.ops.matmul(x, w, name="h")
        again = ag.ops.matmul(x, w, name="again")
        f = thread.node(h, name="f")
        y = ag.ops.add(ag.item(f, 0, name="first"), 1, name="y")
        ag.ops.sin(y, name="unneeded")
        half = ag.ops.divide(ag.ops.add(1.0, ag.constant(1.0), name="two"), 4, name="half")
    plan = compiled([y, again, f, x, half], [x])
    assert str(plan) == (
        "plan of 4 nodes in 3 segments; 1 pruned, 1 merged, 4 folded\n"
        "feeds: x: float32[n,2]\n"
        "segment 0: computed on cpu:0 (numpy)\n"
        "  h: float32[n,2] = matmul(x, w)\n"
        "segment 1: called in a thread, waits for 1\n"
        "  f: any = thread(h)\n"
        "segment 2: computed on cpu:0 (numpy), waits for 1\n"
        "  first: any = item(f, key=0)\n"
        "  y: any = add(first, 1)\n"
        f"fetches: y ({Owner.CALLER.value}), again ({Owner.SHARED.value}), f ({Owner.USER.value}), "
        f"x ({Owner.FEED.value}), half ({Owner.FOLDED.value})"
    )
    assert repr(plan) == "<Plan of 4 nodes in 3 segments>"


def test_a_plan_without_fetches_or_without_nodes_runs_nothing() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (), name="x")
    assert str(compiled([])) == "plan of 0 nodes in 0 segments; 0 pruned, 0 merged, 0 folded\nfetches: "
    plan = compiled([x], [x])
    assert (plan.single, plan.segments, plan.inline_chunks, plan.needs_loop) == (True, (), (), False)
    assert compute(plan, [3.0]) == [3.0]
    plan.count_run()


def test_readers_of_what_crosses_segments_are_counted_and_a_fetch_is_one_more() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (), name="x")
        a = ag.ops.add(x, 1, name="a")
        same = ag.ops.add(x, 1, name="same")
        f, g = thread.node(a, a, name="f"), thread.node(a, name="g")
        b = ag.ops.add(a, ag.item(f, 0), name="b")
    plan = compiled([a, same, b, g], [x])
    slots = {one.node.name: one.out for segment in plan.segments for one in segment.instructions}
    assert plan.readers == {slots["a"]: 3 + 2, slots["f"]: 1, slots["b"]: 1, slots["g"]: 1}
    assert [plan.filled_by(one.slot) for one in plan.fetches] == [0, 0, 2, 3]
    assert compiled([x], [x]).filled_by(0) is None


@pytest.mark.parametrize(
    ("make", "single", "needs_loop"),
    [
        (lambda x: x + 1, True, False),
        (lambda x: thread.node(x), False, False),
        (lambda x: awaited.node(x), False, True),
        (lambda x: ag.op(abandon_on_cancel=True)(abs).node(x), False, True),
        (lambda x: thread.node(x + 1), False, False),
    ],
)
def test_one_segment_of_kernels_needs_no_scheduler_and_only_some_plans_need_a_loop(
    make: Callable[[ag.Node], ag.Node], single: bool, needs_loop: bool
) -> None:
    with ag.Graph():
        x = ag.placeholder("float64", ())
        node = make(x)
    plan = compiled([node], [x])
    assert (plan.single, plan.needs_loop) == (single, needs_loop)


def test_from_the_50th_run_on_one_chunk_a_run_is_emitted() -> None:
    plan, _ = _chain(3 * CHUNK_SIZE)
    counts: list[int] = []
    for _ in range(54):
        plan.count_run()
        counts.append(sum(chunk.emitted for chunk in plan.inline_chunks))
    assert counts == [0] * 49 + [1, 2, 3, 3, 3]
    assert "segment 0: computed on cpu:0 (numpy), emitted\n" in str(plan)


def test_threads_may_run_a_plan_while_it_is_being_emitted() -> None:
    plan, length = _chain(20 * CHUNK_SIZE)
    for _ in range(49):
        plan.count_run()
    start, wrong = threading.Barrier(8), []

    def run() -> None:
        start.wait()
        for _ in range(6):
            plan.count_run()
            if compute(plan, [np.int64(5)]) != [5 + length]:
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []
    assert all(chunk.emitted for chunk in plan.inline_chunks)


def _chain(length: int) -> tuple[Plan, int]:
    with ag.Graph():
        node = x = ag.placeholder("int64", ())
        for _ in range(length):
            node = ag.ops.add(node, 1)
    return compiled([node], [x]), length


# -- what is easily got wrong ------------------------------------------------------------------------


def both(fetches: list[ag.Node], feeds: dict[ag.Node, object]) -> list[object]:
    """The values of the fetches, which are the same interpreted and emitted."""
    plan = compiled(fetches, list(feeds))
    values = compute(plan, list(feeds.values()))
    emit_all(plan)
    assert compute(plan, list(feeds.values())) == values
    return values


def test_defaults_constants_and_merged_nodes_can_be_fetched_beside_what_uses_them() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (), default=2.0, name="x")
        nothing = ag.placeholder(None, default=None, name="nothing")
        c = ag.constant(3.0, name="c")
        a, b = ag.ops.add(x, c, name="a"), ag.ops.add(x, c, name="b")
        d = ag.ops.multiply(a, b, name="d")
    assert both([x, nothing, c, a, b, d, d], {}) == [2.0, None, 3.0, 5.0, 5.0, 25.0]
    assert both([d, b, x], {x: 1.0}) == [16.0, 4.0, 1.0]
    assert both([d, a], {a: 7.0}) == [35.0, 7.0]
    assert both([a, d], {c: 1.0}) == [3.0, 9.0]


def test_control_dependencies_on_what_is_not_computed_are_met() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (), name="x")
        folded = ag.ops.add(ag.constant(1.0), 1.0, name="folded")
        a, twin = ag.ops.add(x, 1, name="a"), ag.ops.add(x, 1, name="twin")
        done = ag.group(x, folded, twin, ag.ops.negative(a, name="fed"), name="done")
        with ag.control_dependencies([done, folded, x, twin]):
            b = ag.ops.multiply(a, 2, name="b")
    assert both([b, done, twin], {x: 3.0, done.after[-1]: 0.0}) == [8.0, None, 4.0]
    assert both([b], {x: 3.0, done: None, a: 1.0}) == [2.0]


def test_one_output_of_a_call_of_constants_can_be_fetched() -> None:
    with ag.Graph():
        first, second = ag.ops.unstack(ag.constant([1.0, 2.0]))
    assert both([second, first], {}) == [2.0, 1.0]
    assert both([second], {first: 5.0}) == [2.0]
