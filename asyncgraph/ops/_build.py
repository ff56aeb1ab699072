"""From a call of an op's function to its node."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from .._graph.graph import Graph
from .._graph.node import Node
from .._graph.op import NO_PARAMS, OUTPUT, Params, op_named
from .._graph.rules.infer import infer_specs
from .._graph.scopes import current_scope, device
from .._graph.spec import ANY
from ..errors import GraphError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Operand = Node | ArrayLike
    """What an op takes: a node, a Python number, or what becomes a constant."""


def build(op: str, operands: Sequence[object], params: Params = NO_PARAMS, name: str | None = None) -> Node:
    """The node of an op with one result, in the graph of its operands, or else in the current one.

    An operand is a node, a Python number, or anything that `constant` takes.

    Raises:
        SpecError, SpecTypeError, SpecOverflowError: the op can never take these. Nothing was added.
        GraphError: no operand is a node and no graph is current, or two operands are of different graphs.
    """
    return graph_of(op, operands).apply(op, operands, params, name)


def as_nodes(op: str, operands: Sequence[object]) -> tuple[Node, ...]:
    """The operands as nodes of one graph: Python numbers become constants, too.

    Raises: what `build` raises.
    """
    graph = graph_of(op, operands)
    made = [graph.operand(value, op) for value in operands]
    return tuple([one if isinstance(one, Node) else graph.constant(one) for one in made])


def build_several(
    op: str, operands: Sequence[object], params: Params = NO_PARAMS, name: str | None = None
) -> tuple[Node, ...]:
    """The nodes of the results of an op that has several: outputs of one call, which runs once.

    The call is `unstack`, say, and its outputs `unstack:0`, `unstack:1`, …

    Raises: what `build` raises.
    """
    graph = graph_of(op, operands)
    checked = tuple([graph.operand(value, op) for value in operands])
    specs = infer_specs(op, checked, params)
    call = graph.add(op_named(op), checked, params, ANY, name)
    label = call.name.removeprefix(current_scope().prefix)
    return tuple([graph.add(OUTPUT, (call,), {"index": i}, spec, f"{label}:{i}") for i, spec in enumerate(specs)])


def graph_of(op: str, operands: Sequence[object] = ()) -> Graph:
    """The graph of the first node among the operands, or else the current one.

    Raises:
        GraphError: there is neither.
    """
    for operand in operands:
        if isinstance(operand, Node):
            return operand.graph
    graph = current_scope().graph
    if graph is None:
        raise GraphError(
            f"{op}: no graph to build the node in\n  write `with graph:` around the call, or give it a node"
        )
    return graph


def on(requested: str | None) -> AbstractContextManager[object]:
    """The scope of a `device=` keyword: nodes built inside are asked to run there; `None` is as outside.

    Raises:
        GraphError: it is not the name of a device.
    """
    return nullcontext() if requested is None else device(requested)
