"""What can run without waiting for anything is one segment.

A segment is a set of kernels on one device whose foreign inputs are all there when it starts: it is run
from end to end, in one place, with one hand-over. A user's function is a segment of its own.

A kernel joins the last begun of its inputs' segments if it needs nothing that this segment does not need
already. Otherwise it begins a segment, or joins the one that waits for exactly the same. So a segment
never depends on one that began after it, and segments cannot wait for each other in a ring. Of what a
segment needs by way of others only some is remembered: so the pass is linear, at the price of some
segments that could have been one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from .estimate import NOTHING, Estimate
from .lower import Instruction, Kind, Lowered
from .program import CHECK_EVERY, Checkpoint, Placement

_MOST_NEEDS: Final = 32
"""Of the segments that one needs by way of others, how many are remembered: enough for what stands near."""


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
        fills: slots that other segments read, or that are fetched, or assigned to variables.
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

    @property
    def device(self) -> Placement | None:
        """The device that its kernels are submitted to, which does them some time later; `None` if a thread does."""
        is_submitted = self.kind is Kind.KERNEL and self.where is not None and self.where.is_asynchronous
        return self.where if is_submitted else None


def cut_into_segments(lowered: Lowered, checkpoint: Checkpoint) -> tuple[Segment, ...]:
    """The segments of a program's instructions, what is waited for first."""
    groups = _Groups(lowered)
    for count, instruction in enumerate(lowered.instructions, 1):
        if not count % CHECK_EVERY:
            checkpoint()
        groups.add(instruction)
    return _linked(groups)


@final
class _Groups:
    """Segments while they grow.

    Fields:
        members: the instructions of each group.
        waits: for each group, the groups it waits for, which began before it: fixed when it begins.
        _needs: the same, and some of what these need.
        reads: for each group, the slots of other groups that it reads.
        read: all of these, and the slots that are fetched or assigned.
        _places: where each group's kernels run; the kind of a user's function, which nothing joins.
        _filled_in: for each slot, the group that fills it; -1 if none does.
        _group_of: the group of each instruction, in their order.
        _begun: the group of kernels in a place that waits for exactly some groups.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.members: Final[list[list[Instruction]]] = []
        self.waits: Final[list[frozenset[int]]] = []
        self.reads: Final[list[dict[int, None]]] = []
        self.read: Final = {*lowered.fetches, *[slot for _, slot in lowered.assigned]}
        self._needs: Final[list[frozenset[int]]] = []
        self._places: Final[list[Placement | Kind | None]] = []
        self._filled_in: Final = [-1] * len(lowered.template)
        self._group_of: Final[list[int]] = []
        self._begun: Final[dict[tuple[Placement | None, frozenset[int]], int]] = {}

    def add(self, instruction: Instruction) -> None:
        """Puts an instruction into the group where it belongs."""
        filled_in = self._filled_in
        source, several = -1, bool(instruction.after)
        for slot in instruction.operands:
            one = filled_in[slot]
            if one != source and one >= 0:
                several = several or source >= 0
                source = one
        if not several and source >= 0 and self._joins(instruction, source):
            group = source  # as nearly all do
        else:
            group = self._group_for(instruction)
            for slot in instruction.operands:
                if -1 != filled_in[slot] != group:
                    self.reads[group][slot] = None
                    self.read.add(slot)
        self.members[group].append(instruction)
        self._group_of.append(group)
        filled_in[instruction.out] = group

    def _group_for(self, instruction: Instruction) -> int:
        sources = {self._filled_in[slot] for slot in instruction.operands}
        sources.update([self._group_of[one] for one in instruction.after])
        sources.discard(-1)
        if sources:
            last = max(sources)
            if self._joins(instruction, last) and self._needs[last].issuperset(sources - {last}):
                return last
        waits = self._direct(sources)
        if instruction.kind is not Kind.KERNEL:
            return self._begin(instruction.kind, waits)
        key = _place(instruction), waits
        group = self._begun.get(key)
        if group is None:
            group = self._begun[key] = self._begin(*key)
        return group

    def _direct(self, sources: set[int]) -> frozenset[int]:
        """Those of `sources` that no other is known to need."""
        if 1 < len(sources) <= _MOST_NEEDS:
            return frozenset(sources.difference(*[self._needs[one] for one in sources]))
        return frozenset(sources)

    def _joins(self, instruction: Instruction, group: int) -> bool:
        return instruction.kind is Kind.KERNEL and self._places[group] is _place(instruction)

    def _begin(self, place: Placement | Kind | None, waits: frozenset[int]) -> int:
        self.members.append([])
        self.waits.append(waits)
        needs = set(waits)
        for one in waits:
            if len(needs) > _MOST_NEEDS:
                break
            needs |= self._needs[one]
        self._needs.append(frozenset(needs))
        self.reads.append({})
        self._places.append(place)
        return len(self.members) - 1


def _place(instruction: Instruction) -> Placement | None:
    # Kernels without a backend, such as `item`, go with any that work on the host's arrays.
    where = instruction.where
    return None if where is None or where.on_host else where


def _linked(groups: _Groups) -> tuple[Segment, ...]:
    successors: list[list[int]] = [[] for _ in groups.members]
    for group, waits in enumerate(groups.waits):
        for one in waits:
            successors[one].append(group)
    read = groups.read
    return tuple(
        Segment(
            index=group,
            kind=members[0].kind,
            where=next((one.where for one in members if one.where is not None), None),
            instructions=tuple(members),
            waits_for=len(groups.waits[group]),
            successors=tuple(successors[group]),
            reads=tuple(groups.reads[group]),
            fills=tuple([one.out for one in members if one.out in read]),
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
