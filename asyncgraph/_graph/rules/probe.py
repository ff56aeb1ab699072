"""NumPy's own answer to what dtype an op's result has, and its refusals in the words of specs.

NumPy's function is called once for each combination of dtypes and kinds of number, on arrays without
elements. Nothing is computed, so nothing can warn but the conversion of a Python number, which is a
floating-point warning: `np.errstate` holds it back, in this context only. `warnings.catch_warnings`
would change the filters of every thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...errors import GraphError, SpecError, SpecOverflowError, SpecTypeError
from ..op import NO_PARAMS
from ..spec import ArraySpec, DType

if TYPE_CHECKING:
    from ..node import Scalar
    from ..op import Params

# Cleared when full: a program that counts through the integers would fill it otherwise.
_LIMIT: Final = 4096
_dtypes: dict[tuple[object, ...], DType | None] = {}
_MISSING: Final[Any] = object()

_REFUSALS: Final[tuple[tuple[type[Exception], type[GraphError], str], ...]] = (
    (OverflowError, SpecOverflowError, "give a number that fits, or convert the array first: ops.astype(x, 'int64')"),
    (TypeError, SpecTypeError, ""),
    (ValueError, SpecError, ""),
)


def result_dtype(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params = NO_PARAMS) -> DType | None:
    """The dtype NumPy's function `op` gives for such operands; `None` if one of theirs is unknown.

    Remembered by the dtypes of arrays and the kinds of Python numbers, so `params` must hash.

    Raises:
        SpecTypeError, SpecOverflowError, SpecError: NumPy raises TypeError, OverflowError or ValueError.
    """
    key: tuple[object, ...] = (op, *[one.dtype if type(one) is ArraySpec else _kind(one) for one in operands])
    if params is not NO_PARAMS:
        key += tuple(params.items())
    dtype = _dtypes.get(key, _MISSING)
    if dtype is _MISSING:
        dtype = _probe(op, operands, params)
        if len(_dtypes) >= _LIMIT:
            _dtypes.clear()
        _dtypes[key] = dtype
    return dtype


def ask(
    op: str, operands: tuple[ArraySpec | Scalar, ...], question: Callable[..., Any], *args: object, **kwargs: object
) -> Any:
    """What `question(*args, **kwargs)` gives, on behalf of `op`, with NumPy's exceptions as this package's.

    Raises:
        SpecTypeError, SpecOverflowError, SpecError: it raises TypeError, OverflowError or ValueError.
    """
    try:
        with np.errstate(all="ignore"):
            return question(*args, **kwargs)
    except (TypeError, OverflowError, ValueError) as error:
        raise refusal(op, operands, error) from error


def refusal(op: str, operands: tuple[ArraySpec | Scalar, ...], error: Exception) -> GraphError:
    """The error to raise when `op` can never take these operands, because of `error`, NumPy's or a rule's own."""
    made, hint = next((made, hint) for kind, made, hint in _REFUSALS if isinstance(error, kind))
    text = f"{op} cannot take {', '.join(map(_shown, operands)) or 'these parameters'}\n  {error}"
    return made(f"{text}\n  {hint}" if hint else text)


def _kind(number: Scalar) -> object:
    # Every integer dtype holds 0 to 127. Others fit some only, so that their value decides.
    if isinstance(number, int) and not 0 <= number <= 127:
        return number.__class__, number
    return number.__class__


def _shown(operand: ArraySpec | Scalar) -> str:
    # Python refuses to print integers of more than 4300 digits, and nobody reads one of 50.
    if isinstance(operand, int) and operand.bit_length() > 160:
        return f"{'-' * (operand < 0)}<int of {operand.bit_length()} bits>"
    return repr(operand)


def _probe(op: str, operands: tuple[ArraySpec | Scalar, ...], params: Params) -> DType | None:
    probes: list[object] = []
    for one in operands:
        if not isinstance(one, ArraySpec):
            probes.append(one)
        elif one.dtype is None:
            return None
        else:
            probes.append(np.empty(0, one.dtype))
    # Of Python numbers alone, some functions make a Python number.
    dtype = np.asarray(ask(op, operands, vars(np)[op], *probes, **params)).dtype
    if dtype.hasobject:
        raise refusal(op, operands, OverflowError("no integer dtype holds such a Python integer"))
    return dtype
