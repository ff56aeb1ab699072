"""From fetches and fed nodes to a plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, final

from .._graph.control import DELAYED, FORCED, loop_of
from .._graph.node import Node
from .._graph.op import COND, WHILE_LOOP, Op
from .._graph.variable import Variable
from .bodies import nested_too_deeply
from .control import NO_CONTROLS, Body, Conditional, Control, Delay, Force, Iteration
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
        GraphError: control flow is nested too deeply.
        FetchError: a node of control flow itself is fetched, and not what it gives.
    """
    program = prune(fetches, feeds, checkpoint, uninitialized, stores)
    try:
        return _Compiler(placer, checkpoint).compiled(program, fed_on, on_host, NO_CONTROLS)
    except RecursionError as error:
        raise nested_too_deeply() from error


@final
class _Compiler:
    """Compiles programs, and those inside of them. Recurses as deep as control flow is nested.

    Fields:
        placer, checkpoint: as `compile_plan`'s.
    """

    def __init__(self, placer: Placer, checkpoint: Checkpoint) -> None:
        self._placer: Final = placer
        self._checkpoint: Final = checkpoint

    def compiled(
        self,
        program: Program,
        fed_on: Mapping[Node, Placement],
        on_host: bool,
        outside: Mapping[Node, Control],
    ) -> Plan:
        """The plan of a program; `outside` makes what is delayed outside of it."""
        checkpoint = self._checkpoint
        controls: dict[Node, Control] = {}
        known = dict(outside)
        for node, bodies in program.bodies.items():
            controls[node] = known[node] = _CONTROLS[node.op](node, self._bodies(bodies, known), known)
        program = place(program, self._placer, fed_on)
        checkpoint()
        program = eliminate_common_subexpressions(program, checkpoint)
        program = fold_constants(program, checkpoint)
        lowered = with_copies(program, lower(program, checkpoint, on_host, controls))
        segments = cut_into_segments(lowered, checkpoint)
        checkpoint()
        fetched, assigned = owners_of_fetches(program, lowered)
        checkpoint()
        return Plan(program, lowered, segments, fetched, assigned)

    def _bodies(self, bodies: Bodies, outside: Mapping[Node, Control]) -> list[Body]:
        made: list[Body] = []
        for program, results in zip(bodies.programs, bodies.results, strict=True):
            plan = self.compiled(program, NOWHERE, True, outside)
            place_of = {one: index for index, one in enumerate(program.fetches)}
            made.append(Body(plan, [place_of[one] for one in results]))
        return made


def _conditional(node: Node, bodies: list[Body], known: Mapping[Node, Control]) -> Control:
    true, false = bodies
    return Conditional(node, (true, false))


def _iteration(node: Node, bodies: list[Body], known: Mapping[Node, Control]) -> Control:
    loop = loop_of(node)
    condition, body = bodies
    return Iteration(node, (condition, body), len(loop.values), loop.most)


def _delay(node: Node, bodies: list[Body], known: Mapping[Node, Control]) -> Control:
    (body,) = bodies
    return Delay(node, (body,))


def _force(node: Node, bodies: list[Body], known: Mapping[Node, Control]) -> Control:
    return Force(node, (known[node.inputs[0]].bodies[0],))


_CONTROLS: Final[Mapping[Op, Callable[[Node, list[Body], Mapping[Node, Control]], Control]]] = {
    COND: _conditional,
    WHILE_LOOP: _iteration,
    DELAYED: _delay,
    FORCED: _force,
}
"""Makes the kernel of a node of control flow, from what it runs and the kernels that are known where it stands."""


def no_checkpoint() -> None:
    """The checkpoint of a compilation that nobody waits for in vain."""
