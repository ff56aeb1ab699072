"""Common-subexpression elimination: equal nodes are computed once.

Two nodes are equal if they apply the same pure op, with the same parameters, to the same operands, on
the same device, after the same control dependencies. Either may then stand for the other, since a pure
op's result depends on nothing else.

One sweep is enough. Nodes come in topological order, so a node's inputs have been replaced when it is
itself looked up, and a pair of equal chains collapses from its roots to its tips. Cost: O(nodes + edges).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from .._graph.node import Node
from .._graph.op import PLACEHOLDER
from .keys import exact_key, params_key
from .program import CHECK_EVERY, Checkpoint, Program


def eliminate_common_subexpressions(program: Program, checkpoint: Checkpoint) -> Program:
    """The program with one node kept of each set of equal nodes, the earliest in its order.

    Fetches stay as they are: `same` says which node answers for one that went.
    """
    kept: dict[Hashable, Node] = {}
    same = dict(program.same)
    nodes: list[Node] = []
    for count, node in enumerate(program.nodes, 1):
        if not count % CHECK_EVERY:
            checkpoint()
        if not node.op.pure or node.op is PLACEHOLDER:
            nodes.append(node)
            continue
        stands = kept.setdefault(_key(node, same, program), node)
        if stands is node:
            nodes.append(node)
        else:
            same[node] = stands
    for node, stands in program.same.items():
        same[node] = same.get(stands, stands)
    return replace(program, nodes=tuple(nodes), same=same)


def _key(node: Node, same: dict[Node, Node], program: Program) -> Hashable:
    # The name is left out on purpose: `a = x + y; b = x + y` is one computation. Nodes stand in keys
    # as their index: comparing two nodes would build one.
    operands = tuple([same.get(one, one).index if isinstance(one, Node) else exact_key(one) for one in node.operands])
    after = frozenset([same.get(one, one).index for one in node.after]) if node.after else None
    return node.op, operands, params_key(node.params), after, program.placements.get(node)
