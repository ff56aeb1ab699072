"""Random numbers: other ones in each run, and the same for the same seeds, in any process, on any device.

Each node draws from a stream of its own: that of the counter-based generator Philox, whose key is a hash of the seed of
the session (`SessionConfig.seed`, or `RunOptions.seed` for one run), the number of the run, and the name of the node;
or, in place of the name, its `seed`. So what else a run computes, in which order, and on how many threads changes
nothing. Runs that draw are numbered as they begin: one after the other in the order of the calls; but of those that are
in flight together the scheduler may begin any first, so that what one of them is to draw takes a `RunOptions.seed`.
First values of variables are of no run: they depend on the seed of the session alone, and on the names.
Without a seed of its own, a node draws something else once it has another name: give `name=` or `seed=` if that
matters. Nodes with one `seed` draw the same; and if nobody chose a seed for the session or the run, they draw the same
in any session. NumPy makes the numbers, and may make others in another version.

They are drawn on the host, whatever the device, so that all backends have the same.

What holds for all functions:

* `shape` is an int or a tuple of ints, or a node: then it is the shape which the node has when it runs.
* A node draws once a run: all that use it see the same. Equal nodes are never merged, nor computed in advance.
* Gradients end here, but for the rows that `permutation` has put in another order.

Raises:
    SpecTypeError: a shape, number, dtype or seed is none.
    SpecError: a number is out of range.
    GraphError: there is no node among the operands, and no graph is current.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from numbers import Integral, Real
from typing import TYPE_CHECKING, Final

import numpy as np

from .._graph.node import Node
from .._graph.op import RANDOM_BERNOULLI, RANDOM_NORMAL, RANDOM_PERMUTATION, RANDOM_UNIFORM, Op
from .._graph.spec import DType, Shape, as_dtype, as_shape, intern_spec
from ..errors import SpecError, SpecTypeError
from ._build import as_nodes, build, graph_of
from ._params import as_int
from .elementwise import less
from .indexing import take
from .manipulation import broadcast_like

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ._build import Operand

__all__ = ["bernoulli", "normal", "permutation", "uniform"]


def uniform(
    shape: int | Sequence[int] | Node,
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Node:
    """Numbers from `low` to before `high`, all equally likely; float64 unless float32 is given."""
    kind = _float("uniform", dtype)
    least, end = _number("uniform", "low", low, kind), _number("uniform", "high", high, kind)
    if not 0 < end - least <= float(np.finfo(kind).max):
        raise SpecError(f"uniform: low={low!r} and high={high!r}: give low < high, and not too far apart for {kind}")
    return _draw(RANDOM_UNIFORM, shape, kind, seed, name, low=least, high=end)


def normal(
    shape: int | Sequence[int] | Node,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Node:
    """Numbers of the normal distribution with that mean and standard deviation; float64 unless float32 is given."""
    kind = _float("normal", dtype)
    centre, spread = _number("normal", "mean", mean, kind), _number("normal", "std", std, kind)
    if spread < 0:
        raise SpecError(f"normal: std={std!r}: it cannot be negative")
    return _draw(RANDOM_NORMAL, shape, kind, seed, name, mean=centre, std=spread)


def bernoulli(
    p: float | Node,
    shape: int | Sequence[int] | Node | None = None,
    *,
    seed: int | None = None,
    name: str | None = None,
) -> Node:
    """Booleans that are true with the probability `p`, which may be a node: then it is broadcast to `shape`.

    Without a shape they have that of `p`. A node's values that are at least 1 are always true, and those that are
    at most 0, or not a number, never are.
    """
    if isinstance(p, Node):
        if p.dtype is not None and p.dtype.kind not in "fiub":
            raise SpecTypeError(f"bernoulli: a probability is a real number, not {p!r}")
        draws = uniform(p if shape is None else shape, seed=seed, name=None if name is None else f"{name}_uniform")
        return less(draws, broadcast_like(p, draws), name=name)
    chance = _number("bernoulli", "p", p, _FLOATS[1])
    if not 0 <= chance <= 1:
        raise SpecError(f"bernoulli: p={p!r}: a probability is from 0 to 1")
    return _draw(RANDOM_BERNOULLI, () if shape is None else shape, np.dtype(bool), seed, name, p=chance)


def permutation(x: int | Operand, *, seed: int | None = None, name: str | None = None) -> Node:
    """The rows of `x`, which is what it has along its first axis, in random order; for an int the numbers below it.

    Raises:
        SpecError: `x` is negative, or of rank 0.
        ValueError: when it runs: `x` is of rank 0, which was not known before.
    """
    if isinstance(x, Integral):
        return _draw(RANDOM_PERMUTATION, _size("permutation", x), _INT, seed, name)
    (rows,) = as_nodes("permutation", (x,))
    if rows.shape == ():
        raise SpecError(
            f"permutation: {rows!r} has no rows\n  give an array of one axis or more, or an int of Python's"
        )
    size = None if rows.shape is None else rows.shape[0]
    order = None if name is None else f"{name}_order"
    if isinstance(size, int):
        drawn = _draw(RANDOM_PERMUTATION, size, _INT, seed, order)
    elif rows.shape is None:
        # All of it, as only the kernel can tell whether there are rows.
        drawn = _add(RANDOM_PERMUTATION, (rows,), None, (None,), _INT, seed, order)
    else:
        drawn = _add(RANDOM_PERMUTATION, (_along(rows, 0),), (None,), (size,), _INT, seed, order)
    return take(rows, drawn, axis=0, name=name)


# -- what they share ---------------------------------------------------------------------------------

_INT: Final = np.dtype("int64")
_FLOATS: Final = (np.dtype("float32"), np.dtype("float64"))


def _draw(
    op: Op,
    shape: int | Sequence[int] | Node,
    dtype: DType,
    seed: int | None,
    name: str | None,
    **numbers: float,
) -> Node:
    """The node of an op that draws.

    Its operands are the sizes that are known only when it runs, as 8 bytes are less to move to the host than a value.
    """
    if not isinstance(shape, Node):
        sizes = _sizes(op, shape)
        return _add(op, (), sizes, sizes, dtype, seed, name, **numbers)
    (like,) = as_nodes(op.name, (shape,))
    if like.shape is None:
        return _add(op, (like,), None, None, dtype, seed, name, **numbers)
    sizes = tuple([dim if isinstance(dim, int) else None for dim in like.shape])
    operands = tuple([_along(like, axis) for axis, size in enumerate(sizes) if size is None])
    return _add(op, operands, sizes, like.shape, dtype, seed, name, **numbers)


def _add(
    op: Op,
    operands: tuple[Node, ...],
    sizes: tuple[int | None, ...] | None,
    shape: Shape,
    dtype: DType,
    seed: int | None,
    name: str | None,
    **numbers: float,
) -> Node:
    params: dict[str, object] = {"shape": sizes, "dtype": dtype, **numbers}
    if seed is not None:
        params["seed"] = as_int(op.name, "seed", seed)
    return graph_of(op.name, operands).add(op, operands, params, intern_spec(dtype, shape), name)


def _along(x: Node, axis: int) -> Node:
    return build("size_of", (x,), {"axis": axis})


def _sizes(op: Op, shape: object) -> tuple[int, ...]:
    dims = as_shape(shape)
    sizes = tuple([dim for dim in dims or () if isinstance(dim, int)])
    if dims is None or len(sizes) < len(dims):
        raise SpecTypeError(
            f"{op.name}: the shape {shape!r} is not made of ints\n"
            "  for the shape of a node's value, known or not, give the node itself"
        )
    return sizes


def _size(op: str, value: object) -> int:
    size = as_int(op, "x", value)
    if size < 0:
        raise SpecError(f"{op}: x={value!r}: it cannot be negative")
    return size


def _float(op: str, dtype: DTypeLike | None) -> DType:
    kind = as_dtype(dtype) or _FLOATS[1]
    if kind not in _FLOATS:
        raise SpecTypeError(f"{op}: {kind} is not drawn\n  draw float32 or float64, and convert with ops.astype")
    return kind


def _number(op: str, what: str, value: object, dtype: DType) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SpecTypeError(f"{op}: {what} takes a number, not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not abs(number) <= float(np.finfo(dtype).max):
        raise SpecError(f"{op}: {what}={value!r} is not finite in {dtype}")
    return number
