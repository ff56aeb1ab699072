"""Gradients of what runs other nodes.

The gradient of a "cond" is another one with its condition, whose branches give the gradients of what it captures. They
use the nodes of its branches, which belong to both then, and are computed once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NoReturn, cast

from .. import ops
from .._graph.control import branches_of, captures_of, lazy_inputs
from .._graph.node import Node
from .._graph.op import COND
from ..control_flow import build_cond
from ..errors import GradientError
from .backward import backward
from .tables import GRADIENTS, NOWHERE, Row


def _cond(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> list[Node | None]:
    captures = captures_of(node)
    outside = set(captures)
    operands = cast("tuple[Node, ...]", node.operands)
    xs = [one for one in dict.fromkeys([operands[at] for at in wanted]) if one in outside]
    if not xs:
        return [None] * len(wanted)
    reached: set[Node] = set()

    def branch(results: tuple[Node, ...]) -> list[Node]:
        made = backward([results[index] for index in gradients], list(gradients.values()), xs, outside)
        reached.update([x for x, one in zip(xs, made, strict=True) if one is not None])
        return [ops.zeros_like(x) if one is None else one for x, one in zip(xs, made, strict=True)]

    true, false = branches_of(node)
    inside = _inside(node, outside)
    values = build_cond(operands[0], partial(branch, true), partial(branch, false), None, captures, inside)
    found = {x: value for x, value in zip(xs, values, strict=True) if x in reached}
    return [found.get(operands[at]) for at in wanted]


def check_outside(ys: Sequence[Node], nodes: Collection[Node]) -> None:
    """Refuses nodes that belong to branches on the way to `ys`: no gradient outside of these can be told of them.

    Raises:
        GradientError: one does.
    """
    first = min([one.index for one in nodes], default=0)
    seen: set[Node] = set()
    todo = list(ys)
    while todo:
        node = todo.pop()
        if node.index < first or node in seen:
            continue
        seen.add(node)
        todo += node.inputs
        found = _inside(node, set(captures_of(node))).intersection(nodes) if node.op is COND else ()
        for one in found:
            raise GradientError(
                f"{one!r} belongs to a branch of {node!r}, and has no gradient outside of it\n"
                f"  built at: {one.site or 'unknown'}\n"
                "  call gradients, or stop_gradient, in the function that builds the branch"
            )


def _inside(node: Node, outside: set[Node]) -> set[Node]:
    """What belongs to the branches of a "cond"."""
    seen: set[Node] = set()
    todo = list(lazy_inputs(node))
    while todo:
        one = todo.pop()
        if one not in seen and one not in outside:
            seen.add(one)
            todo += (*one.inputs, *lazy_inputs(one))
    return seen


def _while_loop(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> NoReturn:
    raise GradientError(
        f"no gradient goes through while_loop yet: {node!r}\n"
        f"  built at: {node.site or 'unknown'}\n"
        "  write out the steps, if their number is known; or make x a constant for it: ag.stop_gradient(x)"
    )


GRADIENTS["cond"] = Row(_cond)
GRADIENTS["loop_value"] = NOWHERE
GRADIENTS["while_loop"] = Row(_while_loop)
