"""Ops that are several in one: each gives what its formula says, in the dtype of what it is given."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import GraphError
from asyncgraph.ops._build import build, build_several

from .helpers import evaluate
from .oracle import QUICK, SHAPES, Array, check, check_rows, is_rowwise, placeholder, says_rowwise

BETAS = {"beta1": 0.75, "beta2": 0.9}
RATES = {**BETAS, "epsilon": 1e-3, "dtype": np.dtype("float32")}
FLOATS = st.sampled_from(["float16", "float32", "float64"])


def relu(x: Node) -> Node:
    return build("relu", (x,))


def where_positive(gradient: Any, x: Any) -> Node:
    return build("where_positive", (gradient, x))


def classify(logits: Any, labels: Any) -> tuple[Node, ...]:
    return build_several("softmax_cross_entropy", (logits, labels))


def adam(*operands: Any) -> tuple[Node, ...]:
    return build_several("adam", operands, BETAS)


def refused(build: Any, *specs: str) -> str:
    """What the error says that refuses operands of these specs."""
    with Graph() as graph, pytest.raises(GraphError) as caught:
        build(*[placeholder(graph, ArraySpec.parse(one)) for one in specs])
    return str(caught.value)


# -- activations -------------------------------------------------------------------------------------


@QUICK
@given(data=st.data())
def test_relu_is_numpys_maximum_with_zero(data: st.DataObject) -> None:
    dtypes = st.sampled_from(["int8", "uint16", "int64", "float16", "float32", "float64"])
    x = data.draw(dtypes.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES)))
    check(data, relu, lambda x: np.maximum(x, 0), x)


@QUICK
@given(data=st.data())
def test_where_positive_is_numpys_where_with_zero(data: st.DataObject) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3)).input_shapes
    dtypes = st.sampled_from(["float16", "float32", "float64", "complex64", "complex128"])
    gradient = data.draw(dtypes.flatmap(lambda dtype: hnp.arrays(dtype, shapes[0])))
    x = data.draw(st.sampled_from(["int8", "float32", "float64"]).flatmap(lambda dtype: hnp.arrays(dtype, shapes[1])))
    check(data, where_positive, lambda gradient, x: np.where(np.greater(x, 0), gradient, 0), gradient, x)


def test_where_positive_lets_nothing_through_elsewhere_that_is_infinite_or_nan() -> None:
    gradient = np.array([np.inf, -np.inf, np.nan, np.inf, np.nan, np.inf], "float32")
    x = np.array([0.0, -0.0, -1.0, np.nan, -np.inf, 1e-40], "float32")
    with Graph():
        np.testing.assert_array_equal(evaluate(where_positive(gradient, x)), [0, 0, 0, 0, 0, np.inf])


# -- losses ------------------------------------------------------------------------------------------


def by_formula(logits: Array, labels: Array) -> list[Array]:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)
    one_hot = np.equal(labels[..., None], np.arange(logits.shape[-1]))
    losses = np.log(total) - np.where(one_hot, shifted, 0).sum(axis=-1, keepdims=True)
    return [losses[..., 0], np.exp(shifted) / total - one_hot]


@QUICK
@given(data=st.data())
def test_a_loss_is_that_of_the_label_and_its_residual_softmax_less_one_hot(data: st.DataObject) -> None:
    lead, classes = (
        data.draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5)),
        data.draw(st.integers(1, 4)),
    )
    dtype = data.draw(FLOATS)
    logits = data.draw(hnp.arrays(dtype, (*lead, classes), elements={"min_value": -20, "max_value": 20}))
    kinds = st.sampled_from(["int8", "uint8", "int64", "uint64"])
    labels = data.draw(
        kinds.flatmap(lambda kind: hnp.arrays(kind, lead, elements={"max_value": classes - 1, "min_value": 0}))
    )
    check(data, classify, by_formula, logits, labels)


@pytest.mark.parametrize("shape", [(200, 10), (20, 10, 10), (7, 100), (100,)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_loss_is_the_same_of_many_rows_and_of_many_classes(shape: tuple[int, ...], order: Any) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=shape) * 9, rng.integers(0, shape[-1], shape[:-1])
    with Graph():
        made = classify(np.asarray(logits, order=order), labels)
    for node, wanted in zip(made, by_formula(logits, labels), strict=True):
        np.testing.assert_allclose(evaluate(node), wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
@pytest.mark.parametrize("rows", [2, 50], ids=["rows", "columns"])
def test_a_label_that_is_no_class_is_an_index_error_when_it_runs(rows: int, dtype: str) -> None:
    limits = np.iinfo(dtype)
    for wrong in {-1, -3, 3, 100, 2**32, 2**63, limits.max, limits.min} - {0}:
        if limits.min <= wrong <= limits.max:
            labels = np.zeros(rows, dtype)
            labels[1] = wrong
            with Graph(), pytest.raises(IndexError, match="not less than the 3 classes"):
                evaluate(classify(np.zeros((rows, 3)), labels)[0])


def test_labels_that_do_not_fit_are_refused_when_that_is_known() -> None:
    assert "dimensions 2 and 3 differ" in refused(classify, "float32[2,5]", "int64[3]")
    assert "ranks 1 and 2 differ" in refused(classify, "float32[n,5]", "int64[n,5]")
    assert "no axis of classes" in refused(classify, "float32[]", "int64[]")
    assert "logits are real numbers, and not int64" in refused(classify, "int64[n,5]", "int64[n]")
    assert "labels are integers, and not bool" in refused(classify, "float32[n,5]", "bool[n]")
    with Graph() as graph:
        logits, labels = [placeholder(graph, ArraySpec(None, None)) for _ in range(2)]
        losses, _ = classify(logits, labels)
        with pytest.raises(ValueError, match=r"labels of shape \(4, 1\) do not fit logits of shape \(4, 3\)"):
            evaluate(losses, {logits: np.zeros((4, 3)), labels: np.zeros((4, 1), int)})


def test_what_is_known_of_logits_and_of_labels_is_known_of_losses() -> None:
    for specs, wanted in [
        (["float32[n,10]", "int64[n]"], "float32[n] float32[n,10]"),
        (["float32[?,10]", "int64[64]"], "float32[64] float32[64,10]"),
        (["float32[...]", "int64[64]"], "float32[64] float32[64,?]"),
        (["float16[...]", "int64[...]"], "float16[...] float16[...]"),
    ]:
        with Graph() as graph:
            made = classify(*[placeholder(graph, ArraySpec.parse(one)) for one in specs])
        assert " ".join([repr(one.spec) for one in made]) == wanted


def test_rows_of_logits_are_apart_and_classes_are_not() -> None:
    logits = np.random.default_rng(0).normal(size=(40, 3))
    with Graph() as graph:
        specs = ArraySpec("float64", ("n", 3)), ArraySpec("int64", ("n",))
        assert says_rowwise(classify(*[placeholder(graph, one) for one in specs])[0], [True, True])
        assert not says_rowwise(classify(placeholder(graph, specs[0]), np.zeros(5, int))[0], [True, False])
        assert not says_rowwise(classify(placeholder(graph, ArraySpec("float64", ("n",))), 0)[0], [True, False])
        both = [[evaluate(one) for one in classify(part, np.zeros(len(part), int))] for part in (logits, logits[:1])]
    for whole, first in zip(*both, strict=True):
        np.testing.assert_allclose(whole[:1], first, rtol=1e-14)


# -- optimizers --------------------------------------------------------------------------------------


def step_by_formula(
    w: Array, g: Array, m: Array, v: Array, factor: Any, epsilon: Any, shrink: Any = 0.0
) -> list[Array]:
    m, v = 0.75 * m + 0.25 * g, 0.9 * v + 0.1 * g**2
    return [w - m * factor / (np.sqrt(v) + epsilon) - shrink * w, m, v]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "longdouble"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4)])
@pytest.mark.parametrize("shrink", [[], [0.125]], ids=["Adam", "AdamW"])
def test_a_step_of_adam_is_its_formula_in_the_dtype_of_the_variable(
    shrink: list[float], shape: tuple[int, ...], dtype: str
) -> None:
    rng = np.random.default_rng(0)
    w, g, m, v = [np.asarray(rng.random(shape), dtype) for _ in range(4)]
    numbers = [0.5, 1e-3, *shrink]
    wanted = step_by_formula(w, g, m, v, *numbers)
    tolerance = 8 * max(float(np.finfo(dtype).eps), 2**-52)  # betas are Python's floats
    for last in (numbers, [np.asarray(one, dtype) for one in numbers]):
        with Graph():
            made = [evaluate(one) for one in adam(w, g, m, v, *last)]
        assert {np.asarray(one).dtype for one in made} == {np.dtype(dtype)}
        for one, expected in zip(made, wanted, strict=True):
            np.testing.assert_allclose(one, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("step", [1, 2, 1000, 10**9])
@pytest.mark.parametrize("rate", [0.5, 1, np.float32(0.5)])
def test_the_rates_of_adam_have_the_corrections_in_them_to_full_precision(step: int, rate: Any) -> None:
    params = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "dtype": np.dtype("float64")}
    with Graph():
        factor, epsilon = [evaluate(one) for one in build_several("adam_rates", (np.int64(step), rate), params)]
    c = sqrt(-np.expm1(step * np.log(0.999)))
    np.testing.assert_allclose(
        [factor, epsilon], [float(rate) * c / -np.expm1(step * np.log(0.9)), c * 1e-8], rtol=1e-12
    )


def test_a_step_takes_arrays_of_one_dtype_and_shape_and_numbers() -> None:
    four = ["float32[n,3]"] * 4
    assert "dtypes float32 and float64 differ" in refused(adam, *four[:3], "float64[n,3]", "float32[]", "float32[]")
    assert "dtypes float32 and float64 differ" in refused(adam, *four, "float32[]", "float64[]")
    assert "ranks 1 and 2 differ" in refused(adam, *four[:3], "float32[3]", "float32[]", "float32[]")
    assert "variables are real numbers, and not int64" in refused(adam, *["int64[]"] * 6)
    assert "of rank 0" in refused(adam, *four, "float32[1]", "float32[]")

    def rates(*operands: Node) -> object:
        return build_several("adam_rates", operands, RATES)

    assert "the number of a step is an integer, and not float32" in refused(rates, "float32[]", "float32[]")
    assert "a learning rate is a real number, and not complex64" in refused(rates, "int64[]", "complex64[]")
    assert "of rank 0" in refused(rates, "int64[]", "float32[1]")


def test_rows_of_elementwise_ones_are_apart() -> None:
    x = np.arange(-4.0, 2.0).reshape(3, 2)
    assert check_rows(relu, [x.astype("int64")], [True])
    assert is_rowwise(where_positive, [(3, 2), (3, 2)], [True, True], "float64")
    shapes = [*[(3, 2)] * 4, (), ()]
    assert is_rowwise(adam, shapes, [True, True, True, True, False, False], "float64")
    assert not is_rowwise(adam, shapes, [True, True, True, False, False, False], "float64")


@pytest.mark.parametrize("spec", ["bool[n]", "complex64[n]"])
def test_only_real_numbers_are_positive(spec: str) -> None:
    assert "of real numbers" in refused(relu, spec)
    assert "real numbers are positive" in refused(where_positive, "float32[n]", spec)
    assert "it is for gradients" in refused(where_positive, "int64[n]", "int64[n]")
