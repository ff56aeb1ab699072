"""Parts of networks, as functions: what they are made of is given, so that nothing is hidden, and all can be shared.

    kernel = ag.variable(ag.nn.glorot_uniform((64, 10)), "kernel")
    offset = ag.variable(np.zeros(10, "float32"), "offset")
    logits = ag.nn.dense(images, kernel, offset)
    loss = ag.ops.mean(ag.nn.softmax_cross_entropy(logits, labels))

A network that is not the same in training, for its `dropout` or `batch_norm`, is built twice over the same variables:
with `training=True` for the loss, and with `training=False` for what is served.

Losses have one number for each label, and are not averaged: write `ops.mean(loss)`. Nothing is broadcast between
predictions and labels, since `(n, 1)` and `(n,)` would silently make `(n, n)`.
"""

from __future__ import annotations

from math import pi, prod, sqrt
from typing import TYPE_CHECKING

from . import ops
from ._graph.node import Node
from ._graph.scopes import control_dependencies
from ._graph.variable import Variable, may_be
from .errors import SpecError, SpecTypeError
from .gradients import stop_gradient
from .ops._build import as_nodes, build, build_several
from .ops._params import as_int

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    from .ops._build import Operand

__all__ = [
    "batch_norm",
    "dense",
    "dropout",
    "embedding",
    "gelu",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "leaky_relu",
    "log_softmax",
    "mean_squared_error",
    "relu",
    "sigmoid",
    "sigmoid_cross_entropy",
    "silu",
    "softmax",
    "softmax_cross_entropy",
    "softplus",
]

# -- activations -------------------------------------------------------------------------------------


def relu(x: Operand, /) -> Node:
    """`x` where it is positive, and else 0. NaN stays NaN. The gradient is 0 at 0, and at NaN."""
    return build("relu", as_nodes("relu", (x,)))


def leaky_relu(x: Operand, /, slope: float = 0.01) -> Node:
    """`x` where it is positive, and else `slope * x`. At 0 the gradient is the slope."""
    (x,) = as_nodes("leaky_relu", (x,))
    return ops.where(x <= 0, x * slope, x)


def gelu(x: Operand, /) -> Node:
    """About `x` times the probability that a standard normal number is less, by the formula with the tanh.

    Hendrycks and Gimpel, "Gaussian error linear units", arXiv:1606.08415, section 2.
    """
    (x,) = as_nodes("gelu", (x,))
    return 0.5 * x * (1.0 + ops.tanh(sqrt(2.0 / pi) * (x + 0.044715 * x * x * x)))


def sigmoid(x: Operand, /) -> Node:
    """`1 / (1 + exp(-x))`, without overflow, and to full precision also where it is near 0."""
    return ops.exp(-softplus(ops.negative(x)))


def silu(x: Operand, /) -> Node:
    """`x * sigmoid(x)`, also known as swish."""
    (x,) = as_nodes("silu", (x,))
    return x * sigmoid(x)


def softplus(x: Operand, /) -> Node:
    """`log(1 + exp(x))`, without overflow."""
    return ops.logaddexp(x, 0)


def softmax(x: Operand, /, *, axis: int = -1) -> Node:
    """`exp(x)` as parts of its sum along `axis`, without overflow."""
    exponentials = ops.exp(_shifted(x, axis))
    return exponentials / ops.sum(exponentials, axis=axis, keepdims=True)


def log_softmax(x: Operand, /, *, axis: int = -1) -> Node:
    """The logarithm of `softmax`, also where that is too small to be a number other than 0."""
    shifted = _shifted(x, axis)
    return shifted - ops.log(ops.sum(ops.exp(shifted), axis=axis, keepdims=True))


# -- losses ------------------------------------------------------------------------------------------


