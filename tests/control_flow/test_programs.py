"""Programs of branches, loops, calls and variables, against Python itself."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from hypothesis import given, settings

import asyncgraph as ag

from .programs import Block, Built, Interpreted, blocks, called

STATE = [0.5, -1.5]
Kind = Literal["kernel", "thread", "inline", "async"]


class Subject:
    """A program as a graph, and what its user ops were called with.

    Args:
        kind: how what the programs call is computed.
    """

    def __init__(self, block: Block, kind: Kind) -> None:
        self.calls: list[float] = []
        with ag.Graph() as self.graph:
            self.x = ag.placeholder("float64", (), name="x")
            self.variables = [ag.variable(value, f"v{index}") for index, value in enumerate(STATE)]
            self.nodes = Built(self.variables, self._call(kind)).block(block, [self.x])

    def _call(self, kind: Kind) -> Any:
        def call(value: Any) -> float:
            self.calls.append(float(value))
            return called(float(value))

        async def call_async(value: Any) -> float:
            await asyncio.sleep(0)
            return call(value)

        if kind == "kernel":
            return called
        if kind == "async":
            return ag.op(call_async, spec="float64[]").node
        return ag.op(call, spec="float64[]", where="inline" if kind == "inline" else "thread").node

    def outcome(self, runs: int) -> tuple[Any, Any, list[float]]:
        """The values of its statements in each of several runs, of its variables after them, and the calls."""
        with ag.BlockingSession(self.graph) as session:
            results = [[float(one) for one in session.run(self.nodes, {self.x: 1.0}).results] for _ in range(runs)]
            return results, [float(one) for one in session.run(self.variables).results], sorted(self.calls)

    async def outcome_async(self, runs: int) -> tuple[Any, Any, list[float]]:
        async with ag.Session(self.graph) as session:
            results = [
                [float(one) for one in (await session.run(self.nodes, {self.x: 1.0})).results] for _ in range(runs)
            ]
            return results, [float(one) for one in (await session.run(self.variables)).results], sorted(self.calls)


def expected(block: Block, runs: int, kind: Kind) -> tuple[Any, Any, list[float]]:
    python = Interpreted(STATE)
    results = [python.block(block, [1.0]) for _ in range(runs)]
    return results, python.state, [] if kind == "kernel" else sorted(python.calls)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(blocks(2))
def test_a_program_of_kernels_does_what_python_does(block: Block) -> None:
    assert Subject(block, "kernel").outcome(2) == expected(block, 2, "kernel")


@pytest.mark.parametrize("kind", ["thread", "inline", "async"])
def test_a_program_with_user_ops_calls_each_as_often_as_python_does(kind: Kind) -> None:
    @settings(max_examples=25, derandomize=True, deadline=None)
    @given(blocks(2))
    def check(block: Block) -> None:
        assert Subject(block, kind).outcome(1) == expected(block, 1, kind)
        assert asyncio.run(Subject(block, kind).outcome_async(1)) == expected(block, 1, kind)

    check()
