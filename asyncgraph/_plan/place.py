"""Each node that has a kernel gets a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from .._graph.control import CONTROL_OPS
from .._graph.node import Node
from .._graph.op import (
    ASSIGN,
    CONSTANT,
    CURRENT,
    GROUP,
    ITEM,
    LOOP_VALUE,
    OUTPUT,
    PLACEHOLDER,
    RANDOM_OPS,
    READ,
    Op,
)
from .._graph.variable import assigned_by
from ..errors import DeviceNotFoundError
from .program import Placement, Program

Placer = Callable[[str | None], Placement]
"""The placement for a requested device, or for `None`; raises if there is none. Given by the session."""

NOWHERE: Final[Mapping[Node, Placement]] = {}
_ON_HOST: Final = frozenset({PLACEHOLDER, CONSTANT, GROUP, ITEM, LOOP_VALUE}) | CONTROL_OPS | RANDOM_OPS


def place(program: Program, placer: Placer, fed_on: Mapping[Node, Placement] = NOWHERE) -> Program:
    """The program with a placement for every node that has a kernel, and every feed that is on a device.

    User ops run on the host, wherever they were asked to run, and so have none, but for those that say `on_device`.

    Raises:
        DeviceNotFoundError: a node asks for a device that there is not, and may not run elsewhere. A note names it.
    """
    found: dict[str | None, Placement] = {}
    placements: dict[Node, Placement] = {**fed_on}

    def placed(node: Node) -> Placement:
        wanted = node.requested_device
        where = found.get(wanted)
        if where is None:
            where = found[wanted] = _placed(node, placer)
        return where

    state = program.state
    homes = {variable: placed(variable) for variable in (*state.stored.values(), *state.assigned)}
    for node, variable in state.stored.items():
        placements[node] = homes[variable]
    for node in program.nodes:
        if not needs_device(node):
            continue
        variable_of = _VARIABLES_OF.get(node.op)
        if variable_of is not None:
            placements[node] = placed(variable_of(node))
            continue
        if node.op is OUTPUT:
            # An output is where the call is that it belongs to; a user op's is on the host.
            where = placements.get(node.inputs[0])
            if where is not None:
                placements[node] = where
            continue
        placements[node] = placed(node)
    return replace(program, homes=homes, placements=placements)


_VARIABLES_OF: Final[Mapping[Op, Callable[[Node], Node]]] = {
    READ: lambda node: node.inputs[0],
    CURRENT: lambda node: node.inputs[0],
    ASSIGN: assigned_by,
}
"""Ops whose nodes are where a variable is."""


def needs_device(node: Node) -> bool:
    """Whether it has a kernel, or is given arrays of a device."""
    call = node.op.call
    return node.op not in _ON_HOST if call is None else call.on_device


def _placed(node: Node, placer: Placer) -> Placement:
    try:
        return placer(node.requested_device)
    except DeviceNotFoundError as error:
        error.add_note(
            f"asyncgraph: needed by node {node.name!r} ({node.op.name})\n  built at: {node.site or 'unknown'}"
        )
        raise
