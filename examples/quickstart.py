"""The smallest program: one graph, one session, one awaited run.

Prints:
    [ 1.  4.  9. 16. 25.]
"""

import asyncio

import asyncgraph as ag

with ag.Graph() as graph:
    x = ag.placeholder("float32", ("n",), name="x")
    y = ag.ops.square(x, name="y")


async def main() -> None:
    async with ag.Session(graph) as session:
        values = await session.run(ag.RunArgs(y, {x: [1, 2, 3, 4, 5]}))
        print(values.results)


asyncio.run(main())
