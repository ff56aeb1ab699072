"""Keys that are equal only for what cannot be told apart: type and bit pattern count.

Python's own equality will not do: 1 == True == 1.0, and 0.0 == -0.0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import numpy as np

from .._graph.op import Params
from .._graph.spec import ArraySpec
from .._graph.template import Rebuilt, Slot, Template

_LARGEST_ARRAY: Final = 1024
"""Bytes up to which arrays are compared by content. Beyond, they are equal only if they are one object."""


def params_key(params: Params) -> Hashable:
    """A key for the parameters of a node."""
    return tuple([(name, exact_key(value)) for name, value in params.items()]) if params else None


def exact_key(value: object) -> Hashable:
    """A key that two values share only if one can stand for the other."""
    make = _KEYS.get(type(value))
    # Anything else is its identity. Whoever has the key has the node, which keeps the value alive.
    return (object, id(value)) if make is None else make(value)


def _array_key(array: np.ndarray[Any, Any]) -> Hashable:
    if array.nbytes > _LARGEST_ARRAY or array.dtype.hasobject:
        return np.ndarray, id(array)
    # Not dtype.str, which says nothing of a record's fields.
    return np.ndarray, array.dtype, array.shape, array.strides, array.tobytes()


def _tuple_key(values: tuple[object, ...]) -> Hashable:
    return (tuple, *map(exact_key, values))


def _mapping_key(values: Mapping[object, object]) -> Hashable:
    return dict, tuple([(exact_key(key), exact_key(value)) for key, value in values.items()])


def _rebuilt_key(value: Rebuilt) -> Hashable:
    kind: type[Any] = value.prototype.__class__
    if kind not in _PLAIN:
        return Rebuilt, id(value)  # Its attributes count too.
    keys = exact_key(tuple(value.prototype)) if kind is dict else None
    return Rebuilt, kind, keys, *map(exact_key, value.parts)


_PLAIN: Final = frozenset({list, tuple, dict, set, bytearray})

_KEYS: Final[dict[type, Callable[[Any], Hashable]]] = {
    int: lambda value: (int, value),
    bool: lambda value: (bool, value),
    str: lambda value: (str, value),
    bytes: lambda value: (bytes, value),
    float: lambda value: (float, struct.pack("d", value)),
    complex: lambda value: (complex, struct.pack("dd", value.real, value.imag)),
    type(None): lambda value: None,
    type(Ellipsis): lambda value: Ellipsis,
    slice: lambda value: (slice, exact_key(value.start), exact_key(value.stop), exact_key(value.step)),
    tuple: _tuple_key,
    list: lambda value: (list, *map(exact_key, value)),
    dict: _mapping_key,
    np.ndarray: _array_key,
    ArraySpec: lambda value: value,
    Slot: lambda value: (Slot, value.index),
    Rebuilt: _rebuilt_key,
    Template: lambda value: (exact_key(value.args), exact_key(value.kwargs)),
}
"""How a value of exactly that type becomes a key."""
