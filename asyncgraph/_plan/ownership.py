"""Whose memory a fetched value is.

A result that would share memory with a feed or a constant is handed out read-only, one that would share
with another fetch is copied, and any other is the caller's own. Which of these may happen is known from
the ops; whether it does is seen when the value is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, final

from .._graph.node import Node
from .._graph.op import CONSTANT, ITEM, OUTPUT, PLACEHOLDER
from .._graph.rules.tables import VIEWS
from .lower import Instruction, Kind, Lowered
from .program import Placement, Program


class Owner(Enum):
    """What is done with a fetched value."""

    CALLER = "computed for the caller"
    USER = "what a user op returned, as it is"
    FEED = "a feed: a read-only view"
    CONSTANT = "a constant: a read-only view"
    FOLDED = "computed when the plan was made: a copy"
    BORROWED = "may be a view of a feed or a constant: then read-only"
    VIEW = "may be a view of something larger: then copied"
    SHARED = "may be a view of what another fetch has: copied"


@final
@dataclass(frozen=True, slots=True)
class Fetched:
    """One fetch of a plan.

    Fields:
        node: the node that was asked for.
        slot: where its value is.
        owner: what is done with it.
        lenders: the slots of feeds and constants that it may be a view of.
        home: the device that it is on, `None` for the host.
        plain: whether it is handed out as it is, if it is an array: nearly always.
    """

    node: Node
    slot: int
    owner: Owner
    lenders: tuple[int, ...]
    home: Placement | None
    plain: bool = False


def owners_of_fetches(program: Program, lowered: Lowered) -> tuple[Fetched, ...]:
    """What is to be done with each fetch, in the order of the program's."""
    made: dict[int, Instruction] = {one.out: one for one in lowered.instructions}
    roots = _roots(lowered, made)
    taken: dict[int, int] = {}
    for slot in lowered.fetches:
        for root in roots.get(slot, (slot,)):
            taken[root] = taken.get(root, 0) + 1
    return tuple(
        _fetched(node, slot, home, program, lowered, made, roots, taken)
        for node, slot, home in zip(program.fetches, lowered.fetches, lowered.homes, strict=True)
    )


def _fetched(
    node: Node,
    slot: int,
    home: Placement | None,
    program: Program,
    lowered: Lowered,
    made: dict[int, Instruction],
    roots: dict[int, frozenset[int]],
    taken: dict[int, int],
) -> Fetched:
    if slot not in made:
        owner = Owner.FEED if slot < len(lowered.feeds) else _folded(program.same.get(node, node))
        return Fetched(node, slot, owner, (), home)
    if _is_users(slot, made):
        return Fetched(node, slot, Owner.USER, (), home)
    own_roots = roots.get(slot)
    if own_roots is None:
        return Fetched(node, slot, Owner.CALLER, (), home, plain=home is None)
    lenders = tuple(sorted(root for root in own_roots if root not in made))
    if any(taken[root] > 1 for root in own_roots if root in made):
        owner = Owner.SHARED
    else:
        owner = Owner.BORROWED if lenders else Owner.VIEW
    return Fetched(node, slot, owner, lenders, home)


def _folded(node: Node) -> Owner:
    return Owner.CONSTANT if node.op is CONSTANT or node.op is PLACEHOLDER else Owner.FOLDED


def _is_users(slot: int, made: dict[int, Instruction]) -> bool:
    while True:
        instruction = made.get(slot)
        if instruction is None:
            return False
        if instruction.kind is not Kind.KERNEL:
            return True
        if instruction.node.op is not ITEM and instruction.node.op is not OUTPUT:
            return False
        slot = instruction.operands[0]


def _roots(lowered: Lowered, made: dict[int, Instruction]) -> dict[int, frozenset[int]]:
    """For each slot whose value may be a view: the slots whose memory it may be, none of them a view."""
    roots: dict[int, frozenset[int]] = {}
    for instruction in lowered.instructions:
        seen = _seen_through(instruction)
        if seen:
            found: frozenset[int] = frozenset()
            for position in seen:
                if position < len(instruction.operands):
                    slot = instruction.operands[position]
                    found |= roots.get(slot, frozenset((slot,)))
            roots[instruction.out] = found
    return roots


_FIRST: Final = (0,)


def _seen_through(instruction: Instruction) -> tuple[int, ...]:
    if instruction.kind is not Kind.KERNEL:
        return ()
    op = instruction.node.op
    if instruction.moves_to is not None or op is OUTPUT or op is ITEM:
        return _FIRST
    return VIEWS.get(op.name, ())
