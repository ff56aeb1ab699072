"""What `cond` and `while_loop` take and refuse, and what is known of what they give."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph.errors import GraphError, GraphFinalizedError, SpecError, SpecTypeError

from .helpers import values


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass(frozen=True)
class Named:
    first: Any
    rest: Any


def x(dtype: str = "float64", *shape: Any) -> ag.Node:
    return ag.placeholder(dtype, shape)


def same(structure: Any) -> Any:
    return structure


# -- structures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap",
    [
        lambda a, b: [a, b],
        lambda a, b: (a, [b, a]),
        Pair,
        lambda a, b: {"a": a, 2: {"b": b}},
        lambda a, b: OrderedDict(b=b, a=(a,)),
        lambda a, b: Named(Pair(a, b), {"x": [a]}),
        lambda a, b: [],
    ],
)
def test_what_branches_and_bodies_give_keeps_its_structure(p: ag.Node, wrap: Any) -> None:
    a, b = x(), x()

    chosen = ag.cond(p, lambda: wrap(a, b), lambda: wrap(b, a * 3))
    looped = ag.while_loop(lambda i, _: i < 2, lambda i, s: (i + 1, s), (0, wrap(a, b)))

    feeds = {a: 1.0, b: 2.0}
    if chosen != []:
        assert repr(values(chosen, {**feeds, p: True})) == repr(wrap(np.asarray(1.0), np.asarray(2.0)))
        assert repr(values(chosen, {**feeds, p: False})) == repr(wrap(np.asarray(2.0), np.asarray(3.0)))
    assert repr(values(looped, feeds)[1]) == repr(wrap(np.asarray(1.0), np.asarray(2.0)))


def test_the_order_of_a_dict_s_keys_does_not_matter(p: ag.Node) -> None:
    chosen = ag.cond(p, lambda: {"a": 1, "b": 2.0}, lambda: {"b": 3.0, "a": 4})

    assert values(chosen, {p: False}) == {"a": 4, "b": 3.0}


@pytest.mark.parametrize(
    ("one", "other"),
    [((1, 2), [1, 2]), ((1, 2), (1, 2, 3)), ({"a": 1}, {"b": 1}), (1, (1,)), ((1,), 1), (Pair(1, 2), (1, 2))],
)
def test_branches_of_different_structures_are_refused(p: ag.Node, one: Any, other: Any) -> None:
    with pytest.raises(SpecTypeError, match="^cond: the branches give different structures\n  true: .*\n  false: "):
        ag.cond(p, lambda: one, lambda: other)


@pytest.mark.parametrize("given", [1, (1,), (1, 2, 3), {"a": 1}, ((1, 2),)])
def test_a_body_that_gives_another_structure_is_refused(graph: ag.Graph, given: Any) -> None:
    with pytest.raises(SpecTypeError, match="^while_loop: the body gives"):
        ag.while_loop(lambda a, b: a < b, lambda a, b: given, (1, 2))


def test_a_body_may_give_a_list_for_a_tuple_and_a_tuple_for_a_list(graph: ag.Graph) -> None:
    one = ag.while_loop(lambda i, j: i < 3, lambda i, j: [i + 1, j + 2], (0, 0))
    other = ag.while_loop(lambda i, j: i < 3, lambda i, j: (i + 1, j + 2), [0, 0])

    assert (values(one), values(other)) == ((3, 6), [3, 6])


def test_functions_of_a_loop_take_what_is_at_the_first_level(graph: ag.Graph) -> None:
    taken: list[int] = []

    def body(*given: Any) -> Any:
        taken.append(len(given))
        return given[0] if len(given) == 1 else given

    ag.while_loop(lambda *_: False, body, (1, (2, 3)))
    ag.while_loop(lambda *_: False, body, {"a": 1, "b": 2})
    ag.while_loop(lambda *_: False, body, 1)

    assert taken == [2, 1, 1]


def test_a_loop_of_nothing_is_refused(graph: ag.Graph) -> None:
    with pytest.raises(SpecTypeError, match=r"^while_loop: loop_vars is \(\)"):
        ag.while_loop(lambda: True, lambda: (), ())


# -- conditions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pred", [True, np.True_])
def test_a_python_boolean_calls_one_function_and_gives_what_that_gives(pred: Any) -> None:
    assert ag.cond(pred, lambda: "this", lambda: 1 / 0) == "this"


@pytest.mark.parametrize(("dtype", "shape"), [("float64", ()), ("int64", ()), ("bool", (1,)), ("bool", ("n",))])
def test_a_condition_is_one_boolean(graph: ag.Graph, dtype: str, shape: Any) -> None:
    pred = ag.placeholder(dtype, shape)

    for build in (
        lambda: ag.cond(pred, lambda: 1, lambda: 2),
        lambda: ag.while_loop(lambda i: pred, lambda i: i, 0),
    ):
        with pytest.raises(SpecTypeError, match="is not one boolean\n  write a comparison"):
            build()


@pytest.mark.parametrize("pred", [1, "p", None, np.asarray([True])])
def test_what_is_no_node_is_no_condition(pred: Any) -> None:
    with pytest.raises(SpecTypeError, match="^cond: the condition is"):
        ag.cond(pred, lambda: 1, lambda: 2)


def test_a_condition_that_gives_several_values_is_refused(graph: ag.Graph) -> None:
    with pytest.raises(SpecTypeError, match="^while_loop: the condition gives"):
        ag.while_loop(lambda i: (i < 3,), lambda i: i + 1, 0)


@pytest.mark.parametrize("value", [1, "yes", None, np.asarray([True]), [True], 1.0])
def test_a_condition_of_unknown_dtype_that_is_not_one_boolean_fails_the_run(graph: ag.Graph, value: Any) -> None:
    pred = ag.placeholder(None)
    chosen = ag.cond(pred, lambda: 1, lambda: 2, name="c")

    with pytest.raises((SpecTypeError, SpecError), match="^the condition of 'c' ") as failure:
        values(chosen, {pred: value})

    assert failure.value.__notes__[0].startswith("asyncgraph: node 'c' (cond) failed")


@pytest.mark.parametrize("value", [True, np.True_, np.asarray(True)])
def test_a_condition_of_unknown_dtype_may_be_any_boolean(graph: ag.Graph, value: Any) -> None:
    pred = ag.placeholder(None)

    assert values(ag.cond(pred, lambda: 1, lambda: 2), {pred: value}) == 1


# -- specs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "spec"),
    [
        (("float32", "n", 3), ("float32", "n", 3), "float32[n,3]"),
        (("float32", "n", 3), ("float32", "n", 4), "float32[n,?]"),
        (("float32", "n"), ("float32", "m"), "float32[?]"),
        (("float32", 3), ("float32",), "float32[...]"),
    ],
)
def test_dimensions_that_branches_do_not_share_are_unknown(p: ag.Node, one: Any, other: Any, spec: str) -> None:
    a, b = x(*one), x(*other)

    assert repr(ag.cond(p, lambda: a, lambda: b).spec) == spec


def test_a_dtype_that_one_branch_does_not_know_is_unknown(p: ag.Node) -> None:
    def check(unknown: ag.Node) -> None:
        assert ag.cond(p, lambda: x(), lambda: unknown).dtype is None
        assert ag.cond(p, lambda: unknown, lambda: x()).dtype is None

    check(ag.placeholder(None))
    check(ag.op(lambda: 1.0).node())


@pytest.mark.parametrize(("one", "other"), [("float64", "float32"), ("float32", "float64"), ("int64", "bool")])
def test_branches_of_different_dtypes_are_refused(p: ag.Node, one: str, other: str) -> None:
    a, b = x(one), x(other)

    with pytest.raises(SpecTypeError, match=r"^cond: one branch gives .*\n  write ops\.astype in one of them"):
        ag.cond(p, lambda: a, lambda: b)


def test_a_python_number_takes_the_dtype_of_the_other_branch_or_is_refused(p: ag.Node) -> None:
    a = x("float32")

    assert repr(ag.cond(p, lambda: 1, lambda: a).spec) == "float32[]"
    assert repr(ag.cond(p, lambda: a, lambda: 2.5).spec) == "float32[]"
    with pytest.raises(SpecTypeError, match=r"^cond: 1\.5 cannot be a constant of dtype int64"):
        ag.cond(p, lambda: 1.5, lambda: x("int64"))
    with pytest.raises(SpecTypeError, match="^cond: one branch gives"):
        ag.cond(p, lambda: 1, lambda: 1.5)


def test_what_can_be_no_constant_is_refused(p: ag.Node) -> None:
    with pytest.raises(SpecTypeError, match="^cond: None cannot be a constant"):
        ag.cond(p, lambda: None, lambda: None)
    with pytest.raises(SpecTypeError, match="^while_loop: None cannot be a constant"):
        ag.while_loop(lambda i: i, lambda i: i, None)


def test_what_is_no_function_is_refused(p: ag.Node) -> None:
    for given in (1, p):
        no_function: Any = given
        with pytest.raises(SpecTypeError, match="is no function\n  give one that builds what is to run"):
            ag.cond(p, lambda: 1, no_function)


def test_a_dimension_that_a_body_changes_is_unknown(graph: ag.Graph) -> None:
    calls: list[str] = []

    def body(i: ag.Node, a: ag.Node, b: ag.Node) -> Any:
        calls.append(repr(a.spec))
        return i + 1, ops.concat([a, a[:1]]), b

    start = x("float32", "n", 2)
    i, a, b = ag.while_loop(lambda i, a, b: i < 3, body, (0, np.zeros(2), start))

    assert [repr(one.spec) for one in (i, a, b)] == ["int64[]", "float64[?]", "float32[?,2]"]
    assert calls == ["float64[2]", "float64[?]"]
    assert values(a, {start: np.zeros((1, 2), np.float32)}).shape == (5,)


def test_a_dtype_that_a_body_does_not_know_is_unknown(graph: ag.Graph) -> None:
    halved = ag.op(lambda value: np.float32(value / 2))

    last = ag.while_loop(lambda value: value > 1, lambda value: halved.node(value), x())

    assert last.dtype is None
    assert values(last, {graph["placeholder"]: 8.0}).dtype == np.float32


@pytest.mark.parametrize(
    ("start", "body", "kind", "message"),
    [
        (0, lambda i: i + 1.5, SpecTypeError, r"becomes .*float64.* in the body\n  write ops\.astype"),
        (np.float64(0), lambda i: ops.astype(i, "float32"), SpecTypeError, r"becomes .*float32.* in the body"),
        (0, lambda i: 1.5, SpecTypeError, r"1\.5 cannot be a constant of dtype int64"),
        (np.zeros(3), lambda i: ops.sum(i), SpecError, "in the body: its rank differs"),
    ],
)
def test_a_body_that_changes_dtype_or_rank_is_refused(
    graph: ag.Graph, start: Any, body: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"^while_loop: .*{message}"):
        ag.while_loop(lambda i: ops.any(i < 3), body, start)


@pytest.mark.parametrize("most", [-1, 1.5, "3"])
def test_a_number_of_iterations_is_an_int_of_at_least_0(graph: ag.Graph, most: Any) -> None:
    with pytest.raises(SpecError, match="^maximum_iterations="):
        ag.while_loop(lambda i: True, lambda i: i, 0, maximum_iterations=most)


# -- graphs ----------------------------------------------------------------------------------------------


def test_nodes_of_another_graph_are_refused(p: ag.Node) -> None:
    with ag.Graph():
        other = x()

    with pytest.raises(GraphError, match="belongs to another graph"):
        ag.cond(p, lambda: other, lambda: other)
    with pytest.raises(GraphError, match="belongs to another graph"):
        ag.while_loop(lambda a, b: p, lambda a, b: (b, a), (p, other))


def test_a_function_that_raises_leaves_no_scope_behind(p: ag.Node) -> None:
    v = ag.variable(0.0)

    def fails() -> ag.Node:
        raise KeyError

    with pytest.raises(KeyError):
        ag.cond(p, fails, lambda: 1.0)

    assert "branch" not in v.assign(1.0).params


def test_a_finalized_graph_takes_neither(p: ag.Node) -> None:
    graph, node = p.graph, x()
    graph.finalize()

    with pytest.raises(GraphFinalizedError):
        ag.cond(p, lambda: node, lambda: node)
    with pytest.raises(GraphFinalizedError):
        ag.while_loop(lambda a: p, lambda a: a, node)


def test_what_they_give_is_named_for_them(p: ag.Node) -> None:
    with ag.name_scope("s"):
        a, b = ag.cond(p, lambda: (1, 2), lambda: (3, 4), name="pick")
        c = ag.while_loop(lambda i: p, lambda i: i, 0)

    assert [one.name for one in (a, b, c)] == ["s/pick:0", "s/pick:1", "s/while_loop:0"]


def test_an_assignment_in_a_loop_is_refused(graph: ag.Graph) -> None:
    v = ag.variable(0.0, "v")

    for body in (
        lambda i: i + v.assign_add(1.0),
        lambda i: ag.cond(i > 1, lambda: v.assign(1.0), lambda: i + 1),
        lambda i: ag.while_loop(lambda j: j < 1, lambda j: v.assign(j), i),
    ):
        with pytest.raises(GraphError, match="^while_loop: 'v' is assigned in the loop\n  make it one of loop_vars"):
            ag.while_loop(lambda i: i < 3, body, 0.0)
