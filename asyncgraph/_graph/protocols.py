"""How NumPy calls on nodes find their ops.

`ops` registers itself here when it is imported, since this layer may not import it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from numbers import Integral
from types import EllipsisType, ModuleType
from typing import Any, Final, cast

import numpy as np

from ..errors import SpecTypeError

UFUNC_OPS: Final[dict[np.ufunc, str]] = {}
"""The op that each ufunc builds, when it is called on a node."""

ARRAY_FUNCTIONS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {}
"""The function of `ops` that answers for each NumPy function, with NumPy's signature."""

ARRAY_API_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

BasicIndex = int | slice | EllipsisType | None


def array_namespace(api_version: str | None) -> ModuleType:
    """The namespace of functions on nodes: `asyncgraph.ops`.

    Raises:
        ValueError: `api_version` is no version of the Array API standard up to 2025.12.
    """
    if api_version is not None and api_version not in ARRAY_API_VERSIONS:
        raise ValueError(f"no Array API version {api_version!r}\n  known: {', '.join(ARRAY_API_VERSIONS)}")
    # Whoever holds a node has imported `asyncgraph.ops`, which imports this module.
    return sys.modules[__name__.partition(".")[0] + ".ops"]


def index_key(key: object) -> tuple[BasicIndex, ...]:
    """An index of ints, slices, `...` and `None`, as a tuple.

    Raises:
        SpecTypeError: there is anything else in it.
    """
    parts = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    return tuple([_index_part(part) for part in parts])


def _index_part(part: object) -> BasicIndex:
    if part is None or isinstance(part, EllipsisType):
        return part
    if isinstance(part, slice):
        bounds = cast("slice[object, object, object]", part)
        return slice(_bound(bounds.start), _bound(bounds.stop), _bound(bounds.step))
    if not isinstance(part, bool) and isinstance(part, Integral):
        return int(part)
    raise SpecTypeError(
        f"{part!r} cannot index a node: only ints, slices, '...' and None can\n"
        "  to pick by a list or a node of ints, use ops.take(x, indices, axis=...)"
    )


def _bound(bound: object) -> int | None:
    if bound is None:
        return None
    if not isinstance(bound, bool) and isinstance(bound, Integral):
        return int(bound)
    raise SpecTypeError(f"{bound!r} cannot bound a slice of a node: only ints can")