def softmax_cross_entropy(logits: Operand, labels: Operand) -> Node:
    """`-log(softmax(logits)[label])`, in log space: of one number for each label, in the dtype of the logits.

    Args:
        logits: any numbers, one for each class along the last axis. Those that are minus infinity are classes of
            probability 0.
        labels: integers, the class of each; or else how probable the classes are, along the last axis, as in one-hot
            vectors. The gradient goes through probabilities, too.

    Raises:
        SpecError: the shapes do not fit.
        IndexError: when it runs: an integer is negative, or not less than the number of classes. On CuPy, which would
            have to wait for the device to find out, the loss is NaN.
    """
    logits, labels = as_nodes("softmax_cross_entropy", (logits, labels))
    logits = _as_floats(logits)
    if _are_classes(logits, labels):
        return build_several("softmax_cross_entropy", (logits, labels))[0]
    if logits.ndim is not None and labels.ndim == logits.ndim - 1:
        raise SpecError(
            f"softmax_cross_entropy: {labels!r} are no classes of {logits!r}, nor has it a number for each class\n"
            "  classes are integers: write ops.astype(labels, 'int64')"
        )
    _check_same_shape("softmax_cross_entropy", logits, labels)
    shifted = _shifted(logits, -1)
    normalizer = ops.log(ops.sum(ops.exp(shifted), axis=-1))
    chances = ops.astype(labels, logits.dtype or ops.float64, copy=False)
    # A class that is impossible in both adds 0, not 0 times infinity.
    surprise = ops.where(chances == 0, 0, ops.expand_dims(normalizer, -1) - shifted)
    return ops.sum(chances * surprise, axis=-1)


def sigmoid_cross_entropy(logits: Operand, labels: Operand) -> Node:
    """`-label * log(p) - (1 - label) * log(1 - p)` of `p = sigmoid(logit)`, in log space: in the shape of the logits.

    Args:
        logits: any finite numbers.
        labels: of their shape: 0 or 1, booleans, or how probable 1 is.

    Raises:
        SpecError: the shapes do not fit.
    """
    logits, labels = as_nodes("sigmoid_cross_entropy", (logits, labels))
    logits = _as_floats(logits)
    _check_same_shape("sigmoid_cross_entropy", logits, labels)
    chances = ops.astype(labels, logits.dtype or ops.float64, copy=False)
    # Subtracted first, large numbers cancel, and what is left is exact.
    return ops.maximum(logits, 0) - logits * chances + ops.log1p(ops.exp(-ops.abs(logits)))


def mean_squared_error(predictions: Operand, targets: Operand) -> Node:
    """The mean of `(prediction - target)**2` along all axes but the first: one number for each row.

    Raises:
        SpecError: the shapes do not fit, or the rank is not known.
    """
    predictions, targets = as_nodes("mean_squared_error", (predictions, targets))
    predictions = _as_floats(predictions)
    _check_same_shape("mean_squared_error", predictions, targets)
    squares = ops.square(predictions - ops.astype(targets, predictions.dtype or ops.float64, copy=False))
    rank = _rank("mean_squared_error", squares)
    return ops.mean(squares, axis=tuple(range(1, rank))) if rank > 1 else squares


# -- layers ------------------------------------------------------------------------------------------


def dense(x: Operand, kernel: Operand, offset: Operand | None = None) -> Node:
    """`x @ kernel + offset`: float32[..., m] for float32[..., n] and a kernel of float32[n, m]."""
    product = ops.matmul(x, kernel)
    return product if offset is None else product + offset


def embedding(table: Operand, indices: Operand) -> Node:
    """The rows of `table` at `indices`: float32[..., m] for a table of float32[n, m].

    The gradient of a row that is taken more than once is the sum. A negative index counts from the end, as in NumPy.

    Raises:
        IndexError: when it runs: an index is out of bounds.
    """
    return ops.take(table, indices, axis=0)


def dropout(x: Operand, rate: float, *, training: bool, seed: int | None = None, name: str | None = None) -> Node:
    """In training each element of `x` either 0, with the probability `rate`, or else divided by `1 - rate`; else `x`.

    So the mean stays. Each run draws anew; `seed` and `name` are those of the draw, see `ops.random`. Srivastava et
    al., "Dropout: a simple way to prevent neural networks from overfitting", 2014.

    Raises:
        ValueError: `rate` is not from 0 to less than 1.
        SpecTypeError: `training` is no bool.
    """
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"dropout: rate={rate!r}: give a number from 0 to less than 1")
    (x,) = as_nodes("dropout", (x,))
    if not _is_training("dropout", training) or rate == 0.0:
        return x
    return ops.where(ops.random.bernoulli(1.0 - rate, x, seed=seed, name=name or "dropout"), x / (1.0 - rate), 0)


