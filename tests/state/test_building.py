"""Variables, their reads and their assignments as nodes of a graph."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import GraphError, GraphFinalizedError, SpecError, SpecOverflowError, SpecTypeError


@pytest.fixture
def graph() -> Any:
    with ag.Graph() as graph:
        yield graph


@pytest.mark.parametrize(
    ("initial", "options", "spec"),
    [
        (1.0, {}, "float64[]"),
        ([1, 2], {"dtype": "float32"}, "float32[2]"),
        (np.zeros((2, 3), np.int8), {}, "int8[2,3]"),
        (np.zeros((2, 3)), {"shape": (None, 3)}, "float64[?,3]"),
        (lambda: [True], {}, "bool[1]"),
        (lambda: [True], {"dtype": "float32", "shape": (None,)}, "float32[?]"),
    ],
)
def test_a_variable_is_of_its_initial_values_spec_or_of_what_is_said(
    graph: ag.Graph, initial: Any, options: dict[str, Any], spec: str
) -> None:
    assert repr(ag.variable(initial, **options).spec) == spec


def test_names_of_dimensions_are_of_one_run_and_no_variable_has_them(graph: ag.Graph) -> None:
    assert ag.variable(ag.placeholder("float64", ("n", 2)) * 1).shape == (None, 2)


@pytest.mark.parametrize(
    ("initial", "options", "error", "match"),
    [
        (1.5, {"dtype": "int32"}, SpecTypeError, "does not fit"),
        (300, {"dtype": "int8"}, SpecTypeError, "does not fit"),
        ([1.0, 2.0], {"shape": (3,)}, SpecError, "does not fit"),
        ("text", {"dtype": "float64"}, SpecTypeError, "does not fit"),
        (object(), {}, SpecTypeError, None),
        (lambda: lambda: 1, {}, SpecTypeError, "a function that gives"),
    ],
)
def test_an_initial_value_that_cannot_be_the_variables_is_an_error_when_it_is_built(
    graph: ag.Graph, initial: Any, options: dict[str, Any], error: type[Exception], match: str | None
) -> None:
    with pytest.raises(error, match=match):
        ag.variable(initial, "v", **options)
    assert graph.variables == ()


def test_a_variable_whose_dtype_nobody_knows_is_an_error_that_says_what_to_give(graph: ag.Graph) -> None:
    returned = ag.op(lambda: 1.0).node()
    with pytest.raises(SpecTypeError, match=r"'v' is not known[\s\S]*give dtype="):
        ag.variable(returned, "v")
    assert repr(ag.variable(returned, dtype="float64").spec) == "float64[...]"


def test_there_is_no_variable_without_a_graph() -> None:
    with pytest.raises(GraphError, match="no current graph"):
        ag.variable(1.0)


def test_a_graph_knows_its_variables_in_order(graph: ag.Graph) -> None:
    one = ag.variable(1.0, "one")
    two = ag.variable(one + 1, "two", trainable=False)
    assert graph.variables == (one, two)
    assert (one.trainable, two.trainable) == (True, False)
    assert (one.initial.op.name, two.initial.op.name) == ("constant", "add")
    assert graph["two"] is two
    assert isinstance(two, ag.Node)


def test_a_variable_is_a_read_in_control_dependencies_and_itself_outside(graph: ag.Graph) -> None:
    v = ag.variable(1.0, "v")
    first = v.assign(2.0)
    plain = v + 1
    with ag.control_dependencies([first]):
        after = v + 1
        with ag.control_dependencies(None):
            cleared = v + 1
    assert plain.inputs == cleared.inputs == (v,)
    assert [(one.op.name, one.after) for one in after.inputs] == [("read", (first,))]


def test_the_scope_in_which_a_variable_is_built_orders_neither_it_nor_its_initial_value(graph: ag.Graph) -> None:
    first = ag.variable(1.0).assign(2.0)
    with ag.control_dependencies([first]):
        v = ag.variable(ag.ops.ones((2,)))
        function = ag.variable(lambda: np.zeros(2), dtype="float64", shape=(2,))
    for one in (v, function, function.initial):
        assert one.after == ()


def test_what_is_built_is_named_after_the_variable_in_the_scope_in_force(graph: ag.Graph) -> None:
    with ag.name_scope("a"):
        v = ag.variable(1.0, "v")
    with ag.name_scope("b"):
        nodes = [v.read(), v.assign(1.0), v.assign_add(1.0), v.assign(2.0, name="mine")]
    assert [node.name for node in (v, *nodes)] == ["a/v", "b/v_read", "b/v_assign", "b/v_assign_1", "b/mine"]


_BUILTIN = {SpecTypeError: TypeError, SpecError: ValueError, SpecOverflowError: OverflowError}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([1.0], SpecError),
        (np.float64(0.1), SpecTypeError),
        ("x", SpecTypeError),
        (None, SpecTypeError),
        (np.float64(1e300), SpecOverflowError),
        ([[1e300]], SpecOverflowError),
        (1j, SpecTypeError),
    ],
)
@pytest.mark.parametrize("how", ["assign", "assign_add", "assign_sub"])
def test_what_can_never_be_assigned_is_an_error_and_adds_nothing(
    graph: ag.Graph, how: str, value: Any, error: type[Exception]
) -> None:
    v = ag.variable(np.float32(0), "v")
    before = len(graph)
    with pytest.raises(error) as caught:
        getattr(v, how)(value)
    assert isinstance(caught.value, _BUILTIN[error])
    assert len(graph) == before


def test_nodes_that_can_never_be_assigned_are_errors_that_say_what_to_do(graph: ag.Graph) -> None:
    v = ag.variable(np.zeros(3, np.float32), "v")
    wide, long, unknown = (
        ag.placeholder("float64", (3,), "wide"),
        ag.placeholder("float32", (4,)),
        ag.placeholder(None, None, "unknown"),
    )
    with pytest.raises(SpecTypeError) as caught:
        v.assign(wide)
    assert str(caught.value).splitlines()[:2] == [
        "<placeholder 'wide': float64[3]> cannot be assigned to 'v': the dtype would be float64",
        "  expected: float32[3]",
    ]
    assert str(caught.value).splitlines()[-1] == "  write ops.astype(value, 'float32')"
    with pytest.raises(SpecError, match=r"the shape would be \(4,\)"):
        v.assign(long)
    assert v.assign(unknown).spec == v.spec
    with pytest.raises(SpecError):
        v.assign_add(ag.placeholder("float32", (2, 3)))


def test_nodes_of_other_graphs_cannot_be_assigned(graph: ag.Graph) -> None:
    v = ag.variable(0.0)
    with ag.Graph():
        foreign = ag.constant(1.0)
        with pytest.raises(GraphError, match="another graph"):
            v.assign(foreign)
    with pytest.raises(GraphError, match="another graph"):
        v.assign_add(foreign)


def test_assign_add_broadcasts_and_takes_python_numbers_by_their_kind(graph: ag.Graph) -> None:
    v = ag.variable(np.zeros((2, 3), np.float32))
    whole = ag.variable(0)
    for value in (1, 1.5, True, np.float32(1), np.zeros(3, np.float32), np.zeros((2, 1), np.float32)):
        assert v.assign_add(value).spec == v.spec
    assert whole.assign_sub(1).spec == whole.spec
    with pytest.raises(SpecTypeError):
        whole.assign_add(1.5)


def test_a_finalized_graph_takes_no_assignment_and_runs_those_that_it_has(graph: ag.Graph) -> None:
    v = ag.variable(1.0)
    more = v.assign_add(1.0)
    graph.finalize()
    for build in (v.read, lambda: v.assign(1.0), lambda: v.assign_add(1.0), lambda: ag.variable(1.0), ag.global_step):
        with pytest.raises(GraphFinalizedError):
            build()
    with ag.BlockingSession(graph) as session:
        session.run(more)
        assert session.run(v).results == 2.0


def test_the_global_step_is_one_variable_of_the_current_graph(graph: ag.Graph) -> None:
    with ag.name_scope("inner"):
        step = ag.global_step()
    assert ag.global_step() is step is graph["global_step"]
    assert (step.dtype, step.shape, step.trainable) == (np.int64, (), False)
    with ag.Graph():
        assert ag.global_step() is not step


def test_another_node_of_that_name_is_no_global_step(graph: ag.Graph) -> None:
    ag.constant(1, name="global_step")
    with pytest.raises(GraphError, match="not the variable that counts steps"):
        ag.global_step()


def test_a_pickled_graph_has_the_same_variables_which_hold_nothing_of_any_session(graph: ag.Graph) -> None:
    v = ag.variable([1.0, 2.0], "v", trainable=False)
    w = ag.variable(v + initial_of_w.node(), "w")
    with ag.control_dependencies([v.assign_add(1.0, name="more")]):
        read = ag.ops.add(v, w, name="read")
    with ag.BlockingSession(graph) as session:
        session.run(read)
        copied = pickle.loads(pickle.dumps(graph))
        assert [(one.name, one.spec, one.trainable) for one in copied.variables] == [
            (one.name, one.spec, one.trainable) for one in graph.variables
        ]
        with ag.BlockingSession(copied) as other:
            for expected in ([14.0, 16.0], [15.0, 17.0]):
                assert other.run(["v", "read"]).results[1].tolist() == expected
        assert session.run("v").results.tolist() == [2.0, 3.0]


@ag.op(spec="float64[]")
def initial_of_w() -> Any:
    return np.float64(11.0)


def test_a_variable_prints_as_what_it_is(graph: ag.Graph) -> None:
    v = ag.variable([1.0, 2.0], "v")
    v.assign_add(1.0)
    assert repr(v) == "<variable 'v': float64[2]>"
    assert str(graph).splitlines()[1] == "v: float64[2] = variable(constant, trainable=True)"
