"""Random graphs over variables, as descriptions, and what one run makes of a state by what was promised of variables.

The interpreter knows nothing of the library: a use sees the assignments that it depends on, an addition those that were
written before, and the last one is what the variable holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, final

import numpy as np

from .. import ops
from .._graph.building import placeholder
from .._graph.node import Node
from .._graph.scopes import control_dependencies, device
from .._graph.variable import Variable
from ..ops.custom import OpFunction
from ._device import DEVICES
from ._faults import FUNCTIONS, SIZE

Value = np.ndarray[Any, Any]

TOKENS: Final = 2
"""Placeholders for numbers that no other run is fed: the first statements."""
_FUNCTIONS: Final = ("abs", "maximum", "minimum")
"""What nodes compute. So all values are positive integers, a sum is another one, and float64 has them all."""
_KINDS: Final = ("use", "use", "compute", "assign", "assign", "add")


@final
@dataclass(frozen=True, slots=True)
class Statement:
    """One node, before there is one.

    Fields:
        kind: "token", "use" of a variable, "compute", "assign", or "add" of a token.
        way: "kernel", or the way of calling an op, which gives the value, or what is assigned but for the token.
        function: what that computes, of the variable if it is a use, and of `inputs`; of an "add" only the token.
        variable: which it uses or assigns.
        inputs, after: the statements it reads, and those it only waits for.
        token: which is added to what is assigned.
        device: where it was asked to run, or `None`.
    """

    kind: str
    way: str = "kernel"
    function: str = "abs"
    variable: int = 0
    inputs: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    token: int = 0
    device: str | None = None

    @property
    def assigns(self) -> bool:
        """Whether it changes its variable."""
        return self.kind in ("assign", "add")


def draw_statements(random: Random, variables: int, ways: Sequence[str]) -> list[Statement]:
    """A description of a graph."""
    devices = (None, None, *map(str, DEVICES)) if random.random() < 0.3 else (None,)
    statements = [Statement("token") for _ in range(TOKENS)]
    for index in range(TOKENS, TOKENS + random.randint(3, 10)):
        kind, function = random.choice(_KINDS), random.choice(_FUNCTIONS)
        count = {"use": FUNCTIONS[function].nin - 1, "add": 0}.get(kind, FUNCTIONS[function].nin)
        after = [random.randrange(TOKENS, index) for _ in range(random.randint(1, 2))] if index > TOKENS else []
        statements.append(
            Statement(
                kind,
                random.choice(("kernel", "kernel", random.choice(ways))),
                function if kind != "add" else "abs",
                random.randrange(variables),
                tuple([max(0, index - 1 - int(random.random() ** 2 * index)) for _ in range(count)]),
                tuple(after) if random.random() < 0.4 else (),
                random.randrange(TOKENS),
                random.choice(devices),
            )
        )
    return statements


def build_statements(
    statements: Sequence[Statement], variables: Sequence[Variable], ways: Mapping[str, OpFunction]
) -> list[Node]:
    """Their nodes, in the same order, in the current graph."""
    nodes: list[Node] = []
    for index, one in enumerate(statements):
        with control_dependencies([nodes[each] for each in one.after]), device(one.device):
            nodes.append(_node(index, one, nodes, variables[one.variable], ways))
    return nodes


def _node(index: int, one: Statement, nodes: Sequence[Node], mine: Variable, ways: Mapping[str, OpFunction]) -> Node:
    if one.kind == "token":
        return placeholder("float64", (SIZE,), name=f"token{index}")
    operands = [nodes[each] for each in one.inputs]
    if one.kind == "use":
        operands.insert(0, mine)
    if one.kind == "add":
        operands.append(nodes[one.token])
    kernel: Callable[..., Node] = getattr(ops, one.function)
    value = kernel(*operands) if one.way == "kernel" else ways[one.way].node(index, one.function, *operands)
    if one.kind == "assign":
        return mine.assign(value + nodes[one.token])
    return mine.assign_add(value) if one.kind == "add" else value


@final
class Needed:
    """The statements that some fetches need, and what they do to variables.

    Fields:
        indices: which, in order.
        reads: the variables whose value at the start of the run they see.
        writes: those that they assign.
    """

    def __init__(self, statements: Sequence[Statement], fetches: Sequence[int]) -> None:
        self._statements: Final = statements
        self._depends: Final[list[frozenset[int]]] = []
        for one in statements:
            direct = {*one.inputs, *one.after, *((one.token,) if one.assigns else ())}
            self._depends.append(frozenset(direct.union(*[self._depends[index] for index in direct])))
        self.indices: Final = sorted({*fetches}.union(*[self._depends[index] for index in fetches]))
        mine = [(index, statements[index]) for index in self.indices]
        self.reads: Final = sorted(
            {one.variable for index, one in mine if one.kind in ("use", "add") and self._before(index) is None}
        )
        self.writes: Final = sorted({one.variable for _, one in mine if one.assigns})
        self.adds_to: Final = {one.variable for _, one in mine if one.kind == "add"}

    def _before(self, index: int) -> int | None:
        """The assignment that a use or an addition sees, if it sees one."""
        one = self._statements[index]
        for other in reversed([each for each in self.indices if each < index]):
            earlier = self._statements[other]
            # A use waits for what is in `after`: what else it is given says nothing of when it reads.
            seen = one.kind == "add" or any(other == each or other in self._depends[each] for each in one.after)
            if seen and earlier.assigns and earlier.variable == one.variable:
                return other
        return None

    def effects(
        self, tokens: Sequence[Value], start: Mapping[int, Value], fed: Mapping[int, Value]
    ) -> tuple[Mapping[int, Value], Mapping[int, Value]]:
        """The values of the statements, and what the variables hold that they assign.

        `start` is what variables hold when the run starts, and `fed` what is fed for others.
        """
        values: dict[int, Value] = {}
        held: dict[int, Value] = {}
        for index in self.indices:
            one = self._statements[index]
            if one.kind == "token":
                values[index] = tokens[index]
                continue
            operands = [values[each] for each in one.inputs]
            if one.kind in ("use", "add"):
                before = self._before(index)
                seen = start.get(one.variable) if before is None else values[before]
                if one.kind == "use":
                    seen = fed.get(one.variable, seen)
                assert seen is not None
                operands.insert(0, seen)
            if one.kind == "add":
                values[index] = operands[0] + tokens[one.token]
            else:
                values[index] = FUNCTIONS[one.function](*operands)
            if one.kind == "assign":
                values[index] = values[index] + tokens[one.token]
            if one.assigns:
                held[one.variable] = values[index]
        return values, held
