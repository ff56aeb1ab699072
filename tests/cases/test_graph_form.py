"""Graphs of any form: cyclic ones cannot be, wide ones are cheap, and running leaves them alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph._graph.pickling import graph_from_table
from asyncgraph.errors import GraphError, GraphFinalizedError

from .helpers import run


def table_with_a_cycle() -> Any:
    """The pickled form of a <- b, a <- c, c <- a: an edge that no builder can make, put in by hand."""
    with ag.Graph() as graph:
        b = ag.placeholder("float64", (), name="b")
        c = ag.ops.negative(b, name="c")
        ag.ops.add(b, c, name="a")
    table: Any = graph.__reduce__()[1][0]
    rows = list(table.nodes)
    rows[1] = rows[1]._replace(operands=((2,),))
    return table._replace(nodes=rows)


def test_ag_058_nodes_cannot_be_built_into_a_cycle_and_a_file_with_one_names_it_alone() -> None:
    """https://github.com/dask/dask/pull/9057."""
    with pytest.raises(GraphError) as caught:
        graph_from_table(table_with_a_cycle())
    assert str(caught.value) == "not a graph: a cycle, in which each node needs the next: c -> a -> c"


async def test_ag_059_nodes_that_depend_on_each_other_are_an_error_and_never_a_wait() -> None:
    """https://github.com/ethyca/fides/issues/1439, https://github.com/dask/distributed/issues/4145."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        later: list[ag.Node] = []
        first = ag.op(lambda values: sum(values))(later + [x])
        later.append(first + 1)  # too late: arguments are copied when a node is built

    assert await run(graph, [first, later[0]], {x: 1.0}) == [1.0, 2.0]
    assert all(one.index < node.index for node in graph.nodes for one in node.inputs)
    with pytest.raises(GraphError):
        graph_from_table(table_with_a_cycle())


@pytest.mark.timeout(300)  # where coverage is measured, on busy cores
async def test_ag_060_very_many_nodes_side_by_side() -> None:
    """https://github.com/dask/distributed/issues/3898, https://github.com/dask/distributed/issues/2433."""
    identity = ag.op(where="inline")(lambda value: value)
    with ag.Graph() as graph:
        nodes = [identity.node(i) for i in range(100_000)]
        total = ag.op(lambda values: sum(values))(nodes)
    beats = most_tasks = 0
    over = asyncio.Event()

    async def heart() -> None:
        nonlocal beats, most_tasks
        while not over.is_set():
            beats += 1
            most_tasks = max(most_tasks, len(asyncio.all_tasks()))
            await asyncio.sleep(0.01)

    async with ag.Session(graph) as session, asyncio.TaskGroup() as tasks:
        tasks.create_task(heart())
        assert (await session.run(total)).results == 4999950000
        over.set()
        assert session.statistics().runs_executing == 0
    assert most_tasks < 10
    assert beats > 5


def test_ag_061_long_plain_arguments_are_copied_in_one_pass() -> None:
    """https://github.com/dask/dask/issues/1884."""
    looked_at: list[str] = []

    class Number(int):
        def __getattribute__(self, name: str) -> Any:  # isinstance asks for __class__
            looked_at.append(name)
            return super().__getattribute__(name)

    count = ag.op(len)
    values = [Number(one) for one in range(1000)]
    assert isinstance(values[0], int)
    assert not isinstance(values[0], str)
    assert looked_at == ["__class__"]
    with ag.Graph():
        for _ in range(10):
            count.node(values)
    assert looked_at == ["__class__"]


async def test_ag_062_running_adds_no_nodes_and_a_finalized_graph_takes_none() -> None:
    """https://github.com/tensorflow/tensorflow/issues/7127, https://github.com/tensorflow/tensorflow/issues/9646, https://github.com/lorserker/ben/pull/15."""
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        y = -x + x * 2
        size = len(graph)

    async with ag.Session(graph) as session:
        for _ in range(1000):
            await session.run(y, {x: 1.0})
        assert len(graph) == size
        graph.finalize()
        with pytest.raises(GraphFinalizedError):
            y + 1
        assert (await session.run(y, {x: 1.0})).results == 1.0
        assert (await session.run([y, x], {"placeholder": 2.0})).results == [2.0, 2.0]
    assert issubclass(GraphFinalizedError, RuntimeError)
    assert len(graph) == size


async def test_ag_063_a_graph_may_be_extended_while_sessions_run_it() -> None:
    """https://github.com/tensorflow/tensorflow/issues/9205, https://github.com/tensorflow/tensorflow/issues/4151."""
    release = asyncio.Event()

    async def wait(value: float) -> float:
        await release.wait()
        return value

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        y = x * 2
        slow = ag.op(wait)(y)

    async with ag.Session(graph) as session:
        pending = session.submit(slow, {x: 1})
        assert (await session.run(y, {x: 1})).results == 2
        z = y + 1
        assert (await session.run(z, {x: 1})).results == 3

        def build() -> None:
            node = y
            for _ in range(10_000):
                node = node + 1

        building = asyncio.create_task(asyncio.to_thread(build))
        runs = 0
        while not building.done():
            assert (await session.run(graph.nodes[3], {x: 1})).results == 3
            await asyncio.sleep(0)
            runs += 1
        await building
        last = graph.nodes[-1]
        assert (await session.run([last, z, y], {x: 1})).results == [10_002, 3, 2]
        release.set()
        assert (await pending).results == 2
    assert runs > 0
