"""Branches and loops on devices: their values come to the host."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph._registry import registry

from ..backends.late_backend import LateBackend
from ..backends.strict_backend import StrictBackend
from .programs import Block, Built, Interpreted, blocks

STATE = [0.5, -1.5]


class Scattered(Built):
    """Builds each statement on one of several devices, by chance."""

    def __init__(self, devices: list[str], *args: Any) -> None:
        super().__init__(*args)
        self._devices = devices
        self._chance = random.Random(0)

    def statement(self, one: Any, known: list[Any]) -> Any:
        with ag.device(self._chance.choice(self._devices)):
            return super().statement(one, known)


def outcome(block: Block, devices: list[str]) -> tuple[Any, Any]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (), name="x")
        variables = []
        for device, value in zip(devices, STATE, strict=False):
            with ag.device(device):
                variables.append(ag.variable(value))
        nodes = Scattered(devices, variables, lambda a: a * 0.25 + 1.0).block(block, [x])
    with ag.BlockingSession(graph) as session:
        results = [[float(one) for one in session.run(nodes, {x: 1.0}).results] for _ in range(2)]
        return results, [float(one) for one in session.run(variables).results]


def expected(block: Block) -> tuple[Any, Any]:
    python = Interpreted(STATE)
    return [python.block(block, [1.0]) for _ in range(2)], python.state


@settings(max_examples=40, derandomize=True, deadline=None)
@given(blocks(2))
def test_a_program_across_devices_whose_arrays_raise_when_they_meet_does_what_python_does(block: Block) -> None:
    with registry.lend(StrictBackend()):
        assert outcome(block, ["strict:1", "strict:2", "cpu:0"]) == expected(block)


@settings(max_examples=15, derandomize=True, deadline=None)
@given(blocks(2))
def test_a_program_across_devices_that_are_asynchronous_does_what_python_does(block: Block) -> None:
    late = LateBackend()
    with registry.lend(late):
        assert outcome(block, ["late:0", "late:1", "cpu:0"]) == expected(block)
    late.close()
    assert late.complaints == []


@pytest.fixture
def strict() -> Iterator[StrictBackend]:
    backend = StrictBackend()
    with registry.lend(backend):
        yield backend


def on(device: str, build: Callable[[], Any]) -> Any:
    with ag.device(device):
        return build()


@pytest.mark.parametrize("results", ["host", "device"])
def test_what_a_branch_or_a_loop_on_a_device_gives_is_an_array_of_the_host(strict: StrictBackend, results: str) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        chosen = on("strict:1", lambda: ag.cond(ops.sum(x) > 0, lambda: x * 2, lambda: x))
        last = on("strict:1", lambda: ag.while_loop(lambda a: ops.sum(a) < 100, lambda a: a * 2, x))

    with ag.BlockingSession(graph) as session:
        options = ag.RunOptions(results="host" if results == "host" else "device")
        values = session.run(ag.RunArgs([chosen, last], {x: [1.0, 2.0]}, options)).results

    assert [type(one) for one in values] == [np.ndarray, np.ndarray]
    assert [one.tolist() for one in values] == [[2.0, 4.0], [64.0, 128.0]]


async def test_an_error_on_a_device_names_what_failed_and_what_ran_it() -> None:
    late = LateBackend()
    with registry.lend(late):
        with ag.Graph() as graph, ag.device("late:0"):
            x = ag.placeholder("float64", ("n",))
            chosen = ag.cond(ops.sum(x) > 0, lambda: ops.add(x, np.ones(3), name="broken"), lambda: x, name="outer")
        async with ag.Session(graph) as session:
            with pytest.raises(ValueError, match="broadcast") as failure:
                await session.run(chosen, {x: np.ones(2)})
    late.close()

    (note,) = failure.value.__notes__
    assert note.startswith(
        "asyncgraph: node 'broken' (add) failed\n  inputs: float64[2], float64[3]\n  device: late:0\n"
    )
    assert note.splitlines()[-1].startswith("  run by 'outer' (cond), built at: ")
