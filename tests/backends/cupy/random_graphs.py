"""Random graphs over two GPUs that there are not and the host, run by several callers, some of whom give up.

A graph is drawn as a description, which is built with the library and evaluated with NumPy. Everything is drawn from
one seed: the graph, who wants what of it, when they give up, what goes wrong on which device, and in which order the
stand-in runs what its streams hold. (The order of real threads is not drawn; the simulator's devices see to that.)

    python -m pytest tests/backends/cupy/test_random_graphs.py                     200
    ASYNCGRAPH_RANDOM_GRAPHS=4000 python -m pytest tests/backends/cupy/test_random_graphs.py
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, final

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import DeviceLostError
from asyncgraph_cupy import CupyBackend, _backend, _dispatcher, _lanes, _reaper, _staging

from ...standin.world import World

Array = np.ndarray[Any, Any]
ROWS, COLUMNS = 3, 4
DEVICES = ("cpu:0", "gpu:0", "gpu:1", "gpu:0", "gpu:1")


@final
class KernelFaultError(Exception):
    """A kernel failed because it was told to."""


@ag.op
def on_the_host(value: Array) -> Array:
    return value * 2 - 1


@ag.op
async def awaited(value: Array) -> Array:
    await asyncio.sleep(0)
    return value + 0.5


def _user_op(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda xp, x: function(x)


FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, lambda xp, x, y: xp.add(x, y)),
    "subtract": (2, lambda xp, x, y: xp.subtract(x, y)),
    "maximum": (2, lambda xp, x, y: xp.maximum(x, y)),
    "where": (2, lambda xp, x, y: xp.where(xp.less(x, y), x, y)),
    "scaled": (1, lambda xp, x: x * 0.5),
    "sin": (1, lambda xp, x: xp.sin(x)),
    "transposed twice": (1, lambda xp, x: xp.matrix_transpose(xp.matrix_transpose(x))),
    "flipped": (1, lambda xp, x: xp.flip(x, axis=1)),
    "rolled": (1, lambda xp, x: xp.roll(x, 1, axis=0)),
    "stacked": (2, lambda xp, x, y: xp.concat([x[:2], y[2:]], axis=0)),
    "centred": (1, lambda xp, x: x - xp.mean(x, axis=1, keepdims=True)),
    "product": (2, lambda xp, x, y: xp.matmul(xp.matmul(x, xp.matrix_transpose(y)), x) * 0.125),
    "user op": (1, _user_op(on_the_host)),
    "async op": (1, _user_op(awaited)),
}


@final
@dataclass(frozen=True, slots=True)
class Step:
    function: str
    inputs: tuple[int, ...]
    device: str
    constant: Array | None


@final
class Drawn:
    """A graph: its description, and what is built of it."""

    def __init__(self, random: Random) -> None:
        self.steps: list[Step] = []
        self.fed = random.randint(1, 3)
        for index in range(self.fed, self.fed + random.randint(2, 14)):
            name = random.choice(list(FUNCTIONS))
            inputs = tuple([max(0, index - 1 - int(random.random() ** 2 * index)) for _ in range(FUNCTIONS[name][0])])
            constant = _array(random) if random.random() < 0.1 else None
            self.steps.append(Step(name, inputs, random.choice(DEVICES), constant))
        with ag.Graph() as self.graph:
            self.nodes = [ag.placeholder("float64", (ROWS, COLUMNS), name=f"fed{one}") for one in range(self.fed)]
            for step in self.steps:
                with ag.device(step.device):
                    self.nodes.append(self._built(step))

    def _built(self, step: Step) -> ag.Node:
        if step.constant is not None:
            return ag.constant(step.constant)
        return FUNCTIONS[step.function][1](ag.ops, *[self.nodes[one] for one in step.inputs])

    def values(self, fed: Sequence[Array]) -> list[Array]:
        """NumPy's value of every node."""
        values: list[Array] = list(fed)
        for step in self.steps:
            function = _HOST.get(step.function, FUNCTIONS[step.function][1])
            inputs = [values[one] for one in step.inputs]
            values.append(step.constant if step.constant is not None else np.asarray(function(np, *inputs)))
        return values


