"""What a backend implements. Stable: third parties build on this module and on `asyncgraph.errors` alone.

A backend is a class that a distribution names in its entry points:

    [project.entry-points."asyncgraph.backends"]
    toy = "toy_arrays:ToyBackend"

It is made once a process, without arguments, when a device is asked for that no backend before it has: NumPy's
is asked first, the others by the names of their entry points. It gives kernels and moves arrays; it never sees
a graph, a session or a run. `asyncgraph.testing.BackendConformance` is this contract as a test class.

Values. NumPy is the specification: dtypes, shapes, values and what cannot be computed are NumPy's, up to rounding.

Threads. Any method may be called by any thread, and by several at once. So may the kernels and transfers of a
synchronous backend; calls of one run come from different threads, never at once for one array, and what is estimated
to be short is called on the event loop's thread.

Asynchronous backends. A backend whose kernels and transfers only start what its device does later says so by
`capabilities.asynchronous`. They are then called in one way alone: inside the `work` of a `submit`. A session submits
a segment at a time: all that can run on a device without waiting for anything else. While `work` runs, what one call
gives may be passed to the next; `done` says that the device has done it all, and from then on what it gave may be used
by anybody, on the host or in a later `work`. Until then the session holds every array that `work` was given, also if
the run was cancelled; what `work` itself has dropped is the backend's affair. For a synchronous backend `submit` is
just two calls, one after the other.

Memory. What a backend is given is not its own: it writes to no operand, and keeps none once it is done. What it
gives belongs to the session, which writes to none of it.

Errors. What a kernel or a transfer raises ends the run and reaches the caller as it is, with a note that names the
node. A method that raises leaves the backend as it was. A device that can never be used again in this process is
lost: `DeviceLostError`, for what was submitted and all that ever will be; its other devices go on.

Processes. A forked child has the backend, but none of its threads: there no session finds an asynchronous one.

Later versions may add methods, such as one that computes a group of ops by one kernel. Whatever they add to the
classes of this module has a default that means what is said here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Protocol, final

import numpy as np

from ._composed import COMPOSED, own_dtype

Array = Any
"""A value of some backend's own array type; on the host, a NumPy array. The one `Any` of public signatures.

A session asks nothing of it but `shape` and `dtype`, of what ops with `on_device` are given and return."""

Kernel = Callable[..., Array]
"""Computes an op: called with the operands, in order, as arrays of its device and Python numbers.

Its result is an array of the device, or a tuple or list of them for an op with several results. It may be an operand,
or share memory with one, only where NumPy's may: for ops that pick, reshape or broadcast elements, `sum_to`,
`stop_gradient` and `astype(copy=False)`; a caller may own and write anything else."""


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
        kind: "cpu", "gpu", or a kind of the backend's own: lower-case letters, digits and "_", a letter first.
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
        host_arrays: its arrays are NumPy arrays, so that values reach user ops, callers and other such backends
            without a transfer: `to_device` and `to_host` are never called in a run.
        releases_gil: its kernels let other threads run while they compute.
        asynchronous: its kernels and transfers return before the device is done, and are called inside `submit`
            alone. Not together with `host_arrays`.
        between_devices: `to_device` takes arrays of its other devices, too; otherwise the way is through the host.
        dlpack: the DLPack device type of its arrays (2 for CUDA), whose device numbers are the devices' indexes.
            Its arrays, and any other library's on such a device, can then be fed without a copy, by `from_dlpack`;
            and they have `__dlpack__`. `None` if they cannot be exchanged in that way.
    """

    host_arrays: bool = False
    releases_gil: bool = True
    asynchronous: bool = False
    between_devices: bool = False
    dlpack: int | None = None

    def __post_init__(self) -> None:
        if self.host_arrays and self.asynchronous:
            raise ValueError("host_arrays and asynchronous: what is on the host is used without waiting for a device")


Done = Callable[[BaseException | None], None]
"""Told, once, that what was submitted is over, and with what error. Never raises, never blocks; from any thread."""


