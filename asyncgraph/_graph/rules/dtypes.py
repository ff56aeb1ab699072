"""Dtypes of ops that NumPy cannot be asked about with the operands alone, as `probe` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import SpecOverflowError, SpecTypeError
from ..spec import ArraySpec, DType

if TYPE_CHECKING:
    from ..node import Scalar


def dtype_of(operand: ArraySpec | Scalar) -> DType | None:
    """The dtype of an operand, or `None` if it is unknown; a Python number has that of the array made of it.

    Raises:
        SpecOverflowError: the number fits no dtype.
    """
    if isinstance(operand, ArraySpec):
        return operand.dtype
    dtype = np.asarray(operand).dtype
    if dtype.hasobject:
        raise SpecOverflowError("the number fits no dtype")
    return dtype


def empty(operand: ArraySpec | Scalar) -> object:
    """An array without elements of the operand's dtype. A Python number stands for itself."""
    return np.empty(0, operand.dtype) if isinstance(operand, ArraySpec) else operand


def asked(function: Callable[..., Any], *arguments: object, **options: object) -> DType:
    """The dtype of what a NumPy function returns.

    Raises:
        SpecTypeError: it does not take these dtypes.
        SpecOverflowError: a Python number is out of range for them.
    """
    try:
        with np.errstate(all="ignore"):
            return np.asarray(function(*arguments, **options)).dtype
    except TypeError as error:
        raise SpecTypeError(str(error)) from error
    except OverflowError as error:
        raise SpecOverflowError(str(error)) from error
