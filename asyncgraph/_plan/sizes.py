"""How large values may be, before there are any: in elements of the largest fed array.

A named dimension is one size in a run. So where `float32[n,256]` is fed, the largest fed array has at
least 256 elements for each `n`, and a `float32[n,1000]` that is computed has at most 4 for each of those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from .._graph.spec import ArraySpec, Dim

FURTHER: Final = 1000
"""What each further dimension is taken to be, of a value with several that no fed array has together.

The largest outer product of two vectors that is then taken to fit into half a millisecond does fit."""


@final
@dataclass(frozen=True, slots=True)
class Size:
    """Elements: `fixed + per_element * elements`, where `elements` is the largest fed array's size."""

    fixed: float = 0.0
    per_element: float = 0.0

    def __add__(self, other: Size) -> Size:
        return Size(self.fixed + other.fixed, self.per_element + other.per_element)

    def __mul__(self, factor: float) -> Size:
        return Size(self.fixed * factor, self.per_element * factor)

    def __or__(self, other: Size) -> Size:
        """At least as large as both."""
        return Size(max(self.fixed, other.fixed), max(self.per_element, other.per_element))


@final
class Sizes:
    """The sizes of values, where some are fed.

    Fields:
        _beside: for unknown dimensions, together or alone: how many elements the largest fed array has for
            each of theirs.
        _least: the same for dimensions that no fed array has.
        _known: what has been asked.
    """

    def __init__(self, fed: Iterable[ArraySpec] = ()) -> None:
        self._beside: Final[dict[tuple[Dim, ...], int]] = {}
        self._known: Final[dict[ArraySpec, Size]] = {}
        for spec in fed:
            unknown, rest = _split(spec)
            for dims in (unknown, *[(one,) for one in unknown]):
                self._beside[dims] = max(rest, self._beside.get(dims, 1))
        self._beside.pop((), None)
        self._least: Final = min(self._beside.values(), default=1)

    def of(self, spec: ArraySpec) -> Size:
        """The size of a value; what is not known of it is taken to be as in the largest fed array."""
        size = self._known.get(spec)
        if size is None:
            size = self._known[spec] = self._size(spec)
        return size

    def _size(self, spec: ArraySpec) -> Size:
        if spec.shape is None:
            return Size(0.0, 1.0)
        unknown, rest = _split(spec)
        if not unknown:
            return Size(float(rest))
        beside = self._beside.get(unknown)
        if beside is None:
            most = max([self._beside.get((one,), self._least) for one in unknown])
            return Size(0.0, rest / most * FURTHER ** (len(unknown) - 1))
        return Size(0.0, rest / beside)


def largest(values: Iterable[object]) -> int:
    """The size of the largest array of the host among values; 0 if there is none."""
    return max([one.size for one in values if isinstance(one, np.ndarray)], default=0)


STATIC: Final = Sizes()
"""Of graphs that nothing is fed to."""


def _split(spec: ArraySpec) -> tuple[tuple[Dim, ...], int]:
    """The unknown dimensions, in an order of their own, and the product of the known ones."""
    unknown: list[Dim] = []
    rest = 1
    for one in spec.shape or ():
        if isinstance(one, int):
            rest *= one
        else:
            unknown.append(one)
    return tuple(sorted(unknown, key=str)), rest
