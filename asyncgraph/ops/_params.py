"""What an op is applied with besides operands: checked, in one form, and left out where it is the default.

So `sum(x)`, `sum(x, axis=None)` and `sum(x, keepdims=False)` are equal nodes, and kernels are called with
as little as possible.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, SupportsIndex, cast

from ..errors import NodeValueError, SpecTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence


def as_int(op: str, what: str, value: object) -> int:
    """`value` as a Python int.

    Raises:
        SpecTypeError: it is a float, a bool, or anything else that is no integer.
        NodeValueError: it is a node.
    """
    if not isinstance(value, bool):
        try:
            return index(cast(SupportsIndex, value))  # `index` itself says what is none
        except NodeValueError:
            raise NodeValueError(
                f"{op}: {what}={value!r} must be a Python int, known when the graph is built\n"
                "  a node has no value before a run"
            ) from None
        except TypeError:
            pass
    raise SpecTypeError(f"{op}: {what} takes ints, not {value!r}")


def as_ints(op: str, what: str, value: object) -> tuple[int, ...]:
    """One int, or a tuple or list of them, as a tuple.

    Raises: what `as_int` raises.
    """
    if isinstance(value, (tuple, list)):
        return tuple([as_int(op, what, one) for one in cast("Sequence[object]", value)])
    return (as_int(op, what, value),)


def as_axes(op: str, value: object, what: str = "axis") -> int | tuple[int, ...] | None:
    """One axis as an int, several as a tuple; `None` stays `None`.

    Raises: what `as_int` raises.
    """
    if value is None:
        return None
    ints = as_ints(op, what, value)
    return ints if isinstance(value, (tuple, list)) else ints[0]


def reduction_params(op: str, axis: object, keepdims: bool) -> dict[str, object]:
    """The params that all reductions have."""
    params: dict[str, object] = {}
    if axis is not None:
        params["axis"] = as_axes(op, axis)
    if keepdims:
        params["keepdims"] = True
    return params
