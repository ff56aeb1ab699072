"""Feeds: values are checked and converted before anything runs."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, cast, final

import numpy as np

from .._graph.convert import ConversionError, OutOfRangeError, WrongTypeError, as_exact_array
from .._graph.exchange import FedArray, dlpack_device
from .._graph.node import Node
from .._graph.op import GROUP, ITEM, OUTPUT, PLACEHOLDER
from .._graph.spec import ANY, DType, intern_spec
from ..errors import FeedError, FeedOverflowError, FeedTypeError


class FedOnDevice(Exception):
    """A value is an array on a device, which takes another plan."""


_OBJECTS: Final = frozenset({PLACEHOLDER, ITEM, OUTPUT, GROUP})


def may_be_anything(node: Node) -> bool:
    """Whether a node's value may be any Python object, which nobody converts or moves: no kernel computes it."""
    return node.spec is ANY and (node.op.call is not None or node.op in _OBJECTS)


@final
class _Binding:
    """How values for one node are checked.

    Fields:
        node: the fed node.
        anything: whether its value may be any Python object.
        dtype, rank: what an array must have; `None` for whatever it has.
        literals: axes whose size is given, with it.
        names: axes that have a name, with it.
        device: the device that the value is on, in DLPack's terms; `None` for the host.
    """

    __slots__ = ("anything", "device", "dtype", "literals", "names", "node", "rank")

    def __init__(self, node: Node, device: tuple[int, int] | None) -> None:
        shape = node.spec.shape
        self.node: Final = node
        self.device: Final = device
        self.anything: Final = may_be_anything(node)
        self.dtype: Final[DType | None] = node.spec.dtype
        self.rank: Final = None if shape is None else len(shape)
        dims = list(enumerate(shape or ()))
        self.literals: Final = tuple([(axis, dim) for axis, dim in dims if isinstance(dim, int)])
        self.names: Final = tuple([(axis, dim) for axis, dim in dims if isinstance(dim, str)])


@final
class FeedBinder:
    """Checks and converts the values of some fed nodes, in their order. Made once for a plan.

    `devices` are the devices that they are on, in DLPack's terms; `None` for the host.

    Fields:
        _fits: what arrays were that have fitted, and the size of the largest: most runs are fed such as the one before.
    """

    __slots__ = ("_bindings", "_fits")

    def __init__(self, nodes: Sequence[Node], devices: Sequence[tuple[int, int] | None]) -> None:
        self._bindings: Final = tuple([_Binding(node, on) for node, on in zip(nodes, devices, strict=True)])
        self._fits: tuple[list[Any], int] | None = None

    def bind(self, values: Sequence[Any], copy: bool) -> tuple[list[Any], int]:
        """The values as they are run with, and the size of the largest array among them.

        Arrays that fit are taken as they are, without a copy unless `copy`.

        Raises:
            FeedError: a value does not fit its node, or two do not fit each other. Nothing has run.
            FedOnDevice: a value is on another device than was said.
        """
        fits = self._fits
        if fits is not None and not copy:
            try:
                if list(map(_kind_of, values)) == fits[0]:
                    return [*values], fits[1]
            except Exception:  # It is no array, such as a Python number.
                pass
        return self._check(values, copy)

    def _check(self, values: Sequence[Any], copy: bool) -> tuple[list[Any], int]:
        bound: list[Any] = []
        sizes: dict[str, int] = {}
        largest = 0
        same = True
        for binding, value in zip(self._bindings, values, strict=True):
            if binding.anything:
                if isinstance(value, Node):
                    raise FeedTypeError(_message(binding.node, value, "it is a node: feed its value"))
                if isinstance(value, np.ndarray):
                    array = cast("np.ndarray[Any, Any]", value)
                    largest = max(largest, array.size)
                    value = array.copy(order="K") if copy else array
                bound.append(value)
                same = False
                continue
            # The dtypes NumPy makes are one object for each kind; others are compared in `_converted`.
            if value.__class__ is not np.ndarray or value.dtype is not binding.dtype:
                array = _converted(binding, value)
                same = False
            else:
                array = value
            shape = array.shape
            if binding.rank is not None:
                if len(shape) != binding.rank:
                    raise FeedError(_message(binding.node, array, "its rank differs"))
                for axis, size in binding.literals:
                    if shape[axis] != size:
                        raise FeedError(_message(binding.node, array, f"its axis {axis} differs"))
                for axis, name in binding.names:
                    size = shape[axis]
                    if sizes.setdefault(name, size) != size:
                        raise FeedError(_clash(self._bindings, values, name))
            bound.append(_snapshot(array, value) if copy else array)
            if array.size > largest:
                largest = array.size
        if same:
            self._fits = list(map(_kind_of, bound)), largest
        return bound, largest


_kind_of: Final = attrgetter("__class__", "dtype", "shape")
"""What decides whether an array fits."""


def _snapshot(array: np.ndarray[Any, Any] | FedArray, value: object) -> np.ndarray[Any, Any] | FedArray:
    """`array`, which was fed as `value`, in memory of its own; what is on a device stays what it is."""
    # What was converted owns its memory, unless it was a buffer, or another library's array.
    if isinstance(array, FedArray) or (array is not value and array.base is None):
        return array
    return array.copy(order="K")


def _converted(binding: _Binding, value: Any) -> np.ndarray[Any, Any] | FedArray:
    if isinstance(value, Node):
        raise FeedTypeError(_message(binding.node, value, "it is a node: feed its value, or fetch what is built on it"))
    device = dlpack_device(value)
    if device != binding.device:
        raise FedOnDevice
    if device is not None:
        try:
            fed = FedArray(value)
        except (AttributeError, TypeError) as error:
            told = f"an array on a device has a shape and a dtype: {error}"
            raise FeedTypeError(_message(binding.node, type(value), told)) from error
        if binding.dtype is not None and fed.dtype != binding.dtype.name:
            raise FeedTypeError(_message(binding.node, fed, "arrays on a device are never converted"))
        return fed
    try:
        return as_exact_array(value, binding.dtype)
    except ConversionError as error:
        raise _error_of(error)(_message(binding.node, value, str(error))) from error.__cause__


def _error_of(error: ConversionError) -> type[FeedError]:
    if isinstance(error, WrongTypeError):
        return FeedTypeError
    return FeedOverflowError if isinstance(error, OutOfRangeError) else FeedError


def _message(node: Node, value: Any, reason: str) -> str:
    lines = [f"the value fed for {node.name!r} does not fit it: {reason}", f"  expected: {node.spec!r}"]
    if node.shape is not None:
        lines[-1] += f", shape {node.shape}"
    if isinstance(value, (np.ndarray, np.generic)):
        array = cast("np.ndarray[Any, Any]", value)
        lines.append(f"  fed:      {intern_spec(array.dtype, array.shape)!r}, shape {array.shape}")
    elif isinstance(value, FedArray):
        lines.append(f"  fed:      {value!r}, shape {value.shape}")
    else:
        lines.append(f"  fed:      {reprlib.repr(value)} ({type(value).__name__})")
    lines.append(f"  built at: {node.site or 'unknown'}")
    return "\n".join(lines)


def _clash(bindings: Sequence[_Binding], values: Sequence[Any], name: str) -> str:
    lines = [f"the dimension {name!r} has one size in a run, but was fed several:"]
    for binding, value in zip(bindings, values, strict=True):
        shape = np.shape(value) if binding.device is None else tuple(value.shape)
        for axis, one in binding.names:
            if one == name and len(shape) > axis:
                lines.append(f"  {binding.node.name}: {binding.node.spec!r}, fed {shape}")
    return "\n".join(lines)
