"""CuPy's array: a layout of elements in a block of device memory, which it shares with its views."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from . import indexing, transfers
from .launching import launch
from .memory import Allocation, Layout
from .world import World


class Flags(NamedTuple):
    """What of an array's layout CuPy tells."""

    c_contiguous: bool
    f_contiguous: bool
    owndata: bool


class Memory(NamedTuple):
    """CuPy's `MemoryPointer`."""

    ptr: int
    device_id: int


SUPPORTED = "?bBhHiIlLqQefdFD"
"""The dtypes that kernels know."""


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype, in NumPy's terms.

    Raises:
        ValueError: CuPy has no such dtype.
    """
    found = np.dtype(dtype)
    if found.char not in SUPPORTED or not found.isnative:
        raise ValueError(f"Unsupported dtype {found}")
    return found


class ndarray:
    """`cupy.ndarray`."""

    _world: ClassVar[World]
    __array_priority__ = 100
    __hash__: ClassVar[None]  # pyright: ignore[reportIncompatibleMethodOverride]  # arrays are not hashable

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: None = None, strides: None = None, order: Any = "C"
    ) -> None:
        if memptr is not None or strides is not None:
            raise NotImplementedError("memory of one's own")
        dims = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(map(int, shape))
        kind = checked_dtype(dtype)
        queue = self._world.current_queue()
        queue.device.check()
        allocation = self._world.allocate(math.prod(dims) * kind.itemsize, queue)
        self._set(
            allocation, Layout(allocation.block if allocation else None, 0, dims, _packed(dims, kind, order), kind)
        )
        self.device_index = queue.device.index

    def _set(self, allocation: Allocation | None, layout: Layout, base: ndarray | None = None) -> None:
        self.allocation, self.layout, self.base = allocation, layout, base

    def view_of(self, function: Callable[[Any], Any]) -> Any:
        """What `function` gives of it, which looks at no element: arrays that share its memory, in lists too."""
        result = function(self.layout.array)
        if isinstance(result, (list, tuple)):
            return [self._view(one) for one in result]
        return self._view(result)

    def _view(self, array: np.ndarray[Any, Any]) -> Self:
        if isinstance(array, np.generic):
            # Of rank 0, which some of NumPy's functions give as a number.
            array = self.layout.array
        block = self.layout.block
        offset = array.ctypes.data - block.address if block and array.size else 0
        view = object.__new__(type(self))
        view._set(self.allocation, Layout(block, offset, array.shape, array.strides, array.dtype), self)
        view.device_index = self.device_index
        return view

    def shares(self, allocation: Allocation | None, layout: Layout, device: int) -> Self:
        """An array of another one's memory."""
        self._set(allocation, layout)
        self.device_index = device
        return self

    # What it is.

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.layout.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self.layout.strides

    @property
    def ndim(self) -> int:
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        return math.prod(self.layout.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def flags(self) -> Flags:
        flags = self.layout.array.flags
        return Flags(flags.c_contiguous, flags.f_contiguous, self.base is None)

    @property
    def device(self) -> Any:
        return self._world.cupy.cuda.Device(self.device_index)

    @property
    def data(self) -> Memory:
        block = self.layout.block
        return Memory(block.address + self.layout.offset if block else 0, self.device_index)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    # Views, and what copies if it must.

    @property
    def T(self) -> Self:
        return self.view_of(np.transpose)

    @property
    def mT(self) -> Self:
        return self.view_of(np.matrix_transpose)

    @property
    def real(self) -> Self:
        return self.view_of(np.real) if self.dtype.kind == "c" else self

    @property
    def imag(self) -> Any:
        return self.view_of(np.imag) if self.dtype.kind == "c" else self._world.cupy.zeros_like(self)

    def view(self, dtype: Any = None, type: Any = None) -> Self:
        return self.view_of(lambda array: array.view() if dtype is None else array.view(checked_dtype(dtype)))

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> Self:
        dims = shape[0] if len(shape) == 1 else shape
        try:
            if not copy:
                return self.view_of(lambda array: np.reshape(array, dims, order=order, copy=False))
        except ValueError:
            # Either it doesn't fit, which the copy's probe finds too, or its elements are not in a row.
            if copy is False:
                raise
        # What a probe finds is remembered by the options.
        return launch(self._world, "copy", partial(np.reshape, copy=True), [self], {"shape": dims, "order": order})

    def ravel(self, order: Any = "C") -> Self:
        return self.reshape(-1, order=order)

    def flatten(self, order: Any = "C") -> Self:
        return self.reshape(-1, order=order, copy=True)

    def transpose(self, *axes: Any) -> Self:
        wanted = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return self.view_of(lambda array: np.transpose(array, wanted))

    def astype(self, dtype: Any, order: Any = "K", casting: Any = None, subok: Any = None, copy: bool = True) -> Self:
        kind = checked_dtype(dtype)
        if not copy and kind == self.dtype and order in ("K", "A"):
            return self
        return launch(self._world, "copy", _astype, [self], {"dtype": kind, "order": order})

    def copy(self, order: Any = "C") -> Self:
        if self.size and self.device_index != self._world.current_device.index:
            return transfers.between_devices(self._world, self)
        return launch(self._world, "copy", lambda a, order: np.array(a, order=order), [self], {"order": order})

    def fill(self, value: Any) -> None:
        # What equals zero is made of zero bytes, also if it has a sign.
        is_zero = self.flags.c_contiguous and bool(np.asarray(value, self.dtype) == 0)
        indexing.assign(self, (), 0 if is_zero else value, "fill")

    # Elements.

    def __getitem__(self, key: Any) -> Any:
        return indexing.pick(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        indexing.assign(self, key, value)

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[index] for index in range(self.shape[0]))

    # The host.

    def get(self, stream: Any = None, order: Any = "C", out: Any = None, blocking: bool = True) -> Any:
        return transfers.to_host(self._world, self, stream, order, out, blocking)

    def set(self, arr: Any, stream: Any = None) -> None:
        transfers.set_from_host(self._world, self, arr, stream)

    def item(self) -> Any:
        return self.get().item()

    def tolist(self) -> Any:
        return self.get().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        return self.get().tobytes(order)

    def __array__(self, dtype: Any = None) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        function = getattr(self._world.cupy, ufunc.__name__, None)
        return NotImplemented if method != "__call__" or function is None else function(*inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        function = getattr(self._world.cupy, func.__name__, None)
        return NotImplemented if function is None else function(*args, **kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return transfers.DLPACK_CUDA, self.device_index

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        return transfers.to_dlpack(self._world, self, stream, dl_device, copy)

    def __bool__(self) -> bool:
        return bool(self.get())

    def __int__(self) -> int:
        return int(self.get())

    def __index__(self) -> int:
        return operator.index(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __complex__(self) -> complex:
        return complex(self.get())

    def __repr__(self) -> str:
        return repr(self.get())

    def __reduce__(self) -> Any:
        return self._world.cupy.asarray, (self.get(order="A"),)


def _astype(array: np.ndarray[Any, Any], dtype: np.dtype[Any], order: Any) -> np.ndarray[Any, Any]:
    # Else NumPy warns that the imaginary parts are lost.
    source = array.real if array.dtype.kind == "c" and dtype.kind not in "cb" else array
    return source.astype(dtype, order=order)


def _packed(shape: tuple[int, ...], dtype: np.dtype[Any], order: Any) -> tuple[int, ...]:
    sizes = [max(size, 1) for size in shape]
    inner = sizes[1:][::-1] if order != "F" else sizes[:-1]
    strides = [dtype.itemsize]
    for size in inner:
        strides.append(strides[-1] * size)
    strides = strides[: len(shape)]
    return tuple(strides if order == "F" else strides[::-1])


_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARING = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
_METHODS = (
    "all any argmax argmin argsort clip conj cumprod cumsum diagonal dot max mean min nonzero prod ptp repeat round "
    "searchsorted squeeze std sum swapaxes take trace var"
)


def _add_operators() -> None:
    def plain(name: str) -> Callable[..., Any]:
        return lambda self, *args, **kwargs: getattr(self._world.cupy, name)(self, *args, **kwargs)

    def reflected(name: str) -> Callable[..., Any]:
        return lambda self, other: getattr(self._world.cupy, name)(other, self)

    def in_place(name: str) -> Callable[..., Any]:
        return lambda self, other: getattr(self._world.cupy, name)(self, other, out=self)

    for name, function in (_BINARY | _COMPARING | _UNARY).items():
        setattr(ndarray, f"__{name}__", plain(function))
    for name, function in _BINARY.items():
        setattr(ndarray, f"__r{name}__", reflected(function))
        setattr(ndarray, f"__i{name}__", in_place(function))
    for name in _METHODS.split():
        setattr(ndarray, name, plain(name))
    setattr(ndarray, "__hash__", None)  # noqa: B010  # as the others


_add_operators()
