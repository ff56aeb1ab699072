"""Values leave a run: as arrays of the host, under the rules of ownership (`_plan.ownership`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .._plan.ownership import Fetched, Owner

Frame = list[Any]

_SMALL: Final = 4
"""A view this many times smaller than what it keeps alive is copied."""


def deliver(fetched: Fetched, frame: Frame, on_host: bool) -> Any:
    """The value of one fetch, as its caller may have it.

    `on_host` false leaves it on its device, in its backend's own arrays.
    """
    value = frame[fetched.slot]
    if fetched.plain and value.__class__ is np.ndarray:
        return value
    if fetched.home is not None:
        if not on_host:
            return value
        value = fetched.home.backend.to_host(value)
        if not value.flags.writeable and fetched.owner is Owner.CALLER:
            value = value.copy()
    return _DELIVER[fetched.owner](value, fetched, frame)


def _callers(value: Any, fetched: Fetched, frame: Frame) -> Any:
    # NumPy's ufuncs give scalars for operands of rank 0; what is fetched is an array, whatever its rank.
    return np.asarray(value) if isinstance(value, np.generic) else value


def _users(value: Any, fetched: Fetched, frame: Frame) -> Any:
    return value


def _read_only(value: Any, fetched: Fetched, frame: Frame) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _copied(value: Any, fetched: Fetched, frame: Frame) -> Any:
    return np.array(value) if isinstance(value, (np.ndarray, np.generic)) else value


def _borrowed(value: Any, fetched: Fetched, frame: Frame) -> Any:
    if not isinstance(value, np.ndarray) or value.base is None:
        return _callers(value, fetched, frame)
    if _is_wasteful(value):
        return value.copy()
    for lender in fetched.lenders:
        lent = frame[lender]
        if not isinstance(lent, np.ndarray) or np.may_share_memory(value, lent):
            return _read_only(value, fetched, frame)
    return value


def _view(value: Any, fetched: Fetched, frame: Frame) -> Any:
    if isinstance(value, np.ndarray) and value.base is not None and (_is_wasteful(value) or not value.flags.writeable):
        return value.copy()
    return _callers(value, fetched, frame)


def _is_wasteful(view: np.ndarray[Any, Any]) -> bool:
    """Whether a view keeps much more memory alive than it shows, or shows one element several times."""
    base = view.base
    if isinstance(base, np.ndarray) and base.nbytes >= _SMALL * max(view.nbytes, 1) and base.nbytes > 1024:
        return True
    return any(size > 1 and not stride for size, stride in zip(view.shape, view.strides, strict=True))


_DELIVER: Final[dict[Owner, Callable[[Any, Fetched, Frame], Any]]] = {
    Owner.CALLER: _callers,
    Owner.USER: _users,
    Owner.FEED: _read_only,
    Owner.CONSTANT: _read_only,
    Owner.FOLDED: _copied,
    Owner.BORROWED: _borrowed,
    Owner.VIEW: _view,
    Owner.SHARED: _copied,
}
