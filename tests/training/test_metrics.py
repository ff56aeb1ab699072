"""Metrics gather over runs, and weigh every row the same."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph import metrics, ops

from .helpers import run


async def test_a_mean_is_over_all_rows_of_all_runs_however_they_are_batched() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float32", ("n",))
        mean = metrics.mean(x)

    async with ag.Session(graph) as session:
        updates = [(await session.run(mean.update, {x: batch})).results for batch in ([1, 1, 1, 1], [6])]
        assert updates == [1.0, 2.0]
        assert (await session.run(mean.result)).results == 2.0
        await session.run(mean.reset)
        await session.run(mean.update, {x: [5, 7]})
        assert (await session.run(mean.result)).results == 6.0


async def test_the_mean_of_nothing_is_nan_and_no_warning() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        mean = metrics.mean(x)

    assert np.isnan(await run(graph, [mean.result, mean.update], {x: []})).all()


async def test_weights_are_broadcast_to_the_values() -> None:
    with ag.Graph() as graph:
        x, w = ag.placeholder("float64", ("n", 2)), ag.placeholder("float64", ("n", 1))
        mean = metrics.mean(x, w)

    assert await run(graph, mean.update, {x: [[1, 3], [10, 20]], w: [[3], [1]]}) == (4 * 3 + 30) / 8


async def test_sums_of_float32_are_kept_in_float64() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float32", ("n",))
        mean = metrics.mean(x)

    batch = np.full(1000, 0.1, "float32")
    async with ag.Session(graph) as session:
        for _ in range(100):
            await session.run(mean.update, {x: batch})
        assert (await session.run(mean.result)).results == pytest.approx(float(np.float32(0.1)), rel=1e-12)


async def test_no_update_of_many_coroutines_is_lost() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        mean = metrics.mean(x)

    async with ag.Session(graph) as session:
        await asyncio.gather(*[session.run(mean.update, {x: [float(i)] * i}) for i in range(40)])
        total, count = (await session.run(mean.variables)).results
    assert (total, count) == (sum(i * i for i in range(40)), sum(range(40)))


RIGHT: dict[str, tuple[Any, Any]] = {
    "scores": ([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]], [1, 1, 0]),
    "classes": ([1, 0, 0], [1, 1, 0]),
    "booleans": ([True, False, False], [True, True, False]),
}


@pytest.mark.parametrize(("predictions", "labels"), RIGHT.values(), ids=RIGHT)
async def test_a_prediction_is_right_if_it_is_the_label_or_has_the_highest_score(predictions: Any, labels: Any) -> None:
    with ag.Graph() as graph:
        right = metrics.is_right(np.array(predictions), np.array(labels))

    assert (await run(graph, right)).tolist() == [True, False, True]


async def test_accuracy_is_how_often_a_prediction_is_right() -> None:
    with ag.Graph() as graph:
        accuracy = metrics.accuracy(np.array(RIGHT["scores"][0]), RIGHT["scores"][1], [1, 1, 2])

    assert await run(graph, accuracy.update) == 0.75
    assert [one.name for one in accuracy.variables] == ["accuracy/total", "accuracy/count"]
    assert not any(one.trainable for one in accuracy.variables)


def test_what_is_right_needs_known_ranks() -> None:
    with ag.Graph(), pytest.raises(ag.errors.SpecError, match="must be known"):
        metrics.is_right(ag.placeholder("float32"), ag.placeholder("int64", ("n",)))


@pytest.mark.parametrize("labels", [np.eye(3), [[0], [1], [1]]], ids=["one-hot", "two classes"])
def test_scores_are_no_classes_that_are_compared_with_labels(labels: Any) -> None:
    scores = np.full(np.shape(labels), 0.5)
    with ag.Graph(), pytest.raises(ag.errors.SpecTypeError, match="no classes.*\n.*argmax.*\n.*astype"):
        metrics.is_right(scores, labels)


@pytest.mark.parametrize("given", [([1j],), (["a"],), ([1.0], [1j])], ids=["complex", "text", "complex weights"])
def test_a_mean_is_of_real_numbers_and_booleans(given: Any) -> None:
    with ag.Graph() as graph, pytest.raises(ag.errors.SpecTypeError, match="^mean: .* not of real numbers"):
        metrics.mean(*map(np.array, given))
    assert not graph.nodes


async def test_a_metric_goes_into_the_graph_of_its_values() -> None:
    with ag.Graph() as graph:
        x = ag.variable([1.0, 2.0])
    mean = metrics.mean(x * 2, name="twice")

    assert mean.result.graph is graph
    assert await run(graph, mean.update) == 3.0
    assert await run(graph, ops.sum(x)) == 3.0


def test_one_number_for_each_label_is_no_choice_of_classes() -> None:
    with ag.Graph(), pytest.raises(ag.errors.SpecError, match="all of them would be class 0"):
        ag.metrics.accuracy(ag.placeholder("float32", ("n", 1)), ag.placeholder("int64", ("n",)))
