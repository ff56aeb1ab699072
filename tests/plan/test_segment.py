"""What can run without waiting for anything is one segment, and segments never wait for each other in a ring."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

import asyncgraph as ag
from asyncgraph._plan.lower import Instruction, Kind, Lowered
from asyncgraph._plan.segment import Segment, cut_into_segments

from .compiled import awaited, lowered, random_graph, segments, thread
from .helpers import never


def names(parts: Sequence[Segment]) -> list[list[str]]:
    return [[one.node.name for one in segment.instructions] for segment in parts]


def test_kernels_without_foreign_inputs_are_one_segment() -> None:
    with ag.Graph():
        x, y = ag.placeholder("float64", (), name="x"), ag.placeholder("float64", (), name="y")
        a, b = ag.ops.add(x, 1, name="a"), ag.ops.sin(y, name="b")
        c = ag.ops.add(a, b, name="c")
    (only,) = segments([c], [x, y])
    assert names([only]) == [["a", "b", "c"]]
    assert (only.kind, only.waits_for, only.successors, only.reads) == (Kind.KERNEL, 0, (), ())
    assert only.fills == (only.instructions[-1].out,)


def test_a_call_of_a_users_function_is_a_segment_of_its_own_and_what_needs_it_waits() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (), name="x")
        a = ag.ops.add(x, 1, name="a")
        f = thread.node(a, name="f")
        b = ag.ops.sin(a, name="b")
        c = ag.ops.add(ag.item(f, 0, name="picked"), b, name="c")
        d = awaited.node(c, name="d")
    parts = segments([d, b], [x])
    assert names(parts) == [["a", "b"], ["f"], ["picked", "c"], ["d"]]
    assert [one.kind for one in parts] == [Kind.KERNEL, Kind.THREAD, Kind.KERNEL, Kind.ASYNC]
    assert [one.successors for one in parts] == [(1,), (2,), (3,), ()]
    assert [one.waits_for for one in parts] == [0, 1, 1, 1]
    slots = {one.node.name: one.out for part in parts for one in part.instructions}
    assert [one.fills for one in parts] == [
        (slots["a"], slots["b"]), (slots["f"],), (slots["c"],), (slots["d"],)
    ]  # fmt: skip
    assert [one.reads for one in parts] == [(), (slots["a"],), (slots["f"], slots["b"]), (slots["c"],)]


def test_ag_075_each_load_can_be_reduced_before_the_next_is_made() -> None:
    """https://github.com/dask/dask/issues/3139."""
    load = ag.op(name="load", spec="float64[8]")(lambda i: i)
    with ag.Graph():
        parts = [ag.ops.sum(load.node(i, name=f"load{i}"), name=f"sum{i}") for i in range(2)]
        total = ag.ops.add(*parts, name="total")
    cut = segments([total])
    assert names(cut) == [["load0"], ["sum0"], ["load1"], ["sum1"], ["total"]]
    assert [one.successors for one in cut] == [(1,), (4,), (3,), (4,), ()]


def test_a_control_dependency_is_waited_for_and_its_value_is_not_read() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (), name="x")
        log = thread.node(name="log")
        with ag.control_dependencies([log]):
            a = ag.ops.add(x, 1, name="a")
        done = ag.group(log, ag.ops.sin(a, name="b"), name="done")
    log_part, rest = segments([done], [x])
    assert names([log_part, rest]) == [["log"], ["a", "b", "done"]]
    assert (rest.waits_for, rest.reads, log_part.successors, log_part.fills) == (1, (), (1,), ())


def test_what_uses_a_constant_or_a_default_waits_for_its_control_dependencies() -> None:
    with ag.Graph():
        log = thread.node(name="log")
        with ag.control_dependencies([log]):
            c = ag.constant(1.0, name="c")
            x = ag.placeholder("float64", (), default=1.0, name="x")
        folded = ag.ops.add(c, c, name="folded")
        with ag.control_dependencies([x]):
            ordered = ag.constant(2.0, name="ordered")
        uses = [thread.node(one, name=f"of_{one.name}") for one in (c, x, folded, ag.group(folded), ordered)]
        fed = thread.node(x, name="of_fed")
    for one in uses:
        parts = segments([one])
        assert names(parts)[0] == ["log"]
        assert parts[0].successors == (1,)
    assert names(segments([fed], [x])) == [["of_fed"]]


def test_kernels_that_wait_for_the_same_share_a_segment() -> None:
    with ag.Graph():
        f = ag.op(name="f", spec="float64[]")(lambda: 1.0).node(name="f")
        others = [ag.ops.add(f, i, name=f"a{i}") for i in range(3)]
    assert names(segments(others)) == [["f"], ["a0", "a1", "a2"]]


@pytest.mark.parametrize("seed", range(60))
def test_of_any_graph_what_a_segment_needs_is_done_before_it_and_reads_and_fills_are_exact(seed: int) -> None:
    nodes, feeds = random_graph(seed)
    program = lowered(random.Random(seed).sample(nodes, 4), feeds)
    check(program, cut_into_segments(program, never))


def check(program: Lowered, parts: Sequence[Segment]) -> None:
    part_of = {id(one): part.index for part in parts for one in part.instructions}
    assert sorted(part_of) == sorted(map(id, program.instructions))
    assert [part.index for part in parts] == list(range(len(parts)))
    waits: dict[int, set[int]] = {part.index: set() for part in parts}
    reads: dict[int, set[int]] = {part.index: set() for part in parts}
    made: dict[int, Instruction] = {}
    for one in program.instructions:
        here = part_of[id(one)]
        for slot in one.operands:
            if slot in made and part_of[id(made[slot])] != here:
                reads[here].add(slot)
        before = [made[slot] for slot in one.operands if slot in made]
        before += [program.instructions[index] for index in one.after]
        waits[here] |= {part_of[id(other)] for other in before} - {here}
        made[one.out] = one
    read = set().union(*reads.values()) | set(program.fetches)
    done_before: list[set[int]] = []
    for part in parts:
        direct = {other.index for other in parts if part.index in other.successors}
        assert part.waits_for == len(direct)
        assert direct <= waits[part.index]
        assert all(other < part.index for other in direct)
        done_before.append(direct.union(*[done_before[other] for other in direct]))
        assert waits[part.index] <= done_before[part.index]
        assert len(part.reads) == len(set(part.reads))
        assert set(part.reads) == reads[part.index]
        assert part.fills == tuple(one.out for one in part.instructions if one.out in read)
        positions = [program.instructions.index(one) for one in part.instructions]
        assert positions == sorted(positions)
        assert {one.kind for one in part.instructions} == {part.kind}
        assert part.kind is Kind.KERNEL or len(part.instructions) == 1


def test_many_user_ops_that_feed_one_kernel_after_the_other_cost_no_more_than_their_edges() -> None:
    with ag.Graph():
        one = ag.op(name="one", spec="float64[]")(lambda: 1.0)
        sources = [one.node() for _ in range(10_000)]
        halves = [ag.ops.sin(source) for source in sources]
        gathered = ag.ops.stack(halves)
        done = ag.group(gathered, *sources, *halves)
    parts = segments([done])
    assert [len(parts), parts[-1].waits_for] == [20_002, 20_001]
