"""A network of layers one after the other, and what trains it: enough for a first training script.

    model = ag.Sequential([ag.layers.Dense(64, ag.nn.relu), ag.layers.Dense(10)], (64,), seed=0)
    model.compile(ag.optimizers.Adam(1e-3), ag.nn.softmax_cross_entropy, ["accuracy"])
    async with model:
        history = await model.fit(x, y, epochs=5, validation_data=(x_val, y_val))
        scores = await model.evaluate(x_val, y_val)
        classes = (await model.predict(x_val)).argmax(axis=-1)

All of it is made with public names, as a program of yours could be, and as one that outgrows it will be: `model.graph`
and `model.session` are an ordinary graph and session. While one coroutine awaits `fit`, others may await `predict`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from numbers import Integral
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

import asyncgraph as ag

from ._progress import Bar, Line, NoBar, new_bar

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from .layers import Apply, Layer

__all__ = ["History", "Sequential"]

Array = np.ndarray[Any, np.dtype[Any]]
Scores = dict[str, float]
"""The loss, and each metric, by name: the means over all rows."""

PerRow = Callable[["ag.Node", "ag.Node"], "ag.Node"]
"""What predictions and labels are compared by: a number for each row, such as `nn.softmax_cross_entropy`."""

METRICS: Final[Mapping[str, str]] = {"accuracy": "is_right"}
"""Metrics that can be asked for by name: what they are in `metrics`."""

AT_ONCE: Final = 4
"""How many batches are in flight where their order does not matter."""


@final
@dataclass(frozen=True)
class History:
    """What `fit` has seen.

    Fields:
        epochs: the numbers of the epochs, from 1.
        scores: for each score a list with its value in each of them: "loss", the metrics, and with "val_" in front
            those of the validation data. What is trained on is scored while it is: the mean over the epoch's steps,
            each before it was made, with dropout and the like.
    """

    epochs: list[int] = field(default_factory=list[int])
    scores: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, scores: Mapping[str, float]) -> None:
        """One more epoch."""
        self.epochs.append(len(self.epochs) + 1)
        for name, value in scores.items():
            self.scores.setdefault(name, []).append(value)


@final
@dataclass(frozen=True)
class _Compiled:
    """What is learned, and by what."""

    optimizer: ag.optimizers.Optimizer
    losses: Mapping[str, PerRow]


@final
@dataclass(frozen=True)
class _Learning:
    """The nodes that learning is made of, for labels of one spec."""

    labels: ag.Node
    step: ag.Node
    training: Mapping[str, ag.Node]
    serving: Mapping[str, ag.Node]


@final
class Sequential:
    """Layers one after the other. An async context manager; also opened by its first use, and closed by `aclose`.

    Args:
        layers: each applied to what the one before gives: `layers`, or functions of one node.
        input_shape: the shape of one row of what goes in.
        dtype: what that is of. Others are converted, and refused where that would do more than round a real number.
        seed: makes everything random the same each time: first values, dropout, and the order of rows.
        config: of the session.
        hooks: of the session: each step of `fit` is a run.

    Fields:
        graph, session: what it is made of, and what runs it.
        inputs, outputs: the nodes of what goes in, and of what comes out where it is served.
        history: that of the last `fit`, also while it runs.

    Raises:
        SpecError, SpecTypeError: a layer cannot take what the one before gives.
    """

    def __init__(
        self,
        layers: Sequence[Layer | Callable[[ag.Node], ag.Node]],
        input_shape: Sequence[int],
        *,
        dtype: DTypeLike = "float32",
        seed: int | None = None,
        config: ag.SessionConfig | None = None,
        hooks: Iterable[ag.hooks.Hook] = (),
    ) -> None:
        self.graph: Final = ag.Graph()
        self.history = History()
        self._order: Final = np.random.default_rng(seed)
        self._compiled: _Compiled | None = None
        self._learning: Final[dict[ag.ArraySpec, _Learning]] = {}
        self._layers: Final[list[Apply]] = []
        with self.graph:
            x = self.inputs = ag.placeholder(dtype, ("rows", *input_shape), name="inputs")
            for layer in layers:
                apply = _built(layer, x)
                self._layers.append(apply)
                x = _applied(apply, layer, x)
        self.outputs: Final = x
        chosen = config or ag.SessionConfig()
        chosen = chosen if seed is None else replace(chosen, seed=seed)
        self.session: Final = ag.Session(self.graph, config=chosen, hooks=hooks)

    def compile(
        self,
        optimizer: ag.optimizers.Optimizer,
        loss: PerRow,
        metrics: Sequence[str] | Mapping[str, PerRow] = (),
    ) -> None:
        """Says how to learn. The nodes for it are made once it is known what the labels are.

        Args:
            optimizer: changes the variables.
            loss: a function of predictions and labels, such as `nn.softmax_cross_entropy`. Its mean is minimized.
            metrics: other such functions, by name; or names of known ones: "accuracy".

        Raises:
            GraphError: no metric of a name is known, or one is called as the loss is.
            SpecTypeError: the optimizer is none, or what compares is no function.
        """
        if not isinstance(optimizer, ag.optimizers.Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise ag.errors.SpecTypeError(
                f"compile takes an optimizer, such as ag.optimizers.Adam(1e-3), not {optimizer!r}"
            )
        named = [metrics] if isinstance(metrics, str) else metrics
        scores = dict(named) if isinstance(named, Mapping) else {name: _known(name) for name in named}
        if "loss" in scores:
            raise ag.errors.GraphError("compile: no metric can be called 'loss', as what is minimized is")
        losses = {"loss": loss, **scores}
        for name, one in losses.items():
            if not callable(one):
                raise ag.errors.SpecTypeError(
                    f"compile: {name!r} takes a function of predictions and labels, such as "
                    f"ag.nn.softmax_cross_entropy, not {one!r}"
                )
        self._compiled = _Compiled(optimizer, losses)
        self._learning.clear()

    async def fit(
        self,
        x: ArrayLike,
        y: ArrayLike,
        *,
        epochs: int = 1,
        batch_size: int = 32,
        validation_data: tuple[ArrayLike, ArrayLike] | None = None,
        shuffle: bool = True,
        progress_bar: bool = True,
        on_epoch: Callable[[int, Scores], Awaitable[None] | None] | None = None,
    ) -> History:
        """Learns from rows and their labels; each step is one transaction. Gives the scores of each epoch.

        If this is cancelled, the steps that were made stay.

        Args:
            x: the rows.
            y: a label for each row.
            epochs: how often to go over all rows.
            batch_size: how many rows make one step; the last of an epoch has the rest.
            validation_data: other rows and their labels, which are scored after each epoch, as `evaluate` does.
            shuffle: whether each epoch takes the rows in another order.
            progress_bar: whether progress is shown: by tqdm or rich, if one is installed, else by a line an epoch.
            on_epoch: called, and awaited if it is async, after each epoch, with its number and its scores.

        Raises:
            GraphError: there was no `compile`, or what it was told does not fit.
            ValueError: there are no rows, or not as many labels as rows; or another argument means nothing.
        """
        rows, labels = self._data(x, y, batch_size)
        if validation_data is not None and len(validation_data) != 2:
            raise ValueError("validation_data takes a pair of rows and labels: validation_data=(x_val, y_val)")
        validation = None if validation_data is None else self._data(*validation_data, batch_size)
        _check_count("epochs", epochs, 0)
        learning = self._learn(labels)
        step = self.session.prepare((learning.training, learning.step), [self.inputs, learning.labels])
        history = self.history = History()
        for epoch in range(1, epochs + 1):
            means = _Means()
            order = self._order.permutation(len(rows)) if shuffle else None
            with closing(_bar(progress_bar, len(rows), f"epoch {epoch}/{epochs}")) as bar:
                for batch in _batches((rows, labels), batch_size, order):
                    bar.show(means.rows, _shown(means.scores))
                    scores, _ = (await step(*batch)).results
                    means.add(scores, len(batch[0]))
                scores = means.scores
                if validation is not None:
                    found = await self._score(*validation, batch_size)
                    scores |= {f"val_{name}": value for name, value in found.items()}
                bar.show(means.rows, _shown(scores))
            history.add(scores)
            told = None if on_epoch is None else on_epoch(epoch, scores)
            if isawaitable(told):
                await told
        return history

    async def evaluate(self, x: ArrayLike, y: ArrayLike, *, batch_size: int = 32) -> Scores:
        """The loss and the metrics over all rows, each row counted once; nothing is learned.

        Each batch reads one consistent state of the variables. If `fit` runs meanwhile, it may be a later one.

        Raises:
            GraphError: there was no `compile`, or what it was told does not fit.
            ValueError: there are no rows, or not as many labels as rows.
        """
        return await self._score(*self._data(x, y, batch_size), batch_size)

    async def predict(self, x: ArrayLike, *, batch_size: int = 32) -> Array:
        """What comes out for each row."""
        rows = _rows(x, self.inputs.dtype)
        _check_count("batch_size", batch_size)
        args = (ag.RunArgs(self.outputs, {self.inputs: batch}) for (batch,) in _batches((rows,), batch_size))
        async with self.session.map(args, concurrency=AT_ONCE) as runs:
            parts = [values.results async for values in runs]
        return np.concatenate(parts)

    async def aclose(self) -> None:
        """Closes the session, and forgets what was learned."""
        await self.session.aclose()

    async def __aenter__(self) -> Sequential:
        await self.session.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.session.__aexit__(kind, error, traceback)

    def __repr__(self) -> str:
        return f"<Sequential of {len(self._layers)} layers: {self.inputs.spec!r} to {self.outputs.spec!r}>"

    # -- building --------------------------------------------------------------------------------------

    def _learn(self, y: Array) -> _Learning:
        """The nodes that learn from such labels; built if need be."""
        compiled = self._compiled
        if compiled is None:
            raise ag.errors.GraphError("the model does not know how to learn\n  write model.compile(optimizer, loss)")
        spec = ag.ArraySpec(y.dtype, ("rows", *y.shape[1:]))
        if spec in self._learning:
            return self._learning[spec]
        with self.graph, ag.name_scope("learning"):
            labels = ag.placeholder(spec.dtype, spec.shape, name="labels")
            outputs = self.inputs
            for apply in self._layers:
                outputs = apply(outputs, True)
            training, serving = (
                {name: ag.ops.mean(compare(predictions, labels)) for name, compare in compiled.losses.items()}
                for predictions in (outputs, self.outputs)
            )
            step = compiled.optimizer.minimize(training["loss"])
        made = self._learning[spec] = _Learning(labels, step, training, serving)
        return made

    # -- running ---------------------------------------------------------------------------------------

    def _data(self, x: ArrayLike, y: ArrayLike, batch_size: int) -> tuple[Array, Array]:
        """Rows and labels as arrays, of the dtypes that are fed."""
        rows, labels = _rows(x, self.inputs.dtype), np.asarray(y)
        if labels.dtype.kind == "f" and self.outputs.dtype is not None:
            labels = labels.astype(self.outputs.dtype, copy=False)
        if not labels.ndim:
            raise ValueError(f"rows of shape {rows.shape} and labels of (): give a label for each row")
        if not len(rows) or len(rows) != len(labels):
            raise ValueError(f"{len(rows)} rows and {len(labels)} labels: give one label for each row, and some rows")
        _check_count("batch_size", batch_size)
        return rows, labels

    async def _score(self, rows: Array, labels: Array, batch_size: int) -> Scores:
        learning = self._learn(labels)
        args = (
            ag.RunArgs(learning.serving, {self.inputs: batch, learning.labels: given})
            for batch, given in _batches((rows, labels), batch_size)
        )
        means = _Means()
        async with self.session.map(args, concurrency=AT_ONCE) as runs:
            async for values in runs:
                means.add(values.results, min(batch_size, len(rows) - means.rows))
        return means.scores


@final
class _Means:
    """Means over rows, gathered batch by batch."""

    def __init__(self) -> None:
        self.rows = 0
        self._sums: Final[Scores] = {}

    @property
    def scores(self) -> Scores:
        return {name: total / self.rows for name, total in self._sums.items()}

    def add(self, means: Mapping[str, Any], rows: int) -> None:
        """Those of a batch of `rows` rows."""
        self.rows += rows
        for name, value in means.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value) * rows


def _batches(arrays: Sequence[Array], size: int, order: Array | None = None) -> Iterator[tuple[Array, ...]]:
    """The rows of all arrays, `size` at a time, and the rest at last; at least one batch, if an empty one."""
    for start in range(0, max(len(arrays[0]), 1), size):
        rows = slice(start, start + size) if order is None else order[start : start + size]
        yield tuple([one[rows] for one in arrays])


def _rows(x: ArrayLike, dtype: np.dtype[Any] | None) -> Array:
    """Rows in the dtype that is fed. Real numbers may be rounded to it, and nothing else be changed."""
    given = np.asarray(x)
    if not given.ndim:
        raise ValueError(f"there are no rows in {x!r}: give an array of rows")
    if dtype is None or given.dtype == dtype:
        return given
    if given.dtype.kind in "cSU" and given.dtype.kind != dtype.kind:
        raise ValueError(f"the rows are of {given.dtype}, which is not turned into {dtype}: convert them before")
    with np.errstate(invalid="ignore"):
        rows = given.astype(dtype)
    if dtype.kind in "iub" and not np.array_equal(rows, given):
        raise ValueError(f"there are numbers in the rows, of {given.dtype}, that {dtype} does not have")
    return rows


def _bar(wanted: bool, total: int, description: str) -> Bar:
    if not wanted:
        return NoBar()
    return new_bar(total, description) or Line(total, description)


def _shown(scores: Scores) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())


def _check_count(name: str, value: int, least: int = 1) -> None:
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r}: give an int of at least {least}")


def _built(layer: Layer | Callable[[ag.Node], ag.Node], like: ag.Node) -> Apply:
    if not isinstance(layer, ag.layers.Layer):
        return lambda x, training: layer(x)
    with ag.name_scope(type(layer).__name__.lower()):
        return layer.build(like)


def _applied(apply: Apply, layer: object, x: ag.Node) -> ag.Node:
    made = apply(x, False)
    if not isinstance(made, ag.Node):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise ag.errors.SpecTypeError(
            f"the layer {layer!r} gave {made!r} for {x!r}\n  give layers, such as ag.layers.Dense(10), or functions "
            "that give a node, such as ag.nn.relu"
        )
    return made


def _known(name: str) -> PerRow:
    if name not in METRICS:
        raise ag.errors.GraphError(
            f"no metric is known as {name!r}\n  known are {', '.join(map(repr, METRICS))}; "
            "others are given by a function: metrics={'error': ag.nn.mean_squared_error}"
        )
    return cast(PerRow, getattr(ag.metrics, METRICS[name]))
