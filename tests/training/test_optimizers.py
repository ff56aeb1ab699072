"""Optimizers make the steps that their papers give, and remember by variable what they have to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import ops
from asyncgraph.optimizers import SGD, Adagrad, Adam, AdamW, Momentum, Optimizer

from .helpers import run, runs

STEPS = 12
Array = np.ndarray[Any, Any]
Rule = Callable[[Array, Iterable[Array]], Array]

# -- as their papers give them -----------------------------------------------------------------------


def sgd(w: Array, gradients: Iterable[Array]) -> Array:
    for g in gradients:
        w = w - 0.1 * g
    return w


def momentum(w: Array, gradients: Iterable[Array], nesterov: bool = False) -> Array:
    m = np.zeros_like(w)
    for g in gradients:
        m = 0.8 * m + g
        w = w - 0.1 * (g + 0.8 * m if nesterov else m)
    return w


def adam(w: Array, gradients: Iterable[Array], decay: float = 0.0) -> Array:
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, start=1):
        m = 0.8 * m + (1 - 0.8) * g
        v = 0.95 * v + (1 - 0.95) * g * g
        m_hat, v_hat = m / (1 - 0.8**t), v / (1 - 0.95**t)
        w = w - 0.1 * (m_hat / (np.sqrt(v_hat) + 1e-3) + decay * w)
    return w


def adagrad(w: Array, gradients: Iterable[Array]) -> Array:
    total = np.full_like(w, 0.3)
    for g in gradients:
        total = total + g * g
        w = w - 0.1 * g / (np.sqrt(total) + 1e-3)
    return w


RULES: dict[str, tuple[Callable[[], Optimizer], Rule]] = {
    "SGD": (lambda: SGD(0.1), sgd),
    "momentum": (lambda: Momentum(0.1, 0.8), momentum),
    "Nesterov": (lambda: Momentum(0.1, 0.8, nesterov=True), lambda w, gs: momentum(w, gs, nesterov=True)),
    "Adam": (lambda: Adam(0.1, 0.8, 0.95, 1e-3), adam),
    "AdamW": (lambda: AdamW(0.1, 0.8, 0.95, 1e-3, 0.05), lambda w, gs: adam(w, gs, decay=0.05)),
    "Adagrad": (lambda: Adagrad(0.1, 0.3, 1e-3), adagrad),
}
BY_RULE = pytest.mark.parametrize(("make", "rule"), RULES.values(), ids=RULES)


@BY_RULE
async def test_an_optimizer_makes_the_steps_of_its_paper(make: Callable[[], Optimizer], rule: Rule) -> None:
    rng = np.random.default_rng(1)
    starts = [rng.normal(size=(3, 2)), rng.normal(size=5)]
    gradients = [[rng.normal(size=start.shape) for _ in range(STEPS)] for start in starts]
    with ag.Graph() as graph:
        variables = [ag.variable(start) for start in starts]
        fed = [ag.placeholder("float64", start.shape) for start in starts]
        step = make().apply_gradients(zip(fed, variables, strict=True))

    feeds = [dict(zip(fed, one, strict=True)) for one in zip(*gradients, strict=True)]
    async with ag.Session(graph) as session:
        for one in feeds:
            await session.run(step, one)
        found = (await session.run(variables)).results

    for value, start, one in zip(found, starts, gradients, strict=True):
        np.testing.assert_allclose(value, rule(start, one), rtol=1e-12, atol=1e-14)


@BY_RULE
async def test_float32_stays_float32_to_its_precision(make: Callable[[], Optimizer], rule: Rule) -> None:
    rng = np.random.default_rng(2)
    start, gradients = rng.normal(size=4), [rng.normal(size=4) for _ in range(STEPS)]
    with ag.Graph() as graph:
        w, g = ag.variable(start.astype("float32")), ag.placeholder("float32", (4,))
        step = make().apply_gradients([(g, w)])

    async with ag.Session(graph) as session:
        for one in gradients:
            await session.run(step, {g: one.astype("float32")})
        found = (await session.run(w)).results

    assert {str(one.dtype) for one in graph.variables if not one.name.endswith("iterations")} == {"float32"}
    np.testing.assert_allclose(found, rule(start, gradients), rtol=1e-5, atol=1e-6)


@BY_RULE
async def test_steps_of_one_run_are_steps_one_after_the_other(make: Callable[[], Optimizer], rule: Rule) -> None:
    rng = np.random.default_rng(3)
    start, gradients = rng.normal(size=4), [rng.normal(size=4) for _ in range(3)]
    with ag.Graph() as graph:
        w, optimizer = ag.variable(start), make()
        steps = [optimizer.apply_gradients([(ag.constant(one), w)]) for one in gradients]

    async with ag.Session(graph) as session:
        await session.run(steps)
        found = (await session.run(w)).results
    np.testing.assert_allclose(found, rule(start, gradients), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", [Adam, AdamW])
def test_no_gradient_goes_through_a_step_of_adam(kind: Any) -> None:
    with ag.Graph():
        w, rate = ag.variable(1.0), ag.placeholder("float64", ())
        with ag.control_dependencies([kind(rate).minimize(ops.square(w))]):
            after = w.read()
        assert ag.gradients(after, rate) == [None]
        (slope,) = ag.gradients(ops.square(w), w)
        with pytest.raises(ag.errors.GradientError, match="no gradient goes through a step of an optimizer"):
            ag.gradients(kind(rate).update(w, slope, rate, ag.constant(1)), w)


async def test_steps_are_those_that_keras_documents_for_momentum() -> None:
    """https://keras.io/api/optimizers/sgd/: 0.1, and then 0.18."""
    with ag.Graph() as graph:
        w = ag.variable(1.0)
        step = Momentum(0.1, 0.9).apply_gradients([(ag.constant(1.0), w)])

    values = [float(value) for value, _ in await runs(graph, [w, step], [None] * 3)]
    np.testing.assert_allclose(np.diff(values), [-0.1, -0.19], rtol=1e-12)
    with ag.Graph() as graph:
        w = ag.variable(1.0)
        step = Momentum(0.1, 0.9).minimize(ops.square(w) / 2)
    values = [float(value) for value, _ in await runs(graph, [w, step], [None] * 3)]
    np.testing.assert_allclose(np.diff(values), [-0.1, -0.18], rtol=1e-12)


