"""Plans and their parts, of graphs on the NumPy backend, without a session; and graphs drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import asyncgraph as ag
from asyncgraph._plan.chunk import Chunk, chunks_of
from asyncgraph._plan.compiler import compile_plan
from asyncgraph._plan.fold import fold_constants
from asyncgraph._plan.lower import Kind, Lowered, lower
from asyncgraph._plan.plan import Plan
from asyncgraph._plan.program import Checkpoint
from asyncgraph._plan.segment import Segment, cut_into_segments

from .helpers import HOST, merged, never


def compiled(fetches: Iterable[ag.Node], feeds: Iterable[ag.Node] = (), checkpoint: Checkpoint = never) -> Plan:
    return compile_plan(fetches, feeds, lambda requested: HOST, checkpoint)


def lowered(fetches: Iterable[ag.Node], feeds: Iterable[ag.Node] = ()) -> Lowered:
    return lower(fold_constants(merged(fetches, feeds), never), never)


def segments(fetches: Iterable[ag.Node], feeds: Iterable[ag.Node] = ()) -> tuple[Segment, ...]:
    return cut_into_segments(lowered(fetches, feeds), never)


def emit_all(plan: Plan) -> None:
    """Runs it as often as it takes to be emitted, in name only."""
    while not all(chunk.emitted for chunks in plan.chunks for chunk in chunks):
        plan.count_run()


def compute(plan: Plan, values: Sequence[Any]) -> list[Any]:
    """The values of the fetches of a plan of kernels, as they lie in the frame."""
    frame = plan.frame(list(values))
    for chunks in plan.chunks:
        for chunk in chunks:
            chunk.run(frame)
    return [frame[one.slot] for one in plan.fetches]


def kernels(plan: Plan) -> tuple[Chunk, ...]:
    """The chunks of a plan that is one segment of kernels."""
    (segment,) = plan.segments
    assert segment.kind is Kind.KERNEL
    return chunks_of(segment)


thread = ag.op(name="thread")(lambda *values: values)


@ag.op
async def awaited(*values: object) -> object:
    return values


def random_graph(seed: int, size: int = 40) -> tuple[list[ag.Node], list[ag.Node]]:
    """Kernels, user ops and groups on one another, with control dependencies: all nodes, and the placeholders."""
    choose = random.Random(seed)
    with ag.Graph():
        feeds = [ag.placeholder("float64", (), name=f"x{i}") for i in range(2)]
        nodes = [*feeds, ag.constant(2.0)]
        for _ in range(size):
            inputs = choose.sample(nodes, min(len(nodes), choose.choice([1, 1, 2, 2, 3])))
            after = choose.sample(nodes, 1) if not choose.randrange(6) else []
            kind = choose.choice(["kernel"] * 5 + ["thread", "awaited", "group"])
            with ag.control_dependencies(after):
                if kind == "kernel":
                    known = [one for one in inputs if one.dtype is not None] or feeds
                    nodes.append(ag.ops.add(known[0], known[-1]) if choose.randrange(2) else ag.ops.sin(known[0]))
                elif kind == "group":
                    nodes.append(ag.group(*inputs))
                else:
                    function = thread if kind == "thread" else awaited
                    nodes.append(function.node(*inputs))
                    if choose.randrange(2):
                        nodes.append(ag.item(nodes[-1], 0))
    return nodes, feeds
