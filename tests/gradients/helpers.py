"""Values of gradients, without a session in sight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asyncgraph as ag


def values(nodes: Any, feeds: Mapping[ag.Node, Any] | None = None) -> Any:
    """What a run of a session of its own gives for a node, or for nodes, of one graph."""
    first = nodes if isinstance(nodes, ag.Node) else next(one for one in nodes if one is not None)
    with ag.BlockingSession(first.graph) as session:
        return session.run(nodes, feeds).results


def gradient(y: ag.Node, x: ag.Node, feeds: Mapping[ag.Node, Any]) -> Any:
    """The value of the gradient of one by the other."""
    (made,) = ag.gradients(y, x)
    assert made is not None
    return values(made, feeds)
