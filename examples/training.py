"""Learns to read handwritten digits: a network of one hidden layer, Adam, and the accuracy after each epoch.

The digits are 1,797 images of 8 x 8 pixels: `digits.csv.gz` beside this file, whose source is in `digits.LICENSE`.

Prints:
    epoch 1: train accuracy ...
    epoch 2: train accuracy ...
    epoch 3: train accuracy ...
    epoch 4: train accuracy ...
    epoch 5: train accuracy ...
    epoch 6: train accuracy ...
    epoch 7: train accuracy ...
    epoch 8: train accuracy ...
    epoch 9: train accuracy ...
    epoch 10: train accuracy ...
    epoch 11: train accuracy ...
    epoch 12: train accuracy ...
    epoch 13: train accuracy ...
    epoch 14: train accuracy ...
    epoch 15: train accuracy ...
    validation accuracy is at least 0.97: True
"""

import asyncio
from pathlib import Path

import numpy as np

import asyncgraph as ag

EPOCHS = 15
BATCH = 32

table = np.loadtxt(Path(__file__).with_name("digits.csv.gz"), delimiter=",")
rng = np.random.default_rng(0)
rng.shuffle(table)
pixels, digits = (table[:, :-1] / 16).astype("float32"), table[:, -1].astype("int64")
train, validation = slice(0, 1437), slice(1437, None)

with ag.Graph() as graph:
    images = ag.placeholder("float32", ("n", 64), name="images")
    labels = ag.placeholder("int64", ("n",), name="labels")
    kernels = [ag.variable(ag.nn.he_uniform((64, 64)), "hidden"), ag.variable(ag.nn.glorot_uniform((64, 10)), "output")]
    offsets = [ag.variable(np.zeros(size, "float32"), "offset") for size in (64, 10)]

    hidden = ag.nn.relu(ag.nn.dense(images, kernels[0], offsets[0]))
    logits = ag.nn.dense(hidden, kernels[1], offsets[1])
    loss = ag.ops.mean(ag.nn.softmax_cross_entropy(logits, labels))
    step = ag.optimizers.Adam(3e-3).minimize(loss)
    right = ag.ops.mean(ag.metrics.is_right(logits, labels))
    gathered = ag.metrics.accuracy(logits, labels)


async def main() -> None:
    validated = 0.0
    async with ag.Session(graph, config=ag.SessionConfig(seed=0)) as session:
        for epoch in range(1, EPOCHS + 1):
            await session.run(gathered.reset)
            order = rng.permutation(1437)
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                # One transaction: it makes a step, and counts what was right before that.
                await session.run([step, gathered.update], {images: pixels[rows], labels: digits[rows]})
            trained = (await session.run(gathered.result)).results
            validated = (await session.run(right, {images: pixels[validation], labels: digits[validation]})).results
            print(f"epoch {epoch}: train accuracy {trained:.2f}, validation accuracy {validated:.2f}")
        print(f"validation accuracy is at least 0.97: {validated >= 0.97}")


asyncio.run(main())
