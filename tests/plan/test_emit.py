"""Steps become straight-line Python that computes the same."""

from __future__ import annotations

import linecache
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._plan.emit import emit, show_source

from .compiled import compiled, compute, emit_all

f, g = np.add, np.negative


def source(steps: Sequence[Any], template: Sequence[Any], feeds: int, kept: Sequence[int] = ()) -> str:
    return emit(steps, template, feeds, frozenset(kept)).source


def test_a_chain_reuses_one_name() -> None:
    steps = [(g, (0,), 1, ()), (g, (1,), 2, (1,)), (f, (2, 2), 3, (2,)), (g, (3,), 4, (3,))]
    assert source(steps, [None] * 5, 1, [4]) == (
        "def chunk(f):\n"
        " v0=k0(f[0])\n"
        " v0=k0(v0)\n"
        " v0=k1(v0,v0)\n"
        " f[4]=k0(v0);del v0\n"
    )  # fmt: skip


def test_a_value_that_is_kept_is_in_the_frame_and_one_that_is_read_too_has_a_name_as_well() -> None:
    steps = [(g, (0,), 1, ()), (g, (1,), 2, ())]
    assert source(steps, [None] * 3, 1, [1, 2]) == "def chunk(f):\n f[1]=v0=k0(f[0])\n f[2]=k0(v0)\n"


def test_a_result_that_nobody_reads_has_no_name() -> None:
    assert source([(g, (0,), 1, (1,)), (g, (0,), 2, ())], [None] * 3, 1, [2]) == (
        "def chunk(f):\n v0=f[0];k0(v0)\n f[2]=k0(v0)\n"
    )


def test_values_of_an_earlier_chunk_leave_the_frame_where_they_die() -> None:
    once = [(f, (1, 2), 3, (1,)), (g, (2,), 4, (2,))]
    assert source(once, [None] * 5, 1, [3, 4]) == (
        "def chunk(f):\n v0=f[2];f[2]=None;f[3]=k0(f[1],v0);f[1]=None\n f[4]=k1(v0);del v0\n"
    )
    twice_in_one_step = [(f, (1, 1), 2, (1,))]
    assert source(twice_in_one_step, [None] * 3, 1, [2]) == (
        "def chunk(f):\n v0=f[1];f[1]=None;f[2]=k0(v0,v0);del v0\n"
    )


def test_what_is_the_same_in_every_run_is_a_global_unless_it_is_none() -> None:
    emitted = emit([(f, (1, 2), 3, ()), (f, (0, 1), 4, ())], [None, 2.5, None, None, None], 1, frozenset([3, 4]))
    assert emitted.source == "def chunk(f):\n f[3]=k0(c1,f[2])\n f[4]=k0(f[0],c1)\n"
    frame = [1.0, 2.5, None, None, None]
    frame[2] = 4.0
    emitted.function(frame)
    assert frame[3:] == [6.5, 3.5]


def test_a_fed_value_is_read_from_the_frame_whatever_the_template_holds() -> None:
    assert source([(g, (0,), 1, ())], [7.0, None], 1, [1]) == "def chunk(f):\n f[1]=k0(f[0])\n"


def test_a_dead_operand_frees_its_name_for_later_ones() -> None:
    steps = [
        (g, (0,), 1, ()), (g, (0,), 2, ()), (g, (0,), 3, ()),
        (f, (1, 2), 4, (1, 2)), (g, (0,), 5, ()), (f, (3, 4), 6, (3, 4)), (f, (5, 6), 7, (5, 6)),
    ]  # fmt: skip
    assert source(steps, [None] * 8, 1, [7]).split("\n")[4:] == [
        " v2=k1(v1,v2);del v1",
        " v1=k0(v0)",
        " v2=k1(v3,v2);del v3",
        " f[7]=k1(v1,v2);del v1,v2",
        "",
    ]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("size", [20, 199, 200, 201, 450])
def test_emitted_and_interpreted_plans_of_random_graphs_compute_the_same(seed: int, size: int) -> None:
    choose = random.Random(seed)
    with ag.Graph():
        feeds = [ag.placeholder("int64", (), name=f"x{i}") for i in range(3)]
        nodes: list[Any] = [*feeds, 3, -1, ag.constant(5)]
        for _ in range(size):
            recent = nodes[-choose.choice([3, 20, size]) :]
            a, b = choose.choice(recent), choose.choice(feeds + recent)
            nodes.append(choose.choice([ag.ops.add, ag.ops.subtract, ag.ops.bitwise_xor])(choose.choice(feeds), a))
            nodes.append(ag.ops.maximum(nodes[-1], b) if choose.randrange(2) else ag.ops.negative(nodes[-1]))
    fetches = choose.sample(nodes[6:], 5) + feeds[:1]
    plan = compiled(fetches, feeds)
    values = [np.int64(7), np.int64(-2), np.int64(11)]
    expected = compute(plan, values)
    emit_all(plan)
    assert compute(plan, values) == expected


def test_a_call_of_very_many_operands_is_emitted_too() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (1,))
        node = ag.ops.concat([x] * 30_000)
    plan = compiled([node], [x])
    emit_all(plan)
    (value,) = compute(plan, [np.ones(1)])
    assert value.shape == (30_000,)


def test_sources_are_shown_of_the_last_64_that_failed() -> None:
    made = [emit([(g, (0,), 1, ())], [None, None], 1, frozenset([1])) for _ in range(70)]
    for one in made:
        show_source(one)
        show_source(one)
    assert [one.filename in linecache.cache for one in made] == [False] * 6 + [True] * 64
    assert linecache.getline(made[-1].filename, 2) == " f[1]=k0(f[0])\n"
    linecache.checkcache()
    assert made[-1].filename in linecache.cache
