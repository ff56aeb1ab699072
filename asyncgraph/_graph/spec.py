"""What is known of a value before it exists: its dtype and its shape.

A dimension is an int, a name, or `None` for unknown. A name is one size per run across the whole
graph, which may be 0 or 1. `None` relates to nothing, not even to another `None`.

Specs are interned: equal specs are one object. Tables are therefore keyed by the spec itself, at
the price of an identity hash, and building a node compares nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Integral
from typing import Any, Final, cast, final
from weakref import WeakValueDictionary

import numpy as np

from ..errors import SpecError, SpecTypeError

Dim = int | str | None
Shape = tuple[Dim, ...] | None
DType = np.dtype[Any]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
# Brackets before the last ones are the dtype's own: "datetime64[ns][n]".
_TEXT: Final = re.compile(r"\s*([^\[\]\s]+(?:\[[^\[\]]*\](?=\s*\[))?)\s*(?:\[([^\[\]]*)\])?\s*\Z")


@final
class ArraySpec:
    """The dtype and shape of a value, printed `float32[n,256]`.

    Fields:
        dtype: a NumPy dtype in native byte order, or `None` for unknown.
        shape: a tuple of ints, names (`str`) and `None` for unknown dimensions; `None` for an
            unknown rank, printed `float32[...]`. With neither dtype nor shape the value may be
            any Python object, printed `any`.

    Raises:
        SpecTypeError: the dtype, or a dimension, is not one.
        SpecError: a dimension is negative, or a name is no identifier.
    """

    __slots__ = ("__weakref__", "dtype", "shape")
    dtype: DType | None
    shape: Shape

    def __new__(cls, dtype: object = None, shape: object = None) -> ArraySpec:
        """The one spec of that dtype and shape."""
        return intern_spec(as_dtype(dtype), as_shape(shape))

    @staticmethod
    def parse(text: str) -> ArraySpec:
        """The spec that prints as `text`: `float32[n,256]`, `int64[]`, `float64[?,3]`, `bool[...]`, `any`.

        Raises:
            SpecError: the text is not of that form.
        """
        match = _TEXT.match(text)
        if match is None:
            raise SpecError(f"cannot read a spec from {text!r}\n  write, for example, 'float32[n,256]' or 'int64[]'")
        name, dims = match.groups()
        dtype = None if name in ("any", "?") else name
        if dims is None:
            if dtype is not None:
                raise SpecError(
                    f"the spec {text!r} has no shape\n"
                    f"  write '{name}[]' for a scalar, '{name}[n]' for a vector, '{name}[...]' for any rank"
                )
            return ArraySpec(None, None)
        if dims.strip() == "...":
            return ArraySpec(dtype, None)
        parts = [part.strip() for part in dims.split(",")] if dims.strip() else []
        return ArraySpec(dtype, tuple(_parse_dim(part, text) for part in parts))

    @property
    def ndim(self) -> int | None:
        """How many dimensions, or `None` if that is unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def size(self) -> int | None:
        """How many elements, or `None` if a dimension is unknown or named."""
        if self.shape is None:
            return None
        size = 1
        for dim in self.shape:
            if not isinstance(dim, int):
                return None
            size *= dim
        return size

    def __repr__(self) -> str:
        if self.shape is None:
            return "any" if self.dtype is None else f"{self.dtype}[...]"
        dims = ",".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"{'?' if self.dtype is None else self.dtype}[{dims}]"

    def __reduce__(self) -> tuple[type[ArraySpec], tuple[DType | None, Shape]]:
        return ArraySpec, (self.dtype, self.shape)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an ArraySpec is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an ArraySpec is immutable: {name!r} cannot be deleted")


_specs: WeakValueDictionary[tuple[DType | None, Shape], ArraySpec] = WeakValueDictionary()


def intern_spec(dtype: DType | None, shape: Shape) -> ArraySpec:
    """The one spec of a native dtype and a shape that have been checked already."""
    # A dtype hashes and compares without its metadata and alignment, which specs ignore too. The
    # types of dimensions are in no key: True == 1 is kept out by `as_shape`.
    key = (dtype, shape)
    spec = _specs.get(key)
    if spec is None:
        made = object.__new__(ArraySpec)
        object.__setattr__(made, "dtype", dtype)
        object.__setattr__(made, "shape", shape)
        # setdefault: of two threads that make the same spec, one wins for both.
        spec = _specs.setdefault(key, made)
    return spec


def as_dtype(dtype: object) -> DType | None:
    """A NumPy dtype in native byte order; `None` stays `None`.

    Raises:
        SpecTypeError: NumPy knows no such dtype, or it is one of Python objects.
    """
    if dtype is None:
        return None
    try:
        made = np.dtype(cast("Any", dtype))  # any object: NumPy says what is none
    except TypeError as error:
        raise SpecTypeError(f"{dtype!r} is not a dtype\n  give a NumPy dtype such as 'float32', or None") from error
    if made.hasobject:
        raise SpecTypeError(f"{made!r} holds Python objects\n  leave dtype=None for values that are any Python object")
    return made if made.isnative else made.newbyteorder("=")


def as_shape(shape: object) -> Shape:
    """A tuple of dimensions; `None` stays `None`; one int or name stands for a vector's.

    Raises:
        SpecTypeError: a dimension is neither an int, nor a name, nor `None`.
        SpecError: a dimension is negative, or a name is no identifier.
    """
    if shape is None:
        return None
    if isinstance(shape, (str, Integral)):
        return (_as_dim(shape),)
    try:
        return tuple([_as_dim(dim) for dim in cast("Iterable[object]", shape)])
    except TypeError as error:
        if isinstance(error, SpecTypeError):
            raise
        raise SpecTypeError(f"{shape!r} is not a shape\n  give a tuple of ints, names and None") from error


def _as_dim(dim: object) -> Dim:
    if dim is None:
        return None
    if isinstance(dim, str):
        if not _NAME.match(dim):
            raise SpecError(f"the dimension name {dim!r} is not an identifier")
        return dim
    if isinstance(dim, bool) or not isinstance(dim, Integral):
        raise SpecTypeError(f"a dimension is an int, a name or None, not {dim!r}")
    size = int(dim)
    if size < 0:
        raise SpecError(f"a dimension cannot be negative: {size}\n  write None for one that is unknown")
    return size


def _parse_dim(part: str, text: str) -> Dim:
    if part == "?":
        return None
    if part.isdecimal():
        return int(part)
    if not _NAME.match(part):
        raise SpecError(f"cannot read the dimension {part!r} of the spec {text!r}\n  write an int, a name, or '?'")
    return part


ANY: Final = ArraySpec()
"""The spec of a value that may be any Python object."""
