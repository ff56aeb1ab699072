"""Two nodes on two devices, awaited concurrently: one asks for a GPU, one for the CPU.

Where no GPU can be used, the first runs on the CPU, too, and the log says why. With
`SessionConfig(soft_placement=False)` that would be an error. The values are the same either way.

Prints:
    gpu:0 is ...
    squares: asked for gpu:0, runs on ...
    cubes: asked for cpu:0, runs on cpu:0
    squares of 1 to 4: [1.0, 4.0, 9.0, 16.0]
    cubes of 5 to 8: [125.0, 216.0, 343.0, 512.0]
    total, wherever the parts are: 1226.0
"""

import asyncio
import logging

import numpy as np

import asyncgraph as ag

with ag.Graph() as graph:
    x = ag.placeholder("float64", ("n",), name="x")
    with ag.device("gpu:0"):
        squares = ag.ops.square(x, name="squares")
    with ag.device("cpu:0"):
        cubes = ag.ops.pow(x, 3, name="cubes")
        # A value is moved to a device that needs it, once, whether it comes from a feed or from another device.
        total = ag.ops.sum(squares + cubes, name="total")

why_not: list[str] = []


def keep(record: logging.LogRecord) -> bool:
    _, _, reasons = record.getMessage().partition(": ")  # some lines from each backend
    why_not.append("; ".join(line.strip() for line in reasons.splitlines()))
    return False


logging.getLogger("asyncgraph").addFilter(keep)


async def main() -> None:
    async with ag.Session(graph) as session:
        devices = session.explain(total, {x: [1.0]}).devices
        print("gpu:0 is", *[f"not used: {text}" for text in why_not] or ["used"])
        for node in (squares, cubes):
            print(f"{node.name}: asked for {node.device}, runs on {devices[node]}")
        on_gpu, on_cpu = await asyncio.gather(
            session.run(ag.RunArgs(squares, {x: np.arange(1.0, 5.0)})),
            session.run(ag.RunArgs(cubes, {x: np.arange(5.0, 9.0)})),
        )
        print("squares of 1 to 4:", on_gpu.results.tolist())
        print("cubes of 5 to 8:", on_cpu.results.tolist())
        both = await session.run(ag.RunArgs(total, {squares: on_gpu.results, x: np.arange(5.0, 9.0)}))
        print("total, wherever the parts are:", both.results)


asyncio.run(main())
