"""Creation functions: arrays made of numbers, or of the shape of another.

What holds for all of them:

* The dtype is NumPy's default where none is given. `device` is the device the node is asked to run on, as in
  `with asyncgraph.device(...)`; `name` labels the node.
* Shapes are ints. For the shape of a value that is known only when it runs, there is a function `..._like`.
* Each run makes its own array, or shares one that nobody can write.

Raises:
    SpecTypeError: a number, shape or dtype is none.
    SpecOverflowError, SpecError: a number does not fit the dtype, or a size is negative.
    GraphError: there is no node among the operands, and no graph is current; or `device` names none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from .._graph.node import Node, Scalar
from .._graph.op import NO_PARAMS, Params
from .._graph.spec import DType, as_dtype, as_shape
from ..errors import SpecError, SpecOverflowError, SpecTypeError
from ._build import as_nodes, build, build_several, graph_of, on
from ._params import as_int
from .data_types import astype
from .elementwise import equal
from .manipulation import expand_dims

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ._build import Operand


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    name: str | None = None,
) -> Node:
    """The numbers from `start` to before `stop`, `step` apart: a vector. With one number it is `stop`, from 0."""
    first, last = (0, start) if stop is None else (start, stop)
    numbers = [_real("arange", one) for one in (first, last, step)]
    with on(device):
        return build("arange", numbers, {"dtype": as_dtype(dtype) or _common_dtype("arange", numbers)}, name)


def asarray(
    obj: Operand,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    copy: bool | None = None,
    name: str | None = None,
) -> Node:
    """A node itself, converted if it has another dtype; of anything else a constant, copied now.

    Values of nodes are never written, so that `copy` changes nothing.
    """
    with on(device):
        if isinstance(obj, Node):
            wanted = as_dtype(dtype)
            return obj if wanted is None or wanted == obj.dtype else astype(obj, wanted, copy=False, name=name)
        if dtype is None:
            return graph_of("asarray").constant(obj, name)
        try:
            converted = np.asarray(obj, as_dtype(dtype))
        except OverflowError as error:
            raise SpecOverflowError(f"asarray cannot take {obj!r}\n  {error}") from error
        except (TypeError, ValueError) as error:
            raise SpecTypeError(f"asarray cannot take {obj!r}\n  {error}") from error
        return graph_of("asarray").constant(converted, name)


def empty(
    shape: int | Sequence[int],
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    name: str | None = None,
) -> Node:
    """What `zeros` gives: the same graph has the same values, so there are no arbitrary ones."""
    return zeros(shape, dtype=dtype, device=device, name=name or "empty")


def empty_like(
    x: Operand, /, *, dtype: DTypeLike | None = None, device: str | None = None, name: str | None = None
) -> Node:
    """What `zeros_like` gives: the same graph has the same values, so there are no arbitrary ones."""
    return zeros_like(x, dtype=dtype, device=device, name=name or "empty_like")


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    name: str | None = None,
) -> Node:
    """A matrix of `n_rows` and `n_cols` (as many, unless given) with ones on the diagonal `k` above the main one."""
    rows = _count("eye", "n_rows", n_rows)
    sizes = (rows, rows if n_cols is None else _count("eye", "n_cols", n_cols))
    with on(device):
        return build("eye", sizes, {"k": as_int("eye", "k", k), "dtype": as_dtype(dtype) or _FLOAT}, name)


def from_dlpack(x: object, /, *, device: str | None = None, copy: bool | None = None, name: str | None = None) -> Node:
    """A constant of an array of any library, copied now.

    Values of nodes are never written, so that `copy` changes nothing.

    Raises:
        SpecTypeError: `x` has no DLPack of the host's.
    """
    try:
        array = np.from_dlpack(x)  # pyright: ignore[reportArgumentType]  # NumPy asks it for its protocol
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise SpecTypeError(f"from_dlpack cannot take {type(x).__name__}: {error}") from error
    with on(device):
        return graph_of("from_dlpack").constant(array, name)


def full(
    shape: int | Sequence[int],
    fill_value: complex,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    name: str | None = None,
) -> Node:
    """`fill_value` everywhere, in its own dtype unless one is given."""
    value = _number("full", fill_value)
    known = as_dtype(dtype) or _common_dtype("full", [fill_value])
    with on(device):
        return build("full", (), {"shape": _sizes("full", shape), "fill_value": value, "dtype": known}, name)


def full_like(
    x: Operand,
    /,
    fill_value: complex,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    name: str | None = None,
) -> Node:
    """`fill_value` everywhere, in the shape of `x`, and in its dtype unless one is given."""
    with on(device):
        params = {"fill_value": _number("full_like", fill_value), **_dtype_param(dtype)}
        return build("full_like", (x,), params, name)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
    name: str | None = None,
) -> Node:
    """`num` numbers from `start` to `stop`, evenly spaced: a vector. `endpoint=False` leaves `stop` out."""
    numbers = [_number("linspace", one) for one in (start, stop)]
    count = _count("linspace", "num", num)
    known = as_dtype(dtype) or np.result_type(_FLOAT, _common_dtype("linspace", numbers))
    with on(device):
        return build("linspace", numbers, {"num": count, "dtype": known, "endpoint": bool(endpoint)}, name)


def meshgrid(*arrays: Operand, indexing: Literal["xy", "ij"] = "xy", name: str | None = None) -> tuple[Node, ...]:
    """Coordinates of a grid: for each vector an array of all its values, along its own axis.

    Each has one axis for each vector, in their order; the first two are swapped for "xy".

    Raises:
        SpecError: an operand has more than one dimension, or `indexing` is neither "xy" nor "ij".
    """
    if indexing not in ("xy", "ij"):
        raise SpecError(f"meshgrid: indexing={indexing!r}\n  write 'xy' or 'ij'")
    return build_several("meshgrid", arrays, {"indexing": indexing}, name) if arrays else ()


def one_hot(indices: Operand, depth: int, /, *, dtype: DTypeLike | None = None, name: str | None = None) -> Node:
    """For each index a vector of length `depth`, along a new last axis: one at the index, zeros elsewhere.

    An index that is not from 0 to before `depth` has zeros only. It is float64 unless a dtype is given.

    Raises:
        SpecTypeError: the indices are no integers.
    """
    (node,) = as_nodes("one_hot", (indices,))
    if node.dtype is not None and node.dtype.kind not in "iu":
        raise SpecTypeError(f"one_hot: the indices are ints, not {node.dtype}")
    columns = (0, _count("one_hot", "depth", depth), 1)
    places = node.graph.apply("arange", columns, {"dtype": np.dtype("int64")})
    return astype(equal(expand_dims(node, -1), places), as_dtype(dtype) or _FLOAT, name=name)


def ones(
    shape: int | Sequence[int],
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    name: str | None = None,
) -> Node:
    """Ones; float64 unless a dtype is given."""
    with on(device):
        return build("ones", (), {"shape": _sizes("ones", shape), "dtype": as_dtype(dtype) or _FLOAT}, name)


def ones_like(
    x: Operand, /, *, dtype: DTypeLike | None = None, device: str | None = None, name: str | None = None
) -> Node:
    """Ones in the shape of `x`, and in its dtype unless one is given."""
    with on(device):
        return build("ones_like", (x,), _dtype_param(dtype), name)


def tril(x: Operand, /, *, k: int = 0, name: str | None = None) -> Node:
    """`x` with zeros above the diagonal that is `k` above the main one, in each matrix of its last two axes.

    Raises:
        SpecError: `x` is known to have less than two dimensions.
    """
    return build("tril", (x,), {"k": as_int("tril", "k", k)}, name)


def triu(x: Operand, /, *, k: int = 0, name: str | None = None) -> Node:
    """`x` with zeros below the diagonal that is `k` above the main one, in each matrix of its last two axes.

    Raises:
        SpecError: `x` is known to have less than two dimensions.
    """
    return build("triu", (x,), {"k": as_int("triu", "k", k)}, name)


def zeros(
    shape: int | Sequence[int],
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    name: str | None = None,
) -> Node:
    """Zeros; float64 unless a dtype is given."""
    with on(device):
        return build("zeros", (), {"shape": _sizes("zeros", shape), "dtype": as_dtype(dtype) or _FLOAT}, name)


def zeros_like(
    x: Operand, /, *, dtype: DTypeLike | None = None, device: str | None = None, name: str | None = None
) -> Node:
    """Zeros in the shape of `x`, and in its dtype unless one is given."""
    with on(device):
        return build("zeros_like", (x,), _dtype_param(dtype), name)


_FLOAT = np.dtype("float64")


def _dtype_param(dtype: DTypeLike | None) -> Params:
    return NO_PARAMS if dtype is None else {"dtype": as_dtype(dtype)}


def _sizes(op: str, shape: object) -> tuple[int, ...]:
    dims = as_shape(shape)
    sizes = tuple([dim for dim in dims or () if isinstance(dim, int)])
    if dims is None or len(sizes) < len(dims):
        raise SpecTypeError(
            f"{op}: the shape {shape!r} is not made of ints\n"
            "  for the shape of a node's value, known or not, write ops.zeros_like(x) or ops.full_like(x, value)"
        )
    return sizes


def _count(op: str, what: str, value: object) -> int:
    count = as_int(op, what, value)
    if count < 0:
        raise SpecError(f"{op}: {what}={count}: it cannot be negative")
    return count


def _number(op: str, value: object) -> Scalar:
    number = cast(object, value.item()) if isinstance(value, np.generic) else value
    if not isinstance(number, (bool, int, float, complex)):
        raise SpecTypeError(
            f"{op} takes Python numbers, not {value!r}\n"
            "  for the value of a node write ops.broadcast_to(x, shape), or ops.zeros_like(x) + x"
        )
    return number


def _real(op: str, value: object) -> float:
    number = _number(op, value)
    if isinstance(number, complex):
        raise SpecTypeError(f"{op} takes real numbers, not {value!r}")
    return +number  # of a bool an int


def _common_dtype(op: str, numbers: Sequence[object]) -> DType:
    common = np.result_type(*[np.asarray(one).dtype for one in numbers])
    if common.hasobject:
        raise SpecOverflowError(f"{op}: no integer dtype holds {', '.join(map(repr, numbers))}\n  give dtype='float64'")
    return common
