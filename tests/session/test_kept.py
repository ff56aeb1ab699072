"""What an exception of a run tells, and what it keeps."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

from .gates import one_node


def kernel_failure(x: ag.Node) -> ag.Node:
    return ag.ops.concat([x, ag.constant(np.zeros((2, 2)))], axis=0)


def user_failure(x: ag.Node) -> ag.Node:
    def fail(value: Any) -> None:
        del value
        raise ValueError("of a user")

    return ag.op(fail)(x)


def spec_failure(x: ag.Node) -> ag.Node:
    return ag.op(spec="int8[1]")(lambda value: value + 1)(x)


FAILURES: list[Callable[[ag.Node], ag.Node]] = [kernel_failure, user_failure, spec_failure]


class Fed(np.ndarray):
    """An array that can be watched."""


def living() -> int:
    gc.collect()
    return sum(isinstance(one, Fed) for one in gc.get_objects())


@pytest.mark.parametrize("runs", [1, 3, 60], ids=["new", "interpreted", "emitted"])
@pytest.mark.parametrize("size", [3, 300_000], ids=["small", "large"])
@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("how", ["run", "prepared", "submit", "blocking"])
async def test_a_kept_exception_holds_no_arrays(fail: Any, how: str, size: int, runs: int) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder(None, name="x")
        node = fail(x)
    kept: list[BaseException] = []

    def feeds() -> dict[Any, Any]:
        return {x: np.ones((size, 3)).view(Fed)}

    def block() -> None:
        with ag.BlockingSession(graph) as session:
            for _ in range(runs):
                try:
                    session.run(node, feeds())
                except Exception as error:
                    kept.append(error)

    if how == "blocking":
        await asyncio.to_thread(block)
    else:
        async with ag.Session(graph) as session:
            prepared = session.prepare(node, [x])
            ways: dict[str, Callable[[Any], Any]] = {
                "run": lambda value: session.run(node, {x: value}),
                "prepared": lambda value: prepared(value),
                "submit": lambda value: session.submit(node, {x: value}),
            }
            for _ in range(runs):
                try:
                    await ways[how](feeds()[x])
                except Exception as error:
                    kept.append(error)

    assert len(kept) == runs
    assert living() == 0


async def test_an_exception_that_is_raised_again_has_one_note() -> None:
    error = ValueError("the same object")
    error.add_note("a note of the user's")

    def fail() -> None:
        raise error

    with ag.Graph() as graph:
        nodes = [ag.op(fail).node(name="a"), ag.op(fail).node(name="b")]
    async with ag.Session(graph) as session:
        for node in (*nodes, *nodes):
            with pytest.raises(ValueError, match="the same object"):
                await session.run(node)

    assert len(error.__notes__) == 2
    assert error.__notes__[0] == "a note of the user's"
    assert error.__notes__[1].startswith("asyncgraph: node 'b' (fail) failed\n  inputs: none\n  device: host\n")


class Frozen(Exception):
    """A class that forbids what notes and tracebacks are set by."""

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(f"{name} cannot be set")


@pytest.mark.parametrize("where", ["thread", "inline"])
async def test_an_exception_that_takes_no_note_is_raised_all_the_same(where: Any) -> None:
    def fail() -> None:
        raise Frozen("as it is")

    graph, node = one_node(fail, where=where)
    async with asyncio.timeout(5), ag.Session(graph) as session:
        with pytest.raises(Frozen, match="as it is"):
            await session.run(node)
