"""What depends on constants alone is computed when the plan is made.

What a call has kept of an earlier run, as of a file, is a constant, too. Only what raises nothing and warns
of nothing is folded: an error or a warning belongs to the run. And only what is small: a plan is kept, and
so is what was folded into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, final

import numpy as np

from .._graph.control import CONTROL_OPS
from .._graph.node import Node
from .._graph.op import CONSTANT, GROUP, ITEM, OUTPUT, PLACEHOLDER, RANDOM_OPS
from .._graph.template import Template
from .._graph.variable import STATE_OPS
from .estimate import estimate
from .program import CHECK_EVERY, Checkpoint, Placement, Program

_LARGEST_SIZE: Final = 1 << 16
"""Elements of the largest result that is kept in a plan."""
_LONGEST_S: Final = 1e-3
"""Estimated seconds of the longest kernel that runs while a plan is made."""


def fold_constants(program: Program, checkpoint: Checkpoint) -> Program:
    """The program without the nodes whose values are known, which are in `folded`, on their device."""
    folded: dict[Node, Any] = {}
    nodes: list[Node] = []
    for count, node in enumerate(program.nodes, 1):
        if not count % CHECK_EVERY:
            checkpoint()
        if node.op is CONSTANT:
            folded[node] = node.params["value"]
        elif node.op is PLACEHOLDER:
            folded[node] = node.params["default"]
        elif node.op.call is not None:
            kept = kept_by(node)
            if kept is None:
                nodes.append(node)
            else:
                folded[node] = kept
        elif node.op in _NEVER or node.op.name in _WARN or not _try_fold(node, program, folded, checkpoint):
            nodes.append(node)
    return replace(program, nodes=tuple(nodes), folded=folded)


def kept_by(node: Node) -> Any:
    """What the call of a node has kept of an earlier one; `None` if that is nothing."""
    assert node.op.call is not None
    if node.op.call.kept is None:
        return None
    template = node.params["template"]
    assert isinstance(template, Template)
    args, kwargs = template.fill(())
    return node.op.call.kept(*args, **kwargs)


_NEVER: Final = frozenset({GROUP, ITEM, OUTPUT, *STATE_OPS, *CONTROL_OPS, *RANDOM_OPS})
# These warn by Python's own warnings, of which there is one set of filters for all threads, so that
# nobody can listen to one thread's. The others warn through np.errstate.
_WARN: Final = frozenset({"mean", "std", "var", "astype"})


def _try_fold(node: Node, program: Program, folded: dict[Node, Any], checkpoint: Checkpoint) -> bool:
    if node.after:
        return False
    for one in node.inputs:
        if program.same.get(one, one) not in folded:
            return False
    size = node.spec.size
    where = program.placements[node]
    if size is None or size > _LARGEST_SIZE or estimate(node).seconds(0) > _LONGEST_S:
        return False
    if where.is_asynchronous:
        checkpoint()  # What is submitted next may be waited for for long.
    try:
        operands = [_known(one, folded, program, where) if isinstance(one, Node) else one for one in node.operands]
        value = where.now(partial(_compute, node, operands, where))
    except Exception:
        return False  # Whatever it is, it is for the run to raise, in the caller's np.errstate.
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    folded[node] = value
    return True


@final
class _Elsewhere:
    """A value on the host that a device needs."""

    def __init__(self, value: Any) -> None:
        self.value: Final = value


def _known(node: Node, folded: dict[Node, Any], program: Program, where: Placement) -> Any:
    node = program.same.get(node, node)
    home, value = program.placements.get(node), folded[node]
    if home is where:
        return value
    if home is not None and not home.on_host:
        value = home.now(partial(home.backend.to_host, value))
    return value if where.on_host else _Elsewhere(value)


def _compute(node: Node, operands: Sequence[Any], where: Placement) -> Any:
    specs = [one.spec if isinstance(one, Node) else one for one in node.operands]
    kernel = where.backend.kernel(node.op.name, node.params, specs, where.device)
    move = where.backend.to_device
    values = [move(one.value, where.device) if isinstance(one, _Elsewhere) else one for one in operands]
    with np.errstate(all="raise"):
        return kernel(*values)
