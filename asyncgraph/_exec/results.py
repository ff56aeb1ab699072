"""Values leave a run: as arrays of the host, under the rules of ownership (`_plan.ownership`).

A fetched value of rank 0 is an array, as any other, although NumPy's own functions give scalars then;
only what a user op returned stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import numpy as np

from .._plan.ownership import Fetched, Owner

Frame = list[Any]
_Array = np.ndarray[Any, Any]

_ARRAY: Final[Any] = np.ndarray
_SCALAR: Final[Any] = np.generic
_SMALL: Final = 4
"""A view this many times smaller than what it keeps alive is copied."""


def deliver(fetches: Iterable[Fetched], frame: Frame) -> list[Any]:
    """The values of fetches, as their caller may have them; what stays on a device as it is."""
    values: list[Any] = []
    for one in fetches:
        value = frame[one.slot]
        if not one.plain or not (type(value) is _ARRAY or value is None):
            if one.plain and isinstance(value, _SCALAR):  # as reductions to rank 0 give
                value = np.asarray(value)
            elif one.home is None:
                value = _DELIVER[one.owner](value, one, frame)
        values.append(value)
    return values


def another(value: Any) -> Any:
    """A delivered value for a second place: a copy, if the caller may write to it."""
    if isinstance(value, np.ndarray):
        array = cast("_Array", value)
        return array.copy(order="K") if array.flags.writeable else array
    return value


def _callers(value: Any, fetched: Fetched, frame: Frame) -> Any:
    if isinstance(value, np.ndarray):
        # Some kernels give read-only arrays, as np.imag does for real ones; and so may a transfer.
        return cast("_Array", value) if value.flags.writeable else _copied(value, fetched, frame)
    return _copied(value, fetched, frame)


def _users(value: Any, fetched: Fetched, frame: Frame) -> Any:
    return value


def _read_only(value: Any, fetched: Fetched, frame: Frame) -> Any:
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    view = cast("_Array", value).view() if isinstance(value, np.ndarray) else _copied(value, fetched, frame)
    view.flags.writeable = False
    return view


def _copied(value: Any, fetched: Fetched, frame: Frame) -> Any:
    return np.array(cast("_Array", value)) if isinstance(value, (np.ndarray, np.generic)) else value


def _borrowed(value: Any, fetched: Fetched, frame: Frame) -> Any:
    lent = _is_lent(value, fetched, frame)
    return _read_only(value, fetched, frame) if lent else _view(value, fetched, frame)


def _lent(value: Any, fetched: Fetched, frame: Frame) -> Any:
    lent = _is_lent(value, fetched, frame)
    return _read_only(value, fetched, frame) if lent else _copied(value, fetched, frame)


def _view(value: Any, fetched: Fetched, frame: Frame) -> Any:
    if isinstance(value, np.ndarray) and is_wasteful(cast("_Array", value)):
        return _copied(value, fetched, frame)
    return _callers(value, fetched, frame)


def _is_lent(value: Any, fetched: Fetched, frame: Frame) -> bool:
    """Whether it shows memory of a feed or a constant, and is not copied for being wasteful."""
    if not isinstance(value, np.ndarray) or is_wasteful(cast("_Array", value)):
        return False
    return any(_may_share(cast("_Array", value), frame[slot]) for slot in fetched.lenders)


def _may_share(value: _Array, lender: Any) -> bool:
    if isinstance(lender, np.ndarray):
        return np.may_share_memory(value, cast("_Array", lender))
    # Numbers have no memory to share. Any other object, such as a fed buffer, may have.
    return not isinstance(lender, (np.generic, int, float, complex))


def is_wasteful(view: _Array) -> bool:
    """Whether a view keeps much more memory alive than it shows, or shows one element several times."""
    base = view.base
    if isinstance(base, np.ndarray):
        kept = cast("_Array", base).nbytes
        if kept > 1024 and kept >= _SMALL * max(view.nbytes, 1):
            return True
    return any(size > 1 and not stride for size, stride in zip(view.shape, view.strides, strict=True))


_DELIVER: Final[dict[Owner, Callable[[Any, Fetched, Frame], Any]]] = {
    Owner.CALLER: _callers,
    Owner.USER: _users,
    Owner.FEED: _read_only,
    Owner.CONSTANT: _read_only,
    Owner.FOLDED: _copied,
    Owner.BORROWED: _borrowed,
    Owner.LENT: _lent,
    Owner.VIEW: _view,
    Owner.SHARED: _copied,
}
