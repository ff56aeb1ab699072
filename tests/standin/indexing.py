"""Picking and assigning elements, by keys of numbers and slices, or by arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .launching import launch, launch_and_wait, layouts_of, on_current_device, spans, values_of

if TYPE_CHECKING:
    from .arrays import ndarray


def pick(array: ndarray, key: Any) -> Any:
    """`array[key]`: a view; with arrays of integers in the key a new array; with one of booleans, after a wait."""
    world = array._world
    parts = key if isinstance(key, tuple) else (key,)
    if all(map(_is_basic, parts)):
        whole = parts if Ellipsis in parts else (*parts, ...)
        return array.view_of(lambda memory: memory[whole])
    if any(_is_mask(one) for one in parts):
        return launch_and_wait(world, "index", lambda a, *parts: a[parts], [array, *parts], {})
    return launch(world, "take", _wrapped, [array, *parts])


def assign(array: ndarray, key: Any, value: Any, name: str = "copy") -> None:
    """`array[key] = value`."""
    world = array._world
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        value = value.item()
    parts = key if isinstance(key, tuple) else (key,)
    target = array
    if all(map(_is_basic, parts)):
        target, parts = pick(array, parts), ()
    operands = on_current_device(world, [target, parts, value])
    later = layouts_of((target, parts, value))

    def run() -> None:
        memory, where, given = values_of(later)
        with np.errstate(all="ignore"):
            memory[_wrapped_key(memory, where) if where else ...] = given

    if not parts and isinstance(value, world.array_type):
        # What doesn't fit fails now, and not when it runs.
        np.broadcast_to(value.layout.array, target.shape)
    world.issue(world.current_queue(), "launch", name, run, spans(operands), spans([target]))


ATOMIC = ("int32", "uint32", "uint64", "float16", "float32", "float64")
"""The dtypes that `add.at` adds in; CuPy 15 has int64, too."""


def add_at(a: ndarray, indices: Any, b: Any = None) -> None:
    """`cupy.add.at`, of keys with arrays of integers."""
    world = a._world
    key = indices if isinstance(indices, tuple) else (indices,)
    if a.dtype.name not in ATOMIC:
        raise TypeError(f"cupy.add.at only supports {', '.join(ATOMIC)} as data type")
    operands = on_current_device(world, [a, key, b])
    later = layouts_of((a, key, b))

    def run() -> None:
        memory, where, given = values_of(later)
        with np.errstate(all="ignore"):
            np.add.at(memory, _wrapped_key(memory, where), given)

    world.issue(world.current_queue(), "launch", "add_at", run, spans(operands), spans([a]))


def _is_basic(part: Any) -> bool:
    return (
        part is None or part is Ellipsis or (isinstance(part, (int, np.integer, slice)) and not isinstance(part, bool))
    )


def _is_mask(part: Any) -> bool:
    return isinstance(part, (bool, np.bool_)) or getattr(part, "dtype", None) == np.bool_


def _wrapped(array: np.ndarray[Any, Any], *parts: Any) -> Any:
    return array[_wrapped_key(array, parts)]


def _wrapped_key(array: np.ndarray[Any, Any], parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key with indices that are out of bounds wrapped around, as CuPy has them."""
    taken = sum(_axes_of(one) for one in parts)
    key: list[Any] = []
    axis = 0
    for one in parts:
        if one is Ellipsis:
            axis += array.ndim - taken
            key.append(one)
            continue
        is_indices = not _is_basic(one) and not _is_mask(one)
        key.append(np.mod(one, array.shape[axis]) if is_indices and array.shape[axis] else one)
        axis += _axes_of(one)
    return tuple(key)


def _axes_of(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, (bool, np.bool_)):
        return 0
    return part.ndim if _is_mask(part) else 1
