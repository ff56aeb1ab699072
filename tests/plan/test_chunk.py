"""Interpreted, traced or emitted: values die at their last use, and a failure is traced to its instruction."""

from __future__ import annotations

import random
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._plan.chunk import CHUNK_SIZE, Chunk, Frame, chunks_of
from asyncgraph._plan.estimate import NOTHING
from asyncgraph._plan.lower import Instruction, Kind
from asyncgraph._plan.segment import Segment

from .compiled import compiled, compute, kernels

Form = Callable[[Chunk, Frame, int], None]


def interpreted(chunk: Chunk, frame: Frame, feeds: int) -> None:
    chunk.run(frame)


def traced(chunk: Chunk, frame: Frame, feeds: int) -> None:
    chunk.run_traced(frame, lambda node, start, end: None)


def emitted(chunk: Chunk, frame: Frame, feeds: int) -> None:
    if not chunk.emitted:
        chunk.emit([None] * len(frame), feeds)
    chunk.run(frame)


FORMS = pytest.mark.parametrize("form", [interpreted, traced, emitted])


class Value:
    """What kernels of these tests compute: something that can be seen to die."""

    def __init__(self, name: str) -> None:
        self.name = name


Before = Callable[[int], None]
"""Called by each kernel with the slot that it fills."""


def drawn(seed: int, length: int, before: Before = lambda out: None) -> tuple[Segment, dict[int, weakref.ref[Value]]]:
    """Random instructions on two feeds, and weak references to the value of each slot once it is there."""
    choose = random.Random(seed)
    made: dict[int, weakref.ref[Value]] = {}
    with ag.Graph():
        nodes = [ag.ops.zeros((1,), name=f"n{i}") for i in range(length)]
    instructions: list[Instruction] = []
    for out, node in enumerate(nodes, 2):
        operands = tuple(choose.choices(range(max(0, out - 12), out), k=choose.choice([0, 1, 2, 2, 3])))
        kernel = _kernel(out, operands, made, before)
        instructions.append(Instruction(node, Kind.KERNEL, kernel, operands, out, None, (), NOTHING))
    fills = tuple(sorted(choose.sample(range(2, 2 + length), 3)))
    return Segment(0, Kind.KERNEL, None, tuple(instructions), 0, (), (), fills, NOTHING), made


def _kernel(
    out: int, operands: Sequence[int], made: dict[int, weakref.ref[Value]], before: Before
) -> Callable[..., Value]:
    def kernel(*values: Value) -> Value:
        before(out)
        assert [one.name for one in values] == [str(slot) for slot in operands]
        value = Value(str(out))
        made[out] = weakref.ref(value)
        return value

    return kernel


def run(form: Form, segment: Segment, chunks: Sequence[Chunk]) -> Frame:
    frame: Frame = [Value("0"), Value("1")] + [None] * len(segment.instructions)
    for chunk in chunks:
        form(chunk, frame, 2)
    return frame


@FORMS
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("length", [30, CHUNK_SIZE, 3 * CHUNK_SIZE + 1])
def test_after_a_run_the_frame_holds_its_feeds_and_what_the_segment_fills_and_nothing_else(
    form: Form, seed: int, length: int
) -> None:
    segment, _ = drawn(seed, length)
    frame = run(form, segment, chunks_of(segment))
    assert [slot for slot, value in enumerate(frame) if value is not None] == [0, 1, *segment.fills]
    assert [frame[slot].name for slot in segment.fills] == [str(slot) for slot in segment.fills]


@FORMS
@pytest.mark.parametrize("seed", range(10))
def test_a_value_dies_when_what_reads_it_last_is_done(form: Form, seed: int) -> None:
    alive_too_long: list[tuple[int, int]] = []

    def look(out: int) -> None:
        for slot, value in made.items():
            if value() is not None and last[slot] < out and slot not in segment.fills:
                alive_too_long.append((slot, out))

    segment, made = drawn(seed, 300, look)
    last = {one.out: one.out for one in segment.instructions}
    last |= {slot: one.out for one in segment.instructions for slot in one.operands}
    run(form, segment, chunks_of(segment))
    assert len(made) == 300
    assert alive_too_long == []


