"""Layers: parts of a network that know which variables they need.

A layer says how many outputs there are, say, and is not changed any more. `build` makes its variables, for values of
one shape, and gives the function that applies it to such values, as often as need be: for training, and for serving.

    dense = ag.layers.Dense(10).build(images)
    loss = ag.ops.mean(ag.nn.softmax_cross_entropy(dense(images, True), labels))
    served = dense(requests, False)

A layer of your own is a subclass. A function of one node, such as `nn.relu`, is taken by `Sequential` as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Protocol, final

import numpy as np

from . import nn, ops
from ._graph.building import variable
from ._graph.node import Node
from .errors import SpecError, SpecTypeError

__all__ = ["Apply", "BatchNorm", "Dense", "Dropout", "Embedding", "Flatten", "Initializer", "Layer"]

Apply = Callable[[Node, bool], Node]
"""Applies a layer to a node; the other argument says whether in training."""


class Initializer(Protocol):
    """Makes the node of a variable's first value, such as `nn.glorot_uniform`."""

    def __call__(self, shape: Sequence[int], /, *, dtype: np.dtype[np.generic] | str) -> Node:
        """A node of that shape and dtype."""
        ...


class Layer(ABC):
    """A part of a network."""

    @abstractmethod
    def build(self, like: Node) -> Apply:
        """Makes its variables in the current graph; gives what applies it to values of the spec of `like`.

        Raises:
            SpecError: there is no such layer for these.
        """


@final
@dataclass(frozen=True)
class Dense(Layer):
    """`nn.dense` along the last axis, and a function of that.

    Fields:
        units: how many outputs there are.
        activation: the function, such as `nn.relu`.
        offset: whether something is added, which is 0 at first.
        kernel: what the kernel is at first.
    """

    units: int
    activation: Callable[[Node], Node] | None = None
    _: KW_ONLY
    offset: bool = True
    kernel: Initializer = nn.glorot_uniform

    def build(self, like: Node) -> Apply:
        """See `Layer`."""
        if self.activation is not None and not callable(self.activation):
            raise SpecTypeError(
                f"Dense: activation={self.activation!r}: give a function of one node, such as ag.nn.relu\n"
                "  a layer is no function: it comes after this one"
            )
        dtype = _dtype(like)
        kernel = variable(self.kernel((_last(like), self.units), dtype=dtype), "kernel")
        offset = variable(ops.zeros(self.units, dtype=dtype), "offset") if self.offset else None

        def apply(x: Node, training: bool) -> Node:
            made = nn.dense(x, kernel, offset)
            return made if self.activation is None else self.activation(made)

        return apply


@final
@dataclass(frozen=True)
class Dropout(Layer):
    """`nn.dropout`. Without a seed, that of the session counts, and the name of the node."""

    rate: float
    seed: int | None = None

    def build(self, like: Node) -> Apply:
        """See `Layer`."""
        return lambda x, training: nn.dropout(x, self.rate, training=training, seed=self.seed)


@final
@dataclass(frozen=True)
class BatchNorm(Layer):
    """`nn.batch_norm` along the last axis, with a scale and an offset that are learned."""

    momentum: float = 0.99
    epsilon: float = 1e-3

    def build(self, like: Node) -> Apply:
        """See `Layer`."""
        size, dtype = _last(like), _dtype(like)
        mean, variance, scale, offset = (
            variable(ops.full(size, first, dtype=dtype), name, trainable)
            for name, first, trainable in (
                ("mean", 0.0, False), ("variance", 1.0, False), ("scale", 1.0, True), ("offset", 0.0, True)
            )
        )  # fmt: skip
        return lambda x, training: nn.batch_norm(
            x, mean, variance, scale, offset, training=training, momentum=self.momentum, epsilon=self.epsilon
        )


@final
@dataclass(frozen=True)
class Embedding(Layer):
    """`nn.embedding`: for each integer a vector that is learned.

    Fields:
        count: how many integers there are, from 0.
        size: the length of a vector.
        table: what they are at first.
        dtype: what they are of.
    """

    count: int
    size: int
    _: KW_ONLY
    table: Initializer = nn.glorot_uniform
    dtype: str = "float32"

    def build(self, like: Node) -> Apply:
        """See `Layer`."""
        table = variable(self.table((self.count, self.size), dtype=self.dtype), "table")
        return lambda x, training: nn.embedding(table, x)


@final
@dataclass(frozen=True)
class Flatten(Layer):
    """All axes but the first as one."""

    def build(self, like: Node) -> Apply:
        """See `Layer`."""
        sizes = () if like.shape is None else like.shape[1:]
        known = [size for size in sizes if isinstance(size, int)]
        if not like.shape or len(known) < len(sizes):
            raise SpecError(f"Flatten: all sizes of {like!r} but the first must be known")
        size = int(np.prod(known))
        return lambda x, training: ops.reshape(x, (-1, size))


def _last(like: Node) -> int:
    size = like.shape[-1] if like.shape else None
    if not isinstance(size, int):
        raise SpecError(f"the size of the last axis of {like!r} must be known")
    return size


def _dtype(like: Node) -> np.dtype[np.generic]:
    if like.dtype is None or like.dtype.kind != "f":
        raise SpecError(f"a layer that learns takes real numbers, not {like!r}")
    return like.dtype
