"""Gradients of what has to do with variables, of what a run draws or repeats, and of what stops them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from .._graph.node import Node
from ..errors import GradientError
from .tables import GRADIENTS, NOWHERE, Row, by_operand, identity


def _while_loop(node: Node, gradients: Mapping[int, Node], wanted: Sequence[int]) -> NoReturn:
    raise GradientError(
        f"no gradient goes through while_loop yet: {node!r}\n"
        f"  built at: {node.site or 'unknown'}\n"
        "  write out the steps, if their number is known; or make x a constant for it: ag.stop_gradient(x)"
    )


GRADIENTS["assign"] = by_operand(identity)
GRADIENTS["current"] = by_operand(identity)
GRADIENTS["loop_value"] = NOWHERE
GRADIENTS["output"] = by_operand(identity)
GRADIENTS["read"] = by_operand(identity)
GRADIENTS["stop_gradient"] = NOWHERE
GRADIENTS["variable"] = NOWHERE  # its operand is the value that it begins with
GRADIENTS["while_loop"] = Row(_while_loop)
for _name in ("random_bernoulli", "random_normal", "random_permutation", "random_uniform"):
    GRADIENTS[_name] = NOWHERE
