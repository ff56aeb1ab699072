"""A training that is killed in the middle, goes on, and ends with the weights of one that was never stopped.

A process of its own trains the digits network in a `MonitoredSession`: hooks count steps, watch the loss for NaN, log
it, and save a checkpoint every 20 steps. At step 130 it is killed, as by a machine that fails. Another process
restores step 120 and goes on. Batches, and the random numbers of dropout, are drawn from the number of the step, so
that it does what the killed one would have done.

Prints:
    without a stop: trained from step 0 to step 200
    killed: began at step 0
    after the kill: trained from step 120 to step 200
    the same weights, bit for bit: True
    accuracy on rows that were not trained on is at least 0.9: True
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import asyncgraph as ag

LAST_STEP = 200
KILLED_AT = 130

table = np.loadtxt(Path(__file__).with_name("digits.csv.gz"), delimiter=",")
np.random.default_rng(0).shuffle(table)
pixels, digits = (table[:, :-1] / 16).astype("float32"), table[:, -1].astype("int64")

with ag.Graph() as graph:
    images = ag.placeholder("float32", ("n", 64), name="images")
    labels = ag.placeholder("int64", ("n",), name="labels")
    hidden = ag.variable(ag.nn.he_uniform((64, 64), seed=1), "hidden")
    output = ag.variable(ag.nn.glorot_uniform((64, 10), seed=2), "output")
    active = ag.nn.relu(images @ hidden)
    loss = ag.ops.mean(
        ag.nn.softmax_cross_entropy(ag.nn.dropout(active, 0.2, training=True) @ output, labels), name="loss"
    )
    global_step = ag.global_step()
    train = ag.optimizers.Adam(3e-3).minimize(loss, step=global_step)
    accuracy = ag.ops.mean(ag.metrics.is_right(active @ output, labels))


class KillHook(ag.hooks.Hook):
    """Kills its process after a step. What is on the disk by then is all that is left of it."""

    def after_run(self, context: ag.hooks.RunContext, values: ag.RunValues) -> None:
        """Looks at the step that the run began at."""
        if values.results == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)

    def before_run(self, context: ag.hooks.RunContext) -> ag.RunArgs:
        """Asks for the step."""
        return ag.RunArgs(global_step)


async def work(directory: str, weights_file: str, is_killed: bool) -> None:
    """Trains up to the last step, from the latest checkpoint of a directory, and saves the weights."""
    hooks = [
        ag.hooks.StopAtStepHook(last_step=LAST_STEP),
        ag.hooks.NanTensorHook(loss),
        ag.hooks.LoggingTensorHook({"loss": loss}, every_steps=50),
    ]
    if is_killed:
        hooks.append(KillHook())
    async with ag.MonitoredSession(graph, hooks=hooks, checkpoint_dir=directory, save_every_steps=20) as session:
        step = first = int((await session.session.run(global_step)).results)
        print(f"began at step {first}", flush=True)
        while not session.should_stop():
            rows = np.random.default_rng(step).integers(0, 1437, 64)
            feeds = {images: pixels[rows], labels: digits[rows]}
            await session.run(ag.RunArgs(train, feeds, ag.RunOptions(seed=step)))
            step += 1
        await session.session.save(weights_file, variables=[hidden, output])
        print(f"trained from step {first} to step {step}")


def run_process(directory: Path, weights_file: Path, *, is_killed: bool = False) -> str:
    """The last line that a process of its own printed, which trains."""
    command = [sys.executable, __file__, str(directory), str(weights_file), str(is_killed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != (-signal.SIGKILL if is_killed else 0):
        raise RuntimeError(done.stderr)
    return done.stdout.splitlines()[-1]


async def compare(one: Path, other: Path) -> None:
    weights = []
    for path in (one, other):
        async with ag.Session(graph) as session:
            await session.restore(path, variables=[hidden, output])
            fetches = [hidden, output, accuracy]
            weights.append((await session.run(fetches, {images: pixels[1437:], labels: digits[1437:]})).results)
    same = all(np.array_equal(a, b) for a, b in zip(weights[0][:2], weights[1][:2], strict=True))
    print(f"the same weights, bit for bit: {same}")
    print(f"accuracy on rows that were not trained on is at least 0.9: {weights[0][2] >= 0.9}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        there = Path(name)
        print("without a stop:", run_process(there / "one", there / "one.safetensors"))
        print("killed:", run_process(there / "other", there / "other.safetensors", is_killed=True))
        print("after the kill:", run_process(there / "other", there / "other.safetensors"))
        asyncio.run(compare(there / "one.safetensors", there / "other.safetensors"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        logging.basicConfig(level=logging.INFO)
        asyncio.run(work(sys.argv[1], sys.argv[2], sys.argv[3] == "True"))
    else:
        main()
