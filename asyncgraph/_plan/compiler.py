"""From fetches and fed nodes to a plan."""

from __future__ import annotations

from collections.abc import Iterable

from .._graph.node import Node
from .cse import eliminate_common_subexpressions
from .fold import fold_constants
from .lower import lower
from .ownership import owners_of_fetches
from .place import Placer, place
from .plan import Plan
from .program import Checkpoint
from .prune import prune
from .segment import cut_into_segments


def compile_plan(fetches: Iterable[Node], feeds: Iterable[Node], placer: Placer, checkpoint: Checkpoint) -> Plan:
    """The plan that computes `fetches` where values for `feeds` are given.

    `checkpoint` is called about once a millisecond, or a few for large graphs; what it raises ends the compilation.

    Raises:
        MissingFeedError: a placeholder is needed that is not among `feeds`.
        DeviceNotFoundError: a node asks for a device that there is not, and may not run elsewhere.
        KernelNotFoundError: a backend has no kernel for a node that was placed on it.
    """
    program = prune(fetches, feeds, checkpoint)
    program = place(program, placer)
    checkpoint()
    program = eliminate_common_subexpressions(program, checkpoint)
    program = fold_constants(program, checkpoint)
    lowered = lower(program, checkpoint)
    segments = cut_into_segments(lowered, checkpoint)
    checkpoint()
    owners = owners_of_fetches(program, lowered)
    checkpoint()
    return Plan(program, lowered, segments, owners)


def no_checkpoint() -> None:
    """The checkpoint of a compilation that nobody waits for in vain."""
