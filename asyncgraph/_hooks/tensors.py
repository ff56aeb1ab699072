"""What looks at values of runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from .._graph.node import Node
from .._session.args import RunArgs
from .._session.hook import Hook, RunContext
from ..errors import NanLossError
from .timer import Clock, Timer

if TYPE_CHECKING:
    from .._session.session import Session
    from .._session.values import RunValues

Tensors = Mapping[str, Node | str] | Iterable[Node | str]
"""Nodes, or names of nodes; in a mapping, by what they are to be called."""
_log: Final = logging.getLogger("asyncgraph")


def labelled(tensors: Tensors) -> dict[str, Node | str]:
    """Nodes by what they are called: by default their names."""
    if isinstance(tensors, Mapping):
        return dict(cast("Mapping[str, Node | str]", tensors))
    given = [tensors] if isinstance(tensors, (Node, str)) else tensors
    return {one.name if isinstance(one, Node) else one: one for one in given}


@final
class LoggingTensorHook(Hook):
    """Logs values of runs, now and then: in the first one, and then every so many runs, or seconds.

    The runs in between are asked for nothing. What the values need is to be fed in each run that is asked for them,
    or that run is an error.

    Args:
        tensors: what is logged.
        every_steps, every_s: how often; by default every 100 runs.
        at_end: whether also before the session closes; without feeds.
        text: makes what is logged of the values by their names; by default `a = 1.0, b = 2.0`.
        clock: gives seconds.

    Raises:
        ValueError: both `every_steps` and `every_s` are given, or one is not more than 0.
    """

    def __init__(
        self,
        tensors: Tensors,
        every_steps: int | None = None,
        *,
        every_s: float | None = None,
        at_end: bool = False,
        text: Callable[[dict[str, Any]], str] | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self._wanted: Final = RunArgs(labelled(tensors))
        self._timer: Final = Timer(every_steps, every_s, 100, clock)
        self._at_end: Final = at_end
        self._text: Final = text or _plain_text
        self._runs = 0

    def before_run(self, context: RunContext) -> RunArgs[dict[str, Any]] | None:
        """As `Hook.before_run`."""
        self._runs += 1
        if not self._timer.is_due(self._runs):
            return None
        self._timer.mark(self._runs)
        return self._wanted

    def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`."""
        if values.results is not None:
            _log.info("%s", self._text(values.results))

    async def end(self, session: Session) -> None:
        """As `Hook.end`."""
        if self._at_end:
            _log.info("%s", self._text((await session.run(self._wanted)).results))


def _plain_text(values: dict[str, Any]) -> str:
    return ", ".join([f"{name} = {value}" for name, value in values.items()])


@final
class NanTensorHook(Hook):
    """Ends training if a loss is not a number any more.

    What the run has assigned is committed by then.

    Args:
        loss: what is watched: a node of floating-point numbers, or the name of one.
        fail: whether the run raises `NanLossError`; otherwise the session is asked to stop.
    """

    def __init__(self, loss: Node | str, *, fail: bool = True) -> None:
        self._loss: Final = loss
        self._wanted: Final = RunArgs(loss)
        self._fail: Final = fail

    def before_run(self, context: RunContext) -> RunArgs[Any]:
        """As `Hook.before_run`."""
        return self._wanted

    def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`.

        Raises:
            NanLossError: the loss is not a number.
        """
        if not np.isnan(values.results).any():
            return
        name = self._loss.name if isinstance(self._loss, Node) else self._loss
        if self._fail:
            raise NanLossError(f"the loss {name!r} is {values.results}")
        _log.error("the loss %r is %s: the session is asked to stop", name, values.results)
        context.request_stop()