async def test_steps_are_those_that_tensorflow_tests_for_adagrad() -> None:
    """tensorflow/python/training/adagrad_test.py, after three steps; there without an epsilon."""
    with ag.Graph() as graph:
        one, other = ag.variable([1.0, 2.0]), ag.variable([3.0, 4.0])
        step = Adagrad(3.0, epsilon=0.0).apply_gradients(
            [(ag.constant([0.1, 0.1]), one), (ag.constant([0.01, 0.01]), other)]
        )

    values = (await runs(graph, [[one, other], step], [None] * 4))[-1][0]
    np.testing.assert_allclose(values[0], [-1.6026098728179932, -0.6026098728179932], rtol=1e-6)
    np.testing.assert_allclose(values[1], [2.715679168701172, 3.715679168701172], rtol=1e-6)


async def test_the_first_step_of_adam_is_the_learning_rate_however_large_the_gradient() -> None:
    """arXiv:1412.6980, section 2.1."""
    with ag.Graph() as graph:
        w = ag.variable(np.zeros(3))
        step = Adam(0.25, epsilon=0.0).apply_gradients([(ag.constant([1e-6, -3.0, 1e6]), w)])

    np.testing.assert_allclose((await runs(graph, [w, step], [None] * 2))[1][0], [-0.25, 0.25, -0.25], rtol=1e-12)


# -- slots -------------------------------------------------------------------------------------------


def test_slots_are_named_after_the_variable_and_are_not_trainable() -> None:
    with ag.Graph() as graph:
        with ag.name_scope("layer"):
            w = ag.variable(np.zeros((2, 3), "float32"), "w")
        optimizer = Adam()
        optimizer.minimize(ops.sum(ops.square(w)))

    assert [one.name for one in graph.variables] == ["layer/w", "Adam/iterations", "layer/w/Adam/m", "layer/w/Adam/v"]
    assert [one.trainable for one in graph.variables] == [True, False, False, False]
    assert optimizer.slot(w, "m") is graph["layer/w/Adam/m"]
    assert optimizer.slot(w, "v").shape == (2, 3)


def test_a_slot_is_on_the_device_of_its_variable() -> None:
    with ag.Graph():
        with ag.device("cpu:0"):
            w = ag.variable(0.0)
        optimizer = Momentum(0.1)
        optimizer.minimize(ops.square(w))

    assert optimizer.slot(w, "m").device == "cpu:0"


async def test_two_optimizers_keep_slots_of_their_own() -> None:
    with ag.Graph() as graph:
        w = ag.variable(1.0, "w")
        steps = [Momentum(0.1).apply_gradients([(ag.constant(one), w)]) for one in (1.0, 10.0)]

    async with ag.Session(graph) as session:
        for step in steps:
            await session.run(step)
        slots = (await session.run(["w/Momentum/m", "w/Momentum/m_1"])).results
    assert slots == [1.0, 10.0]


