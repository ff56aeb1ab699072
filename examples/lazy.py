"""A large file of weights: each array is known by its spec, and read only when a run needs it.

Prints:
    embeddings: float32[200000,64], weights: float32[64,3], bias: float32[3]
    not needed for 'scores': embeddings
    scores of a fed vector: [64. 64. 64.]
    the weights are a view of a map of the whole file: True
    rows 7 and 123456 begin with 7 and 123456
    read from a file of 51 MB, with less than 25 MB of memory: True
    a file that is gone does not matter to who feeds its value: [1. 2. 3.]
    and to who needs it: cannot load 'bias.npy': No such file or directory
"""

import asyncio
import json
import mmap
import os
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np

import asyncgraph as ag


def write_weights(folder: Path) -> None:
    rows = np.repeat(np.arange(200_000, dtype="float32")[:, None], 64, axis=1)
    save(folder / "model.safetensors", embeddings=rows, weights=np.ones((64, 3), "float32"))
    np.save(folder / "bias.npy", np.zeros(3, "float32"))


def save(path: Path, **arrays: np.ndarray) -> None:
    """Writes float32 arrays in the format of safetensors: a length, a header in JSON, the data."""
    header: dict[str, object] = {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())


def is_mapped(array: object) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


async def main(folder: Path) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float32", (64,), name="x")
        ids = ag.placeholder("int64", ("n",), name="ids")
        embeddings = ag.load(folder / "model.safetensors", key="embeddings", name="embeddings")
        weights = ag.load(folder / "model.safetensors", key="weights", name="weights")
        bias = ag.load(folder / "bias.npy", name="bias")
        scores = ag.ops.matmul(x, weights, name="scores")
        rows = ag.ops.take(embeddings, ids, axis=0, name="rows")
    print(", ".join(f"{node.name}: {node.spec}" for node in (embeddings, weights, bias)))

    async with ag.Session(graph) as session:
        pruned = session.explain(ag.RunArgs(scores, {x: None})).pruned
        print("not needed for 'scores':", *[node.name for node in pruned if node is embeddings])
        values = await session.run(ag.RunArgs((scores, weights), {x: np.ones(64, "float32")}))
        print("scores of a fed vector:", values.results[0])
        print("the weights are a view of a map of the whole file:", is_mapped(values.results[1]))

        tracemalloc.start()
        values = await session.run(ag.RunArgs(rows, {ids: [7, 123_456]}))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print("rows 7 and 123456 begin with", " and ".join(f"{row[0]:.0f}" for row in values.results))
        size = (folder / "model.safetensors").stat().st_size
        print(f"read from a file of {size / 1e6:.0f} MB, with less than 25 MB of memory: {peak < 25e6}")

        (folder / "bias.npy").unlink()
        values = await session.run(ag.RunArgs(bias + 1, {bias: np.arange(3, dtype="float32")}))
        print("a file that is gone does not matter to who feeds its value:", values.results)
        try:
            await session.run(bias)
        except ag.errors.LoadError as error:
            print("and to who needs it:", str(error).replace(f"{folder}{os.sep}", ""))


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
    write_weights(Path(name))
    asyncio.run(main(Path(name).resolve()))
