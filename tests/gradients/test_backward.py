"""What `gradients` gives: which paths there are, what adds up, dtypes, and nodes that can be differentiated again."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph.errors import GradientError, GraphError, SpecError, SpecTypeError
from asyncgraph.testing import check_gradients

from .helpers import gradient, values


@pytest.fixture
def x() -> ag.Node:
    with ag.Graph():
        return ag.placeholder("float64", ("n",), name="x")


# -- paths -------------------------------------------------------------------------------------------


def test_what_a_value_gives_by_each_of_its_uses_adds_up(x: ag.Node) -> None:
    assert gradient(x * x + 3 * x, x, {x: [2.0]}).tolist() == [7.0]


def test_there_is_one_gradient_for_each_of_xs_always_in_a_list(x: ag.Node) -> None:
    made = ag.gradients(x * 2, x)
    assert isinstance(made, list)
    assert len(made) == 1
    with x.graph:
        other = ag.placeholder("float64", (), name="other")
    assert len(ag.gradients(x * 2, (x, other, x))) == 3
    assert ag.gradients([], []) == []
    assert ag.gradients([], [x]) == [None]


def test_there_is_none_by_what_nothing_depends_on(x: ag.Node) -> None:
    with x.graph:
        other = ag.placeholder("float64", (), name="other")
    before = len(x.graph)
    assert ag.gradients(x * 2, [other]) == [None]
    assert len(x.graph) == before + 1  # the product: no node is built for a gradient that is not there


def test_the_gradient_of_several_is_that_of_their_sum(x: ag.Node) -> None:
    (made,) = ag.gradients([x * 2, ops.sum(x**2), x * 2], x)
    assert values(made, {x: [3.0, 5.0]}).tolist() == [2 + 6 + 2, 2 + 10 + 2]


def test_a_node_has_a_gradient_of_ones_by_itself(x: ag.Node) -> None:
    assert gradient(x, x, {x: [3.0, 5.0]}).tolist() == [1.0, 1.0]


def test_gradients_are_taken_by_any_node_also_in_the_middle(x: ag.Node) -> None:
    middle = ops.square(x)
    made = ag.gradients(ops.exp(middle), [middle, x])
    by_middle, by_x = values(made, {x: [0.5]})
    assert by_middle == pytest.approx(np.exp([0.25]))
    assert by_x == pytest.approx(np.exp([0.25]))
    assert values(made[0], {middle: [0.0]}).tolist() == [1.0]


@pytest.mark.parametrize(
    "cut",
    [
        ops.floor, ops.ceil, ops.trunc, ops.round, ops.sign, ops.isnan, ops.signbit, ops.argmax, ops.zeros_like,
        ag.stop_gradient, lambda x: ops.astype(x, "int64"), lambda x: x > 0, lambda x: x // 2,
        lambda x: ops.full_like(x, 3.0),
    ],
)  # fmt: skip
def test_no_path_leads_through_what_is_constant_but_for_jumps(x: ag.Node, cut: Callable[..., Any]) -> None:
    assert ag.gradients(cut(x) * 1.5, x) == [None]
    assert gradient(cut(x) * x, x, {x: [2.0]}).tolist() == values(cut(x) * 1.0, {x: [2.0]}).ravel().tolist()


def test_the_condition_of_where_and_the_indices_of_take_are_no_path(x: ag.Node) -> None:
    assert ag.gradients(ops.where(x, 1.0, 2.0), x) == [None]
    assert ag.gradients(ops.copysign(2.0, x), x) == [None]
    with x.graph:
        assert ag.gradients(ops.take([1.0, 2.0], ops.astype(x, "int64")), x) == [None]


def test_stop_gradient_has_the_value_of_what_it_is_given_and_no_gradient(x: ag.Node) -> None:
    stopped = ag.stop_gradient(x, name="stopped")
    assert stopped.name == "stopped"
    y = x * stopped
    made, value = values([*ag.gradients(y, x), stopped], {x: [2.0, 3.0]})
    assert made.tolist() == [2.0, 3.0]
    assert value.tolist() == [2.0, 3.0]


def test_stop_gradient_takes_values_of_any_dtype_and_numbers() -> None:
    with ag.Graph():
        for given in ([1, 2], True, 2.5, "text"):
            assert values(ag.stop_gradient(given)).tolist() == given


def test_what_is_in_stop_is_taken_for_a_constant_but_has_a_gradient_itself() -> None:
    with ag.Graph():
        a = ag.placeholder("float64", (), name="a")
        b = 2 * a
        assert values(ag.gradients(a + b, [a, b]), {a: 0.0}) == [3.0, 1.0]
        assert values(ag.gradients(a + b, [a, b], stop=[a, b]), {a: 0.0}) == [1.0, 1.0]
        assert ag.gradients(b * 3, a, stop=b) == [None]
        assert ag.gradients(b, a, stop=b) == [None]


# -- what it begins with -----------------------------------------------------------------------------


def test_grad_ys_is_what_the_gradient_begins_with(x: ag.Node) -> None:
    y = x**2
    for given in ([1.0, 10.0], np.array([1, 10]), [y.graph.constant([1.0, 10.0])], (y.graph.constant([1.0, 10.0]),)):
        (made,) = ag.gradients(y, x, given)
        assert values(made, {x: [1.0, 2.0]}).tolist() == [2.0, 40.0]
    (made,) = ag.gradients([y, x], x, [None, 100])
    assert values(made, {x: [1.0, 2.0]}).tolist() == [102.0, 104.0]
    (made,) = ag.gradients([y], x, [2])
    assert values(made, {x: [1.0, 2.0]}).tolist() == [4.0, 8.0]


def test_grad_ys_that_cannot_fit_are_refused(x: ag.Node) -> None:
    with pytest.raises(SpecError, match="grad_ys takes one for each of ys, of which there are 2"):
        ag.gradients([x, x], x, [1.0])
    with pytest.raises(SpecError, match="grad_ys takes one for each of ys, of which there are 1"):
        ag.gradients([x], x, 1.0)
    with pytest.raises(SpecTypeError, match="another kind of dtype"):
        ag.gradients(x, x, np.array([1j]))
    with pytest.raises(SpecError, match="broadcast"):
        ag.gradients(ops.sum(x), x, [1.0, 2.0])


# -- dtypes and shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_a_gradient_has_the_dtype_of_what_it_is_taken_by(dtype: str) -> None:
    with ag.Graph():
        x = ag.placeholder(dtype, ("n", 2))
        w = ag.placeholder("float64", (2,))
        z = ag.placeholder("complex128", ())
        y = ops.mean(x * w, axis=1) * z + ops.std(x) + ops.sum(ops.maximum(x, w))
        made = ag.gradients(ops.real(y), [x, w, z])
    assert [one.dtype for one in made if one is not None] == [x.dtype, w.dtype, z.dtype]
    results = values(made, {x: [[1, 2], [3, 4]], w: [0.5, 0.25], z: 1j})
    assert [(one.dtype, one.shape) for one in results] == [(dtype, (2, 2)), ("float64", (2,)), ("complex128", ())]


@pytest.mark.parametrize("dtype", ["int32", "bool", "uint8", "datetime64[s]"])
def test_there_is_no_gradient_by_integers_and_the_like(dtype: str) -> None:
    with ag.Graph():
        x = ag.placeholder(dtype, (), name="count")
    with pytest.raises(SpecTypeError, match=rf"there is no gradient by 'count', whose dtype is {dtype[:8]}"):
        ag.gradients(x, x)


def test_dtypes_must_be_known_of_what_is_differentiated_and_by_what_and_on_the_way() -> None:
    @ag.op(name="opaque")
    def opaque(x: np.ndarray) -> np.ndarray:
        return x

    ag.register_gradient(opaque)(lambda node, gradient: gradient)
    with ag.Graph():
        x = ag.placeholder(None, ("n",), name="x")
        y = ag.placeholder("float64", ("n",), name="y")
        for ys, xs in ((x, x), (y, x), (x, y)):
            with pytest.raises(SpecTypeError, match="the dtype of <placeholder 'x'"):
                ag.gradients(ys, xs)
        with pytest.raises(GradientError, match="<opaque 'opaque': any> cannot be built: its dtype is not known"):
            ag.gradients(ops.astype(opaque(y), "float64"), y)
        assert ag.gradients(ops.astype(opaque(y), "int64"), y) == [None]


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_inputs_without_elements_have_gradients_without_elements(shape: tuple[int, ...]) -> None:
    with ag.Graph():
        x = ag.placeholder("float32", (None,) * len(shape))
        w = ag.placeholder("float32", ())
        by_x, by_w = ag.gradients(ops.sum(ops.exp(x) * w), [x, w])
    results = values([by_x, by_w], {x: np.zeros(shape, "float32"), w: 2.0})
    assert [one.shape for one in results] == [shape, ()]
    assert results[1] == 0


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_gradient_that_is_the_same_along_an_axis_goes_through_sums_and_means(axis: int) -> None:
    def build(x: ag.Node) -> ag.Node:
        return ops.sum(ops.mean(ops.sum(ops.square(x), axis=axis) * np.array([2.0, 5.0]), axis=0))

    x = np.arange(16.0).reshape(2, 2, 2, 2) / 7
    for specs in (None, ["float64[?,?,?,?]"], ["float64[...]"]):
        check_gradients(build, x, specs=specs, order=2)


def test_no_node_is_built_to_broadcast_what_is_multiplied_anyway(x: ag.Node) -> None:
    before = len(x.graph)
    ag.gradients(-2 * ops.mean(ops.sin(x)), x)
    built = [node.op.name for node in x.graph.nodes[before + 3 :]]
    assert built == ["ones", "multiply", "divide_by_size", "cos", "multiply"]


def test_the_gradient_of_a_mean_of_losses_is_one_multiple_of_what_the_loss_is_made_with() -> None:
    with ag.Graph() as graph:
        logits, labels = ag.placeholder("float32", (None, 10)), ag.placeholder("int64", (None,))
        loss = ops.mean(ag.nn.softmax_cross_entropy(logits + 1.0, labels))
        before = len(graph)
        ag.gradients(loss, logits)
    assert [node.op.name for node in graph.nodes[before:]] == ["ones", "divide_by_size", "output", "multiply"]


def test_a_reshape_of_what_has_no_elements_is_undone() -> None:
    check_gradients(lambda x: ops.reshape(x, (-1,)), np.zeros((2, 0)), specs=["float64[n,0]"])


# -- nodes -------------------------------------------------------------------------------------------


def test_gradients_can_be_differentiated_again(x: ag.Node) -> None:
    y = x
    for _ in range(3):
        y = y * x
    for expected in (4 * 8.0, 12 * 4.0, 24 * 2.0, 24.0):
        (y,) = ag.gradients(y, x)
        assert y is not None
        assert values(y, {x: [2.0]}).tolist() == [expected]
    assert ag.gradients(y, x) == [None] or values(ag.gradients(y, x)[0], {x: [2.0]}).tolist() == [0.0]


def test_nodes_are_built_in_a_scope_of_the_graph_of_ys_whatever_graph_is_current(x: ag.Node) -> None:
    y = ops.sin(x)
    before = len(x.graph)
    with ag.Graph() as other, ag.name_scope("elsewhere"):
        ag.gradients(y, x)
        assert len(other) == 0
    with x.graph, ag.name_scope("training"):
        ag.gradients(y, x)
    names = [node.name for node in x.graph.nodes[before:]]
    assert {name.rpartition("/")[0] for name in names} == {"gradients", "training/gradients"}
    with x.graph:
        ag.gradients(y, x)
    assert x.graph.nodes[-1].name.startswith("gradients_1/")


def test_a_gradient_is_placed_where_the_node_is_that_it_belongs_to(x: ag.Node) -> None:
    with ag.device("gpu:0"):
        y = ops.exp(x)
    with ag.device("gpu:1"):
        z = ops.sin(y)
    before = len(x.graph)
    ag.gradients(z, x)
    assert [node.requested_device for node in x.graph.nodes[before:]] == [None, "gpu:1", "gpu:1", "gpu:0"]
    before = len(x.graph)
    with ag.device("cpu:0"):
        ag.gradients(z, x)
    assert {node.requested_device for node in x.graph.nodes[before:]} == {"cpu:0"}


def test_gradients_add_up_and_are_converted_and_broadcast_where_the_value_is(x: ag.Node) -> None:
    with ag.device("gpu:1"):
        y = ops.exp(x)
        z = ops.sum(ops.astype(y, "float32")) + ops.mean(y, axis=0) * ops.max(y)
    before = len(x.graph)
    ag.gradients(z, x)
    elsewhere = [node.op.name for node in x.graph.nodes[before:] if node.requested_device != "gpu:1"]
    assert elsewhere == ["ones"]
    assert {"add", "astype"} <= {node.op.name for node in x.graph.nodes[before:]}


def test_control_dependencies_in_force_do_not_apply_to_gradients() -> None:
    with ag.Graph() as graph:
        v = ag.variable(3.0)
        y = v * v
        update = v.assign(100.0)
        with ag.control_dependencies([update]):
            (made,) = ag.gradients(y, v)
    assert made is not None
    with ag.BlockingSession(graph) as session:
        assert session.run([made, update]).results == [6.0, 100.0]


def test_a_graph_with_gradients_is_pickled_like_any_other(x: ag.Node) -> None:
    (made,) = ag.gradients(ops.sum(ops.tanh(x) * ag.stop_gradient(x)), x)
    assert made is not None
    again = pickle.loads(pickle.dumps(x.graph))
    feed = [0.5, -1.0]
    assert values(again[made.name], {again["x"]: feed}).tolist() == values(made, {x: feed}).tolist()


# -- refusals ----------------------------------------------------------------------------------------


def test_what_is_no_node_is_refused(x: ag.Node) -> None:
    wrong: list[Any] = [(1.0, x), (x, ["x"]), (x, "x"), (x, x, None, [1]), (x, None)]
    for arguments in wrong:
        with pytest.raises(SpecTypeError, match="takes a node, or a list of nodes, not"):
            ag.gradients(*arguments)


def test_nodes_of_two_graphs_are_refused(x: ag.Node) -> None:
    with ag.Graph():
        other = ag.placeholder("float64", ())
    with pytest.raises(GraphError, match="belongs to another graph"):
        ag.gradients(x, other)


def test_an_op_without_a_row_is_named_with_the_table_and_the_line_that_built_it(
    x: ag.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asyncgraph._gradients.tables import GRADIENTS

    y = ops.exp(x)
    monkeypatch.delitem(GRADIENTS, "exp")
    with pytest.raises(GradientError, match="the op 'exp' has no row in the table GRADIENTS") as caught:
        ag.gradients(ops.sum(y), x)
    assert "test_backward.py" in str(caught.value)
    assert ag.gradients(ops.floor(y), x) == [None]


# -- size --------------------------------------------------------------------------------------------


def test_a_chain_of_100_000_nodes_is_differentiated() -> None:
    with ag.Graph() as graph:
        x = y = ag.placeholder("float64", ())
        for _ in range(100_000):
            y = -y
        (made,) = ag.gradients(y, x)
    assert made is not None
    assert len(graph) == 1 + 2 * 100_000 + 1  # so that, in a minute, it takes a time that grows with the length


def test_a_node_with_many_uses_is_differentiated_once() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        y = ops.exp(x)
        for _ in range(30):
            y = y + y  # two to the 30th paths
        (made,) = ag.gradients(y, x)
        assert len(graph) < 200
    assert made is not None
    assert values(made, {x: 0.0}) == 2**30
