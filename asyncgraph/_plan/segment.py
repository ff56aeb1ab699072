"""What can run without waiting for anything is one segment.

A segment is a set of kernels on one device whose foreign inputs are all there when it starts: it is run
from end to end, in one place, with one hand-over. A user's function is a segment of its own.

A kernel joins the segment of one of its inputs if it needs nothing that this segment does not need
already. Otherwise it begins a segment, or joins the one that waits for exactly the same. So a segment
never depends on one that began after it, and segments cannot wait for each other in a ring. What is
asked is only whether a dependency is a direct one: so the pass is linear, at the price of some segments
that could have been one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from .estimate import NOTHING, Estimate
from .lower import Instruction, Kind, Lowered
from .program import CHECK_EVERY, Checkpoint, Placement


@final
@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Instructions that run together.

    Fields:
        index: its place among the plan's segments; what it waits for has a lower one.
        kind: kernels, or one call of a user's function.
        where: the device of its kernels; `None` for the host without a backend, as for user functions.
        instructions: what it does, in order.
        waits_for: how many segments must be done before.
        successors: the segments that wait for it.
        reads: slots that other segments of the same run fill, and that this one reads.
        fills: slots that other segments read, or that are fetched.
        work: what it costs.
    """

    index: int
    kind: Kind
    where: Placement | None
    instructions: tuple[Instruction, ...]
    waits_for: int
    successors: tuple[int, ...]
    reads: tuple[int, ...]
    fills: tuple[int, ...]
    work: Estimate


def cut_into_segments(lowered: Lowered, checkpoint: Checkpoint) -> tuple[Segment, ...]:
    """The segments of a program's instructions, what is waited for first."""
    groups = _Groups()
    made_by: dict[int, int] = {}
    for index, instruction in enumerate(lowered.instructions):
        if not index % CHECK_EVERY:
            checkpoint()
        group_of = groups.group_of
        sources = {group_of[made_by[slot]] for slot in instruction.operands if slot in made_by}
        if instruction.after:
            sources.update([group_of[one] for one in instruction.after])
        groups.add(instruction, sources)
        made_by[instruction.out] = index
    return _linked(groups, lowered)


@final
class _Groups:
    """Segments while they grow.

    Fields:
        members: the instructions of each group.
        waits: for each group, the groups it waits for: fixed when it begins.
        group_of: the group of each instruction, in their order.
        begun: the group of kernels on a device that waits for exactly some groups.
    """

    def __init__(self) -> None:
        self.members: Final[list[list[Instruction]]] = []
        self.waits: Final[list[frozenset[int]]] = []
        self.group_of: Final[list[int]] = []
        self.begun: Final[dict[tuple[Placement | None, frozenset[int]], int]] = {}

    def add(self, instruction: Instruction, sources: set[int]) -> None:
        """Puts an instruction into the group where it belongs."""
        if instruction.kind is Kind.KERNEL:
            group = self._group_for(instruction, sources)
        else:
            group = self._begin(frozenset(sources))
        self.members[group].append(instruction)
        self.group_of.append(group)

    def _group_for(self, instruction: Instruction, sources: set[int]) -> int:
        for group in sources:
            first = self.members[group][0]
            if first.kind is Kind.KERNEL and _same_place(first.where, instruction.where):
                if len(sources) == 1 or all(one == group or one in self.waits[group] for one in sources):
                    return group
        key = (
            None if instruction.where is None or instruction.where.on_host else instruction.where,
            frozenset(sources),
        )
        group = self.begun.get(key)
        if group is None:
            group = self.begun[key] = self._begin(key[1])
        return group

    def _begin(self, waits: frozenset[int]) -> int:
        self.members.append([])
        self.waits.append(waits)
        return len(self.members) - 1


def _same_place(a: Placement | None, b: Placement | None) -> bool:
    # Kernels without a backend, such as `item`, go with any that work on the host's arrays.
    return a is b or ((a is None or a.on_host) and (b is None or b.on_host))


def _linked(groups: _Groups, lowered: Lowered) -> tuple[Segment, ...]:
    fetched = frozenset(lowered.fetches)
    successors: list[list[int]] = [[] for _ in groups.members]
    for group, waits in enumerate(groups.waits):
        for one in waits:
            successors[one].append(group)
    filled_in: dict[int, int] = {}
    reads: list[list[int]] = []
    read_elsewhere: set[int] = set()
    for group, members in enumerate(groups.members):
        foreign: dict[int, None] = {}
        for instruction in members:
            for slot in instruction.operands:
                if filled_in.get(slot, group) != group:
                    foreign[slot] = None
            filled_in[instruction.out] = group
        reads.append(list(foreign))
        read_elsewhere.update(foreign)
    kept = read_elsewhere | fetched
    return tuple(
        Segment(
            index=group,
            kind=members[0].kind,
            where=next((one.where for one in members if one.where is not None), None),
            instructions=tuple(members),
            waits_for=len(groups.waits[group]),
            successors=tuple(successors[group]),
            reads=tuple(reads[group]),
            fills=tuple([one.out for one in members if one.out in kept]),
            work=_total(members),
        )
        for group, members in enumerate(groups.members)
    )


def _total(members: list[Instruction]) -> Estimate:
    fixed = per_element = 0.0
    for one in members:
        if one.work is not NOTHING:
            fixed += one.work.fixed_s
            per_element += one.work.per_element_s
    return Estimate(fixed, per_element)
