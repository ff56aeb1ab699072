"""What an iteration of a loop costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import asyncgraph as ag

from .measure import compare

COUNT = 2000
Y = np.linspace(0.0, 1.0, 8)


async def rows() -> list[list[str]]:
    table = [["body", "over the body's own", "an iteration", "NumPy", "ratio", "quartiles"]]
    for name, build, reference in (
        ("i + 1", _counter, _counter_by_hand),
        ("i + 1, y / 2 + x", _sums, _sums_by_hand),
        ("i + 1, cond(i > n / 2, y + 1, y - 1)", _choices, _choices_by_hand),
    ):
        with ag.Graph() as graph:
            x = ag.placeholder("float64", (8,), name="x")
            args = ag.RunArgs(build(x), {x: Y})
        async with ag.Session(graph) as session:
            found = await compare(_run(session, args), reference)
        over_s = (found.ours_s - found.theirs_s) / COUNT
        table.append(
            [
                name,
                f"{over_s * 1e6:.2f} µs",
                f"{found.ours_s / COUNT * 1e6:.2f} µs",
                f"{found.theirs_s / COUNT * 1e6:.2f} µs",
                f"{found.ratio:.2f}",
                f"{found.low:.2f}..{found.high:.2f}",
            ]
        )
    return table


def _run(session: ag.Session, args: ag.RunArgs[Any]) -> Callable[[], Any]:
    return lambda: session.run(args)


def _counter(x: ag.Node) -> Any:
    return ag.while_loop(lambda i: i < COUNT, lambda i: i + 1, 0)


def _counter_by_hand() -> Any:
    i: Any = np.asarray(0)
    while np.less(i, COUNT):
        i = np.add(i, 1)
    return i


def _sums(x: ag.Node) -> Any:
    return ag.while_loop(lambda i, y: i < COUNT, lambda i, y: (i + 1, y * 0.5 + x), (0, x))


def _sums_by_hand() -> Any:
    i: Any = np.asarray(0)
    y = Y
    while np.less(i, COUNT):
        i = np.add(i, 1)
        y = np.add(np.multiply(y, 0.5), Y)
    return i, y


def _choices(x: ag.Node) -> Any:
    def body(i: ag.Node, y: ag.Node) -> Any:
        return i + 1, ag.cond(i > COUNT // 2, lambda: y + 1, lambda: y - 1)

    return ag.while_loop(lambda i, y: i < COUNT, body, (0, 0.0))


def _choices_by_hand() -> Any:
    i: Any = np.asarray(0)
    y: Any = np.asarray(0.0)
    while np.less(i, COUNT):
        y = np.add(y, 1) if np.greater(i, COUNT // 2) else np.subtract(y, 1)
        i = np.add(i, 1)
    return i, y
