"""Where NumPy's function is not the Array API standard's: what stands in for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any, Final

import numpy as np

from asyncgraph.abc import Kernel

from ._updates import UPDATES


def _imag(x: Any) -> Any:
    return np.asarray(x.imag)


def _real(x: Any) -> Any:
    return np.asarray(x.real)


def _reduce(ufunc: np.ufunc, **always: object) -> Callable[[Mapping[str, object]], Kernel]:
    # What np.sum and its like call in the end, after 2 to 3 µs of Python.
    return lambda params: partial(ufunc.reduce, **{"axis": None, **always, **params})


KERNELS: Final[dict[str, Callable[[Mapping[str, object]], Kernel]]] = {
    "all": _reduce(np.logical_and, dtype=np.bool_),
    "any": _reduce(np.logical_or, dtype=np.bool_),
    # np.astype takes no NumPy scalars, which ufuncs make where arrays have rank 0.
    "astype": lambda params: methodcaller("astype", params["dtype"], copy=params["copy"]),
    # np.imag and np.real make Python numbers of Python numbers, which would promote as such.
    "imag": lambda params: _imag,
    # Written in C, where a lambda would cost as much as the indexing.
    "index": lambda params: itemgetter(params["key"]),
    "max": _reduce(np.maximum),
    "min": _reduce(np.minimum),
    "prod": _reduce(np.multiply),
    "real": lambda params: _real,
    "sum": _reduce(np.add),
    **UPDATES,
}
"""Makes the kernel of an op from its params."""
