from __future__ import annotations

import threading

import numpy as np

import asyncgraph as ag
from asyncgraph._exec.notes import add_failure_line, add_node_note, described
from asyncgraph._plan.program import Placement

from ..backends.strict_backend import StrictBackend


def two_nodes() -> tuple[ag.Node, ag.Node]:
    with ag.Graph():
        x = ag.placeholder("float64", (3,), name="x")
        return ag.ops.sin(x, name="first"), ag.ops.cos(x, name="second")


def test_a_note_names_the_node_its_op_its_operands_and_the_line_that_built_it() -> None:
    first, _ = two_nodes()
    error = ValueError()
    add_node_note(error, first, None, [np.zeros((2, 3), np.float32)])
    (note,) = error.__notes__
    node, inputs, device, built = note.splitlines()
    assert node == "asyncgraph: node 'first' (sin) failed"
    assert inputs == "  inputs: float32[2,3]"
    assert device == "  device: host"
    assert "test_notes.py" in built


def test_an_operand_on_a_device_has_its_dtype_and_shape_in_the_note_and_anything_else_there_its_type() -> None:
    backend = StrictBackend()
    device = backend.devices()[1]
    first, _ = two_nodes()
    error = ValueError()
    array = backend.to_device(np.zeros((2, 3), np.float32), device)
    add_node_note(error, first, Placement(backend, device), [array, 1.5, Ellipsis])
    assert error.__notes__[0].splitlines()[1:3] == ["  inputs: float32[2,3], float, ellipsis", "  device: strict:1"]


def test_a_second_raise_of_one_exception_replaces_the_note_and_leaves_those_of_others() -> None:
    first, second = two_nodes()
    error = ValueError()
    error.add_note("the user's own")
    for _ in range(3):
        add_node_note(error, first, None)
        add_node_note(error, second, None)
    assert error.__notes__[0] == "the user's own"
    assert len(error.__notes__) == 2
    assert "'second'" in error.__notes__[1]


def test_one_exception_that_many_threads_raise_at_once_has_one_note() -> None:
    first, _ = two_nodes()
    for _ in range(20):
        error, barrier = ValueError(), threading.Barrier(4)

        def note(error: ValueError = error, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(20)
            for _ in range(20):
                add_node_note(error, first, None)

        threads = [threading.Thread(target=note) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(error.__notes__) == 1


def test_a_further_failure_is_a_line_of_the_note() -> None:
    first, second = two_nodes()
    error = ValueError()
    add_node_note(error, first, None)
    add_failure_line(error, second.name, KeyError("other"))
    (note,) = error.__notes__
    assert note.splitlines()[-1] == "  also failed: 'second': KeyError: 'other'"


def test_a_further_failure_of_a_run_that_was_ended_from_outside_is_its_note() -> None:
    error = TimeoutError()
    add_failure_line(error, "second", KeyError("other"))
    assert error.__notes__ == ["asyncgraph: also failed: 'second': KeyError: 'other'"]


def test_an_exception_that_cannot_be_printed_is_named_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    error = TimeoutError()
    add_failure_line(error, "second", Mute())
    assert error.__notes__ == ["asyncgraph: also failed: 'second': Mute"]


def test_values_are_described_by_spec_or_type() -> None:
    assert described(np.zeros(3)) == "float64[3]"
    assert described(np.float32(1)) == "float32[]"
    assert described({"a": 1}) == "dict"
