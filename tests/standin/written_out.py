"""The functions of `cupy` that no table of NumPy's functions gives."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from . import transfers
from .launching import launch, launch_and_wait, refuse_host_arrays
from .world import World


@final
class WrittenOut:
    """Functions of `cupy`, each of which has the parameters that `signatures.WRITTEN_OUT` says."""

    def __init__(self, world: World) -> None:
        self._world = world

    # Arrays of what there is.

    def array(
        self,
        obj: Any,
        dtype: Any = None,
        copy: bool = True,
        order: Any = "K",
        subok: bool = False,
        ndmin: int = 0,
        blocking: bool = False,
    ) -> Any:
        found = transfers.from_anything(self._world, obj, dtype, order, copy or None, blocking)
        return found.reshape((1,) * (ndmin - found.ndim) + found.shape) if found.ndim < ndmin else found

    def asarray(
        self, a: Any, dtype: Any = None, order: Any = None, copy: bool | None = None, blocking: bool = False
    ) -> Any:
        return transfers.from_anything(self._world, a, dtype, order, copy, blocking)

    asanyarray = asarray

    def ascontiguousarray(self, a: Any, dtype: Any = None) -> Any:
        return self._in_order("C", a, dtype)

    def asfortranarray(self, a: Any, dtype: Any = None) -> Any:
        return self._in_order("F", a, dtype)

    def _in_order(self, order: Any, a: Any, dtype: Any) -> Any:
        if not isinstance(a, self._world.array_type):
            return transfers.from_anything(self._world, a, dtype, order, None, False)
        result = a.astype(a.dtype if dtype is None else dtype, copy=False)
        # As NumPy's, these give one dimension at least.
        result = result if result.ndim else result.reshape(1)
        fits = result.flags.c_contiguous if order == "C" else result.flags.f_contiguous
        return result if fits else result.copy(order)

    def asnumpy(self, a: Any, stream: Any = None, order: Any = "C", out: Any = None, blocking: bool = True) -> Any:
        is_own = isinstance(a, self._world.array_type)
        return a.get(stream, order, out, blocking) if is_own else np.asarray(a, order=order)

    def copyto(self, dst: Any, src: Any, casting: str = "same_kind", where: Any = None) -> None:
        transfers.copy_to(self._world, dst, src, casting, where)

    def from_dlpack(self, array: Any, device: Any = None, copy: bool | None = None) -> Any:
        return transfers.from_dlpack(self._world, array, device, copy)

    # Arrays of nothing.

    def empty(self, shape: Any, dtype: Any = float, order: Any = "C") -> Any:
        return self._world.array_type(shape, dtype, order=order)

    def empty_like(
        self, prototype: Any, dtype: Any = None, order: Any = "K", subok: None = None, shape: Any = None
    ) -> Any:
        keeps_f = order in ("K", "A") and prototype.flags.f_contiguous and not prototype.flags.c_contiguous
        dims = prototype.shape if shape is None else shape
        kind = prototype.dtype if dtype is None else dtype
        return self._world.array_type(dims, kind, order="F" if keeps_f or order == "F" else "C")

    # Views, or copies where they must be.

    def astype(self, x: Any, dtype: Any, copy: bool = True) -> Any:
        return x.astype(dtype, copy=copy)

    def atleast_1d(self, *arys: Any) -> Any:
        return self._views(np.atleast_1d, arys)

    def atleast_2d(self, *arys: Any) -> Any:
        return self._views(np.atleast_2d, arys)

    def atleast_3d(self, *arys: Any) -> Any:
        return self._views(np.atleast_3d, arys)

    def _views(self, function: Any, arrays: tuple[Any, ...]) -> Any:
        results = [one.view_of(function) for one in arrays]
        return results[0] if len(results) == 1 else results

    def broadcast_arrays(self, *args: Any) -> Any:
        shape = np.broadcast_shapes(*[one.shape for one in args])
        return [one.view_of(lambda memory: np.broadcast_to(memory, shape)) for one in args]

    def imag(self, val: Any) -> Any:
        return val.imag

    def ravel(self, a: Any, order: Any = "C") -> Any:
        return a.ravel(order)

    def real(self, val: Any) -> Any:
        return val.real

    def reshape(self, a: Any, newshape: Any, order: Any = "C", copy: bool | None = None) -> Any:
        return a.reshape(newshape, order=order, copy=copy)

    # What waits for the device or doesn't, by what it is given.

    def repeat(self, a: Any, repeats: Any, axis: int | None = None) -> Any:
        refuse_host_arrays([a, repeats])
        run = launch_and_wait if isinstance(repeats, self._world.array_type) else launch
        return run(self._world, "repeat", np.repeat, [a, repeats], {"axis": axis})

    def where(self, condition: Any, x: Any = None, y: Any = None) -> Any:
        if (x is None) != (y is None):
            raise ValueError("Must provide both 'x' and 'y' or neither.")
        refuse_host_arrays([condition, x, y])
        if x is None:
            return launch_and_wait(self._world, "nonzero", np.nonzero, [condition], {})
        return launch(self._world, "where", np.where, [condition, x, y])
