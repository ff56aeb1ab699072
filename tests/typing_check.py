"""What type checkers know of results: checked by pyright, and run by nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_type

import asyncgraph as ag
from asyncgraph.abc import Array
from asyncgraph.ops.custom import OpFunction


class Losses(NamedTuple):
    loss: Any
    accuracy: Any


@dataclass(frozen=True)
class Parts:
    head: Any
    tail: Any


async def results_have_the_types_of_the_fetches(session: ag.Session, x: ag.Node, y: ag.Node) -> None:
    assert_type(await session.run(ag.RunArgs(x)), ag.RunValues[Array])
    assert_type(await session.run(ag.RunArgs("x", {x: 1})), ag.RunValues[Array])
    assert_type((await session.run(ag.RunArgs([x, y]))).results, list[Array])
    assert_type((await session.run(ag.RunArgs([x, "y", [y]]))).results, list[Any])
    assert_type((await session.run(ag.RunArgs((x, y)))).results, tuple[Array, Array])
    assert_type((await session.run(ag.RunArgs((x, y, x)))).results, tuple[Any, ...])
    assert_type((await session.run(ag.RunArgs({"a": x, "b": y}))).results, dict[str, Array])
    assert_type((await session.run(ag.RunArgs({"a": x, "b": [y]}))).results, dict[str, Any])
    assert_type((await session.run(ag.RunArgs({x: x, y: y}))).results, dict[ag.Node, Array])
    assert_type((await session.run(ag.RunArgs(Losses(x, y)))).results, Losses)
    assert_type((await session.run(ag.RunArgs(Parts(x, y)))).results, Parts)
    assert_type(await session.submit(ag.RunArgs(Losses(x, y))), ag.RunValues[Losses])
    assert_type(await session.run([x, y], {"x": 1}), ag.RunValues[Any])
    async for values in session.map([ag.RunArgs([x])], concurrency=2):
        assert_type(values.results, list[Array])


def threads_get_the_same_types(session: ag.BlockingSession, x: ag.Node) -> None:
    assert_type(session.run(ag.RunArgs(Losses(x, x))).results, Losses)
    assert_type(session.submit(ag.RunArgs([x])).result().results, list[Array])


def feeds_are_keyed_by_node_or_name(x: ag.Node) -> None:
    ag.RunArgs(x, {x: 1.0, "y": [2.0]})
    ag.RunArgs(x, {"y": [2.0]})
    ag.RunArgs(x, {5: 1.0})  # pyright: ignore[reportCallIssue, reportArgumentType]  # an int is no key


def a_function_becomes_an_op_with_options_and_without(function: Callable[[int], int]) -> None:
    assert_type(ag.op(function), OpFunction)
    assert_type(ag.op(function, pure=True, spec="int64[]"), OpFunction)
    assert_type(ag.op(pure=True)(function), OpFunction)


def what_branches_and_loops_give_are_nodes(p: ag.Node, x: ag.Node) -> None:
    assert_type(ag.cond(p, lambda: x * 2, lambda: 1.0), ag.Node)
    assert_type(ag.cond(p, lambda: (x, 1), lambda: (0.5, x)), tuple[ag.Node, ag.Node])
    assert_type(ag.cond(p, lambda: {"a": x}, lambda: {"a": 1}), Any)
    assert_type(ag.while_loop(lambda a: a < 3, lambda a: a + 1, 0), ag.Node)
    assert_type(ag.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a), (0, x)), tuple[ag.Node, ag.Node])
    assert_type(ag.while_loop(lambda i, *a: i < 3, lambda i, *a: (i + 1, *a), [0, x, x]), Any)
