"""Whose memory a fetched value is.

A result that would share memory with a feed or a constant is handed out read-only, one that would share
with another fetch is copied, and any other is the caller's own. Which of these may happen is known from
the ops; whether it does is seen when the value is there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, final

from .._graph.control import CONTROL_OPS
from .._graph.node import Node
from .._graph.op import ASSIGN, COND, CONSTANT, CURRENT, ITEM, OUTPUT, PLACEHOLDER, READ
from .._graph.rules.tables import VIEWS
from .._graph.variable import Variable
from .estimate import Estimates
from .host_kernels import is_known_to_fit
from .lower import Instruction, Kind, Lowered
from .program import Placement, Program


class Owner(Enum):
    """What is done with a fetched value."""

    CALLER = "computed for the caller"
    USER = "what a user op returned, as it is"
    FEED = "a feed: a read-only view"
    CONSTANT = "a constant, or what a variable holds: a read-only view"
    FOLDED = "computed when the plan was made: a copy"
    BORROWED = "may be a view of a feed, a constant or a variable: then read-only"
    LENT = (
        "may be a view of a feed, a constant or a variable: then read-only; or of what another fetch has: then copied"
    )
    VIEW = "may be a view of something larger: then copied"
    SHARED = "may be, or show, what another fetch has: a copy"


@final
@dataclass(frozen=True, slots=True)
class Fetched:
    """One fetch of a plan.

    Fields:
        node: the node that was asked for.
        slot: where its value is.
        owner: what is done with it.
        lenders: the slots of feeds, constants and variables that it may be a view of.
        home: the device that it stays on, `None` for the host.
        plain: whether it is handed out as it is, if it is an array: nearly always.
    """

    node: Node
    slot: int
    owner: Owner
    lenders: tuple[int, ...]
    home: Placement | None
    plain: bool = False


class Keep(Enum):
    """How what a variable is assigned becomes what it holds, which nobody can write to."""

    OWN = "a kernel's result, which is kept as it is, if it is no view"
    SHARE = "a constant, or what a variable holds"
    COPY = "a feed, or what a user op returned, which others may write to: a copy"


@final
@dataclass(frozen=True, slots=True)
class Assigned:
    """What a variable holds when a run has succeeded.

    Fields:
        variable: whose value it is.
        slot: where its value is.
        keep: what is done with that.
        plain: whether it is kept as it is, if it is an array of the host and no view: nearly always.
    """

    variable: Variable
    slot: int
    keep: Keep
    plain: bool


def owners_of_fetches(program: Program, lowered: Lowered) -> tuple[tuple[Fetched, ...], tuple[Assigned, ...]]:
    """What is to be done with each fetch, in the order of the program's, and with what variables are assigned."""
    owners = _Owners(lowered)
    fetched = zip(program.fetches, lowered.fetches, lowered.homes, strict=True)
    return (
        tuple([owners.fetched(node, program.same.get(node, node), slot, home) for node, slot, home in fetched]),
        tuple([owners.assigned(variable, slot) for variable, slot in lowered.assigned]),
    )


def with_copies(program: Program, lowered: Lowered) -> Lowered:
    """`lowered`, where variables on devices are assigned copies of memory that others may write to.

    A transfer may share memory, too. What variables of the host are assigned is copied when it is committed.
    """
    homes = [program.homes[variable] for variable, _ in lowered.assigned]
    if all(where.on_host for where in homes):
        return lowered
    owners = _Owners(lowered)
    instructions, template = [*lowered.instructions], [*lowered.template]
    assigned: list[tuple[Variable, int]] = []
    for (variable, slot), where in zip(lowered.assigned, homes, strict=True):
        if not where.on_host and owners.keep(slot) is Keep.COPY:
            spec, work = variable.spec, Estimates([variable.spec]).moved(variable)
            kernel = where.backend.kernel("astype", {"dtype": spec.dtype, "copy": True}, [spec], where.device)
            source, slot = slot, len(template)
            template.append(None)
            instructions.append(
                Instruction(variable, Kind.KERNEL, kernel, (source,), slot, where, (), work, str(where.device))
            )
        assigned.append((variable, slot))
    return replace(lowered, instructions=tuple(instructions), template=template, assigned=tuple(assigned))


