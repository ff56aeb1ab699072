"""Random graphs, run by several callers at once who change their minds; NumPy says what is right.

A scenario is a graph, some runs of it, and what goes wrong, all drawn from one seed. The graph is drawn as a
description, which is built with the library and evaluated with NumPy, the one knowing nothing of the other.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, final

import numpy as np

from .. import ops
from .._graph.building import constant, placeholder
from .._graph.graph import Graph
from .._graph.node import Node
from .._graph.scopes import control_dependencies, device
from .._session.args import RunOptions
from .._session.session import Session
from ..errors import DeviceLostError, NodeTimeoutError, RunTimeoutError, SessionClosedError
from ._device import DEVICES, DeviceArray, SimulatedBackend
from ._faults import FAULTS, FUNCTIONS, NESTED, OPS, SIZE, Fault, PlantedError, Script, current_script
from ._play import draw_config, on_devices
from ._ways import WAYS

_Array = np.ndarray[Any, Any]

_KINDS: Final = ("kernel", "kernel", "kernel", "constant", "fed", *OPS)


@final
@dataclass(frozen=True, slots=True)
class Step:
    """One node, before there is one.

    Fields:
        kind: "fed", "constant", "kernel", or the way of calling an op.
        function: what it computes of its inputs.
        inputs, after: the nodes it reads, and those it only waits for.
        value: a constant's.
        device: where it was asked to run, or `None`.
    """

    kind: str
    function: str
    inputs: tuple[int, ...]
    after: tuple[int, ...]
    value: _Array
    device: str | None


def draw_steps(random: Random) -> list[Step]:
    """A description of a graph."""
    steps: list[Step] = []
    devices = (None, None, *map(str, DEVICES)) if random.random() < 0.4 else (None,)
    for index in range(random.randint(3, 16)):
        kind = random.choice(_KINDS) if index else "fed"
        function = random.choice(list(FUNCTIONS))
        count = 0 if kind in ("fed", "constant") else FUNCTIONS[function].nin
        # Near ones make chains, far ones make diamonds.
        inputs = tuple([max(0, index - 1 - int(random.random() ** 2 * index)) for _ in range(count)])
        after = (random.randrange(index),) if index and count and random.random() < 0.2 else ()
        steps.append(Step(kind, function, inputs, after, _draw_array(random), random.choice(devices)))
    return steps


def build(steps: Sequence[Step]) -> tuple[Graph, list[Node]]:
    """The graph that is described, and its nodes in the same order."""
    nodes: list[Node] = []
    with Graph() as graph:
        pair = [placeholder("float64", (SIZE,), name=name) for name in NESTED]
        for function in sorted({step.function for step in steps if step.kind == "nested"}):
            OPS["thread"].node(-1, function, *pair[: FUNCTIONS[function].nin], name=f"nested_{function}")
        for index, step in enumerate(steps):
            with control_dependencies([nodes[one] for one in step.after]), device(step.device):
                nodes.append(_node(index, step, [nodes[one] for one in step.inputs]))
    return graph, nodes


def _node(index: int, step: Step, inputs: list[Node]) -> Node:
    name = f"node{index}"
    if step.kind == "fed":
        return placeholder("float64", (SIZE,), name=name)
    if step.kind == "constant":
        return constant(step.value, name=name)
    if step.kind == "kernel":
        make: Callable[..., Node] = getattr(ops, step.function)
        return make(*inputs, name=name)
    return OPS[step.kind].node(index, step.function, *inputs, name=name)


def needed(steps: Sequence[Step], fetches: Sequence[int], fed: Mapping[int, _Array]) -> list[int]:
    """The nodes that the fetches need, in order, without those that are fed."""
    wanted = {*fetches}
    for index in reversed(range(len(steps))):
        if index in wanted and index not in fed:
            wanted.update(steps[index].inputs, steps[index].after)
    return [index for index in sorted(wanted) if index not in fed]


def evaluate(steps: Sequence[Step], fetches: Sequence[int], fed: Mapping[int, _Array]) -> list[_Array]:
    """What NumPy makes of a description."""
    values = dict(fed)
    for index in needed(steps, fetches, fed):
        step = steps[index]
        constant = step.kind == "constant"
        values[index] = step.value if constant else FUNCTIONS[step.function](*[values[one] for one in step.inputs])
    return [values[index] for index in fetches]


def _draw_array(random: Random) -> _Array:
    return np.array([random.uniform(-1, 1) for _ in range(SIZE)])


@final
class Plot:
    """One run: what it is asked for, what goes wrong, and what may come of it.

    Fields:
        fetches, fed: nodes by index, and values.
        faults: the calls that fail.
        way: how it is asked for, and given up.
        patience_s: when it is given up.
        options: of the run.
    """

    def __init__(self, steps: Sequence[Step], random: Random) -> None:
        self.fetches: Final = [random.randrange(len(steps)) for _ in range(random.randint(1, 3))]
        fed = [index for index, step in enumerate(steps) if step.kind == "fed" or random.random() < 0.05]
        self.fed: Final = {index: _draw_array(random) for index in fed}
        self.needed: Final = needed(steps, self.fetches, self.fed)
        calls = [index for index in self.needed if steps[index].kind in OPS]
        careless = random.random() < 0.35
        self.faults: Final[dict[int, Fault]] = {
            index: random.choice(FAULTS) for index in calls if careless and random.random() < 0.3
        }
        self.way: Final = random.choice(list(WAYS))
        self.patience_s: Final = random.random() * 0.06
        self.options: Final = RunOptions(
            timeout_s=random.random() * 0.06 if random.random() < 0.15 else None,
            trace=random.random() < 0.1,
            copy_feeds=random.random() < 0.1,
            results="device" if random.random() < 0.1 else "host",
        )
        kinds = [steps[index].kind for index in calls]
        self.may_raise: Final[tuple[type[BaseException], ...]] = (
            *{fault.seen for fault in self.faults.values()},
            *(
                [NodeTimeoutError]
                if any("limited" in kind or kind == "thread limited abandoned" for kind in kinds)
                else []
            ),
            *([RunTimeoutError] if self.options.timeout_s is not None else []),
            *([DeviceLostError] if any(steps[index].device is not None for index in self.needed) else []),
        )
        self.must_fail: Final = any(
            fault.again or "retried" not in steps[index].kind for index, fault in self.faults.items()
        )


@final
class GraphScenario:
    """A graph and its runs.

    Fields:
        outcomes: how many runs ended how, by the name of the exception; "value" for those that succeeded.
    """

    def __init__(self, random: Random) -> None:
        self.outcomes: Final[Counter[str]] = Counter()
        self._random: Final = random
        self._steps: Final = draw_steps(random)
        self._graph, self._nodes = build(self._steps)
        self._plots: Final = [Plot(self._steps, random) for _ in range(random.randint(1, 5))]
        self._shared: Final = PlantedError("one object, raised by many runs")
        self._complaints: Final[list[dict[str, Any]]] = []
        self._scripts: Final[list[Script]] = []
        self._arrays: Final[list[weakref.ref[Any]]] = []
        self._closes_early: Final = random.random() < 0.1
        self._loses_devices: Final = random.random() < 0.2
        self._config: Final = draw_config(random)

    async def main(self) -> None:
        """Runs everything and checks it."""
        await on_devices(SimulatedBackend(self._random, self._loses_devices), self._run_all, self._complaints)

    async def _run_all(self) -> None:
        session = Session(self._graph, config=self._config)
        async with session:
            callers = [asyncio.create_task(self._call(session, plot)) for plot in self._plots]
            if self._closes_early:
                await asyncio.sleep(self._random.random() * 0.05)
            else:
                await asyncio.wait(callers)
        left = asyncio.all_tasks() - {asyncio.current_task(), *callers}
        assert not left, f"tasks are left: {left}"
        await asyncio.gather(*callers)
        seen = session.statistics()
        assert seen.runs_started == seen.runs_ended, seen
        assert (seen.runs_executing, seen.runs_waiting, seen.worker_threads, seen.op_threads) == (0, 0, 0, 0), seen
        assert seen.abandoned == (), seen
        for script in self._scripts:
            assert not script.late, f"called after their run had ended: {script.late}"

    async def _call(self, session: Session, plot: Plot) -> None:
        """One run, from a caller's side. Raises nothing but what is wrong."""
        script = Script(self._random, session, self._shared, plot.faults)
        current_script.set(script)
        if self._random.random() < 0.5:
            await asyncio.sleep(self._random.random() * 0.02)
        feeds = {self._nodes[index]: value.copy() for index, value in plot.fed.items()}
        self._arrays.extend([weakref.ref(value) for value in feeds.values()])
        nodes = [self._nodes[index] for index in plot.fetches]
        try:
            results = await plot.way(session, plot, nodes, feeds)
        except AssertionError:
            raise
        except BaseException as error:
            self._check_end(script)
            self._check_error(plot, error)
            self.outcomes[type(error).__name__] += 1
        else:
            self._check_end(script)
            self._check_results(plot, results)
            self.outcomes["value"] += 1
        self._arrays.extend(script.made)

    def _check_end(self, script: Script) -> None:
        script.over = True
        self._scripts.append(script)
        assert not script.running, f"still running: {script.running}"
        for index, count in script.calls.items():
            assert count <= (2 if "retried" in self._steps[index].kind else 1), f"node{index} was called {count} times"

    def _check_results(self, plot: Plot, results: list[Any]) -> None:
        assert not plot.must_fail, f"it succeeded, though it should have raised one of {plot.may_raise}"
        expected = evaluate(self._steps, plot.fetches, plot.fed)
        found = [one.read() if isinstance(one, DeviceArray) else one for one in results]
        for index, value, right in zip(plot.fetches, found, expected, strict=True):
            assert value.dtype == right.dtype, f"node{index}"
            assert value.tobytes() == right.tobytes(), f"node{index}: {value}, where NumPy has {right}"

    def _check_error(self, plot: Plot, error: BaseException) -> None:
        allowed = (*plot.may_raise, *WAYS[plot.way], *([SessionClosedError] if self._closes_early else []))
        assert type(error) in allowed, f"{error!r}, where {allowed} were possible"
        notes = [note for note in getattr(error, "__notes__", []) if note.startswith("asyncgraph: ")]
        blamed = {fault.seen for fault in plot.faults.values()} | {NodeTimeoutError}
        assert len(notes) == 1 if type(error) in blamed else len(notes) <= 1, notes

    def check_nothing_is_left(self) -> None:
        """The loop has complained of nothing. Nothing that was fed or made is alive: no ring waits for collection."""
        self._shared.with_traceback(None)  # It would hold what it was raised with.
        assert not self._complaints, f"the loop complains: {self._complaints}"
        held = [value for one in self._arrays if (value := one()) is not None]
        assert not held, f"arrays are held: {held}"
