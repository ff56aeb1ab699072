"""The scenario of a seed, played."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Protocol

from .._registry import registry
from .._session.config import SessionConfig
from ..errors import SimulationError
from ._device import SimulatedBackend
from .simulation import Simulation


class Scenario(Protocol):
    """What is played.

    Fields:
        outcomes: how many runs ended how, by the name of the exception; "value" for those that succeeded.
    """

    @property
    def outcomes(self) -> Counter[str]: ...

    async def main(self) -> None:
        """Runs everything and checks it."""

    def check_nothing_is_left(self) -> None:
        """Checks what is left when all has ended."""


def play(seed: int, make: Callable[[Random], Scenario]) -> tuple[Counter[str], list[str]]:
    """Plays the scenario of a seed; gives how its runs ended, and what was done in which order.

    Raises:
        AssertionError: something was not as promised, or it does not end. The message has the seed.
    """
    simulation = Simulation(seed)
    scenario = make(simulation.random)
    try:
        simulation.run(scenario.main())
        scenario.check_nothing_is_left()
    except SimulationError:
        raise
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    return scenario.outcomes, simulation.log


async def on_devices(
    backend: SimulatedBackend, run: Callable[[], Awaitable[None]], complaints: list[dict[str, Any]]
) -> None:
    """Runs something with the devices of `backend`, and closes it; adds what the loop complains of to `complaints`."""
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    with registry.lend(backend):
        await run()
    backend.close()


def draw_config(random: Random) -> SessionConfig:
    """Limits that matter: few places and threads, and budgets that are spent at once, soon or never."""
    return SessionConfig(
        inline_budget_s=random.choice((0.0, 5e-9, 500e-6)),
        max_concurrent_runs=random.choice((1, 2, 100)),
        workers=random.randint(1, 2),
        threads=random.randint(1, 3),
        blas_threads=None,
    )
