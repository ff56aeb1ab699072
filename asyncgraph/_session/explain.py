"""What a run would do, and why, as text."""

from __future__ import annotations

from math import inf
from typing import Final, final

from .._graph.graph import Graph
from .._graph.node import Node
from .._plan.lower import Kind
from .._plan.plan import Plan
from .config import SessionConfig


@final
class Explanation:
    """What a run does, and why; prints.

    Fields:
        plan: what is run.
        needed_by: for each node that is computed, a fetch that needs it.
        pruned: nodes of the graph that are not needed.
        devices: for each node that a backend computes, the name of the device it runs on.
        transfers: values that are moved between devices, with where to.
    """

    def __init__(self, plan: Plan, graph: Graph, config: SessionConfig) -> None:
        self.plan: Final = plan
        self._config: Final = config
        self.needed_by: Final[dict[Node, Node]] = _reasons(plan)
        program = plan.program
        used = {*program.folded, *program.homes}
        for level in program.levels():
            used.update((*level.nodes, *level.feeds, *level.same))
        self.pruned: Final[tuple[Node, ...]] = tuple([node for node in graph.nodes if node not in used])
        self.devices: Final[dict[Node, str]] = {
            node: str(where.device) for node, where in plan.program.placements.items()
        }
        self.transfers: Final[tuple[tuple[Node, str], ...]] = tuple(
            [(one.node, one.moves_to) for segment in plan.segments for one in segment.instructions if one.moves_to]
        )

    def __repr__(self) -> str:
        return str(self)  # What a prompt shows of it is what there is to see.

    def __str__(self) -> str:
        program = self.plan.program
        lines = [str(self.plan), "", "why:"]
        for segment in self.plan.segments:
            lines.append(f"  segment {segment.index}: {self._how(segment.index)}")
        lines += [
            f"  {node.name}: needed by {fetch.name}" for node, fetch in self.needed_by.items() if node is not fetch
        ]
        lines += [f"  {node.name}: the same as {other.name}" for node, other in program.same.items()]
        lines += [f"  {node.name}: known when the plan is made" for node in program.folded]
        lines += [
            f"  {node.name}: asked for {node.device}, but runs on {where}"
            for node, where in self.devices.items()
            if node.device not in (None, where)
        ]
        lines += [f"  {node.name}: moved to {where}" for node, where in self.transfers]
        if self.pruned:
            lines.append(f"  not needed: {', '.join([node.name for node in self.pruned[:20]])}")
            if len(self.pruned) > 20:
                lines[-1] += f" and {len(self.pruned) - 20} more"
        return "\n".join(lines)

    def _how(self, index: int) -> str:
        segment = self.plan.segments[index]
        if segment.kind is not Kind.KERNEL:
            return f"{segment.instructions[0].node.name!r} is {segment.kind.value}"
        if segment.device is not None:
            return f"submitted to {segment.device.device}, whose backend is asynchronous"
        work, budget = segment.work, self._config.inline_budget_s
        if work.fixed_s == inf:
            return "on a worker: it has a loop"
        if not work.per_element_s:
            where = "on the loop" if work.fixed_s <= budget else "on a worker"
            return f"{where}: about {work.fixed_s * 1e6:.3g} µs of work"
        most = work.most_elements(budget)
        if most <= 0:
            return "on a worker, whatever is fed"
        return f"on the loop while the largest fed array has at most {most:,.0f} elements, else on a worker"


def _reasons(plan: Plan) -> dict[Node, Node]:
    same = plan.program.same
    reasons: dict[Node, Node] = {}
    computed = set(plan.program.nodes)
    for fetch in plan.program.fetches:
        reasons.setdefault(same.get(fetch, fetch), fetch)
    for node in reversed(plan.program.nodes):
        reason = reasons[node]
        taken = plan.program.bodies[node].takes if node in plan.program.bodies else node.inputs
        for one in (*taken, *node.after):
            one = same.get(one, one)
            if one in computed:
                reasons.setdefault(one, reason)
    return reasons
