"""The dtypes that CuPy's ufuncs choose, which takes no GPU, beside those that NumPy's choose."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np

from asyncgraph.testing._kit.cases import DTYPES

from .kernel_calls import quiet

NUMBERS = (True, 1, 1.0, 1j)
_KINDS = {bool: 0, int: 1, float: 2, complex: 2, "b": 0, "i": 1, "u": 1, "f": 2, "c": 2}
_STRONG = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def loops(cupy: Any, name: str) -> dict[tuple[str, str], int]:
    """Over all dtypes and kinds of Python numbers: NumPy's dtype and CuPy's where they differ, and how often."""
    ufunc, function = getattr(cupy, name), getattr(np, name)
    choices = [*map(np.dtype, DTYPES), *NUMBERS]
    with quiet():
        pairs = Counter((_numpy(function, one), _cupy(ufunc, one)) for one in product(choices, repeat=ufunc.nin))
    return {pair: count for pair, count in pairs.items() if pair[0] != pair[1]}


def _numpy(function: Any, operands: tuple[Any, ...]) -> str:
    try:
        return np.asarray(function(*[_array(one) for one in operands])).dtype.name
    except TypeError:
        return "TypeError"


def _array(operand: Any) -> Any:
    return np.ones(1, operand) if isinstance(operand, np.dtype) else operand


def _cupy(ufunc: Any, operands: tuple[Any, ...]) -> str:
    # As its `guess_routine` does, which takes no dtypes but arrays.
    weak = tuple([type(one) if type(one) in (int, float, complex) else False for one in operands])
    dtypes = tuple([one if isinstance(one, np.dtype) else np.dtype(_STRONG[type(one)]) for one in operands])
    arrays = [_KINDS[dtype.kind] for dtype, one in zip(dtypes, weak, strict=True) if not one]
    numbers = [_KINDS[one] for one in weak if one]
    if not (arrays and numbers and max(arrays) >= max(numbers)):
        weak = (False,) * len(operands)
    loop = ufunc._ops._guess_routine_from_in_types(dtypes, weak)
    return "TypeError" if loop is None or loop.error_func else np.dtype(loop.out_types[0]).name
