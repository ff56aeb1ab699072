"""A container like another, with other things in it: how results and arguments keep their types.

Subclasses keep what else they have: a `defaultdict` its factory, a list subclass its attributes. Their
constructors are not called, as nothing is known of their parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

Parts = list[Any]


def refilled(container: Any, parts: Parts) -> Any:
    """A container like `container`, with its keys and attributes, that holds `parts`, a list that becomes its own."""
    kind: type[Any] = container.__class__
    if kind is list:
        return parts
    if kind is dict:
        return dict(zip(container, parts, strict=True))
    for base, refill in _REFILL:
        if issubclass(kind, base):
            return refill(container, parts)
    raise AssertionError(f"{kind} is no container")


def _tuple(container: Any, parts: Parts) -> Any:
    if container.__class__ is tuple:
        return tuple(parts)
    # Named tuples, and subclasses whose constructors take anything at all.
    made: Any = tuple.__new__(container.__class__, parts)  # pyright: ignore[reportUnknownMemberType]  # of any elements
    attributes: dict[str, Any] | None = getattr(container, "__dict__", None)
    if attributes:
        made.__dict__.update(attributes)
    return made


def _list(container: Any, parts: Parts) -> Any:
    made = copy.copy(container)
    made[:] = parts
    return made


def _dict(container: Any, parts: Parts) -> Any:
    made = copy.copy(container)
    for key, part in zip(container, parts, strict=True):
        made[key] = part
    return made


def _set(container: Any, parts: Parts) -> Any:
    made = copy.copy(container)
    made.clear()
    made.update(parts)
    return made


_REFILL: Final[tuple[tuple[type[Any], Callable[[Any, Parts], Any]], ...]] = (
    (tuple, _tuple),
    (list, _list),
    (dict, _dict),
    (set, _set),
)
