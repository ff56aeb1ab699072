"""Plans of graphs, compiled on the NumPy backend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import asyncgraph as ag
from asyncgraph._plan.cse import eliminate_common_subexpressions
from asyncgraph._plan.fold import fold_constants
from asyncgraph._plan.place import place
from asyncgraph._plan.program import Placement, Program
from asyncgraph._plan.prune import prune
from asyncgraph_numpy import NumpyBackend

_BACKEND = NumpyBackend()
HOST = Placement(_BACKEND, _BACKEND.devices()[0])


def never() -> None:
    """A checkpoint that lets everything pass."""


def pruned(fetches: Iterable[ag.Node], feeds: Iterable[ag.Node] = ()) -> Program:
    return prune(fetches, feeds, never)


def merged(fetches: Iterable[ag.Node], feeds: Iterable[ag.Node] = ()) -> Program:
    return eliminate_common_subexpressions(place(pruned(fetches, feeds), lambda requested: HOST), never)


def folded(fetches: Iterable[ag.Node], feeds: Iterable[ag.Node] = ()) -> dict[str, Any]:
    """What was folded, by name."""
    return {node.name: value for node, value in fold_constants(merged(fetches, feeds), never).folded.items()}


def names(nodes: Iterable[ag.Node]) -> list[str]:
    return [node.name for node in nodes]
