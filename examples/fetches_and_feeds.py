"""What may be fetched, what may be fed, and what then does not run.

Fetches are any nesting of containers, of nodes or of their names; the results come back in the same
containers. Any node may be fed: what it is made of does not run.

Prints:
    nested: {'mean': array(2.5), 'more': [array(10.), {'top': array(4.)}]}
    named tuple: Summary(lowest=array(1.), highest=array(4.))
    by name: [array([-1.5, -0.5,  0.5,  1.5])]
    the shift was read 1 time
    fed intermediate: [0. 1. 2. 3.]
    the shift was read 1 time
    partial run: 10.0
    the shift was read 1 time
"""

import asyncio
from typing import NamedTuple

import asyncgraph as ag

reads = 0


@ag.op(spec="float64[]")
def read_shift() -> float:
    """Stands for something slow, such as a look-up in a database."""
    global reads
    reads += 1
    return 0.0


class Summary(NamedTuple):
    """Two fetches in one."""

    lowest: object
    highest: object


with ag.Graph() as graph:
    x = ag.placeholder("float64", ("n",), name="x")
    total = ag.ops.sum(x, name="total")
    mean = ag.ops.mean(x, name="mean")
    top = ag.ops.max(x, name="top")
    shift = read_shift.node(name="shift")
    centred = ag.ops.subtract(x, mean + shift, name="centred")


def show_reads() -> None:
    print("the shift was read", reads, "time" if reads == 1 else "times")


async def main() -> None:
    feeds = {x: [1.0, 2.0, 3.0, 4.0]}
    async with ag.Session(graph) as session:
        values = await session.run(ag.RunArgs({"mean": mean, "more": [total, {"top": top}]}, feeds))
        print("nested:", values.results)

        values = await session.run(ag.RunArgs(Summary(ag.ops.min(x), top), feeds))
        print("named tuple:", values.results)

        values = await session.run(ag.RunArgs(["centred"], {"x": [1.0, 2.0, 3.0, 4.0]}))
        print("by name:", values.results)
        show_reads()

        values = await session.run(ag.RunArgs(centred, {**feeds, mean: 1.0, shift: 0.0}))
        print("fed intermediate:", values.results)
        show_reads()

        values = await session.run(ag.RunArgs(total, feeds))
        print("partial run:", values.results)
        show_reads()


asyncio.run(main())
