"""Functions at the top level of a module, which is where other processes find them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from asyncgraph.ops.custom import op


@op
def doubled(value: Any) -> Any:
    return 2 * value


@op(spec=("float64[n]", "int64[]"), retry=2, timeout_s=1.5, pure=True, where="inline")
def described(value: Any) -> tuple[Any, int]:
    return value, len(value)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


@logged
@op
@logged
def wrapped(value: Any) -> Any:
    return value


def plain(value: Any) -> Any:
    return value


class Scaler:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, value: Any) -> Any:
        return self.factor * value

    def method(self, value: Any) -> Any:
        return self.factor + value
