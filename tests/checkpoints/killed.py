"""Trains and saves in children that are killed, and says what each has left: `python killed.py folder kills`.

Imports once, and forks for each kill: a new Python would take longer than all that it does. A child saves one state
after the other, in which all numbers are the same, and tells each that is saved. Printed are, for each kill, what was
told last and the numbers that are restored.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from typing import NoReturn

import numpy as np

import asyncgraph as ag


def graph_of_numbers() -> tuple[ag.Graph, list[ag.Variable], ag.Node]:
    with ag.Graph() as graph:
        variables = [ag.variable(np.zeros((size, 3)), name=f"v{size}") for size in (1, 50, 3000)]
        update = ag.group(*[one.assign_add(1.0) for one in variables])
        return graph, variables, update


async def train(folder: str, told: int) -> NoReturn:
    """Saves for ever, and writes a line for each state that is saved."""
    graph, _, update = graph_of_numbers()
    saver = ag.checkpoints.Saver(folder, keep=1)
    async with ag.Session(graph) as session:
        header = await saver.restore_latest(session)
        step = 0 if header is None else header.step or 0
        while True:
            await session.run(update)
            step += 1
            await saver.save(session, step)
            os.write(told, b"%d\n" % step)


def kill_once(folder: str, after_s: float) -> str:
    """The step that a child told last before it was killed, and the numbers that are restored then."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        asyncio.run(train(folder, writing))
    os.close(writing)
    lines = os.read(reading, 100)  # Waits for the first.
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reading, 1 << 16):
        lines += more
    os.close(reading)
    graph, variables, _ = graph_of_numbers()
    with ag.BlockingSession(graph) as session:
        ag.checkpoints.Saver(folder).restore_latest_blocking(session)
        numbers = {float(one) for array in session.run(variables).results for one in array.flat}
    left = any(name.startswith(".asyncgraph-") for name in os.listdir(folder))
    return f"{lines.split()[-1].decode()} {sorted(numbers)} {'within a write' if left else ''}"


def main() -> None:
    folder, kills = sys.argv[1], int(sys.argv[2])
    chance = random.Random(0)
    for number in range(kills):
        print(kill_once(os.path.join(folder, str(number % 10)), chance.uniform(0.0, 0.01)), flush=True)


if __name__ == "__main__":
    main()
