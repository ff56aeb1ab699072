"""Whether what a user's function returned is what its op said that it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from .._graph.building import fits
from .._graph.convert import ConversionError, as_exact_array
from .._graph.node import Node
from .._graph.spec import ANY, ArraySpec, intern_spec
from ..errors import NodeResultError

_ARRAYS: Final = (np.ndarray, np.generic)


def checked(result: object, spec: ArraySpec | tuple[ArraySpec, ...] | None, node: Node, args: Sequence[Any]) -> Any:
    """`result`, if it fits what the op said that it returns.

    A name is one size in all that it returns, and in `args`, the values of the node's inputs.

    Raises:
        NodeResultError: it does not, or is a node.
    """
    if isinstance(result, Node):
        raise NodeResultError(
            f"{node.name!r} returned a node: {result!r}\n"
            "  return a value; to run a graph inside an op: (await session.run(node)).results"
        )
    if spec is None:
        return result
    sizes = _sizes_of(node, args)
    if isinstance(spec, ArraySpec):
        return _checked_one(result, spec, node, sizes)
    parts = list(cast("Sequence[object]", result)) if isinstance(result, (tuple, list)) else None
    if parts is None or len(parts) != len(spec):
        expected = f"a tuple of {len(spec)}: {', '.join(map(repr, spec))}"
        raise NodeResultError(f"{node.name!r} returned {_described(result)}\n  expected: {expected}")
    return tuple([_checked_one(one, each, node, sizes) for one, each in zip(parts, spec, strict=True)])


def _sizes_of(node: Node, args: Sequence[Any]) -> dict[str, int]:
    """The sizes that the values of a node's inputs give to the names in their specs."""
    sizes: dict[str, int] = {}
    for one, value in zip(node.inputs, args, strict=False):  # A call that was given up has no arguments any more.
        if one.spec.shape:  # Then it is an array, of the host or a device.
            _differing_name(tuple(value.shape), one.spec, sizes)
    return sizes


def _differing_name(shape: tuple[int, ...], spec: ArraySpec, sizes: dict[str, int]) -> str | None:
    """Adds the sizes that `shape` gives to the names of `spec`; the first name that has another size already."""
    for dim, size in zip(spec.shape or (), shape, strict=False):
        if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
            return dim
    return None


def checked_on_device(
    result: object, spec: ArraySpec | tuple[ArraySpec, ...] | None, node: Node, args: Sequence[Any]
) -> Any:
    """As `checked`, for arrays of a device: by their shapes and dtypes."""
    if isinstance(result, Node) or spec is None:
        return checked(result, None, node, args)
    specs = (spec,) if isinstance(spec, ArraySpec) else spec
    several = not isinstance(spec, ArraySpec) and isinstance(result, (tuple, list))
    parts = list(cast("Sequence[Any]", result)) if several else [cast("Any", result)]
    sizes = _sizes_of(node, args)
    if len(parts) == len(specs) and all(_fits(*pair, sizes) for pair in zip(parts, specs, strict=True)):
        return cast("Any", result)
    raise NodeResultError(
        f"{node.name!r} returned {', '.join([_on_device(one) for one in parts])}\n"
        f"  expected: {', '.join(map(repr, specs))}, on the device where it was placed"
    )


def _fits(array: Any, spec: ArraySpec, sizes: dict[str, int]) -> bool:
    if spec is ANY:
        return True
    shape: tuple[int, ...] | None = getattr(array, "shape", None)
    if shape is None or isinstance(array, _ARRAYS) or not fits(tuple(shape), spec.shape):
        return False
    return _has_dtype(_dtype_name(array), spec) and _differing_name(tuple(shape), spec, sizes) is None


def _has_dtype(dtype: np.dtype[Any] | str, spec: ArraySpec) -> bool:
    # Not `in (None, dtype)`: to NumPy, float64 equals None.
    return spec.dtype is None or spec.dtype == dtype


def _dtype_name(array: Any) -> str:
    return str(getattr(array, "dtype", "")).rpartition(".")[2]  # "array_api_strict.float32"


def _on_device(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is None:
        return type(value).__name__
    return f"{_dtype_name(value)}{list(shape)}{' on the host' if isinstance(value, _ARRAYS) else ''}"


def _checked_one(result: object, spec: ArraySpec, node: Node, sizes: dict[str, int]) -> Any:
    if spec is ANY:
        return result
    reason = ""
    try:
        array = as_exact_array(result, spec.dtype)
    except ConversionError as error:
        reason = f": {error}"
    else:
        # Python numbers take the spec's dtype; an array has one of its own, and keeps it, in native byte order.
        own_dtype = cast("np.ndarray[Any, Any]", result).dtype if isinstance(result, _ARRAYS) else array.dtype
        if _has_dtype(own_dtype.newbyteorder("="), spec) and fits(array.shape, spec.shape):
            name = _differing_name(array.shape, spec, sizes)
            if name is None:
                return array
            reason = f": in this call {name!r} is {sizes[name]}"
    # Outside the `except`: the error keeps no frames of the conversion, which keep the array.
    raise NodeResultError(f"{node.name!r} returned {_described(result)}{reason}\n  expected: {spec!r}")


def _described(value: Any) -> str:
    if isinstance(value, _ARRAYS):
        array = cast("np.ndarray[Any, Any]", value)
        return repr(intern_spec(array.dtype, array.shape))
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
