"""Gradients of elementwise ops.

Most rows are derivatives. What flows back is the gradient times the derivative's conjugate, so that of a real value of
complex z = a + bi the gradient is d/da + i d/db: the direction in which the value grows fastest, as in TensorFlow.

Where a function has no derivative, the gradient is what lies between those of its two sides, where there is such a
thing: 0 for `abs` and `hypot` at 0, and half to each for `maximum`, `minimum` and `clip` at a tie. Where it is infinite
it is infinite, as for `sqrt` at 0. A NaN is neither of two that are compared, and gets none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log
from typing import Final

from .. import ops
from .._graph.node import Node, Scalar
from ..ops._build import build
from .fitting import Operand, conjugate, summed
from .tables import GRADIENTS, NOWHERE, Extent, Row, Rule, by_operand, identity


def _is_real(x: Node) -> bool:
    return x.dtype is not None and x.dtype.kind != "c"


def _times(derivative: Callable[..., Operand]) -> Rule:
    """The rule of an operand by which the value, given with all operands, has this derivative."""

    def rule(gradient: Node, node: Node, position: int) -> Node:
        return summed(gradient * conjugate(derivative(node, *node.operands)), node, position)

    return rule


def _over(reciprocal: Callable[..., Operand]) -> Rule:
    """As `_times`, of the derivative's reciprocal."""

    def rule(gradient: Node, node: Node, position: int) -> Node:
        return summed(gradient / conjugate(reciprocal(node, *node.operands)), node, position)

    return rule


def _passed(gradient: Node, node: Node, position: int) -> Node:
    """The rule of an operand that is added to something."""
    return summed(gradient, node, position)


# -- of one operand ----------------------------------------------------------------------------------

_DERIVATIVES: Final[dict[str, Callable[[Node, Node], Operand]]] = {
    "cos": lambda y, x: -ops.sin(x),
    "cosh": lambda y, x: ops.sinh(x),
    "exp": lambda y, x: y,
    "expm1": lambda y, x: ops.exp(x),
    "reciprocal": lambda y, x: -ops.square(y),
    "sin": lambda y, x: ops.cos(x),
    "sinh": lambda y, x: ops.cosh(x),
    "square": lambda y, x: 2 * x,
    "tan": lambda y, x: 1 + ops.square(y),
    "tanh": lambda y, x: 1 - ops.square(y),
}

_RECIPROCALS: Final[dict[str, Callable[[Node, Node], Node]]] = {
    # (1 - x) (1 + x) keeps its digits near 1, where 1 - x² has lost them.
    "acos": lambda y, x: -ops.sqrt((1 - x) * (1 + x)),
    "acosh": lambda y, x: ops.sqrt(x - 1) * ops.sqrt(x + 1),
    "asin": lambda y, x: ops.sqrt((1 - x) * (1 + x)),
    "asinh": lambda y, x: ops.sqrt(1 + ops.square(x)),
    "atan": lambda y, x: 1 + ops.square(x),
    "atanh": lambda y, x: (1 - x) * (1 + x),
    "log": lambda y, x: x,
    "log10": lambda y, x: x * log(10),
    "log1p": lambda y, x: 1 + x,
    "log2": lambda y, x: x * log(2),
    "sqrt": lambda y, x: 2 * y,
}


def _sign(gradient: Node, node: Node, position: int) -> Node | None:
    (z,) = node.inputs
    if _is_real(z):
        return None
    return (gradient - node * ops.real(ops.conj(node) * gradient)) / ops.abs(z)


def _imag(gradient: Node, node: Node, position: int) -> Node | None:
    return None if _is_real(node.inputs[0]) else gradient * 1j


def _abs(gradient: Node, node: Node, position: int) -> Node:
    return gradient * ops.sign(node.inputs[0])


def _conj(gradient: Node, node: Node, position: int) -> Node:
    return ops.conj(gradient)


def _negative(gradient: Node, node: Node, position: int) -> Node:
    return summed(-gradient, node, position)


# -- of two operands ---------------------------------------------------------------------------------


def _by_base(y: Node, base: Node, exponent: Operand) -> Operand:
    if isinstance(exponent, Node):
        # 0 ** -1 is infinite, but does not matter where the exponent is 0.
        return exponent * ops.pow(base, ops.where(exponent == 0, 1, exponent - 1))
    return _POWERS.get(exponent, _by_number)(base, exponent)


def _by_number(base: Node, exponent: Scalar) -> Node:
    return exponent * ops.pow(base, exponent - 1)


