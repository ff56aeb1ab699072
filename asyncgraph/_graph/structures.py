"""Structures of values that build nodes: flattened, and built again of other values."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, cast

from .containers import refilled


def flatten(structure: object) -> list[object]:
    """The leaves of any nesting of lists, tuples, dicts and dataclasses, in its own order; anything else is a leaf."""
    leaves: list[object] = []
    stack: list[object] = [structure]
    while stack:
        one = stack.pop()
        if isinstance(one, (list, tuple)):
            stack += reversed(cast("list[object]", one))
        elif isinstance(one, dict):
            stack += reversed(cast("dict[object, object]", one).values())
        elif dataclasses.is_dataclass(one) and not isinstance(one, type):
            stack += [getattr(one, field.name) for field in reversed(dataclasses.fields(one))]
        else:
            leaves.append(one)
    return leaves


def rebuild(structure: Any, leaves: Iterator[Any]) -> Any:
    """A structure like `structure`, in its own types of container, of other leaves."""
    if isinstance(structure, dict):
        parts = [rebuild(one, leaves) for one in cast("dict[Any, Any]", structure).values()]
        return refilled(structure, parts)
    if isinstance(structure, (list, tuple)):
        return refilled(structure, [rebuild(one, leaves) for one in cast("list[Any]", structure)])
    if dataclasses.is_dataclass(structure) and not isinstance(structure, type):
        made = copy.copy(structure)
        for field in dataclasses.fields(structure):
            # Not setattr, which a frozen dataclass refuses.
            object.__setattr__(made, field.name, rebuild(getattr(structure, field.name), leaves))
        return made
    return next(leaves)


def is_alike(one: Any, other: Any) -> bool:
    """Whether two structures differ in their leaves alone."""
    if isinstance(one, dict):
        a, b = cast("dict[Any, Any]", one), cast("dict[Any, Any]", other)
        return type(a) is type(b) and list(a) == list(b) and all(map(is_alike, a.values(), b.values()))
    if isinstance(one, (list, tuple)):
        first, second = cast("list[Any]", one), cast("list[Any]", other)
        return type(first) is type(second) and len(first) == len(second) and all(map(is_alike, first, second))
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        names = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(is_alike(getattr(one, name), getattr(other, name)) for name in names)
    return not (isinstance(other, (dict, list, tuple)) or dataclasses.is_dataclass(other))
