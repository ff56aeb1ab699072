"""A plan: compiled, frozen, runnable, printable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

from .._graph.control import FORCED
from .._graph.graph import describe
from .chunk import Chunk, Failure, Frame, chunks_of
from .control import Control
from .estimate import NOTHING
from .fold import kept_by
from .lower import Instruction, Kind, Lowered
from .ownership import Assigned, Fetched
from .program import Program
from .segment import Segment

_HOT_RUNS: Final = 50
"""Runs after which a plan is emitted: emitting a node costs 9 µs and saves 0.04 to 0.3 µs a run."""


@final
class Plan:
    """What to do for some fetches and fed nodes. Shared by any number of runs at once.

    Fields:
        program: the nodes, after the passes.
        segments: what to do, what is waited for first.
        chunks: the chunks of each segment of kernels; none for a user's function.
        inline_chunks: of a single segment, its chunks.
        fetches: where the values of the fetches are.
        feeds: how many slots of a frame are fed: the first, in the order of `program.feeds`.
        variables: those whose value a run is given, in the order of the slots that come next.
        assigned: what variables hold when a run has succeeded.
        commits: the same, to be gone through in each run: variable, slot, `plain`, `keep`.
        initialized: of these, those that get their first value.
        writes: whose value it changes.
        reads: whose value it reads, and does not change.
        draws: whether it draws random numbers, for which it is given a key, in the slot after the variables'.
        stateful: whether it has anything to do with variables or random numbers.
        single: whether it is one segment of kernels on the host, or none at all, which needs no scheduler.
        bodies: of each segment of kernels, the kernels of control flow.
        work: what its first segment costs.
        readers: for each slot that crosses segments, how many read it; what is fetched or assigned counts once more.
        cold: the chunks that are not emitted yet.
        needs_loop: whether it needs an event loop: for coroutines, and for calls that may be abandoned.
    """

    def __init__(
        self,
        program: Program,
        lowered: Lowered,
        segments: tuple[Segment, ...],
        fetches: tuple[Fetched, ...],
        assigned: tuple[Assigned, ...],
    ) -> None:
        self.program: Final = program
        self.segments: Final = segments
        self.chunks: Final[tuple[tuple[Chunk, ...], ...]] = tuple(
            [chunks_of(one) if one.kind is Kind.KERNEL else () for one in segments]
        )
        self.fetches: Final = fetches
        self.feeds: Final = len(lowered.feeds)
        self.variables: Final = lowered.variables
        self.assigned: Final = assigned
        self.commits: Final = tuple([(one.variable, one.slot, one.plain, one.keep) for one in assigned])
        self.initialized: Final = program.state.initialized
        self.writes: Final = frozenset([one.variable for one in assigned])
        self.reads: Final = frozenset(lowered.variables) - self.writes
        self.draws: Final = lowered.draws
        self.stateful: Final = bool(lowered.variables or assigned or lowered.draws)
        self.single: Final = not segments or (len(segments) == 1 and _may_be_inline(segments[0]))
        self.inline_chunks: Final[tuple[Chunk, ...]] = self.chunks[0] if self.single and segments else ()
        self.work: Final = segments[0].work if segments else NOTHING
        self.bodies: Final[tuple[tuple[Control, ...], ...]] = tuple([_controls(one) for one in segments])
        self.needs_loop: Final = any(_needs_loop(one) for one in segments)
        self.readers: Final[dict[int, int]] = _readers(segments, [one.slot for one in (*fetches, *assigned)])
        fetched = {one.slot for one in fetches}
        self._filled_by: Final = {slot: one.index for one in segments for slot in one.fills if slot in fetched}
        self._template: Final = lowered.template
        self._given: Final = lowered.given
        self._tail: Final = lowered.template[lowered.given :]
        self._unkept: Final = [one.instructions[0].node for one in segments if _keeps_result(one)]
        self._runs = 0
        self.cold: Final = [chunk for chunks in self.chunks for chunk in chunks]

    @property
    def is_outdated(self) -> bool:
        """Whether those of its calls that keep their results have them by now: a new plan would not call."""
        return bool(self._unkept) and all(kept_by(node) is not None for node in self._unkept)

    def frame(self, given: list[Any]) -> Frame:
        """A frame for one run, with the fed values in it, then those of the variables, then the key it draws from."""
        return given + self._tail

    def count_run(self) -> None:
        """Called once a run. A plan that turns out to be hot is emitted, one chunk a run."""
        if self.cold:
            self._runs += 1
            if self._runs >= _HOT_RUNS:
                self._emit_one()

    def _emit_one(self) -> None:
        try:
            chunk = self.cold.pop()
        except IndexError:
            return  # Another thread took the last one.
        chunk.emit(self._template, self._given)

    def filled_by(self, slot: int) -> int | None:
        """The segment that fills a fetched slot; `None` for one that is filled before the run."""
        return self._filled_by.get(slot)

    def failed(self, segment: int, error: BaseException) -> Failure | None:
        """What in a segment raised `error`, after clearing the frames that hold its values."""
        for chunk in self.chunks[segment]:
            found = chunk.failed(error)
            if found is not None:
                return found
        return None

    def __str__(self) -> str:
        program = self.program
        lines = [
            f"plan of {len(program.nodes)} nodes in {len(self.segments)} segments; "
            f"{program.pruned} pruned, {len(program.same)} merged, {len(program.folded)} folded"
        ]
        if program.feeds:
            lines.append("feeds: " + ", ".join(f"{node.name}: {node.spec!r}" for node in program.feeds))
        if self.variables:
            lines.append("reads: " + ", ".join([one.name for one in self.variables]))
        for segment, chunks in zip(self.segments, self.chunks, strict=True):
            lines.append(_heading(segment, chunks))
            for one in segment.instructions:
                lines.append(f"  {_line(one)}")
                lines += _inner(one)
        lines.append("fetches: " + ", ".join(f"{one.node.name} ({one.owner.value})" for one in self.fetches))
        if self.assigned:
            lines.append("assigns: " + ", ".join([one.variable.name for one in self.assigned]))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Plan of {len(self.program.nodes)} nodes in {len(self.segments)} segments>"


def _controls(segment: Segment) -> tuple[Control, ...]:
    kernels = [one.kernel for one in segment.instructions] if segment.kind is Kind.KERNEL else []
    return tuple([one for one in kernels if isinstance(one, Control)])


def _may_be_inline(segment: Segment) -> bool:
    return segment.kind is Kind.KERNEL and segment.device is None


def _needs_loop(segment: Segment) -> bool:
    call = segment.instructions[0].node.op.call
    abandons = segment.kind is not Kind.KERNEL and call is not None and call.abandon_on_cancel
    return segment.kind is Kind.ASYNC or abandons


def _keeps_result(segment: Segment) -> bool:
    # A segment of kernels may begin with the transfer of a value that is fed for such a call's.
    call = segment.instructions[0].node.op.call
    return segment.kind is not Kind.KERNEL and call is not None and call.kept is not None


def _readers(segments: tuple[Segment, ...], wanted: Iterable[int]) -> dict[int, int]:
    readers: dict[int, int] = {}
    for segment in segments:
        for slot in segment.reads:
            readers[slot] = readers.get(slot, 0) + 1
    for slot in wanted:
        readers[slot] = readers.get(slot, 0) + 1
    return readers


def _inner(instruction: Instruction) -> list[str]:
    """What is run by an instruction of control flow."""
    control = instruction.kernel
    if not isinstance(control, Control) or instruction.node.op is FORCED:
        return []  # What is forced is shown where it is delayed.
    lines: list[str] = []
    for name, body in zip(control.names, control.bodies, strict=True):
        lines += [
            f"    {name}: {line}" if not number else f"    {line}"
            for number, line in enumerate(str(body.plan).splitlines())
        ]
    return lines


def _heading(segment: Segment, chunks: tuple[Chunk, ...]) -> str:
    where = f" on {segment.where}" if segment.where is not None else ""
    how = "submitted" if segment.device is not None else segment.kind.value
    waits = f", waits for {segment.waits_for}" if segment.waits_for else ""
    tier = ", emitted" if chunks and all(chunk.emitted for chunk in chunks) else ""
    return f"segment {segment.index}: {how}{where}{waits}{tier}"


def _line(instruction: Instruction) -> str:
    if instruction.moves_to is not None:
        return f"{instruction.node.name} moved to {instruction.moves_to}"
    return describe(instruction.node)