_POWERS: Final[dict[Scalar, Callable[[Node, Scalar], Node]]] = {
    0: lambda base, exponent: ops.zeros_like(base),
    1: lambda base, exponent: ops.ones_like(base),
    2: lambda base, exponent: exponent * base,
}
"""Derivatives by the base that take no power, for some exponents."""


def _by_exponent(y: Node, base: Operand, exponent: Node) -> Node:
    if isinstance(base, (int, float)) and base > 0:
        return y * log(base)
    # Of 0 all positive powers are 0: what is infinite is the logarithm alone.
    return y * ops.log(ops.where(ops.equal(base, 0), 1, base))


_PARTIALS: Final[dict[str, tuple[Callable[[Node, Node, Node], Operand], Callable[[Node, Node, Node], Operand]]]] = {
    "atan2": (
        lambda y, a, b: b / (ops.square(a) + ops.square(b)),
        lambda y, a, b: -a / (ops.square(a) + ops.square(b)),
    ),
    "hypot": (lambda y, a, b: a / ops.where(y == 0, 1, y), lambda y, a, b: b / ops.where(y == 0, 1, y)),
    "logaddexp": (lambda y, a, b: ops.exp(a - y), lambda y, a, b: ops.exp(b - y)),
    "multiply": (lambda y, a, b: b, lambda y, a, b: a),
    "pow": (_by_base, _by_exponent),
}


def _copysign(y: Node, a: Node, b: Operand) -> Node:
    return ops.sign(a) * ops.copysign(1.0, b)


def _divisor(y: Node, a: Operand, b: Operand) -> Operand:
    return b


def _by_divisor(y: Node, a: Operand, b: Node) -> Node:
    return -y / b


def _remainder(y: Node, a: Operand, b: Node) -> Node:
    return -ops.floor_divide(a, b)


# -- chosen by comparison ----------------------------------------------------------------------------


def _chosen(gradient: Node, larger: Operand, smaller: Operand) -> Node:
    """`gradient` where the one is larger than the other, half of it where they are equal, and 0 elsewhere."""
    return build("where_larger", (gradient, larger, smaller))


def _maximum(gradient: Node, node: Node, position: int) -> Node:
    return summed(_chosen(gradient, node.operands[position], node.operands[1 - position]), node, position)


def _minimum(gradient: Node, node: Node, position: int) -> Node:
    return summed(_chosen(gradient, node.operands[1 - position], node.operands[position]), node, position)


def _clip(gradient: Node, node: Node, position: int) -> Node:
    x, low, high = node.operands
    larger = ops.maximum(x, low)
    if position == 2:
        return summed(_chosen(gradient, larger, high), node, position)
    of_larger = _chosen(gradient, high, larger)
    return summed(_chosen(of_larger, *((low, x) if position else (x, low))), node, position)


def _where_larger(gradient: Node, node: Node, position: int) -> Node:
    return summed(_chosen(gradient, *node.operands[1:]), node, position)


def _where(gradient: Node, node: Node, position: int) -> Node:
    # What is not chosen is left out, not multiplied by 0, which would let an infinite gradient through as NaN.
    made = ops.where(node.operands[0], *((gradient, 0) if position == 1 else (0, gradient)))
    return summed(made, node, position)


# -- the table ---------------------------------------------------------------------------------------

_row = partial(by_operand, extent=Extent.SAME)
_ROWS: Final[dict[str, Row]] = {
    **{op: _row(_times(derivative)) for op, derivative in _DERIVATIVES.items()},
    **{op: _row(_over(reciprocal)) for op, reciprocal in _RECIPROCALS.items()},
    **{op: _row(_times(first), _times(second)) for op, (first, second) in _PARTIALS.items()},
    "abs": _row(_abs),
    "add": _row(_passed, _passed),
    "astype": _row(identity),
    "clip": _row(_clip, _clip, _clip),
    "conj": _row(_conj),
    "copysign": _row(_times(_copysign), None),
    "divide": _row(_over(_divisor), _times(_by_divisor)),
    "imag": _row(_imag),
    "maximum": _row(_maximum, _maximum),
    "minimum": _row(_minimum, _minimum),
    "negative": _row(_negative),
    "positive": _row(identity),
    "real": _row(identity),
    "remainder": _row(_passed, _times(_remainder)),
    "sign": _row(_sign),
    "subtract": _row(_passed, _negative),
    "where": _row(None, _where, _where),
    "where_larger": _row(_where_larger, None, None),
}
GRADIENTS.update(_ROWS)

_FLAT: Final = """
    bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor ceil equal floor
    floor_divide greater greater_equal isfinite isinf isnan less less_equal logical_and logical_not logical_or
    logical_xor nextafter not_equal round signbit trunc"""
for _name in _FLAT.split():
    GRADIENTS[_name] = NOWHERE
