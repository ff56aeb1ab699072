"""The table of gradients, and what a row of it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, final

from .._graph.node import Node
from ..errors import GradientError

Rule = Callable[[Node, Node, int], Node | None]
"""Builds the gradient of one operand: given that of a node's value, the node, and the operand's position.

Its shape is that of the operand, in every run, as the row's extent says; its dtype need not be. `None` where the
operand's dtype leaves nothing to differentiate.
"""

Build = Callable[[Node, Mapping[int, Node], Sequence[int]], Sequence[Node | None]]
"""Builds the gradients of several operands: given the node, those of its values by their index, and the positions.

A value without a gradient does not matter to what is differentiated. There is always one that has one.
"""


class Extent(Enum):
    """Whether gradients have the shapes of what they are taken by, or are only to be broadcast to them.

    The gradient of a sum is one number for all that was summed: written out, it would be copied for nothing, since
    what comes next multiplies it by something of that shape, most of the time.
    """

    FULL = "it is given what has the value's shape, and gives what has the operands'"
    SAME = "if the operands have the value's shape, it may be given what is broadcast to it, and gives the like"
    SPREAD = "it may be given what is broadcast to the value's shape, of the value's rank or of 0, and gives the like"
    FILLED = "it may be given the same, for each of its values, and gives what has the operands' shapes"


@final
@dataclass(frozen=True, slots=True)
class Row:
    """How gradients go through an op.

    Fields:
        build: builds the gradients of operands.
        reaches: the positions of the operands that it builds gradients of; `None` for all. The others make no
            difference to the value when they change by little, as the condition of `where`.
        extent: the shapes of what it takes and gives.
    """

    build: Build
    reaches: Collection[int] | None = None
    extent: Extent = Extent.FULL


GRADIENTS: Final[dict[str, Row]] = {}
"""A row for every op of the tables."""

USER_GRADIENTS: Final[dict[Callable[..., Any], Row]] = {}
"""Rows of user ops, by the function they call: names are not unique, and unpickled graphs have ops of their own."""


def row_of(node: Node) -> Row | None:
    """The row of what `node` applies, or `None` if it has none."""
    call = node.op.call
    return GRADIENTS.get(node.op.name) if call is None else USER_GRADIENTS.get(call.function)


def by_operand(*rules: Rule | None, extent: Extent = Extent.FULL) -> Row:
    """The row of an op with one value, from a rule for each operand; `None` for those that it does not reach."""
    return Row(partial(_each, rules), frozenset([at for at, rule in enumerate(rules) if rule is not None]), extent)


def for_all(rule: Rule) -> Row:
    """The row of an op with one value and any number of operands, which have one rule."""
    return Row(partial(_all, rule))


def _each(
    rules: Sequence[Rule | None], node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]
) -> list[Node | None]:
    made: list[Node | None] = []
    for position in wanted:
        rule = rules[position]
        assert rule is not None
        made.append(rule(gradients[0], node, position))
    return made


def _all(rule: Rule, node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> list[Node | None]:
    return [rule(gradients[0], node, position) for position in wanted]


NOWHERE: Final = by_operand()
"""The row of an op whose value is constant, but for jumps, or that is no function of real numbers."""


def identity(gradient: Node, node: Node, position: int) -> Node:
    """The rule of an operand that the value is equal to, as far as it is differentiated."""
    return gradient


def no_row(node: Node) -> GradientError:
    """The error to raise where a gradient has come to a node without a row."""
    if node.op.call is None:
        what = f"the op {node.op.name!r} has no row in the table GRADIENTS"
        how = "make x a constant for it: ag.stop_gradient(x)"
    else:
        what = f"the user op {node.op.name!r} has no gradient"
        how = f"register one: @ag.register_gradient({node.op.name}); or make x a constant for it: ag.stop_gradient(x)"
    return GradientError(f"no gradient goes through {node!r}: {what}\n  built at: {node.site or 'unknown'}\n  {how}")