def batch_norm(
    x: Operand,
    mean: Variable,
    variance: Variable,
    scale: Operand | None = None,
    offset: Operand | None = None,
    *,
    training: bool,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    axis: int = -1,
) -> Node:
    """`(x - mean) / sqrt(variance + epsilon) * scale + offset`, of mean and variance along all axes but `axis`.

    In training these are the batch's, and the value depends on assignments that move the variables towards them, each
    by `1 - momentum` of the way: a run that computes the value moves them, when it commits, and no collection of
    updates has to be run besides. Otherwise they are the variables'. As in Keras the variance is the batch's own, not
    an estimate of the population's. Ioffe and Szegedy, "Batch normalization", arXiv:1502.03167, algorithms 1 and 2.

    Args:
        x: at least one row; its rank is known.
        mean: a vector of the size of `axis`, not trainable; at first 0.
        variance: as `mean`; at first 1.
        scale: as `mean`, but trainable; 1 if left out.
        offset: as `scale`; 0 if left out.
        training: whether the batch is normalized by itself.
        momentum: how much the variables keep.
        epsilon: what is added to the variance.
        axis: which numbers are normalized together: those at one place along this axis.

    Raises:
        SpecError: the rank of `x` is not known, or `axis` is out of its bounds.
        SpecTypeError: `training` is no bool, `axis` no int, or in training `mean` or `variance` is no variable.
        ValueError: `momentum` is not from 0 to 1, or `epsilon` is negative.
    """
    (x,) = as_nodes("batch_norm", (x,))
    rank, axis = _rank("batch_norm", x), as_int("batch_norm", "axis", axis)
    _check_momentum(momentum)
    if not epsilon >= 0.0:
        raise ValueError(f"batch_norm: epsilon={epsilon!r}: give a number that is not negative")
    if not -rank <= axis < rank:
        raise SpecError(f"batch_norm: axis={axis!r} is out of the bounds of {x!r}")
    others = tuple([one for one in range(rank) if one != axis % rank])
    behind = rank - axis % rank - 1
    if _is_training("batch_norm", training):
        batch_mean = ops.mean(x, axis=others, keepdims=True)
        centred = x - batch_mean
        batch_variance = ops.mean(ops.square(centred), axis=others, keepdims=True)
        moves = [
            _move(average, ops.squeeze(batch, others), momentum)
            for average, batch in ((mean, batch_mean), (variance, batch_variance))
        ]
        # Gradients use the root, too: so a run for them alone, of a loss that is linear in the value, moves as well.
        with control_dependencies(moves):
            root = ops.sqrt(batch_variance + epsilon)
    else:
        centred = x - _with_axes(mean, behind)
        root = ops.sqrt(_with_axes(variance, behind) + epsilon)
    normal = centred * (ops.reciprocal(root) if scale is None else _with_axes(scale, behind) / root)
    return normal if offset is None else normal + _with_axes(offset, behind)


def _move(average: object, batch: Node, momentum: float) -> Node:
    if not isinstance(average, Variable):
        raise SpecTypeError(
            f"batch_norm: in training mean and variance are variables, and not {average!r}\n"
            "  write ag.variable(np.zeros(size), trainable=False), and ones for the variance"
        )
    # From where another use in the same run has moved it: two moves from one place would go too far.
    return average.assign_add((batch - average.current()) * (1.0 - momentum))


def _with_axes(vector: Operand, count: int) -> Node:
    """A vector with axes behind its own, to be broadcast along an axis that has as many behind it."""
    (node,) = as_nodes("batch_norm", (vector,))
    return ops.expand_dims(node, tuple(range(1, count + 1))) if count else node


# -- initial values ----------------------------------------------------------------------------------