@FORMS
@pytest.mark.parametrize("where", [0, 1])
def test_a_failure_is_traced_to_its_instruction_and_what_that_was_given_wherever_it_is(form: Form, where: int) -> None:
    broken = 0

    def fail(out: int) -> None:
        if out == broken:
            raise ZeroDivisionError

    segment, _ = drawn(5, CHUNK_SIZE + 50, fail)
    chunks = chunks_of(segment)
    for one in chunks[where].instructions:
        broken = one.out
        with pytest.raises(ZeroDivisionError) as caught:
            run(form, segment, chunks)
        failures = [chunk.failed(caught.value) for chunk in chunks]
        found = failures[where]
        assert found is not None
        assert failures[1 - where] is None
        assert found.instruction is one
        assert [value.name for value in found.operands] == [str(slot) for slot in one.operands]


@FORMS
def test_an_error_that_is_kept_keeps_no_array(form: Form) -> None:
    def fails(a: Any, b: Any) -> Any:
        local = a * 2
        arrays.append(weakref.ref(local))
        raise ZeroDivisionError

    with ag.Graph():
        nodes = [ag.ops.zeros((1,), name=f"n{i}") for i in range(3)]
    instructions = tuple(
        Instruction(node, Kind.KERNEL, kernel, operands, out, None, (), NOTHING)
        for node, kernel, operands, out in zip(
            nodes, [np.negative, np.add, fails], [(0,), (0, 1), (1, 2)], [1, 2, 3], strict=True
        )
    )
    (chunk,) = chunks_of(Segment(0, Kind.KERNEL, None, instructions, 0, (), (), (1, 3), NOTHING))
    fed = np.ones(3)
    arrays = [weakref.ref(fed)]
    frame: Frame = [fed, None, None, None]
    del fed
    kept: list[BaseException] = []
    try:
        form(chunk, frame, 1)
    except ZeroDivisionError as error:
        found = chunk.failed(error)
        assert found is not None
        arrays += [weakref.ref(value) for value in found.operands]
        del found
        kept.append(error)
    frame.clear()
    assert len(arrays) == 4
    assert [array() for array in arrays] == [None] * 4


def test_an_error_of_something_else_is_nothing_of_the_chunk() -> None:
    segment, _ = drawn(1, 5)
    (chunk,) = chunks_of(segment)
    with pytest.raises(ValueError, match="invalid") as caught:
        int("x")
    assert chunk.failed(caught.value) is None


def test_the_traceback_of_an_emitted_chunk_shows_the_line_that_failed() -> None:
    with ag.Graph():
        x, y = ag.placeholder("float64", (3,), name="x"), ag.placeholder("float64", None, name="y")
        z = ag.ops.sin(ag.ops.add(ag.ops.negative(x), y), name="z")
    plan = compiled([z], [x, y])
    plan.inline_chunks[0].emit([None] * 5, 2)
    with pytest.raises(ValueError, match="could not be broadcast") as caught:
        compute(plan, [np.ones(3), np.ones(4)])
    plan.failed(0, caught.value)
    text = "".join(traceback.format_exception(caught.value))
    assert "line 3, in chunk\n    v0=k1(v0,f[1])\n" in text


def test_a_chunk_has_200_instructions_at_most() -> None:
    for length, sizes in ((199, [199]), (200, [200]), (201, [200, 1]), (400, [200, 200])):
        with ag.Graph():
            node = x = ag.placeholder("float64", ())
            for _ in range(length):
                node = ag.ops.negative(node)
        plan = compiled([node], [x])
        assert [len(chunk.instructions) for chunk in kernels(plan)] == sizes
        assert compute(plan, [np.float64(3.0)]) == [3.0 * (-1) ** length]
