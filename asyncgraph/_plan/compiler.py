"""From fetches and fed nodes to a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .._graph.control import loop_of
from .._graph.node import Node
from .._graph.op import COND
from .._graph.variable import Variable
from .control import Body, Conditional, Control, Iteration
from .cse import eliminate_common_subexpressions
from .fold import fold_constants
from .lower import lower
from .ownership import owners_of_fetches, with_copies
from .place import NOWHERE, Placer, place
from .plan import Plan
from .program import Bodies, Checkpoint, Placement, Program
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
    return _compiled(program, placer, checkpoint, fed_on, on_host)


def _compiled(
    program: Program, placer: Placer, checkpoint: Checkpoint, fed_on: Mapping[Node, Placement], on_host: bool
) -> Plan:
    controls = {node: _control(node, bodies, placer, checkpoint) for node, bodies in program.bodies.items()}
    program = place(program, placer, fed_on)
    checkpoint()
    program = eliminate_common_subexpressions(program, checkpoint)
    program = fold_constants(program, checkpoint)
    lowered = with_copies(program, lower(program, checkpoint, on_host, controls))
    segments = cut_into_segments(lowered, checkpoint)
    checkpoint()
    fetched, assigned = owners_of_fetches(program, lowered)
    checkpoint()
    return Plan(program, lowered, segments, fetched, assigned)


def _control(node: Node, bodies: Bodies, placer: Placer, checkpoint: Checkpoint) -> Control:
    """The kernel of a node of control flow. Recurses as deep as control flow is nested."""
    made: list[Body] = []
    for program, results in zip(bodies.programs, bodies.results, strict=True):
        plan = _compiled(program, placer, checkpoint, NOWHERE, True)
        place_of = {one: index for index, one in enumerate(program.fetches)}
        made.append(Body(plan, tuple([place_of[one] for one in results])))
    pair = (made[0], made[1])
    if node.op is COND:
        return Conditional(node, pair)
    loop = loop_of(node)
    return Iteration(node, pair, len(loop.values), loop.most)


def no_checkpoint() -> None:
    """The checkpoint of a compilation that nobody waits for in vain."""
