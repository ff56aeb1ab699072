"""Runs NumPy functions later, as kernels: what they will give is known at once but for its values.

Shape and dtype of a result are found by a probe: the function is called with arrays of ones (or zeros, where numbers
may be indices) of the operands' shapes and dtypes. The probe is made once for operands that do not differ in these.
Functions whose results' shapes depend on values wait for the operands, as CuPy's do.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from .memory import Layout, Span

if TYPE_CHECKING:
    from .arrays import ndarray
    from .world import World

Function = Callable[..., Any]


class Form(NamedTuple):
    """What is known of an array before it is computed."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str


class Probed(NamedTuple):
    """The forms of a function's results, and how to put the results together as the function does."""

    forms: tuple[Form, ...]
    together: Callable[[Sequence[Any]], Any]


_filters = threading.RLock()
_probed: dict[object, Probed] = {}


def launch(
    world: World,
    name: str,
    function: Function,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    out: ndarray | None = None,
    ones: Function | None = None,
) -> Any:
    """What `function` gives for these operands, computed on the current stream.

    Args:
        world: where.
        name: of the kernel.
        function: NumPy's.
        args: operands, of which some are arrays of the device, also in lists and tuples.
        kwargs: likewise.
        out: where the result is to be written.
        ones: what a probe calls it with in place of ones: called with shape and dtype.
    """
    kwargs = kwargs or {}
    operands = on_current_device(world, (args, kwargs))
    later = layouts_of((tuple(args), kwargs))
    forms, together = _probe(name, function, later, ones)
    if out is None:
        results = [world.array_type(form.shape, form.dtype, order=form.order) for form in forms]
    else:
        (form,) = forms
        if not np.can_cast(form.dtype, out.dtype, "same_kind"):
            raise TypeError(
                f"Cannot cast {name} output from {form.dtype!r} to {out.dtype!r} with casting rule 'same_kind'"
            )
        if form.shape != out.shape:
            raise ValueError(f"Out shape is mismatched: {form.shape} is written to {out.shape}")
        on_current_device(world, [out])
        results = [out]
    targets = [one.layout for one in results]

    def run() -> None:
        values, options = values_of(later)
        for target, value in zip(targets, _flat(computed(function, values, options, forms)), strict=True):
            np.copyto(target.array, value, casting="unsafe")

    world.issue(world.current_queue(), "launch", name, run, spans(operands), spans(results))
    return out if out is not None else together(results)


def launch_and_wait(world: World, name: str, function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What `function` gives, where only the operands' values tell its shape: this waits for the current stream."""
    operands = on_current_device(world, (args, kwargs))
    later = layouts_of((args, kwargs))
    found: list[Any] = []

    def run() -> None:
        values, options = values_of(later)
        with _quiet():
            found.append(function(*values, **options))

    queue = world.current_queue()
    world.issue(queue, "launch", name, run, spans(operands))
    world.synchronize(queue)
    values = [np.array(one) for one in _flat(found[0])]
    results = [world.array_type(one.shape, one.dtype) for one in values]
    targets = [one.layout for one in results]

    def fill() -> None:
        for target, value in zip(targets, values, strict=True):
            target.array[...] = value

    world.issue(queue, "launch", name, fill, (), spans(results))
    return _together(found[0])(results)


def on_current_device(world: World, value: object) -> list[ndarray]:
    """The arrays in it, all of the current device.

    Raises:
        ValueError: one is of another device. CuPy would let the kernel read it over there, if devices reach each
            other's memory, and warn; nobody who transfers explicitly wants that.
    """
    device = world.current_device
    device.check()
    arrays = list(arrays_in(world, value))
    for one in arrays:
        if one.device_index != device.index:
            raise ValueError(
                f"The device where the array resides ({one.device_index}) is different from the current device "
                f"({device.index})."
            )
    return arrays


def refuse_host_arrays(values: object) -> None:
    """Raises a `TypeError` if there is an array of NumPy's among these, also in lists; one of rank 0 is a number."""
    if isinstance(values, (list, tuple)):
        for one in values:
            refuse_host_arrays(one)
    elif isinstance(values, np.ndarray) and values.ndim:
        raise TypeError(f"Unsupported type {type(values)}")


def arrays_in(world: World, value: object) -> Iterator[ndarray]:
    """The arrays of the world in a value, its lists, tuples and dicts."""
    if isinstance(value, world.array_type):
        yield cast("ndarray", value)
    elif isinstance(value, dict):
        yield from arrays_in(world, list(value.values()))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from arrays_in(world, one)


def layouts_of(value: Any) -> Any:
    """The value with layouts in the place of arrays, which hold no memory."""
    from .arrays import ndarray

    return _swapped(value, ndarray, lambda one: one.layout)


def values_of(value: Any) -> Any:
    """The value with the arrays that the layouts are now."""
    return _swapped(value, Layout, lambda one: one.array)


def spans(arrays: Sequence[ndarray]) -> list[Span]:
    """The bytes of some arrays."""
    return [span for one in arrays for span in one.layout.spans]


def _swapped(value: Any, kind: type[Any], swap: Function) -> Any:
    if isinstance(value, kind):
        return swap(value)
    if isinstance(value, dict):
        return {name: _swapped(one, kind, swap) for name, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_swapped(one, kind, swap) for one in value)
    return value


def _probe(name: str, function: Function, later: Any, ones: Function | None) -> Probed:
    key = (name, _key(later))
    try:
        known = _probed.get(key)
    except TypeError:
        known = None
        key = None
    if known:
        return known
    values, options = _swapped(later, Layout, lambda one: (ones or _ones)(one))
    with _quiet():
        result = function(*values, **options)
    arrays = [np.asarray(one) for one in _flat(result)]
    forms = tuple(Form(one.shape, one.dtype, "F" if one.flags.fnc else "C") for one in arrays)
    found = Probed(forms, _together(result))
    if key:
        _probed[key] = found
    return found


def _key(value: Any) -> Any:
    # 1, 1.0 and True are equal, and promote differently.
    if isinstance(value, Layout):
        return value.shape, value.dtype.str, _is_fortran(value)
    if isinstance(value, dict):
        return tuple((name, _key(one)) for name, one in value.items())
    if type(value) in (list, tuple):
        return type(value), tuple(map(_key, value))
    return type(value), value


def _ones(layout: Layout) -> np.ndarray[Any, Any]:
    value = 0 if layout.dtype.kind in "iub" else 1
    return np.full(layout.shape, value, layout.dtype, "F" if _is_fortran(layout) else "C")


def _is_fortran(layout: Layout) -> bool:
    return bool(layout.array.flags.fnc)


def computed(function: Function, values: Sequence[Any], options: dict[str, Any], forms: Sequence[Form]) -> Any:
    """What it gives for these values. A device raises nothing of it: where NumPy does, numbers are not a number."""
    try:
        with np.errstate(all="ignore"):
            return function(*values, **options)
    except Warning:
        # Where warnings are errors. Not at once like this, as filters are the process's.
        with _quiet():
            return function(*values, **options)
    except np.linalg.LinAlgError:
        return tuple(np.full(form.shape, np.nan).astype(form.dtype) for form in forms)


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing warns inside. One thread at a time, or the one would restore the other's filters."""
    with _filters, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _together(result: Any) -> Callable[[Sequence[Any]], Any]:
    kind: Any = type(result)
    if hasattr(kind, "_fields"):
        return lambda results: kind(*results)
    return kind if kind in (list, tuple) else lambda results: results[0]
