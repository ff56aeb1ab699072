"""Variables: nodes whose values a session keeps from run to run.

To use a variable is to read it. Outside of any `control_dependencies` that is the variable's own node, which
stands for its value when a run starts. Inside, a use becomes a node of the op "read", with those dependencies:
its value is what the last assignment gave that is among what it depends on, by data or control edges.

Nodes are only ever added, so that the order in which assignments were built is an order in which they can be
applied. `assign_add` adds to what the assignments built before it have made of the variable, in the op "current".
"""

from __future__ import annotations

from typing import Any, Final, cast, final

import numpy as np

from ..errors import GraphError, SpecError, SpecOverflowError, SpecTypeError
from .convert import ConversionError, OutOfRangeError, as_exact_array
from .node import Node
from .op import ASSIGN, CURRENT, NO_PARAMS, READ, Params
from .rules.infer import infer_spec
from .scopes import current_scope
from .spec import ArraySpec, Shape, intern_spec


@final
class Variable(Node):
    """A node whose value a session keeps from run to run. Made by `variable`; the only node with a class of its own.

    Each session has values of its own, which begin as `initial` says when a run first needs them, or as a run
    assigns them. A run reads one consistent state, and commits what it assigns at its end, all or nothing.
    Dtype and shape never change. Fetching the variable gives its value when the run started, as a read-only array;
    feeding it replaces all its reads in that run, and is neither stored nor what `assign_add` adds to.
    """

    __slots__ = ()

    @property
    def initial(self) -> Node:
        """What its value is at first."""
        return self.inputs[0]

    @property
    def trainable(self) -> bool:
        """Whether optimizers change it, if they are not told what to change."""
        return bool(self.params["trainable"])

    def read(self, name: str | None = None) -> Node:
        """A node of its value after the assignments among the control dependencies in force, and what these depend on.

        Raises:
            GraphFinalizedError: the graph takes no more nodes.
        """
        return self.graph.add(READ, (self,), NO_PARAMS, self.spec, name or self._named("read"))

    def assign(self, value: object, name: str | None = None) -> Node:
        """A node that assigns `value` to the variable, if it is run; its own value is what was assigned.

        Assignments to one variable that no edge orders apply in the order in which they were built.

        Args:
            value: a node of the variable's dtype; or anything else that becomes an array of it without changing,
                as fed values do. Its shape is the variable's: nothing is broadcast.
            name: what the node is called.

        Raises:
            SpecTypeError, SpecError, SpecOverflowError: `value` can never be the variable's.
            GraphError: `value` is a node of another graph.
        """
        operand = self.graph.operand(value, ASSIGN.name) if isinstance(value, Node) else self._constant(value)
        assert isinstance(operand, Node)
        self._check(operand.spec, operand)
        params: Params = {"variable": self.index, **_branch()}
        return self.graph.add(ASSIGN, (operand,), params, self.spec, name or self._named("assign"))

    def assign_add(self, value: object, name: str | None = None) -> Node:
        """As `assign`, of the sum of `value` and what the assignments built before have made of the variable.

        No other run changes the variable meanwhile, so that no update is lost.

        Args:
            value: as of `assign`, or a Python number; broadcast as by `+`.
            name: what the node is called.

        Raises: what `assign` raises.
        """
        return self._update("add", value, name)

    def assign_sub(self, value: object, name: str | None = None) -> Node:
        """As `assign_add`, but subtracts."""
        return self._update("subtract", value, name)

    def _update(self, op: str, value: object, name: str | None) -> Node:
        operand: object = value
        if isinstance(value, Node) or (
            isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic)
        ):
            seen = value
        else:
            operand = array = self._array(value)
            seen = intern_spec(array.dtype, array.shape)
        # Before anything is added.
        self._check(infer_spec(op, (self, seen), NO_PARAMS), value)
        return self.assign(self.graph.apply(op, (self.current(), operand)), name)

    def current(self) -> Node:
        """A node of what the assignments built before have made of the variable, as far as they are part of the run."""
        return self.graph.add(CURRENT, (self,), _branch(), self.spec, self._named("current"))

    def _named(self, what: str) -> str:
        return f"{self.name.rpartition('/')[2]}_{what}"

    def _constant(self, value: object) -> Node:
        array = self._array(value)
        self._check(intern_spec(array.dtype, array.shape), value)
        return self.graph.constant(array)

    def _array(self, value: object) -> np.ndarray[Any, Any]:
        try:
            return as_exact_array(value, self.dtype)
        except ConversionError as error:
            kind = SpecOverflowError if isinstance(error, OutOfRangeError) else SpecTypeError
            raise kind(self._refusal(f"{value!r}", str(error))) from error.__cause__

    def _check(self, spec: ArraySpec, value: object) -> None:
        # Not `in`: to NumPy, float64 equals None.
        if spec.dtype is not None and self.dtype is not None and spec.dtype != self.dtype:
            raise SpecTypeError(
                self._refusal(f"{value!r}", f"the dtype would be {spec.dtype}")
                + f"\n  write ops.astype(value, {str(self.dtype)!r})"
            )
        if not may_be(spec.shape, self.shape):
            raise SpecError(self._refusal(f"{value!r}", f"the shape would be {spec.shape}"))

    def _refusal(self, value: str, reason: str) -> str:
        return (
            f"{value} cannot be assigned to {self.name!r}: {reason}\n"
            f"  expected: {self.spec!r}\n  built at: {self.site or 'unknown'}"
        )


def _branch() -> Params:
    """Where an assignment is built, if that is in a branch: it does not count in others."""
    branch = current_scope().branch
    return {"branch": branch} if branch else NO_PARAMS


def branch_of(node: Node) -> tuple[int, ...]:
    """The branches and bodies that a node of an op of `STATE_OPS` was built in, from the outermost in."""
    return cast("tuple[int, ...]", node.params.get("branch", ()))


def may_be(shape: Shape, other: Shape) -> bool:
    """Whether arrays of the one shape can have the other."""
    if shape is None or other is None:
        return True
    return len(shape) == len(other) and all(
        a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in zip(shape, other, strict=True)
    )


def assigned_by(node: Node) -> Variable:
    """The variable that a node of the op "assign" assigns to."""
    index = cast("int", node.params["variable"])
    variable = node.graph.nodes[index]
    if not isinstance(variable, Variable):
        raise GraphError(f"not a graph: {node.name!r} assigns to {variable!r}, which is no variable")
    return variable


STATE_OPS: Final = frozenset({READ, CURRENT, ASSIGN})
"""The ops that have to do with variables, but for the variables themselves."""
