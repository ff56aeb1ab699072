"""A Sequential learns, scores every row once, and is an ordinary graph and session."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import layers, nn, ops
from asyncgraph.sequential import History

RNG = np.random.default_rng(5)
X = RNG.normal(size=(50, 3))
CLASSES = (X @ [1.0, -2.0, 0.5] > 0).astype("int64")
SIZES = X @ [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]] + [0.5, -0.5]


def classifier(*more: Any, seed: int = 0) -> ag.Sequential:
    model = ag.Sequential([layers.Dense(8), nn.relu, *more, layers.Dense(2)], (3,), seed=seed)
    model.compile(ag.optimizers.Adam(0.05), nn.softmax_cross_entropy, ["accuracy"])
    return model


def regression(rate: float = 0.1) -> ag.Sequential:
    """A layer that begins with zeros, so that what it does can be computed by hand."""
    zeros = layers.Dense(2, kernel=lambda shape, dtype: ops.zeros(tuple(shape), dtype=dtype))
    model = ag.Sequential([zeros], (3,), dtype="float64")
    model.compile(ag.optimizers.SGD(rate), nn.mean_squared_error, {"error": lambda p, y: ops.abs(p - y)})
    return model


async def fit(model: ag.Sequential, y: Any = CLASSES, **options: Any) -> History:
    return await model.fit(X, y, progress_bar=False, **options)


# -- learning ----------------------------------------------------------------------------------------


async def test_it_learns_and_says_how_well_after_each_epoch() -> None:
    async with classifier() as model:
        history = await fit(model, epochs=12, validation_data=(X[:10], CLASSES[:10]))
        scores = await model.evaluate(X[:10], CLASSES[:10])
        predicted = (await model.predict(X)).argmax(axis=-1)

    assert history.epochs == list(range(1, 13))
    assert list(history.scores) == ["loss", "accuracy", "val_loss", "val_accuracy"]
    assert history.scores["loss"][-1] < history.scores["loss"][0] / 2
    assert history.scores["accuracy"][-1] > 0.9
    assert (history.scores["val_loss"][-1], history.scores["val_accuracy"][-1]) == (scores["loss"], scores["accuracy"])
    assert (predicted == CLASSES).mean() > 0.9
    assert model.history is history


async def test_a_step_is_that_of_the_optimizer_over_the_mean_of_the_batch() -> None:
    async with regression(rate=0.1) as model:
        await fit(model, SIZES, batch_size=50)
        kernel = (await model.session.run("dense/kernel")).results

    np.testing.assert_allclose(kernel, 0.1 * X.T @ SIZES / 50, rtol=1e-12)


@pytest.mark.parametrize("batch_size", [1, 7, 32, 50, 1000])
async def test_every_row_counts_the_same_whatever_the_last_batch(batch_size: int) -> None:
    async with regression(rate=0.0) as model:
        history = await fit(model, SIZES, batch_size=batch_size, validation_data=(X, SIZES))
        scores = await model.evaluate(X, SIZES, batch_size=batch_size)

    expected = {"loss": np.mean(SIZES**2), "error": np.mean(np.abs(SIZES))}
    assert scores == pytest.approx(expected, rel=1e-12)
    trained = {name: history.scores[name][0] for name in expected}
    assert trained == pytest.approx(expected, rel=1e-12)
    assert {name: history.scores[f"val_{name}"][0] for name in expected} == scores


async def test_training_has_dropout_and_what_is_served_has_not() -> None:
    model = ag.Sequential([layers.Dropout(0.5), lambda x: x * 1.0], (3,), seed=0)
    with model.graph:
        scale = ag.variable(np.float32(1))
    model.compile(ag.optimizers.SGD(0.0), lambda p, y: nn.mean_squared_error(p * scale, y))
    async with model:
        history = await fit(model, X, epochs=2)
        np.testing.assert_array_equal(await model.predict(X), X.astype("float32"))
        assert await model.evaluate(X, X) == {"loss": 0.0}
    assert history.scores["loss"] == pytest.approx([np.mean(X**2)] * 2, rel=0.3)
    assert history.scores["loss"][0] != history.scores["loss"][1]


async def test_the_same_seed_gives_the_same_network_and_another_seed_another() -> None:
    found: list[Any] = []
    for seed in (1, 1, 2):
        async with classifier(layers.BatchNorm(), layers.Dropout(0.2), seed=seed) as model:
            await fit(model, epochs=2, batch_size=20)
            found.append(await model.predict(X))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


async def test_rows_are_taken_in_their_order_unless_they_are_shuffled() -> None:
    orders: dict[bool, list[float]] = {}
    for shuffle in (False, True):
        model = ag.Sequential([lambda x: x], (1,), dtype="float64", seed=0)
        seen: list[float] = []

        @ag.op(spec="float64[]", where="inline")
        def see(batch: Any, seen: list[float] = seen) -> np.float64:
            seen.append(float(batch[0, 0]))
            return np.float64(0)

        with model.graph:
            scale = ag.variable(1.0)
        model.compile(ag.optimizers.SGD(0.0), lambda p, y, see=see, scale=scale: see(p) + scale * 0.0)
        async with model:
            numbers = np.arange(10.0)[:, None]
            await model.fit(numbers, numbers, batch_size=1, epochs=2, shuffle=shuffle, progress_bar=False)
        orders[shuffle] = seen

    assert orders[False] == [*range(10)] * 2
    assert sorted(orders[True][:10]) == sorted(orders[True][10:]) == [*range(10)]
    assert orders[True][:10] != orders[True][10:]
    assert orders[True][:10] != [*range(10)]


async def test_each_epoch_is_told_and_waited_for() -> None:
    told: list[tuple[int, str]] = []

    async def tell(epoch: int, scores: dict[str, float]) -> None:
        await asyncio.sleep(0)
        told.append((epoch, ", ".join(scores)))

    async with classifier() as model:
        await fit(model, epochs=2, on_epoch=tell)
        await fit(model, on_epoch=lambda epoch, scores: told.append((epoch, "sync")))
    assert told == [(1, "loss, accuracy"), (2, "loss, accuracy"), (1, "sync")]


async def test_each_step_is_a_run_that_hooks_of_the_session_see() -> None:
    seen: list[Any] = []

    class Watch(ag.hooks.Hook):
        def after_run(self, context: ag.hooks.RunContext, values: ag.RunValues[Any]) -> None:
            seen.append(values.metadata)

    model = ag.Sequential([layers.Dense(2)], (3,), hooks=[Watch()])
    model.compile(ag.optimizers.SGD(0.1), nn.softmax_cross_entropy)
    async with model:
        await fit(model, batch_size=20, epochs=2)
    assert len(seen) == 6


async def test_it_goes_on_from_where_it_was() -> None:
    async with classifier() as model:
        first = await fit(model, epochs=5)
        second = await fit(model, epochs=5)
    assert second.scores["loss"][0] < first.scores["loss"][0]
    assert model.history is second


async def test_compiled_again_it_learns_by_what_it_was_told_last() -> None:
    async with classifier() as model:
        await fit(model, epochs=2)
        before = await model.predict(X)
        model.compile(ag.optimizers.SGD(0.0), nn.softmax_cross_entropy)
        history = await fit(model)
        np.testing.assert_array_equal(await model.predict(X), before)
    assert list(history.scores) == ["loss"]


async def test_labels_of_another_kind_are_learned_too() -> None:
    async with classifier() as model:
        by_class = await model.evaluate(X, CLASSES)
        model.compile(ag.optimizers.SGD(0.1), nn.softmax_cross_entropy)
        one_hot = await model.evaluate(X, np.eye(2)[CLASSES])
        assert one_hot["loss"] == pytest.approx(by_class["loss"], rel=1e-6)
        assert (await model.evaluate(X.tolist(), CLASSES.tolist()))["loss"] == pytest.approx(by_class["loss"], rel=1e-6)


async def test_others_are_served_while_it_learns() -> None:
    async with classifier() as model:
        learning = asyncio.create_task(fit(model, epochs=20))
        served = 0
        while not learning.done():
            assert (await model.predict(X[:1])).shape == (1, 2)
            served += 1
            await asyncio.sleep(0)
        await learning
    assert served > 1


async def test_what_was_learned_before_a_cancellation_stays() -> None:
    async with classifier() as model:
        before = await model.predict(X)

        def stop(epoch: int, scores: dict[str, float]) -> None:
            if epoch == 2:
                learning.cancel()

        learning = asyncio.create_task(fit(model, epochs=1000, on_epoch=stop))
        with pytest.raises(asyncio.CancelledError):
            await learning
        assert 2 <= len(model.history.epochs) < 1000
        assert (await model.predict(X) != before).any()


# -- predicting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 7, 50, 64])
async def test_predictions_are_in_the_order_of_the_rows(batch_size: int) -> None:
    async with ag.Sequential([lambda x: x * 2.0], (3,), dtype="float64") as model:
        np.testing.assert_array_equal(await model.predict(X, batch_size=batch_size), X * 2.0)


async def test_no_rows_have_no_predictions() -> None:
    async with classifier() as model:
        assert (await model.predict(X[:0])).shape == (0, 2)


async def test_it_is_opened_by_its_first_use_and_closed_by_aclose() -> None:
    model = classifier()
    assert (await model.predict(X[:2])).shape == (2, 2)
    await model.aclose()
    with pytest.raises(ag.errors.SessionClosedError):
        await model.predict(X[:2])


@pytest.mark.parametrize(
    ("dtype", "x", "message"),
    [
        ("int32", [[0, 1.5]], "there are numbers in the rows, of float64, that int32 does not have"),
        ("int32", [[0, np.nan]], "there are numbers in the rows, of float64, that int32 does not have"),
        ("int32", [[0, 2**40]], "there are numbers in the rows, of int64, that int32 does not have"),
        ("float32", [[0, 1j]], "the rows are of complex128, which is not turned into float32: convert them before"),
        ("float32", [["0", "1"]], "the rows are of <U1, which is not turned into float32: convert them before"),
        ("float32", 3.0, "there are no rows in 3.0: give an array of rows"),
    ],
)
async def test_rows_are_never_turned_into_other_numbers(dtype: str, x: Any, message: str) -> None:
    async with ag.Sequential([lambda node: node * 2], (2,), dtype=dtype) as model:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            await model.predict(x)


async def test_rows_of_the_same_numbers_are_converted() -> None:
    async with ag.Sequential([lambda node: node * 2], (2,), dtype="int32") as model:
        np.testing.assert_array_equal(await model.predict([[1.0, 2.0]]), np.array([[2, 4]], "int32"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": -1}, "epochs=-1: give an int of at least 0"),
        ({"epochs": 1.5}, "epochs=1.5: give an int of at least 0"),
        ({"validation_data": (X, CLASSES, CLASSES)}, "validation_data takes a pair of rows and labels"),
    ],
)
async def test_what_fit_cannot_do_is_said(options: dict[str, Any], message: str) -> None:
    async with classifier() as model:
        with pytest.raises(ValueError, match=message):
            await fit(model, **options)


def test_it_says_what_it_is() -> None:
    assert repr(classifier()) == "<Sequential of 3 layers: float32[rows,3] to float32[rows,2]>"


# -- mistakes ----------------------------------------------------------------------------------------


async def test_what_cannot_be_learned_is_said() -> None:
    async with classifier() as model:
        with pytest.raises(ValueError, match="50 rows and 49 labels"):
            await fit(model, CLASSES[1:])
        with pytest.raises(ValueError, match="0 rows and 0 labels"):
            await model.evaluate(X[:0], CLASSES[:0])
        with pytest.raises(ValueError, match="batch_size=0"):
            await fit(model, batch_size=0)
        with pytest.raises(ValueError, match="batch_size=0"):
            await model.predict(X, batch_size=0)
        with pytest.raises(ValueError, match=r"batch_size=2\.5: give an int"):
            await fit(model, batch_size=2.5)
        with pytest.raises(ValueError, match="give a label for each row"):
            await model.evaluate(X, 1)
    async with ag.Sequential([layers.Dense(2)], (3,)) as model:
        with pytest.raises(ag.errors.GraphError, match=r"write model\.compile"):
            await fit(model)
        with pytest.raises(ag.errors.GraphError, match="no metric is known as 'acuracy'"):
            model.compile(ag.optimizers.SGD(0.1), nn.softmax_cross_entropy, ["acuracy"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("adam", nn.softmax_cross_entropy), "compile takes an optimizer"),
        ((ag.optimizers.Adam, nn.softmax_cross_entropy), "compile takes an optimizer"),
        ((ag.optimizers.Adam(), "mse"), "'loss' takes a function"),
        ((ag.optimizers.Adam(), nn.softmax_cross_entropy, {"error": "mse"}), "'error' takes a function"),
        ((ag.optimizers.Adam(), nn.softmax_cross_entropy, {"loss": nn.mean_squared_error}), "can be called 'loss'"),
    ],
)
def test_what_it_cannot_be_compiled_with_is_said_at_once(given: Any, message: str) -> None:
    with pytest.raises(ag.errors.GraphError, match=message):
        classifier().compile(*given)


@pytest.mark.parametrize("layer", [layers.Dense, lambda x: 3])
def test_what_is_no_layer_is_refused(layer: Any) -> None:
    with pytest.raises(ag.errors.SpecTypeError, match=r"give layers, such as ag\.layers\.Dense"):
        ag.Sequential([layer], (3,))


async def test_accuracy_by_one_hot_labels_says_what_to_give() -> None:
    async with classifier() as model:
        with pytest.raises(ag.errors.SpecTypeError, match="of one-hot labels give"):
            await fit(model, np.eye(2)[CLASSES])


async def test_labels_of_two_kinds_in_turn_add_no_more_nodes() -> None:
    async with ag.Sequential([layers.Dense(2)], (3,)) as model:
        model.compile(ag.optimizers.SGD(0.1), nn.softmax_cross_entropy)
        sizes: list[int] = []
        for _ in range(3):
            await model.evaluate(X, CLASSES)
            await model.evaluate(X, np.eye(2)[CLASSES])
            sizes.append(len(model.graph.nodes))
        assert len(set(sizes)) == 1


def test_it_is_made_with_public_names_only() -> None:
    path = Path(ag.sequential.__file__)
    source = path.read_text()
    ours = [
        (one.module or "", [alias.name for alias in one.names])
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.ImportFrom) and one.level
    ]
    assert ours == [("_progress", ["Bar", "Line", "NoBar", "new_bar"]), ("layers", ["Apply", "Layer"])]
    assert "ag._" not in source
    assert source.count("\n") < 400
