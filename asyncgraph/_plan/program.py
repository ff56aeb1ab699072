"""What the passes map: the nodes to compute, in order, and what became of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, final

from .._graph.node import Node
from ..abc import Backend, Device

Checkpoint = Callable[[], None]
"""Called now and then by passes over long programs; raises when nobody waits for the plan any more."""

CHECK_EVERY: Final = 1024
"""Nodes between two calls of the checkpoint: about a millisecond."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where a node runs: a device, and the backend that has it. One object for each device of a session."""

    backend: Backend
    device: Device

    @property
    def on_host(self) -> bool:
        """Whether its values are the host's own arrays, so that nothing is transferred."""
        return self.backend.capabilities.host_arrays

    def __str__(self) -> str:
        return f"{self.device} ({self.backend.name})"


@final
@dataclass(frozen=True, slots=True)
class Program:
    """The nodes of a run, without values.

    Fields:
        fetches: the nodes whose values are wanted, each once.
        feeds: the nodes whose values are given, each once.
        nodes: what is to be computed, inputs first, and depth first: what was computed last is used
            next, so that few values live at once.
        pruned: how many nodes of the graph are not needed.
        placements: where each of `nodes` runs, but user ops and what has no kernel.
        same: for nodes that equal an earlier one: that one.
        folded: for nodes whose value is known: the value.
    """

    fetches: tuple[Node, ...]
    feeds: tuple[Node, ...]
    nodes: tuple[Node, ...]
    pruned: int = 0
    placements: Mapping[Node, Placement] = field(default_factory=dict[Node, Placement])
    same: Mapping[Node, Node] = field(default_factory=dict[Node, Node])
    folded: Mapping[Node, Any] = field(default_factory=dict[Node, Any])
