"""Metrics: numbers that are gathered over many runs, in variables.

    accuracy = ag.metrics.accuracy(logits, labels)
    await session.run(accuracy.reset)
    for images, classes in batches:
        await session.run(accuracy.update, {x: images, labels: classes})
    print((await session.run(accuracy.result)).results)

Every row counts the same, so that a last batch that is smaller counts for less. Sums are kept in float64. Updates are
transactions: any number of coroutines may make them at the same time, and none is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, final

import numpy as np

from . import ops
from ._graph.building import group, variable
from ._graph.node import Node
from ._graph.scopes import name_scope
from ._graph.variable import Variable, may_be
from .errors import SpecError, SpecTypeError
from .ops._build import as_nodes, build, graph_of

if TYPE_CHECKING:
    from .ops._build import Operand

__all__ = ["Metric", "accuracy", "is_right", "mean"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A mean over runs.

    Fields:
        update: adds the values of a run; its own value is the mean with these.
        result: the mean of what has been added in earlier runs: float64, NaN if that is nothing.
        reset: forgets everything; without a value.
        variables: what it is kept in: a sum, and the sum of weights. They are not trainable.
    """

    update: Node
    result: Node
    reset: Node
    variables: tuple[Variable, Variable]


def mean(values: Operand, weights: Operand | None = None, *, name: str = "mean") -> Metric:
    """The mean of all elements of `values`, weighted by `weights`, which are broadcast to them.

    Raises:
        SpecError: the weights cannot be broadcast to the shape of the values.
        SpecTypeError: these are no real numbers or booleans.
    """
    _check_are_real(values, weights)
    with graph_of("mean", (values, weights)), name_scope(name):
        if weights is None:
            added, counted = ops.sum(values, dtype=ops.float64), build("size_of", (values,))
        else:
            each = ops.broadcast_like(ops.astype(weights, ops.float64), values)
            added, counted = ops.sum(each * values), ops.sum(each)
        total, count = (variable(ops.float64(0), one, trainable=False) for one in ("total", "count"))
        new_total, new_count = total.assign_add(added), count.assign_add(counted)
        return Metric(
            update=_quotient(new_total, new_count, "update"),
            result=_quotient(total, count, "result"),
            reset=group(total.assign(0.0), count.assign(0.0), name="reset"),
            variables=(total, count),
        )


def accuracy(
    predictions: Operand, labels: Operand, weights: Operand | None = None, *, name: str = "accuracy"
) -> Metric:
    """How often a prediction is right: the `mean` of `is_right`."""
    return mean(is_right(predictions, labels), weights, name=name)


def is_right(predictions: Operand, labels: Operand) -> Node:
    """For each label whether it is predicted: booleans of the shape of the labels.

    Args:
        predictions: the classes themselves, in the shape of the labels; or else, with one more axis at the end, a
            number for each class, of which the largest is the prediction, and the first of these at a tie.
        labels: classes. One-hot vectors become classes by `ops.argmax(labels, axis=-1)`.

    Raises:
        SpecError: the shapes do not fit, or a rank is not known; or there is but one class.
        SpecTypeError: the predictions are in the shape of the labels, but real numbers, such as scores.
    """
    predictions, labels = as_nodes("is_right", (predictions, labels))
    if predictions.ndim is None or labels.ndim is None:
        raise SpecError(f"is_right: the ranks of {predictions!r} and {labels!r} must be known")
    if predictions.ndim == labels.ndim + 1:
        if predictions.shape is not None and predictions.shape[-1] == 1:
            raise SpecError(
                f"is_right: {predictions!r} has one number for each label, so that all of them would be class 0\n"
                "  of what is predicted for two classes give a comparison, such as logits[..., 0] > 0"
            )
        predictions = ops.argmax(predictions, axis=-1)
    if not may_be(predictions.shape, labels.shape):
        raise SpecError(
            f"is_right: {predictions!r} and {labels!r} have not the same shape, and nothing is broadcast here"
        )
    if predictions.dtype is not None and predictions.dtype.kind in "fc":
        raise SpecTypeError(
            f"is_right: {predictions!r} are no classes, and would hardly ever be equal to {labels!r}\n"
            "  of one-hot labels give ops.argmax(labels, axis=-1); of what is predicted for two classes give a "
            "comparison,\n  such as logits > 0; and of classes that are real numbers ops.astype(predictions, 'int64')"
        )
    return ops.equal(predictions, labels)


def _check_are_real(*given: Operand | None) -> None:
    for one in given:
        dtype = one.dtype if isinstance(one, Node) else np.asarray(one).dtype
        if one is not None and dtype is not None and dtype.kind not in "fiub":
            raise SpecTypeError(f"mean: {one!r} is of {dtype}, and not of real numbers or booleans")


def _quotient(total: Node, count: Node, name: str) -> Node:
    # Not 0 / 0, which warns.
    return ops.where(count == 0, nan, total / ops.where(count == 0, 1.0, count), name=name)
