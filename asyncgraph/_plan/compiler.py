"""From fetches and fed nodes to a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .._graph.node import Node
from .._graph.variable import Variable
from .cse import eliminate_common_subexpressions
from .fold import fold_constants
from .lower import lower
from .ownership import owners_of_fetches
from .place import NOWHERE, Placer, place
from .plan import Plan
from .program import Checkpoint, Placement
from .prune import prune
from .segment import cut_into_segments


def compile_plan(
    fetches: Iterable[Node],
    feeds: Iterable[Node],
    placer: Placer,
    checkpoint: Checkpoint,
    fed_on: Mapping[Node, Placement] = NOWHERE,
    on_host: bool = True,
    uninitialized: Collection[Variable] = (),
    stores: bool = False,
) -> Plan:
    """The plan that computes `fetches` where values for `feeds` are given.

    It blocks while asynchronous devices are given their constants.

    Args:
        fetches: what is computed.
        feeds: what is given.
        placer: says where nodes run.
        checkpoint: called about once a millisecond, or a few for large graphs; what it raises ends the compilation.
        fed_on: for feeds that are arrays on a device: that.
        on_host: whether the fetches are wanted on the host; otherwise they stay where they are computed.
        uninitialized: variables without a value: those that are needed are computed and assigned.
        stores: whether the feeds are variables, which are assigned what is fed; nothing is fetched then.

    Raises:
        MissingFeedError: a placeholder is needed that is not among `feeds`.
        DeviceNotFoundError: a node asks for a device that there is not, and may not run elsewhere.
        KernelNotFoundError: a backend has no kernel for a node that was placed on it.
    """
    program = prune(fetches, feeds, checkpoint, uninitialized, stores)
    program = place(program, placer, fed_on)
    checkpoint()
    program = eliminate_common_subexpressions(program, checkpoint)
    program = fold_constants(program, checkpoint)
    lowered = lower(program, checkpoint, on_host)
    segments = cut_into_segments(lowered, checkpoint)
    checkpoint()
    fetched, assigned = owners_of_fetches(program, lowered)
    checkpoint()
    return Plan(program, lowered, segments, fetched, assigned)


def no_checkpoint() -> None:
    """The checkpoint of a compilation that nobody waits for in vain."""
