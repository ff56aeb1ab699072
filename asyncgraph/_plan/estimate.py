"""What a node costs before it has run: an estimate by its op, dtypes and the sizes that are known.

It decides whether a segment may run on the event loop, so it errs to the slow side, and by little: of
100,000 numbers on, NumPy nearly always takes between a third and all of what is estimated. A size that is
not known when the plan is made is put in terms of the largest fed array. What is estimated is the work
that grows with the data; the half microsecond that any call takes is not in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, cast, final

from .._graph.node import Node
from .._graph.op import Params
from .._graph.rules.tables import COSTS, SPECS, Cost
from .._graph.spec import ANY, ArraySpec, Dim
from .nanoseconds import BROADCAST_ROW, MOVED, PRODUCT, REDUCED_ROW, nanoseconds
from .sizes import FURTHER, STATIC, Size, Sizes


@final
@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of work: `fixed_s + per_element_s * elements`, where `elements` is the largest fed array's size."""

    fixed_s: float = 0.0
    per_element_s: float = 0.0

    def seconds(self, elements: int) -> float:
        """The estimate for a run whose largest fed array has so many elements."""
        return self.fixed_s + self.per_element_s * elements

    def most_elements(self, budget_s: float) -> float:
        """How large the largest fed array may be for the estimate to stay within a budget; -1 for never."""
        if self.fixed_s > budget_s:
            return -1
        return (budget_s - self.fixed_s) / self.per_element_s if self.per_element_s else math.inf

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.fixed_s + other.fixed_s, self.per_element_s + other.per_element_s)


NOTHING: Final = Estimate()


@final
class Estimates:
    """The work of nodes, where values of some specs come from outside: what is fed, and what user ops return."""

    def __init__(self, outside: Iterable[ArraySpec]) -> None:
        self._sizes: Final = Sizes(outside)
        self._known: Final[dict[tuple[object, ...], Estimate]] = {}

    def of(self, node: Node) -> Estimate:
        """The work of one node with a kernel."""
        if node.params:
            return estimate(node, self._sizes)
        # Numbers are left out: which one it is matters to `pow` alone.
        name = node.op.name if node.op.name != "pow" else _like(node, Cost.MATH)[0]
        key = (name, node.spec, *[one.spec if isinstance(one, Node) else None for one in node.operands])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = estimate(node, self._sizes)
        return known

    def moved(self, node: Node) -> Estimate:
        """The work of moving its value to a device or from there, as far as this process does it: a copy."""
        if node.spec is ANY:
            return NOTHING  # What it is, and how large, is not known before it is there.
        work = self._sizes.of(node.spec) * nanoseconds("", Cost.MOVE, [node.spec])
        return Estimate(work.fixed * 1e-9, work.per_element * 1e-9)


def estimate(node: Node, sizes: Sizes = STATIC) -> Estimate:
    """The work of one node with a kernel, where `sizes` knows what is fed."""
    cost = COSTS.get(node.op.name, Cost.OPAQUE)
    if cost is Cost.FREE:
        return NOTHING
    results, operands = _results(node), [one.spec for one in node.inputs]
    specs = results + operands
    out, largest = _most(results, sizes), _most(specs, sizes)
    row, cost = _like(node, cost)
    each = nanoseconds(row, cost, specs)
    if cost is Cost.MATMUL:
        products = _products(node, out, sizes) * nanoseconds(PRODUCT, cost, specs)
        work = products + out * each + largest * nanoseconds(MOVED, cost, specs)
    elif cost is Cost.REDUCE and out.fixed != 1:
        work = largest * each + _rows(operands, sizes) * REDUCED_ROW
    elif cost is Cost.CHEAP and any(one.shape and one.shape != node.spec.shape for one in operands):
        work = largest * each + _rows(results, sizes) * BROADCAST_ROW
    else:
        work = largest * each
    return Estimate(work.fixed * 1e-9, work.per_element * 1e-9)


def _like(node: Node, cost: Cost) -> tuple[str, Cost]:
    """The op whose row tells the node's time, and its class."""
    last = node.operands[-1] if node.operands else None
    if node.op.name == "pow" and isinstance(last, (int, float)):
        return _POWERS.get(last, ("pow", cost))
    return node.op.name, cost


_POWERS: Final[dict[float, tuple[str, Cost]]] = {2: ("square", Cost.CHEAP), 0.5: ("sqrt", Cost.CHEAP)}
"""Exponents for which NumPy does what another op does."""


def _rows(specs: Iterable[ArraySpec], sizes: Sizes) -> Size:
    """How many inner loops there are, as far as they are known to be short."""
    most = Size()
    for spec in specs:
        last = spec.shape[-1] if spec.shape else None
        if isinstance(last, int) and last:
            most |= sizes.of(spec) * (1 / last)
    return most


_NUMBER: Final = ArraySpec(None, ())


def _results(node: Node) -> list[ArraySpec]:
    if node.spec is not ANY:
        return [node.spec]
    # The call of an op with several results, such as `meshgrid`, has no spec of its own.
    rule = SPECS.get(node.op.name)
    if rule is None:
        return [ANY]
    specs = rule(
        node.op.name, tuple([one.spec if isinstance(one, Node) else one for one in node.operands]), node.params
    )
    return [specs] if isinstance(specs, ArraySpec) else list(specs)


def _most(specs: Iterable[ArraySpec], sizes: Sizes) -> Size:
    most = Size()
    for spec in specs:
        most |= sizes.of(spec)
    return most


def _products(node: Node, out: Size, sizes: Sizes) -> Size:
    """How many multiplications a product of matrices takes."""
    a, b = [one.spec if isinstance(one, Node) else _NUMBER for one in node.operands]
    depth = width = None
    if a.shape is not None and b.shape is not None:
        contracted, met = _MEETS[node.op.name](a.shape, b.shape, node.params)
        depth, width = _product(contracted), _product(met)
    if depth is not None:
        return out * depth
    return sizes.of(a) * (FURTHER if width is None else width)


def _product(dims: Iterable[Dim]) -> int | None:
    product = 1
    for one in dims:
        if not isinstance(one, int):
            return None
        product *= one
    return product


_Dims = tuple[Dim, ...]


def _matmul(a: _Dims, b: _Dims, params: Params) -> tuple[_Dims, _Dims]:
    return a[-1:], b[-1:] if len(b) > 1 else ()


def _vecdot(a: _Dims, b: _Dims, params: Params) -> tuple[_Dims, _Dims]:
    axis = params.get("axis", -1)
    assert isinstance(axis, int)
    return (a[axis],), ()


def _tensordot(a: _Dims, b: _Dims, params: Params) -> tuple[_Dims, _Dims]:
    axes = cast("int | tuple[Sequence[int], Sequence[int]]", params.get("axes", 2))
    if isinstance(axes, int):
        return a[len(a) - axes :], b[axes:]
    met = {axis % len(b) for axis in axes[1]}
    return tuple([a[axis] for axis in axes[0]]), tuple([one for axis, one in enumerate(b) if axis not in met])


_MEETS: Final[dict[str, Callable[[_Dims, _Dims, Params], tuple[_Dims, _Dims]]]] = {
    "matmul": _matmul,
    "tensordot": _tensordot,
    "vecdot": _vecdot,
}
"""For each product of matrices: the dimensions of the first operand that are contracted, and those of the
second that each element of the first meets."""
