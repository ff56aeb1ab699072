"""What a backend implements. Stable: third parties build on this module and on `asyncgraph.errors` alone.

A backend is found by an entry point in the group `asyncgraph.backends`, and made once a process, when
a device of its kind is first asked for. It gives kernels; it never sees a graph, a session or a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import ModuleType
from typing import Any, ClassVar, Protocol, cast, final

import numpy as np

Array = Any
"""A value of some backend's own array type; on the host, a NumPy array. The one `Any` of public signatures."""

Kernel = Callable[..., Array]
"""Computes an op: called with the operands, in order, as arrays of its device and Python numbers. It must not
write to them, may return one of them or a view, and may be called by several threads at once."""


class Spec(Protocol):
    """What a kernel may know of an operand before it is called. `None` is unknown; a `str` is a named dimension."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype, in NumPy's terms."""
        ...

    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """The shape, as far as it is known."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Device:
    """One place where arrays live and kernels run, printed `cpu:0`.

    Fields:
        kind: "cpu", "gpu", or a kind of the backend's own, in lower case.
        index: which one of that kind, from 0.
    """

    kind: str
    index: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


@final
@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend declares. Nothing is ever found out by looking for attributes.

    Fields:
        host_arrays: its arrays are NumPy arrays, so that values reach user ops and callers without a transfer.
        releases_gil: its kernels let other threads run while they compute.
    """

    host_arrays: bool = False
    releases_gil: bool = True


class Backend(ABC):
    """Runs kernels on one kind of device. To be subclassed; every method may be called by any thread.

    A subclass without a method of its own for an op gets the Array API function of that name, called
    as the standard says: see `array_api_kernel`.
    """

    name: ClassVar[str]
    """What it is called in `BackendNotFoundError`, `explain()` and the entry point."""

    capabilities: ClassVar[Capabilities] = Capabilities()

    @abstractmethod
    def devices(self) -> Sequence[Device]:
        """The devices that can be used, which may take a probe of the hardware; called once.

        Raises:
            Exception: none can. Its text is the reason that users see, so it says what to do.
        """

    @abstractmethod
    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        """What computes `op` on arrays of `device`.

        Called when a plan is made; nodes that apply an op without parameters to equal specs share a kernel. `params` has the names of the Array API standard's
        keywords; an operand is a spec, or a Python number that the kernel will be called with.

        Raises:
            NotImplementedError: the backend cannot compute it; the text says what and why.
        """

    @abstractmethod
    def to_device(self, array: np.ndarray[Any, Any], device: Device) -> Array:
        """The values of a NumPy array, as an array of `device`. May share its memory if it is never written."""

    @abstractmethod
    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """The values of an array of this backend, as a NumPy array. May share its memory."""


_TAKES_LIST = frozenset({"concat", "stack"})
# In the standard these have no keywords.
_POSITIONAL = {"moveaxis": ("source", "destination")}


def array_api_kernel(namespace: ModuleType, op: str, params: Mapping[str, object]) -> Kernel:
    """The function `op` of an Array API namespace as a kernel, with `params` as its keywords.

    `index` is `array[key]`, which the standard has for all axes or with a `...` only; `concat` and `stack` take their
    operands as one list.

    Raises:
        NotImplementedError: the namespace has no such function.
    """
    if op == "index":
        key = cast("tuple[object, ...]", params["key"])
        return itemgetter(key if Ellipsis in key else (*key, ...))
    try:
        function: Callable[..., Array] = vars(namespace)[op]
    except KeyError:
        raise NotImplementedError(f"{namespace.__name__} has no function {op!r}") from None
    if op in _TAKES_LIST:
        return lambda *arrays: function(list(arrays), **params)
    if not params:
        return function
    if op in _POSITIONAL:
        values = [params[name] for name in _POSITIONAL[op]]
        return lambda array: function(array, *values)
    return lambda *arrays: function(*arrays, **params)
