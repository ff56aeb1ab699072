"""A whole backend: two devices, each a thread that computes with NumPy, on arrays that nobody else can read.

A distribution would name the class in an entry point, and its devices would be there; a program says `use_backend`.

Prints:
    mean on pool:0, deviation on pool:1
    mean: 4.5, deviation: 2.87
    left on the device: Block on pool:0
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np

import asyncgraph as ag
from asyncgraph.abc import Array, Backend, Capabilities, Device, Done, Kernel, Spec, array_api_kernel


class Block:
    """Values in a device's memory. It is no NumPy array, so that whoever forgets to move it gets an error."""

    def __init__(self, values: np.ndarray, device: Device) -> None:
        self.values, self.device = values, device
        self.shape, self.dtype = values.shape, values.dtype


class PoolBackend(Backend):
    """Computes with NumPy in the background: on `pool:0` and on `pool:1`, one thing at a time on each."""

    name = "pool"
    capabilities = Capabilities(asynchronous=True)

    def __init__(self) -> None:
        self._threads = {Device("pool", index): ThreadPoolExecutor(1, f"pool:{index}") for index in range(2)}

    def devices(self) -> Sequence[Device]:
        """What can be used. If there were none, it would raise an error that says why, and what to do."""
        return tuple(self._threads)

    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        """NumPy's function of that name, on what is in the blocks; or NotImplementedError, if there is none."""
        function = array_api_kernel(np, op, params)

        def compute(*arrays: Array) -> Array:
            result = function(*[one.values if isinstance(one, Block) else one for one in arrays])
            if isinstance(result, (tuple, list)):
                return [Block(np.asarray(one), device) for one in result]
            return Block(np.asarray(result), device)

        return compute

    def to_device(self, array: Array, device: Device) -> Array:
        """A copy, as the memory is another."""
        return Block(np.array(array), device)

    def to_host(self, array: Array) -> np.ndarray:
        """A copy, which the caller may own."""
        return array.values.copy()

    def submit(self, device: Device, work: Callable[[], None], done: Done) -> None:
        """Returns at once: the device's thread calls `work` when it comes to it, and then `done`.

        Here `work` has done it all when it returns. Where it only starts things, `done` has to wait for their end.
        """
        self._threads[device].submit(super().submit, device, work, done)

    def close(self) -> None:
        """Ends the threads when they are done."""
        for thread in self._threads.values():
            thread.shutdown()


async def main() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        with ag.device("pool:0"):
            mean = ag.ops.mean(x, name="mean")
        with ag.device("pool:1"):
            deviation = ag.ops.std(x, name="deviation")
    args = ag.RunArgs((mean, deviation), {x: range(10)})
    async with ag.Session(graph) as session:
        print(", ".join(f"{node.name} on {device}" for node, device in session.explain(args).devices.items()))
        values = await session.run(args)
        print("mean: {:.3g}, deviation: {:.3g}".format(*values.results))
        values = await session.run(mean, {x: range(10)}, ag.RunOptions(results="device"))
        print(f"left on the device: {type(values.results).__name__} on {values.results.device}")


if __name__ == "__main__":
    with closing(PoolBackend()) as pool, ag.use_backend(pool):
        asyncio.run(main())
