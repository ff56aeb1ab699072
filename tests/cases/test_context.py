"""Public failures of context: variables that do not arrive, settings that get lost, changes that leak."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import GraphError

request_id: ContextVar[str] = ContextVar("request_id", default="none")


async def get_async() -> str:
    await asyncio.sleep(0)
    return request_id.get()


def change() -> str:
    request_id.set("changed")
    return request_id.get()


async def change_async() -> str:
    request_id.set("changed")
    await asyncio.sleep(0)
    return request_id.get()


async def test_ag_111_every_node_sees_the_context_of_the_caller_of_run() -> None:
    """`run_in_executor` does not copy the context: https://github.com/python/cpython/issues/78195,
    https://github.com/infiniflow/ragflow/pull/16247, https://github.com/fastapi/fastapi/issues/2776.
    """
    with ag.Graph() as graph:
        nodes = [
            ag.op(request_id.get).node(),
            ag.op(where="inline")(lambda: request_id.get()).node(),
            ag.op(get_async).node(),
            ag.op(lambda: get_async()).node(),
        ]

    async def ask(session: ag.Session, own: str) -> Any:
        request_id.set(own)
        return (await session.run(nodes)).results

    request_id.set("of the session")
    async with ag.Session(graph) as session:
        answers = await asyncio.gather(*[asyncio.create_task(ask(session, f"r{i}")) for i in range(20)])

    assert answers == [[f"r{i}"] * 4 for i in range(20)]


@pytest.mark.parametrize("size", [1, 500_000])
async def test_ag_112_errstate_reaches_kernels_and_user_ops_wherever_they_run(size: int) -> None:
    """Users wrap the call in errstate(raise) and still get infinities: https://github.com/numpy/numpy/issues/14900,
    https://github.com/python/cpython/issues/78195. Small runs are done inline, large ones on a worker.
    """
    with ag.Graph() as graph:
        x, y = ag.placeholder("float64", ("n",)), ag.placeholder("float64", ("n",))
        kernel = x / y
        user = ag.op(lambda a, b: a / b)(x, y)
    feeds = {x: np.ones(size), y: np.zeros(size)}
    async with ag.Session(graph) as session:
        for fetch in (kernel, user, [kernel, user]):
            for _ in range(3):  # also when the plan is known
                with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
                    await session.run(fetch, feeds)
        for fetch in (kernel, user):
            with pytest.warns(RuntimeWarning, match="divide by zero"):
                values = await session.run(fetch, feeds)
            assert np.isinf(values.results).all()


async def test_ag_113_what_a_node_changes_in_the_context_stays_in_it() -> None:
    """Some bridges copy changes back, some drop them: https://github.com/Kludex/starlette/pull/1258,
    https://github.com/agronholm/anyio/pull/390. Each call has a copy of its own, sync or async (`asyncgraph.op`).
    """
    with ag.Graph() as graph:
        changes = [
            ag.op(change).node(),
            ag.op(where="inline")(change).node(),
            ag.op(change_async).node(),
            ag.op(lambda: change_async()).node(),
        ]
        reads: list[ag.Node] = []
        with ag.control_dependencies(changes):
            reads = [ag.op(request_id.get).node(), ag.op(get_async).node()]
    token = request_id.set("r1")
    async with ag.Session(graph) as session:
        values = await session.run([changes, reads])

    assert values.results == [["changed"] * 4, ["r1", "r1"]]
    assert request_id.get() == "r1"
    request_id.reset(token)


async def test_ag_115_nodes_know_their_graph_in_any_thread() -> None:
    """A model built in one thread and used in another: https://github.com/tensorflow/tensorflow/issues/17631,
    https://github.com/keras-team/keras/issues/9424, https://github.com/tensorflow/tensorflow/issues/18853.
    """
    built: list[ag.Node] = []
    errors: list[BaseException] = []

    def build_from_nothing() -> None:
        try:
            ag.constant(1.0)
        except GraphError as error:
            errors.append(error)

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        built.append(await asyncio.to_thread(lambda: x + 1))
        built.append(await asyncio.to_thread(lambda: ag.constant(1.0)))
        for target in (lambda: built.append(x + 1), build_from_nothing):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join(10)

    assert [node.graph is graph for node in built] == [True, True, True]
    assert "there is no current graph" in str(errors[0])