_HOST: Mapping[str, Callable[..., Any]] = {
    "user op": lambda xp, x: x * 2 - 1,
    "async op": lambda xp, x: x + 0.5,
}


def _array(random: Random) -> Array:
    return np.array([random.uniform(-1, 1) for _ in range(ROWS * COLUMNS)]).reshape(ROWS, COLUMNS)


def plant(world: World, random: Random) -> tuple[type[BaseException], ...]:
    """Lets something go wrong, or nothing; what runs may raise then."""
    device, at = random.randrange(2), random.randint(1, 30)
    kind = random.choice(("nothing", "nothing", "memory", "no memory", "kernel", "lost"))
    if kind == "memory":
        world.faults.run_out_of_memory(device, at)
    elif kind == "no memory":
        world.faults.run_out_of_memory(device, at, times=1000)
        return (MemoryError,)
    elif kind == "kernel":
        world.faults.fail_kernel(device, lambda: KernelFaultError("it was told to"), at)
        return (KernelFaultError,)
    elif kind == "lost":
        world.faults.lose(device, at)
        return (DeviceLostError,)
    return ()


async def run_all(drawn: Drawn, random: Random, may_raise: tuple[type[BaseException], ...]) -> Counter[str]:
    """Some runs at once: how many ended how."""
    async with ag.Session(drawn.graph) as session:
        callers = [one_run(session, drawn, Random(random.random()), may_raise) for _ in range(random.randint(1, 4))]
        return Counter(await asyncio.gather(*callers))


async def one_run(session: ag.Session, drawn: Drawn, random: Random, may_raise: tuple[type[BaseException], ...]) -> str:
    fed = [_array(random) for _ in range(drawn.fed)]
    fetches = [random.randrange(len(drawn.nodes)) for _ in range(random.randint(1, 3))]
    args = ag.RunArgs(
        [drawn.nodes[one] for one in fetches],
        dict(zip(drawn.nodes, fed, strict=False)),
        ag.RunOptions(results="device") if random.random() < 0.2 else None,
    )
    run = asyncio.ensure_future(session.run(args))
    if random.random() < 0.25:
        for _ in range(random.randint(0, 12)):
            await asyncio.sleep(0)
        run.cancel()
    try:
        results = (await run).results
    except (asyncio.CancelledError, *may_raise) as error:
        return type(error).__name__
    if args.options.results == "device":
        # What is on a device is fed again, beside the rest: it stays there.
        there = {drawn.nodes[one]: value for one, value in zip(fetches, results, strict=True)}
        again = ag.RunArgs(args.fetches, {**args.feeds, **there})
        try:
            results = (await session.run(again)).results
        except may_raise as error:
            return type(error).__name__
        finally:
            del there, again
    right = drawn.values(fed)
    for index, value in zip(fetches, results, strict=True):
        np.testing.assert_array_equal(value, right[index], strict=True)
    return "values"


def play(seed: int) -> Counter[str]:
    """Draws a graph and runs it; nothing races, nothing is left.

    Raises:
        AssertionError: something was not as promised. The message has the seed.
    """
    random = Random(seed)
    world = World(devices=2, seed=seed)
    drawn = Drawn(random)
    try:
        with pytest.MonkeyPatch.context() as patch:
            # So that a thread of the backend knows of another's work what it was told, and no more.
            world.watch(patch, _backend, _dispatcher, _lanes, _reaper, _staging)
            backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx, lanes=random.choice((1, 2, 8)))
            with ag.use_backend(backend):
                ended = asyncio.run(run_all(drawn, random, plant(world, random)))
            backend.close()
        world.check()
    except BaseException as error:
        error.add_note(f"the seed was {seed}")
        raise
    return ended