async def test_an_optimizer_may_be_used_in_several_graphs() -> None:
    optimizer = Adam(0.5)
    for start in (1.0, 2.0):
        with ag.Graph() as graph:
            w = ag.variable(start)
            step = optimizer.minimize(w * 3)
        counted = [float(count) for count, _ in await runs(graph, [optimizer.iterations(graph), step], [None] * 3)]
        assert counted == [0, 1, 2]


async def test_a_variable_whose_size_changes_from_run_to_run_has_slots_of_its_size() -> None:
    with ag.Graph() as graph:
        w = ag.variable(np.ones(3), shape=(None,))
        step = Momentum(0.1).minimize(ops.sum(w))

    assert (await runs(graph, [w, step], [None] * 2))[1][0].tolist() == [0.9, 0.9, 0.9]


async def test_slots_begin_anew_in_each_session() -> None:
    with ag.Graph() as graph:
        w = ag.variable(1.0)
        step = Adam(0.1).minimize(ops.square(w))

    assert await runs(graph, [w, step], [None] * 3) == await runs(graph, [w, step], [None] * 3)


# -- learning rates ----------------------------------------------------------------------------------

RATES: dict[str, Callable[[], Any]] = {
    "a number": lambda: 0.5,
    "an int": lambda: 1,
    "NumPy's float64": lambda: np.float64(0.5),
    "a float64 node": lambda: ag.constant(0.5),
    "a float32 node": lambda: ag.constant(np.float32(0.5)),
    "a variable": lambda: ag.variable(np.float64(0.5), trainable=False),
    "a function": lambda: lambda count: 0.5,
    "a function that makes a node": lambda: lambda count: ag.schedules.exponential_decay(count, 0.5, 1, 1.0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
@pytest.mark.parametrize("kind", [SGD, Momentum, Adam, AdamW, Adagrad])
async def test_a_learning_rate_of_any_kind_leaves_the_variable_its_dtype(kind: Any, rate: Any, dtype: str) -> None:
    with ag.Graph() as graph:
        w = ag.variable(np.ones(2, dtype))
        number = rate()
        step = kind(number).minimize(ops.sum(w), [w])

    values = await runs(graph, [w, step], [None] * 2)
    assert values[1][0].dtype == dtype
    assert (values[1][0] < 1).all()


async def test_a_function_for_a_learning_rate_gets_the_count_of_steps_which_is_0_in_the_first() -> None:
    with ag.Graph() as graph:
        w = ag.variable(0.0)
        step = SGD(lambda count: count + 1.0).apply_gradients([(ag.constant(1.0), w)])

    values = [float(value) for value, _ in await runs(graph, [w, step], [None] * 4)]
    assert np.diff(values).tolist() == [-1.0, -2.0, -3.0]


async def test_a_schedule_over_the_global_step_sees_the_step_before_it_is_counted() -> None:
    with ag.Graph() as graph:
        w, at = ag.variable(0.0), ag.global_step()
        rate = ag.schedules.piecewise_constant(at, [0], [10.0, 1.0])
        step = SGD(rate).minimize(w * 1.0, step=at)

    values = await runs(graph, [w, at, step], [None] * 4)
    assert [(float(value), int(count)) for value, count, _ in values] == [(0, 0), (-10, 1), (-11, 2), (-12, 3)]


# -- what is minimized -------------------------------------------------------------------------------


async def test_minimize_changes_what_is_trainable_and_what_the_loss_depends_on() -> None:
    with ag.Graph() as graph:
        learned, fixed = ag.variable(1.0, "learned"), ag.variable(1.0, "fixed", trainable=False)
        apart, counter = ag.variable(1.0, "apart"), ag.variable(0, "counter")
        loss = learned * fixed + ops.astype(counter, "float64") * 0.0
        step = SGD(0.5).minimize(loss)

    values = (await runs(graph, [[learned, fixed, apart, counter], step], [None] * 2))[1][0]
    assert values == [0.5, 1.0, 1.0, 0]


async def test_minimize_changes_exactly_the_variables_that_are_given() -> None:
    with ag.Graph() as graph:
        a, b = ag.variable(1.0), ag.variable(1.0, trainable=False)
        step = SGD(0.5).minimize(a + b, [b])

    assert (await runs(graph, [[a, b], step], [None] * 2))[1][0] == [1.0, 0.5]


async def test_gradients_are_of_what_the_variables_were_when_the_run_started() -> None:
    with ag.Graph() as graph:
        a, b = ag.variable(2.0), ag.variable(3.0)
        step = SGD(0.1).minimize(a * b)

    np.testing.assert_allclose((await runs(graph, [[a, b], step], [None] * 2))[1][0], [1.7, 2.8])


async def test_what_depends_on_the_step_reads_what_it_has_assigned() -> None:
    with ag.Graph() as graph:
        w = ag.variable(1.0)
        step = SGD(0.5).minimize(w * 1.0)
        with ag.control_dependencies([step]):
            after = w.read()

    assert await run(graph, [w, after]) == [1.0, 0.5]


@pytest.mark.parametrize("kind", [SGD, Momentum, Adam, AdamW, Adagrad])
async def test_a_step_built_in_control_dependencies_runs_them_and_is_the_same_step(kind: Any) -> None:
    values: list[Any] = []
    for dependent in (False, True):
        with ag.Graph() as graph:
            w, calls = ag.variable(np.array([1.0, -2.0])), ag.variable(0)
            loss = ops.sum(ops.square(w))
            with ag.control_dependencies([calls.assign_add(1)] if dependent else []):
                step = kind(0.1).minimize(loss)
        *_, (value, called, _) = await runs(graph, [w, calls, step], [None] * 4)
        values.append(value)
        assert called == (3 if dependent else 0)
    np.testing.assert_array_equal(*values)


async def test_a_step_is_built_in_the_graph_of_the_loss_whatever_graph_is_current() -> None:
    with ag.Graph() as graph:
        w = ag.variable(1.0)
        loss = ops.square(w)
    with ag.Graph() as other:
        step = Momentum(0.1).minimize(loss)

    assert len(other) == 0
    assert float((await runs(graph, [w, step], [None] * 2))[1][0]) == pytest.approx(0.8)


async def test_a_step_that_fails_changes_no_variable_and_no_slot() -> None:
    with ag.Graph() as graph:
        table, rows = ag.variable(np.ones((3, 2))), ag.placeholder("int64", ("n",))
        step = Adam(0.1).minimize(ops.sum(ag.nn.embedding(table, rows)))

    async with ag.Session(graph) as session:
        await session.run(step, {rows: [0, 1]})
        before = (await session.run(list(graph.variables))).results
        with pytest.raises(IndexError):
            await session.run(step, {rows: [0, 3]})
        after = (await session.run(list(graph.variables))).results
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_steps_of_many_coroutines_all_count() -> None:
    with ag.Graph() as graph:
        w = ag.variable(0.0)
        optimizer = SGD(1.0)
        step = optimizer.apply_gradients([(ag.constant(1.0), w)], step=ag.global_step())

    async with ag.Session(graph) as session:
        await asyncio.gather(*[session.run(step) for _ in range(50)])
        counted = (await session.run([w, "global_step", optimizer.iterations(graph)])).results
    assert counted == [-50.0, 50, 50]


async def test_an_optimizer_of_ones_own_says_only_how_one_variable_changes() -> None:
    @dataclass(eq=False)
    class SignDescent(Optimizer):
        def update(self, variable: ag.Variable, gradient: ag.Node, rate: float | ag.Node, count: ag.Node) -> ag.Node:
            return variable.assign_sub(ops.sign(gradient) * rate)

    with ag.Graph() as graph:
        w = ag.variable(np.zeros(2))
        step = SignDescent(0.5).apply_gradients([(ag.constant([3.0, -7.0]), w)])

    assert (await runs(graph, [w, step], [None] * 2))[1][0].tolist() == [-0.5, 0.5]


async def test_variables_decay_if_they_are_to() -> None:
    with ag.Graph() as graph:
        kernel, offset = ag.variable(np.ones((1, 1))), ag.variable(np.ones(1))
        adam = AdamW(0.1, decay=0.5, decays=lambda one: one.ndim == 2)
        step = adam.apply_gradients([(ops.zeros_like(one), one) for one in (kernel, offset)])

    assert (await runs(graph, [[kernel, offset], step], [None] * 2))[1][0] == [[[0.95]], [1.0]]


# -- mistakes ----------------------------------------------------------------------------------------


def test_a_variable_that_the_loss_does_not_depend_on_is_named() -> None:
    with ag.Graph():
        a, b, c = (ag.variable(1.0, name) for name in "abc")
        with pytest.raises(ag.errors.GradientError, match=r"^no gradient for 'b', 'c': .* does not depend on them"):
            SGD(0.1).minimize(a * 1.0, [a, b, c])
        with pytest.raises(ag.errors.GradientError, match=r"^no gradient for 'a', 'b', 'c': "):
            SGD(0.1).minimize(ag.constant(1.0))
        with pytest.raises(ag.errors.GradientError, match=r"^no gradient for 'b': leave out"):
            SGD(0.1).apply_gradients([(a * 1.0, a), (None, b)])


def test_a_graph_without_variables_cannot_be_trained() -> None:
    with ag.Graph(), pytest.raises(ag.errors.GradientError, match="there is no variable to change"):
        SGD(0.1).minimize(ag.constant(1.0))
    with pytest.raises(ag.errors.GradientError, match="there is no gradient to apply"):
        SGD(0.1).apply_gradients([])


def test_a_loss_is_one_real_number() -> None:
    with ag.Graph():
        w = ag.variable(np.ones(3))
        with pytest.raises(ag.errors.SpecError, match=r"write ops\.mean\(loss\)"):
            SGD(0.1).minimize(ops.square(w))
        with pytest.raises(ag.errors.SpecTypeError, match="a loss is a node of real numbers"):
            SGD(0.1).minimize(ops.sum(ops.astype(w, "int64")))


def test_only_variables_of_real_numbers_are_changed() -> None:
    with ag.Graph():
        w, counter = ag.variable(1.0), ag.variable(1)
        with pytest.raises(ag.errors.SpecTypeError, match="changes variables of real numbers"):
            SGD(0.1).minimize(w * 1.0, [counter])
        with pytest.raises(ag.errors.SpecTypeError, match="changes variables of real numbers"):
            SGD(0.1).minimize(w * 1.0, [w * 1.0])  # pyright: ignore[reportArgumentType]  # what is tested


def test_a_gradient_has_the_dtype_and_the_shape_of_its_variable() -> None:
    with ag.Graph():
        w = ag.variable(np.ones(3, "float32"))
        with pytest.raises(ag.errors.SpecTypeError, match=r"write ops\.astype\(gradient, 'float32'\)"):
            SGD(0.1).apply_gradients([(ag.constant(np.ones(3)), w)])
        with pytest.raises(ag.errors.SpecError, match="has another shape"):
            SGD(0.1).apply_gradients([(ag.constant(np.ones(1, "float32")), w)])


def test_a_gradient_is_a_node_and_what_counts_steps_is_a_variable() -> None:
    with ag.Graph():
        w = ag.variable(1.0)
        with pytest.raises(ag.errors.SpecTypeError, match=r"no node: write ag\.constant\(gradient\)"):
            SGD(0.1).apply_gradients([(1.0, w)])  # pyright: ignore[reportArgumentType]  # what is tested
        with pytest.raises(ag.errors.SpecTypeError, match=r"step takes a variable, such as ag\.global_step\(\), not 3"):
            SGD(0.1).minimize(w * w, step=3)  # pyright: ignore[reportArgumentType]  # what is tested


@pytest.mark.parametrize("by_function", [False, True])
def test_a_learning_rate_is_one_real_number(by_function: bool) -> None:
    with ag.Graph():
        w = ag.variable(np.ones(3))
        for rate, error in (
            (ag.constant(np.ones(3)), ag.errors.SpecError),
            (ag.constant(1j), ag.errors.SpecTypeError),
            (ag.constant(True), ag.errors.SpecTypeError),
        ):
            with pytest.raises(error, match="^a learning rate is "):
                SGD((lambda _, rate=rate: rate) if by_function else rate).minimize(ops.sum(w))
    with ag.Graph(), pytest.raises(ValueError, match="learning_rate=-1: give a number"):
        SGD(lambda _: -1).minimize(ag.variable(1.0) * 2.0)


SETTINGS: dict[str, Callable[[], object]] = {
    "learning_rate": lambda: SGD(-0.1),
    "momentum": lambda: Momentum(0.1, 1.0),
    "beta1": lambda: Adam(beta1=1.0),
    "beta2": lambda: AdamW(beta2=-0.1),
    "epsilon": lambda: Adam(epsilon=float("nan")),
    "decay": lambda: AdamW(decay=-1.0),
    "initial": lambda: Adagrad(0.1, -1.0),
}


@pytest.mark.parametrize(("name", "make"), SETTINGS.items(), ids=SETTINGS)
def test_a_setting_that_means_nothing_is_an_error_that_names_it(name: str, make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=f"^{name}="):
        make()


def test_what_decays_is_said_by_a_function() -> None:
    wrong: Any = ["kernel"]
    with pytest.raises(ValueError, match="decays="):
        AdamW(decays=wrong)
