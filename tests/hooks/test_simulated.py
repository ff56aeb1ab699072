"""Hooked runs in orders that are drawn from a seed: whatever happens when, each hook is told once how a run ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.testing import Simulation

RUNS = 12
TOLD = (asyncio.CancelledError, TimeoutError, ValueError)


class Restless(ag.Hook):
    """Rests and fails by chance; notes for each run what it was told of it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.entered: Counter[ag.RunContext] = Counter()
        self.after: Counter[ag.RunContext] = Counter()
        self.errors: Counter[ag.RunContext] = Counter()

    async def _rest(self) -> None:
        if self.random.random() < 0.5:
            await asyncio.sleep(self.random.random() * 0.02)
        if self.random.random() < 0.1:
            raise ValueError("of a hook")

    async def before_run(self, context: ag.RunContext) -> None:
        await self._rest()
        self.entered[context] += 1

    async def after_run(self, context: ag.RunContext, values: Any) -> None:
        self.after[context] += 1
        await self._rest()

    async def on_error(self, context: ag.RunContext, error: BaseException) -> None:
        assert isinstance(error, TOLD)
        self.errors[context] += 1
        await self._rest()


async def scenario(simulation: Simulation) -> tuple[list[Restless], int, int, int]:
    """Runs some at once, of which some are cancelled, late or failing; gives the hooks, and what was counted."""
    random = simulation.random
    hooks = [Restless(random) for _ in range(3)]

    async def rest() -> None:
        await asyncio.sleep(random.random() * 0.02)
        if random.random() < 0.1:
            raise ValueError("of a node")

    with ag.Graph() as graph:
        step = ag.global_step()
        with ag.control_dependencies([ag.op(rest).node()]):
            train = step.assign_add(1)
    succeeded = 0

    async def one(session: ag.Session) -> None:
        nonlocal succeeded
        await asyncio.sleep(random.random() * 0.02)
        options = ag.RunOptions(timeout_s=random.choice([None, 0.01, 0.05]))
        begun = random.choice([session.submit, session.run])(train, None, options)
        run: asyncio.Future[Any] = asyncio.ensure_future(begun)
        if random.random() < 0.4:
            asyncio.get_running_loop().call_later(random.random() * 0.04, run.cancel)
        with suppress(*TOLD):
            await run
            succeeded += 1

    config = ag.SessionConfig(max_concurrent_runs=4)
    async with ag.Session(graph, config=config, hooks=hooks) as session:
        await asyncio.gather(*[one(session) for _ in range(RUNS)])
        steps = int((await session.run(step, None, ag.RunOptions(hooks=None))).results)
        left = session.statistics().runs_executing + session.statistics().runs_waiting
    return hooks, steps, succeeded, left


@pytest.mark.parametrize("seed", range(40))
def test_each_hook_that_was_entered_is_told_once_how_its_run_ended(seed: int) -> None:
    simulation = Simulation(seed)
    hooks, steps, succeeded, left = simulation.run(scenario(simulation))

    for hook in hooks:
        assert hook.after + hook.errors == hook.entered
        assert set(hook.entered.values()) <= {1}
    assert left == 0
    # A run whose after_run fails, or is cut off, has committed, and its hooks have been told so.
    assert succeeded <= steps == len(hooks[0].after)
