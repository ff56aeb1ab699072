"""Gradients of what has to do with variables, of what a run draws, and of what stops them."""

from __future__ import annotations

from .tables import GRADIENTS, NOWHERE, by_operand, identity

GRADIENTS["assign"] = by_operand(identity)
GRADIENTS["current"] = by_operand(identity)
GRADIENTS["output"] = by_operand(identity)
GRADIENTS["read"] = by_operand(identity)
GRADIENTS["stop_gradient"] = NOWHERE
GRADIENTS["variable"] = NOWHERE  # its operand is the value that it begins with
for _name in ("random_bernoulli", "random_normal", "random_permutation", "random_uniform"):
    GRADIENTS[_name] = NOWHERE
