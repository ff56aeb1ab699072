from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import SimulationError
from asyncgraph.testing import Simulation


@ag.op
def doubled(x: np.ndarray) -> np.ndarray:
    return x * 2


@ag.op
async def delayed(x: np.ndarray) -> np.ndarray:
    await asyncio.sleep(3600)
    return x


async def three_runs() -> list[float]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        y = doubled(delayed(doubled(x)))
    async with ag.Session(graph) as session:
        runs = [session.run(y, {x: float(i)}) for i in range(3)]
        return [float(values.results) for values in await asyncio.gather(*runs)]


def test_a_session_runs_in_a_simulation_as_anywhere() -> None:
    assert Simulation(1).run(three_runs()) == [0.0, 4.0, 8.0]


def test_the_same_seed_gives_the_same_order_and_other_seeds_give_others() -> None:
    logs = []
    for seed in (1, 1, 2, 3):
        simulation = Simulation(seed)
        simulation.run(three_runs())
        logs.append(tuple(simulation.log))
    assert logs[0] == logs[1]
    assert len(set(logs)) == 3


def test_an_hour_passes_in_no_time() -> None:
    simulation = Simulation(1)
    start = time.monotonic()
    simulation.run(three_runs())
    assert simulation.time() > 3600
    assert time.monotonic() - start < 60


def test_no_thread_is_started() -> None:
    async def count() -> int:
        await three_runs()
        return threading.active_count()

    assert Simulation(1).run(count()) == threading.active_count()


def test_a_program_that_can_go_no_further_is_an_error_that_has_the_seed_and_the_tasks() -> None:
    async def stuck() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationError, match=r"^seed 7: nothing can go on[^\0]*stuck\(\)"):
        Simulation(7).run(stuck())


def test_a_program_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncgraph.testing.simulation._MOST_STEPS", 100)

    async def endless() -> None:
        for _ in range(10**9):
            await asyncio.sleep(1)

    with pytest.raises(SimulationError, match="^seed 7: the program does not end"):
        Simulation(7).run(endless())


def test_what_the_program_raises_is_raised_after_what_it_left_was_ended() -> None:
    ended: list[str] = []

    async def left() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            ended.append("left")

    async def main() -> None:
        task = asyncio.create_task(left())
        await asyncio.sleep(0.5)
        raise ValueError(task.get_name())

    with pytest.raises(ValueError, match="Task"):
        Simulation(7).run(main())
    assert ended == ["left"]


def test_work_of_threads_sees_neither_the_loop_nor_the_callers_context() -> None:
    seen: list[object] = []

    @ag.op
    def look() -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError as error:
            seen.append(str(error))

    async def main() -> None:
        with ag.Graph() as graph:
            node = look.node()
        async with ag.Session(graph) as session:
            await session.run(node)

    Simulation(1).run(main())
    assert seen == ["no running event loop"]


def test_other_programs_have_their_clock_and_threads_back_afterwards() -> None:
    Simulation(1).run(three_runs())

    async def main() -> int:
        with ag.Graph() as graph:
            node = doubled(ag.constant(1.0))
        async with ag.Session(graph) as session:
            values = await session.run(node)
            assert values.metadata.wall_s < 60
            return session.statistics().op_threads

    assert asyncio.run(main()) == 1
