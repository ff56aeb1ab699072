"""Graphs of additions of two float64[8], each with the same maths written by hand in NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import asyncgraph as ag

Sum = tuple[str, str, str]
"""`name = a + b`; `x` and `y` are fed, `c0`, `c1`, … are constants."""

X = np.arange(8, dtype=np.float64)
Y = np.full(8, 0.5)
CONSTANTS = {f"c{i}": np.full(8, i * 1e-3 + 1e-3) for i in range(1000)}


def chain(length: int = 1000) -> list[Sum]:
    return [(f"n{i}", "x" if i == 0 else f"n{i - 1}", "y") for i in range(length)]


def wide(width: int = 1000) -> list[Sum]:
    """`width` sums, added up in a binary tree."""
    sums = [(f"n{i}", "x", f"c{i}") for i in range(width)]
    return sums + _tree([name for name, _, _ in sums])


def layered(layers: int = 50, width: int = 20, seed: int = 0) -> list[Sum]:
    """Layers of sums, each of two of the layer before, every one of which is used; added up in a tree."""
    choice = random.Random(seed)
    sums = [(f"n0_{j}", "x", f"c{j}") for j in range(width)]
    for layer in range(1, layers):
        order = choice.sample(range(width), width)
        for j in range(width):
            other = choice.choice([k for k in range(width) if k != order[j]])
            sums.append((f"n{layer}_{j}", f"n{layer - 1}_{order[j]}", f"n{layer - 1}_{other}"))
    return sums + _tree([f"n{layers - 1}_{j}" for j in range(width)])


def _tree(names: list[str]) -> list[Sum]:
    sums: list[Sum] = []
    while len(names) > 1:
        level = [(f"t{len(sums) + i // 2}", names[i], names[i + 1]) for i in range(0, len(names) - 1, 2)]
        sums += level
        names = [name for name, _, _ in level] + (names[-1:] if len(names) % 2 else [])
    return sums


def as_graph(sums: list[Sum]) -> tuple[ag.Graph, ag.Node, dict[ag.Node, Any]]:
    """The graph, its last node, and the feeds."""
    with ag.Graph() as graph:
        x, y = ag.placeholder("float64", (8,), name="x"), ag.placeholder("float64", (8,), name="y")
        used = {name for _, a, b in sums for name in (a, b)}
        nodes = {"x": x, "y": y} | {name: ag.constant(value) for name, value in CONSTANTS.items() if name in used}
        for name, a, b in sums:
            nodes[name] = ag.ops.add(nodes[a], nodes[b])
    feeds = {node: value for node, value in ((x, X), (y, Y)) if node.name in used}
    return graph, nodes[sums[-1][0]], feeds


def as_function(sums: list[Sum]) -> Callable[[Any, Any], Any]:
    """The same as a straight-line function, one line a sum."""
    lines = "\n".join(f"    {name} = add({a}, {b})" for name, a, b in sums)
    names: dict[str, Any] = {"add": np.add, **CONSTANTS}
    exec(f"def function(x, y):\n{lines}\n    return {sums[-1][0]}", names)
    return names["function"]