class Backend(ABC):
    """Runs kernels on one kind of device, or a few. To be subclassed; what holds for all methods is said above.

    `devices`, `kernel`, `to_device` and `to_host` are what any backend has to say. For an op that it computes as the
    Array API standard says, `kernel` can return `array_api_kernel(...)`.
    """

    name: ClassVar[str]
    """What it is called in messages and `explain()`; best the name of its entry point."""

    capabilities: ClassVar[Capabilities] = Capabilities()

    @abstractmethod
    def devices(self) -> Sequence[Device]:
        """The devices that can be used, which may take a probe of the hardware; called once.

        A library that is imported here, or in the backend's module, is not imported before it is needed.

        Raises:
            ModuleNotFoundError: its library is not installed; users are told to install the module of that name, or
                what the text says if the error names none.
            Exception: none can be used. Its text is the reason that users see, so it says what to do.
        """

    @abstractmethod
    def kernel(
        self, op: str, params: Mapping[str, object], operands: Sequence[Spec | complex], device: Device
    ) -> Kernel:
        """What computes `op` on arrays of `device`.

        Called while a plan is made, once for nodes that do not differ in what is asked; the kernel is called in each
        run. Its operands have the specs' dtypes, and shapes that fit the specs'.

        Args:
            op: the name of a function of `asyncgraph.ops`; or "index", for `array[key]`, and "index_set", "index_add"
                and "take_add", for what `asyncgraph.ops.at` builds; or what gradients are built of: "divide_by_size",
                "reshape_like", "size_of", "split_like", "stop_gradient", "where_larger" and "where_positive"; or what
                training does in one: "adam", "adam_rates", "relu" and "softmax_cross_entropy". `array_api_kernel` says
                what these are.
            params: what else the function was given, by the names of the standard's keywords, without what has the
                standard's default; dtypes in NumPy's terms. Not to be changed.
            operands: specs of arrays; or a Python number (bool, int, float, complex), which the kernel will be
                called with, and which promotes by its kind alone. All of them may be numbers.
            device: one of `devices()`.

        Raises:
            NotImplementedError: the backend cannot compute it; the text says what and why. Users see it in a
                `KernelNotFoundError`, before anything runs.
        """

    @abstractmethod
    def to_device(self, array: Array, device: Device) -> Array:
        """The values of a NumPy array as an array of `device`, with its shape and dtype.

        The array may have any strides, be of rank 0, be empty, or be read-only. The result may share its memory: a
        session neither writes to the one nor changes the other while a run uses them. With
        `capabilities.between_devices`, it may also be an array of another of this backend's devices.

        Raises:
            TypeError: the device has no such dtype.
        """

    @abstractmethod
    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """The values of an array of any device of this backend as a NumPy array, with its shape and dtype.

        May share its memory. Once no other array shares it, a caller may own and write it, if it is writable.
        Of an asynchronous backend, the array's values are there when the submission is done.
        """

    def submit(self, device: Device, work: Callable[[], None], done: Done) -> None:
        """Has `work` called, and `done` once the device has done what that started.

        An asynchronous backend returns at once, and has `work` called by a thread of its own, with that device the
        current one; what is submitted to one device is begun in order. `done` is called by a thread of its own, too:
        with what `work` raised, if it did, and always after the device has done whatever was started; for several
        submissions in any order. What a `work` that raised has computed is used by nobody.

        `work` calls kernels and transfers of this backend; all of the device's arrays that it is given are there. It
        may be called a second time if the device ran out of memory, after what others have submitted is done: it
        then starts all over, having dropped what it had.
        """
        try:
            work()
        except BaseException as error:
            done(error)
        else:
            done(None)

    def from_dlpack(self, array: Array, device: Device) -> Array:
        """The memory of an array of any library, which is on that device, as one of the backend's own arrays.

        Called inside `work`, as a transfer is. Only with `capabilities.dlpack`.

        Raises:
            TypeError: it has a dtype that the backend has not.
        """
        raise NotImplementedError(f"the backend {self.name!r} takes no arrays over DLPack")

    def details(self) -> Mapping[str, object]:
        """What `python -m asyncgraph doctor` shows of it, as values that JSON has: versions, what the devices are.

        May be called when `devices` has raised, and before it is called; never raises.
        """
        return {}

    def close(self) -> None:  # noqa: B027  # to have nothing to end is the default
        """Ends its threads and gives back its memory, once what was submitted is done. Blocks. Idempotent.

        Called at the end of the process, and by tests.
        """


_MAKES_ARRAYS = frozenset({"arange", "eye", "full", "linspace", "ones", "zeros"})
_TAKES_LIST = frozenset({"concat", "stack"})
# In the standard these are no keywords.
_POSITIONAL = {"astype": ("dtype",), "moveaxis": ("source", "destination")}


def array_api_kernel(
    namespace: ModuleType,
    op: str,
    params: Mapping[str, object],
    operands: Sequence[Spec | complex] = (),
    device: object = None,
) -> Kernel:
    """The function `op` of an Array API namespace as a kernel, with `params` as its keywords.

    `index` is `array[key]`, which the standard has for all axes or with a `...` only; `concat` and `stack` take their
    operands as one list; dtypes become the namespace's own. What is no function of the standard is made of those.

    Args:
        namespace: NumPy's, or one like it.
        op: the name of the function.
        params: its keywords, as `Backend.kernel` is given them.
        operands: as it is given them. If all are Python numbers, of which the standard takes one at most, the function
            is called with arrays of NumPy's dtype for them. Leave them out for a namespace that takes any numbers.
        device: the namespace's own object for the device that arrays are made on; `None` is its default.

    Raises:
        NotImplementedError: the namespace has no such function, or no such dtype.
    """
    composed = COMPOSED.get(op)
    if composed is not None:
        return composed(namespace, params, device)
    function: Callable[..., Array] | None = getattr(namespace, op, None)
    if function is None:
        raise NotImplementedError(f"{namespace.__name__} has no function {op!r}")
    makes = op in _MAKES_ARRAYS
    options = {name: own_dtype(namespace, value) for name, value in params.items()}
    positional = [options.pop(name) for name in _POSITIONAL.get(op, ())]
    if makes and device is not None:
        options["device"] = device
    if operands and not makes and all(isinstance(one, (int, float, complex)) for one in operands):
        dtype = own_dtype(namespace, np.result_type(*[np.asarray(one) for one in operands]))
        return lambda *numbers: function(
            *[namespace.asarray(one, dtype=dtype, device=device) for one in numbers], *positional, **options
        )
    if op in _TAKES_LIST:
        return lambda *arrays: function(list(arrays), **options)
    if not options and not positional:
        return function
    return lambda *arrays: function(*arrays, *positional, **options)
