"""From fetches and fed nodes to a plan: all passes together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._plan.compiler import no_checkpoint

from .compiled import compiled, compute, thread

DEEP = 100_000
WIDE = 30_000


def test_a_chain_of_100_000_nodes_compiles_runs_and_prints_without_recursion() -> None:
    with ag.Graph():
        node = x = ag.placeholder("int64", (), name="x")
        for _ in range(DEEP):
            node = ag.ops.add(node, x)
    plan = compiled([node], [x])
    assert len(plan.inline_chunks) == DEEP / 200
    assert str(plan).count("\n") == DEEP + 3
    assert compute(plan, [np.int64(2)]) == [2 * (DEEP + 1)]


def test_30_000_nodes_side_by_side_compile_and_print() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (), name="x")
        done = ag.group(*[ag.ops.multiply(x, i) for i in range(WIDE)])
    plan = compiled([done], [x])
    assert len(plan.segments) == 1
    assert str(plan).count("\n") == WIDE + 4


@pytest.mark.parametrize("calls", range(0, 48, 5))
def test_what_the_checkpoint_raises_ends_the_compilation_at_any_point(calls: int) -> None:
    with pytest.raises(TimeoutError):
        _compile_until(calls)


def test_the_checkpoint_is_called_about_every_thousand_nodes_of_every_pass() -> None:
    seen = _compile_until(10**6)
    # prune, merge, fold, lower and segment; the others, which are quick, between them.
    assert seen == 5 * (10_000 // 1024) + 3


class _Until:
    def __init__(self, calls: int) -> None:
        self.left = calls
        self.seen = 0

    def __call__(self) -> None:
        if not self.left:
            raise TimeoutError
        self.left -= 1
        self.seen += 1


def _compile_until(calls: int) -> int:
    checkpoint = _Until(calls)
    compiled([GRAPH["last"]], [GRAPH["x"]], checkpoint)
    return checkpoint.seen


def _graph() -> ag.Graph:
    with ag.Graph() as graph:
        node = x = ag.placeholder("float64", (), name="x")
        for _ in range(9_999):
            node = ag.ops.add(node, x)
        ag.ops.add(node, x, name="last")
    return graph


GRAPH = _graph()


PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
from plan.compiled import compiled, random_graph
for seed in range(20):
    nodes, feeds = random_graph(seed)
    print(compiled(nodes[::3], feeds))
"""


def test_the_same_graph_gives_the_same_plan_in_every_process() -> None:
    program = PROGRAM.format(folder=str(Path(__file__).parents[1]))
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    (text,) = texts
    assert text.count("plan of ") == 20


def test_a_node_is_computed_once_however_often_it_is_fetched_and_needed() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (), name="x")
        a = thread.node(x, name="a")
        nodes = [thread.node(a, name="b"), thread.node(a, name="c")]
    plan = compiled([*nodes, a, a], [x])
    assert [one.node.name for part in plan.segments for one in part.instructions] == ["a", "b", "c"]


def test_no_checkpoint_lets_everything_pass() -> None:
    no_checkpoint()
