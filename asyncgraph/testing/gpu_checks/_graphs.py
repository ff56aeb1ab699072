"""The graphs that sessions run here, and what they give."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from ..._graph.building import placeholder
from ..._graph.graph import Graph
from ..._graph.node import Node

HostArray = np.ndarray[Any, Any]
STEPS: Final = (("multiply", 0.5), ("add", 1.5))
"""What a chain does to its values, by turns: the names of functions, and their second operands."""


def chain(length: int) -> tuple[Graph, Node, Node]:
    """A graph of that many small elementwise nodes, one after the other; its placeholder and its end."""
    with Graph() as graph:
        x = y = placeholder("float32", ("n",))
        for number in range(length):
            y = y + 1.5 if number % 2 else y * 0.5
    return graph, x, y


def by_hand(namespace: Any, x: Any, length: int) -> Any:
    """The same, by calls of NumPy's or CuPy's functions."""
    for number in range(length):
        name, operand = STEPS[number % 2]
        x = getattr(namespace, name)(x, operand)
    return x


def numbers(count: int, first: float = 0) -> HostArray:
    """What is fed: float32 that differ."""
    return (first + np.arange(count, dtype=np.float32) % 1000).astype(np.float32)


def is_right(result: object, fed: HostArray, length: int) -> bool:
    """Whether a chain gave what NumPy gives, but for rounding."""
    if not isinstance(result, np.ndarray):
        return False
    array = cast("HostArray", result)
    return array.dtype == fed.dtype and bool(np.allclose(array, by_hand(np, fed, length), rtol=1e-6))
