"""Structures of values that build nodes: flattened, and built again of other values."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, TypeGuard, cast

from .containers import refilled
from .node import Node


def flatten(structure: object) -> list[object]:
    """The leaves of any nesting of lists, tuples, dicts and dataclasses, in its own order; anything else is a leaf."""
    leaves: list[object] = []
    stack: list[object] = [structure]
    while stack:
        one = stack.pop()
        parts = _parts(one)
        if parts is None:
            leaves.append(one)
        else:
            stack += reversed(parts.values())
    return leaves


def rebuild(structure: Any, leaves: Iterator[Any]) -> Any:
    """A structure like `structure`, in its own types of container, of other leaves."""
    if isinstance(structure, (Node, str)):
        return next(leaves)
    kind: type[Any] = structure.__class__
    if kind is list:
        return [rebuild(one, leaves) for one in structure]
    if kind is dict:
        return {key: rebuild(one, leaves) for key, one in structure.items()}
    if isinstance(structure, dict):
        parts = [rebuild(one, leaves) for one in cast("dict[Any, Any]", structure).values()]
        return refilled(structure, parts)
    if isinstance(structure, (list, tuple)):
        return refilled(structure, [rebuild(one, leaves) for one in cast("list[Any]", structure)])
    if _is_dataclass(structure):
        made = copy.copy(structure)
        for field in dataclasses.fields(structure):
            # Not setattr, which a frozen dataclass refuses.
            object.__setattr__(made, field.name, rebuild(getattr(structure, field.name), leaves))
        return made
    return next(leaves)


def is_list_of_nodes(structure: object) -> TypeGuard[list[Node]]:
    """Whether it is a list of nodes and nothing else, as most are: it is its own leaves."""
    if structure.__class__ is not list:
        return False
    for one in cast("list[object]", structure):  # noqa: SIM110  # a generator would take twice as long
        if not isinstance(one, Node):
            return False
    return True


def leaves_as(structure: Any, like: Any) -> list[object] | None:
    """The leaves of a structure, in the order of those of `like`; `None` if the two differ in more than their leaves.

    Dicts are alike if they have the same keys, in whatever order.
    """
    leaves: list[object] = []
    stack: list[tuple[Any, Any]] = [(structure, like)]
    while stack:
        one, other = stack.pop()
        parts, others = _parts(one), _parts(other)
        if others is None:
            if parts is not None:
                return None
            leaves.append(one)
        elif parts is None or type(one) is not type(other) or parts.keys() != others.keys():
            return None
        else:
            stack += reversed([(parts[key], others[key]) for key in others])
    return leaves


def _parts(structure: Any) -> dict[Any, Any] | None:
    """What a container holds, by keys, positions or names; `None` for a leaf."""
    if isinstance(structure, dict):
        return cast("dict[Any, Any]", structure)
    if isinstance(structure, (list, tuple)):
        return dict(enumerate(cast("list[Any]", structure)))
    if _is_dataclass(structure):
        return {field.name: getattr(structure, field.name) for field in dataclasses.fields(structure)}
    return None


def _is_dataclass(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