@final
class _Owners:
    """What is known of the memory of fetched values.

    Fields:
        made: the instruction that fills a slot; feeds, variables and constants have none.
        stored: roots of what variables are assigned, which fetches may show, but not write to.
        kept: slots of what calls have kept. As in a run that makes the calls, nobody lends it, and views are copied.
        roots: for each slot whose value may be a view: the slots whose memory it may be, none of them a view.
        taken: for each root, how many fetches may show its memory.
        held: roots that fetched values of user ops may hold on to, as those are never copied.
        given: slots that a fetch has had already; equal nodes have one.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.feeds: Final = len(lowered.feeds)
        self.before: Final = lowered.given
        self.made: Final[dict[int, Instruction]] = {one.out: one for one in lowered.instructions}
        self.kept: Final = lowered.kept
        self.roots: Final = _roots(lowered)
        self.taken: Final[Counter[int]] = Counter()
        self.given: Final[set[int]] = set()
        self.stored: Final = frozenset([root for _, slot in lowered.assigned for root in self.roots_of(slot)])
        calls: list[int] = []
        for slot in lowered.fetches:
            call = self.call_behind(slot)
            if call is not None:
                calls.append(call)
            elif slot in self.made:
                self.taken.update(self.roots_of(slot))
        self.held: Final = self.held_by(calls)

    def fetched(self, node: Node, computed: Node, slot: int, home: Placement | None) -> Fetched:
        """What is to be done with a fetch of `node`, whose value is that of `computed`."""
        if slot not in self.made:
            return Fetched(node, slot, Owner.FEED if slot < self.feeds else self.known(computed, slot), (), home)
        if self.call_behind(slot) is not None:
            return Fetched(node, slot, Owner.USER, (), home)
        lenders = tuple(sorted([one for one in self.roots_of(slot) if self.lends(one)]))
        owner = self.owner(slot, lenders)
        self.given.add(slot)
        return Fetched(node, slot, owner, lenders, home, plain=owner is Owner.CALLER and home is None)

    def owner(self, slot: int, lenders: tuple[int, ...]) -> Owner:
        """What is done with a value that a kernel made, and no fetch, or a fetch before, has had."""
        roots = self.roots_of(slot)
        if slot in self.given or not self.held.isdisjoint(roots):
            return Owner.SHARED
        if slot not in self.roots and not lenders:
            return Owner.CALLER
        if any(root in self.kept or self.taken[root] > 1 for root in roots.difference(lenders)):
            return Owner.SHARED
        if not lenders:
            return Owner.VIEW
        return Owner.LENT if any(self.taken[root] > 1 for root in lenders) else Owner.BORROWED

    def assigned(self, variable: Variable, slot: int) -> Assigned:
        """What is to be done with what `variable` is assigned."""
        keep, made = self.keep(slot), self.made.get(slot)
        fits = made is not None and made.node.op is ASSIGN and is_known_to_fit(made.node)
        return Assigned(variable, slot, keep, plain=fits and keep is Keep.OWN)

    def keep(self, slot: int) -> Keep:
        """How the value of a slot becomes what a variable holds."""
        roots = self.roots_of(slot)
        if any(self.is_foreign(root) for root in roots):
            return Keep.COPY
        return Keep.OWN if any(root in self.made for root in roots) else Keep.SHARE

    def is_foreign(self, root: int) -> bool:
        """Whether others may write to its memory: it is a feed, or what a user op has returned."""
        instruction = self.made.get(root)
        calls = instruction is not None and instruction.kind is not Kind.KERNEL  # perhaps in a branch
        return calls or root < self.feeds or self.call_behind(root) is not None

    def known(self, node: Node, slot: int) -> Owner:
        """What is done with the value of `node`, which is known before a run."""
        return Owner.CONSTANT if slot < self.before else _folded(node)

    def lends(self, root: int) -> bool:
        """Whether a fetch may show it, but not write to it."""
        return root in self.stored or (root not in self.made and root not in self.kept)

    def roots_of(self, slot: int) -> frozenset[int]:
        """The slots whose memory the value of a slot may be."""
        return self.roots.get(slot) or frozenset((slot,))

    def call_behind(self, slot: int) -> int | None:
        """The slot of the user's function that returned a value, alone or among others; `None` if a kernel made it."""
        while True:
            instruction = self.made.get(slot)
            if instruction is None:
                return slot if slot in self.kept else None
            if instruction.kind is not Kind.KERNEL and instruction.node.op not in CONTROL_OPS:
                return slot
            if instruction.node.op is not ITEM and instruction.node.op is not OUTPUT:
                return None
            slot = instruction.operands[0]

    def held_by(self, calls: list[int]) -> frozenset[int]:
        """The roots that what these calls returned may show: what they were given, or what that shows."""
        held: set[int] = set()
        while calls:
            instruction = self.made.get(calls.pop())
            if instruction is None or instruction.kind is Kind.KERNEL:
                continue
            for operand in instruction.operands:
                new = self.roots_of(operand) - held
                held |= new
                calls += new
        return frozenset(held)


def _folded(node: Node) -> Owner:
    is_given = node.op is CONSTANT or node.op is PLACEHOLDER or node.op.call is not None
    return Owner.CONSTANT if is_given else Owner.FOLDED


def _roots(lowered: Lowered) -> dict[int, frozenset[int]]:
    roots: dict[int, frozenset[int]] = {}
    for instruction in lowered.instructions:
        seen = _seen_through(instruction)
        if seen:
            # A branch may also give what nobody else has.
            found = frozenset((instruction.out,) if instruction.node.op in CONTROL_OPS else ())
            for position in seen:
                if position < len(instruction.operands):
                    slot = instruction.operands[position]
                    found |= roots.get(slot, frozenset((slot,)))
            roots[instruction.out] = found
    return roots


_FIRST: Final = (0,)
_HANDED_ON: Final = frozenset({OUTPUT, ITEM, READ, CURRENT, ASSIGN})
"""Ops that give their operand, or a part of it."""


def _seen_through(instruction: Instruction) -> tuple[int, ...]:
    op = instruction.node.op
    if op in CONTROL_OPS:
        # A branch may give what it is given; but the condition is not for it.
        return tuple(range(int(op is COND), len(instruction.operands)))
    if instruction.kind is not Kind.KERNEL:
        return ()
    if instruction.moves_to is not None or op in _HANDED_ON:
        return _FIRST
    return VIEWS.get(op.name, ())
