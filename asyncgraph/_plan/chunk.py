"""A part of a segment that runs in one go: at most 200 instructions.

A chunk begins in an interpreter loop, which costs nothing to make, and is emitted as Python when its
plan is hot. Either way `run(frame)` is one call, and a failure is traced to its instruction afterwards:
the way that succeeds keeps no books.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from types import FrameType, TracebackType
from typing import Any, Final, final

from .._graph.node import Node
from .emit import FIRST_LINE, Emitted, emit, show_source
from .lower import Instruction
from .segment import Segment

CHUNK_SIZE: Final = 200
"""Instructions in a chunk: `compile` holds the GIL, 9 µs for each."""

Frame = list[Any]
Record = Callable[[Node, float, float], None]
"""Told of a node, and when it began and ended, in seconds of `perf_counter`."""
Step = tuple[Callable[..., Any], tuple[int, ...], int, tuple[int, ...]]
"""A kernel, the slots it reads, the slot it fills, the slots that are not read again."""


def interpret(steps: Sequence[Step], frame: Frame) -> None:
    """Computes `steps` on a frame, one after the other. After a failure its frame is read: which step, of what."""
    for _position, (kernel, operands, out, dead) in enumerate(steps):
        # Nearly all ops take two operands or one; spelled out, a step takes half the time.
        if len(operands) == 2:
            first, second = operands
            frame[out] = kernel(frame[first], frame[second])
        elif len(operands) == 1:
            frame[out] = kernel(frame[operands[0]])
        else:
            frame[out] = kernel(*[frame[slot] for slot in operands])
        for slot in dead:
            frame[slot] = None


def interpret_traced(steps: Sequence[Step], frame: Frame, instructions: Sequence[Instruction], record: Record) -> None:
    """As `interpret`, telling `record` when each instruction began and ended."""
    for _position, (kernel, operands, out, dead) in enumerate(steps):
        start = perf_counter()
        frame[out] = kernel(*[frame[slot] for slot in operands])
        record(instructions[_position].node, start, perf_counter())
        for slot in dead:
            frame[slot] = None


_INTERPRETERS: Final = (interpret.__code__, interpret_traced.__code__)


@final
@dataclass(frozen=True, slots=True)
class Failure:
    """The instruction that raised, and the values it was given."""

    instruction: Instruction
    operands: list[Any]


@final
class Chunk:
    """Instructions that run in one go.

    Fields:
        run: computes them on a frame; raises what a kernel raises.
        instructions: what they are.
        steps: the same for the interpreter.
        kept: the slots it fills that are read after it.
    """

    __slots__ = ("_emitted", "instructions", "kept", "run", "steps")

    def __init__(self, instructions: Sequence[Instruction], steps: Sequence[Step], kept: frozenset[int]) -> None:
        self.instructions: Final = instructions
        self.steps: Final = steps
        self.kept: Final = kept
        self._emitted: Emitted | None = None
        self.run: Callable[[Frame], None] = partial(interpret, steps)

    @property
    def emitted(self) -> bool:
        """Whether it is Python by now."""
        return self._emitted is not None

    def emit(self, template: Frame, feeds: int) -> None:
        """Turns it into Python. Safe while others run it.

        Args:
            template: the plan's frame before a run.
            feeds: how many of its first slots are fed.
        """
        emitted = emit(self.steps, template, feeds, self.kept)
        self._emitted = emitted
        self.run = emitted.function

    def run_traced(self, frame: Frame, record: Record) -> None:
        """As `run`, telling `record` when each instruction began and ended."""
        interpret_traced(self.steps, frame, self.instructions, record)

    def failed(self, error: BaseException) -> Failure | None:
        """What raised `error`, whose frames are cleared of values; `None` if it was nothing of this chunk."""
        found: Failure | None = None
        for traceback in _tracebacks(error.__traceback__):
            if found is None:
                found = self._failure(traceback.tb_frame, traceback.tb_lineno)
            if found is not None:
                # The kernel's own frames hold arrays too, and are of no use to anybody.
                _clear(traceback.tb_frame)
        if found is not None and self._emitted is not None:
            show_source(self._emitted)
        return found

    def _failure(self, frame: FrameType, line: int) -> Failure | None:
        emitted = self._emitted
        if frame.f_code in _INTERPRETERS:
            seen = frame.f_locals
            if seen.get("steps") is self.steps:  # There are none in a frame that has been cleared.
                position: int = seen["_position"]
                values: Frame = seen["frame"]
                return Failure(self.instructions[position], [values[slot] for slot in self.steps[position][1]])
        elif emitted is not None and frame.f_code is emitted.code:
            position = line - FIRST_LINE
            return Failure(self.instructions[position], emitted.arguments(position, frame))
        return None


def chunks_of(segment: Segment) -> tuple[Chunk, ...]:
    """The chunks of a segment of kernels, in order."""
    instructions = segment.instructions
    own = {one.out for one in instructions}
    read_later = set(segment.fills)
    chunks: list[Chunk] = []
    for start in reversed(range(0, len(instructions), CHUNK_SIZE)):
        part = instructions[start : start + CHUNK_SIZE]
        kept = frozenset([one.out for one in part if one.out in read_later])
        chunks.append(Chunk(part, _steps(part, own, read_later), kept))
    return tuple(reversed(chunks))


def _steps(instructions: Sequence[Instruction], own: set[int], read_later: set[int]) -> list[Step]:
    """The steps of a chunk, backwards: what is read first from there is read last. Adds to `read_later`."""
    steps: list[Step] = []
    for one in reversed(instructions):
        assert one.kernel is not None
        dead: list[int] = []
        for slot in one.operands:
            if slot not in read_later and slot in own:
                read_later.add(slot)
                dead.append(slot)
        if one.out not in read_later:
            dead.append(one.out)
        steps.append((one.kernel, one.operands, one.out, tuple(dead)))
    steps.reverse()
    return steps


def _tracebacks(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _clear(frame: FrameType) -> None:
    try:
        frame.clear()
    except RuntimeError:
        # Still running: somebody else's, as when a kernel resumes a generator.
        return
    # Until 3.13 a frame that has been looked into keeps a dict of what was found, brought up to date by a second look.
    _ = frame.f_locals
