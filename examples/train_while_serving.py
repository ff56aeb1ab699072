"""A trainer and 50 readers share one session, and no reader ever sees half an update.

Each step changes the weights, their offset, and a fingerprint of both: one run, so one transaction. Each reader gets
all of them and a prediction in one run, and computes the fingerprint itself. That the check can fail is shown by
somebody who reads the weights in one run, and their fingerprint in another.

Prints:
    400 steps, and 50 readers who read meanwhile
    readers who saw the model change: 50
    reads of half an update: 0
    reads in two runs that did not fit: more than 0
    what is served in the end is right for at least 95 % of the rows: True
"""

import asyncio

import numpy as np

import asyncgraph as ag

STEPS = 400
READERS = 50

rng = np.random.default_rng(0)
rows = rng.normal(size=(256, 8))
targets = (rows @ rng.normal(size=8) > 0.5).astype("float64")

with ag.Graph() as graph:
    features = ag.placeholder("float64", ("n", 8), name="features")
    labels = ag.placeholder("float64", ("n",), name="labels")
    weights = ag.variable(np.zeros(8), "weights")
    offset = ag.variable(0.0, "offset")
    fingerprint = ag.variable(0.0, "fingerprint", trainable=False)
    steps = ag.global_step()

    logits = ag.nn.dense(features, weights, offset)
    chance = ag.nn.sigmoid(logits)
    loss = ag.ops.mean(ag.nn.sigmoid_cross_entropy(logits, labels))
    step = ag.optimizers.Momentum(0.3).minimize(loss, step=steps)
    # What is built after the step reads what the step has assigned.
    with ag.control_dependencies([step]):
        train = fingerprint.assign(ag.ops.sum(weights) + offset)


class Readers:
    """What all readers have seen."""

    def __init__(self) -> None:
        self.done = False
        self.torn = 0
        self.torn_in_two_runs = 0
        self.seen: list[set[int]] = []


async def read(session: ag.Session, readers: Readers) -> None:
    """Asks for a prediction again and again, and checks each time that what it was made with fits."""
    seen: set[int] = set()
    readers.seen.append(seen)
    while not readers.done:
        values = await session.run([chance, weights, offset, fingerprint, steps], {features: rows[:1]})
        _, w, b, expected, at = values.results
        readers.torn += w.sum() + b != expected
        seen.add(int(at))
        await asyncio.sleep(0)


async def read_in_two_runs(session: ag.Session, readers: Readers) -> None:
    """What not to do: between the two runs there may be a step."""
    while not readers.done:
        w, b = (await session.run([weights, offset])).results
        await asyncio.sleep(0)
        readers.torn_in_two_runs += w.sum() + b != (await session.run(fingerprint)).results


async def main() -> None:
    readers = Readers()
    async with ag.Session(graph) as session, asyncio.TaskGroup() as tasks:
        for _ in range(READERS):
            tasks.create_task(read(session, readers))
        tasks.create_task(read_in_two_runs(session, readers))
        for _ in range(STEPS):
            await session.run(train, {features: rows, labels: targets})
            await asyncio.sleep(0)
        readers.done = True
        served = (await session.run(chance, {features: rows})).results
    print(f"{STEPS} steps, and {len(readers.seen)} readers who read meanwhile")
    print(f"readers who saw the model change: {sum(len(seen) > 1 for seen in readers.seen)}")
    print(f"reads of half an update: {readers.torn}")
    print(f"reads in two runs that did not fit: {'more than 0' if readers.torn_in_two_runs else 0}")
    right = np.mean((served > 0.5) == targets)
    print(f"what is served in the end is right for at least 95 % of the rows: {right >= 0.95}")


asyncio.run(main())
