"""The functions of `cupy`, made of NumPy's by the tables of `signatures`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import indexing, signatures
from .launching import launch, launch_and_wait, refuse_host_arrays
from .memory import Layout
from .world import World
from .written_out import WrittenOut

Function = Callable[..., Any]

_NUMPY: dict[str, Function] = {
    "argmax": lambda a, dtype=None, **options: np.asarray(np.argmax(a, **options), dtype),
    "argmin": lambda a, dtype=None, **options: np.asarray(np.argmin(a, **options), dtype),
    "pow": lambda x1, x2, **options: _power(x1, x2, **options),
    "power": lambda x1, x2, **options: _power(x1, x2, **options),
    "take": lambda a, indices, **options: np.take(a, indices, mode="wrap", **options),
    "arange": lambda start, **options: _arange(start, **options),
    "clip": lambda a, a_min, a_max: _clip(a, a_min, a_max),
}
"""Where NumPy's function of that name is not what CuPy's is: it names or orders parameters differently, or raises."""


def _power(x1: Any, x2: Any, **options: Any) -> Any:
    """Integers to negative powers, where NumPy raises, are whole: 0, 1 or -1."""
    try:
        return np.power(x1, x2, **options)
    except ValueError:
        whole = np.power(x1, np.abs(x2), **options)
        return np.where(np.less(x2, 0) & (np.abs(x1) != 1), np.zeros((), whole.dtype), whole)


def _arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    first, last = (0, start) if stop is None else (start, stop)
    result = np.arange(first, last, step, dtype=dtype)
    # CuPy takes the step off where NumPy adds it.
    return np.array([first, first - step], dtype) if result.dtype == bool and result.size == 2 else result


def _clip(a: Any, low: Any, high: Any) -> Any:
    """What compares with nothing, a limit that is NaN, is none."""
    within = np.where(np.less(a, low), low, np.where(np.greater(a, high), high, a))
    return np.where(np.greater(low, high), high, within).astype(np.clip(a, low, high).dtype)


def namespace(world: World) -> dict[str, Any]:
    """The functions of `cupy` in this world, by name, with `linalg`."""
    names: dict[str, Any] = {name: getattr(np, name) for name in signatures.HOST}
    names["bool"] = np.bool_
    for name in ("can_cast", "result_type"):
        names[name] = _of_dtypes(world, getattr(np, name))
    names["ndim"] = lambda a: a.ndim if _is_array(world, a) else np.ndim(a)
    names["shape"] = lambda a: a.shape if _is_array(world, a) else np.shape(a)
    names["size"] = lambda a, axis=None: a.size if axis is None else a.shape[axis]
    for name in signatures.UNARY:
        names[name] = _elementwise(world, name, 1)
    for name in signatures.BINARY:
        names[name] = _elementwise(world, name, 2)
    names["add"].at = indexing.add_at
    for name, operands in signatures.TWO_RESULTS.items():
        names[name] = _elementwise(world, name, operands)
    for name, text in signatures.VIEWS.items():
        names[name] = _bound(name, text, _view(world, name))
    for name, text in signatures.COMPUTED.items():
        names[name] = _bound(name, text, _computed(world, name, _numpy(name)))
    for name, text in signatures.WAITING.items():
        names[name] = _bound(name, text, _waiting(world, name))
    written_out = WrittenOut(world)
    for name, text in signatures.WRITTEN_OUT.items():
        names[name] = _bound(name, text, getattr(written_out, name))
    linalg = {
        name: _bound(name, text, _computed(world, f"linalg.{name}", getattr(np.linalg, name), _identity))
        for name, text in signatures.LINALG.items()
    }
    names["linalg"] = SimpleNamespace(**linalg, matmul=names["matmul"], LinAlgError=np.linalg.LinAlgError)
    return names


def _numpy(name: str) -> Function:
    return _NUMPY.get(name) or getattr(np, name)


def _of_dtypes(world: World, function: Function) -> Function:
    return lambda *args, **kwargs: function(*[one.dtype if _is_array(world, one) else one for one in args], **kwargs)


def _is_array(world: World, value: object) -> bool:
    return isinstance(value, world.array_type)


def _bound(name: str, text: str, function: Function) -> Function:
    """`function` with CuPy's parameters. It is called with what was given: operands by position, options by name."""
    signature, by_position, variadic = _parameters(text)

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        options = dict(given.arguments)
        operands = [options.pop(one) for one in by_position]
        operands += options.pop(variadic, ())
        options.update(options.pop("kwargs", {}))
        return function(*operands, **options)

    call.__name__ = call.__qualname__ = name
    call.__signature__ = signature
    return call


@cache
def _parameters(text: str) -> tuple[inspect.Signature, tuple[str, ...], str]:
    """The signature, the parameters that are given by position, and the one that takes all others of these."""
    signature = inspect.signature(eval(f"lambda {text}: None", {}))
    kinds = {one.name: one.kind for one in signature.parameters.values() if one.default is one.empty}
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variadic = [name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_POSITIONAL]
    return signature, tuple(name for name, kind in kinds.items() if kind in plain), "".join(variadic)


def _elementwise(world: World, name: str, nin: int) -> Function:
    function = _numpy(name)

    def call(*args: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind", where: Any = None) -> Any:
        if len(args) not in (nin, nin + 1):
            raise TypeError(f"Wrong number of arguments for cupy_{name}: {len(args)}")
        operands, out = args[:nin], args[nin] if len(args) > nin else out
        for one in operands:
            if isinstance(one, (list, tuple)) or (isinstance(one, np.ndarray) and one.ndim):
                raise TypeError(f"Unsupported type {type(one)}")
        if where is not None:
            raise NotImplementedError("where= of an elementwise function")
        return launch(world, name, function, operands, {} if dtype is None else {"dtype": dtype}, out)

    call.__name__ = call.__qualname__ = name
    return call


def _view(world: World, name: str) -> Function:
    function = _numpy(name)

    def call(array: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_array(world, array):
            raise TypeError(f"{name}: not an array of CuPy's: {type(array)}")
        return array.view_of(lambda memory: function(memory, *args, **kwargs))

    return call


def _computed(world: World, name: str, function: Function, ones: Function | None = None) -> Function:
    def call(*args: Any, out: Any = None, subok: None = None, **kwargs: Any) -> Any:
        refuse_host_arrays(args)
        return launch(world, name, function, args, kwargs, out, ones)

    return call


def _waiting(world: World, name: str) -> Function:
    function = _numpy(name)

    def call(*args: Any, out: None = None, **kwargs: Any) -> Any:
        refuse_host_arrays(args)
        return launch_and_wait(world, name, function, args, kwargs)

    return call


def _identity(layout: Layout) -> np.ndarray[Any, Any]:
    """Matrices of ones can't be inverted; those of the identity can."""
    if len(layout.shape) < 2:
        return np.ones(layout.shape, layout.dtype)
    return np.broadcast_to(np.eye(*layout.shape[-2:], dtype=layout.dtype), layout.shape).copy()