def glorot_uniform(
    shape: Sequence[int], *, dtype: DTypeLike = "float32", seed: int | None = None, name: str | None = None
) -> Node:
    """A node to make a kernel of: uniform, of the variance 2 / (inputs + outputs), for `tanh`, `softmax` and the like.

    The last axis of `shape` is the outputs, the one before it the inputs, and those before are places that a kernel is
    moved over. Each session draws values of its own, see `ops.random`. Glorot and Bengio, "Understanding the difficulty
    of training deep feedforward neural networks", 2010, equation 16.

    Raises:
        SpecError: the shape has less than two axes.
    """
    inputs, outputs = _fans("glorot_uniform", shape)
    return _uniform(shape, 2.0 / (inputs + outputs), dtype, seed, name or "glorot_uniform")


def glorot_normal(
    shape: Sequence[int], *, dtype: DTypeLike = "float32", seed: int | None = None, name: str | None = None
) -> Node:
    """As `glorot_uniform`, but of the normal distribution."""
    inputs, outputs = _fans("glorot_normal", shape)
    return _normal(shape, 2.0 / (inputs + outputs), dtype, seed, name or "glorot_normal")


def he_uniform(
    shape: Sequence[int], *, dtype: DTypeLike = "float32", seed: int | None = None, name: str | None = None
) -> Node:
    """As `glorot_uniform`, but of the variance 2 / inputs, for `relu` and the like.

    He et al., "Delving deep into rectifiers", arXiv:1502.01852, equation 10.
    """
    return _uniform(shape, 2.0 / _fans("he_uniform", shape)[0], dtype, seed, name or "he_uniform")


def he_normal(
    shape: Sequence[int], *, dtype: DTypeLike = "float32", seed: int | None = None, name: str | None = None
) -> Node:
    """As `he_uniform`, but of the normal distribution."""
    return _normal(shape, 2.0 / _fans("he_normal", shape)[0], dtype, seed, name or "he_normal")


def _uniform(shape: Sequence[int], variance: float, dtype: DTypeLike, seed: int | None, name: str) -> Node:
    limit = sqrt(3.0 * variance)
    return ops.random.uniform(shape, -limit, limit, dtype=dtype, seed=seed, name=name)


def _normal(shape: Sequence[int], variance: float, dtype: DTypeLike, seed: int | None, name: str) -> Node:
    return ops.random.normal(shape, 0.0, sqrt(variance), dtype=dtype, seed=seed, name=name)


def _fans(what: str, shape: Sequence[int]) -> tuple[int, int]:
    """How many numbers each output is made of, and how many outputs each input goes into."""
    if len(shape) < 2:
        raise SpecError(f"{what}: the shape of a kernel has two axes or more, not {shape!r}")
    *places, inputs, outputs = shape
    # Of a kernel without elements there is nothing to draw, but its variance must be a number.
    return max(prod(places) * inputs, 1), max(prod(places) * outputs, 1)


# -- what they share ---------------------------------------------------------------------------------


def _shifted(x: Operand, axis: int) -> Node:
    """`x` less its largest element along `axis`, so that `exp` cannot overflow; by which nothing made of it changes."""
    (x,) = as_nodes("softmax", (x,))
    return x - stop_gradient(ops.max(x, axis=axis, keepdims=True))


def _are_classes(logits: Node, labels: Node) -> bool:
    if labels.dtype is None or labels.dtype.kind not in "iu":
        return False
    return labels.ndim is None or logits.ndim is None or labels.ndim == logits.ndim - 1


def _as_floats(x: Node) -> Node:
    return ops.astype(x, ops.float64) if x.dtype is not None and x.dtype.kind in "biu" else x


def _rank(what: str, x: Node) -> int:
    if x.ndim is None:
        raise SpecError(f"{what}: the rank of {x!r} is not known\n  give the placeholder a shape, such as ('n', 64)")
    return x.ndim


def _check_same_shape(what: str, x: Node, y: Node) -> None:
    if not may_be(x.shape, y.shape):
        raise SpecError(f"{what}: {x!r} and {y!r} have not the same shape, and nothing is broadcast here")


def _check_momentum(momentum: float) -> None:
    if not 0.0 <= momentum <= 1.0:
        raise ValueError(f"batch_norm: momentum={momentum!r}: give a number from 0 to 1")


def _is_training(what: str, training: object) -> bool:
    if not isinstance(training, bool):
        raise SpecTypeError(
            f"{what}: training takes True or False, not {training!r}\n"
            "  build the network twice over the same variables: once for the loss, once for what is served"
        )
    return training
