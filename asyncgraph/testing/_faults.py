"""Ops that do what the script of their run says: take time, fail, raise what they should not, run something else.

One op for each way of being called. What a call does is in the script that its run's context holds, so that
many runs of one graph fare differently at the same time.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from .._exec.calls import check_cancelled
from .._graph.op import Retry
from ..errors import NodeCancelledError
from ..ops.custom import OpFunction, op

if TYPE_CHECKING:
    from .._session.session import Session

_MOST_DELAY_S: Final = 0.03
SIZE: Final = 4
"""Of all arrays."""
LIMIT_S: Final = 0.02
"""What a limited call may take: less than some do."""

FUNCTIONS: Final[dict[str, np.ufunc]] = {
    "abs": np.abs,
    "add": np.add,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negative": np.negative,
    "sin": np.sin,
    "subtract": np.subtract,
}
"""What nodes compute; the values of 20 of them after each other are still small."""


@final
class PlantedError(Exception):
    """An op failed because it was told to."""


@final
class PlantedExit(BaseException):
    """The same, past every `except Exception`."""


@final
@dataclass(frozen=True, slots=True)
class Fault:
    """What a call raises.

    Fields:
        kind: the exception.
        seen: what its run raises then.
        again: whether the call raises it again when it is tried again.
        shared: whether it is one object, which other runs raise too.
    """

    kind: type[BaseException]
    seen: type[BaseException]
    again: bool = True
    shared: bool = False


FAULTS: Final = (
    Fault(PlantedError, PlantedError),
    Fault(PlantedError, PlantedError, again=False),
    Fault(PlantedError, PlantedError, shared=True),
    Fault(PlantedExit, PlantedExit),
    Fault(asyncio.CancelledError, NodeCancelledError),
    Fault(StopIteration, RuntimeError),
)


@final
@dataclass(slots=True, eq=False)
class Script:
    """What happens in one run, and what has happened.

    Fields:
        random: draws how long things take.
        session: for ops that run something.
        shared: the exception that several runs raise.
        faults: the calls that fail, by node.
        calls: how often each node was called.
        running: the calls that have begun and not ended.
        made: the arrays that ops returned.
        over: whether the run has ended, or was told to, so that nothing may begin.
        late: calls that were made all the same.
    """

    random: Random
    session: Session
    shared: PlantedError
    faults: dict[int, Fault] = field(default_factory=dict[int, Fault])
    calls: Counter[int] = field(default_factory=Counter[int])
    running: set[int] = field(default_factory=set[int])
    made: list[weakref.ref[Any]] = field(default_factory=list[weakref.ref[Any]])
    over: bool = False
    late: list[int] = field(default_factory=list[int])

    @contextmanager
    def call(self, index: int) -> Generator[None]:
        """One call of a node's op."""
        if self.over:
            self.late.append(index)
        self.calls[index] += 1
        self.running.add(index)
        try:
            yield
        finally:
            self.running.discard(index)

    def result(self, index: int, function: str, values: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        """What a call returns, unless it fails."""
        fault = self.faults.get(index)
        if fault is not None and (fault.again or self.calls[index] == 1):
            raise self.shared if fault.shared else fault.kind()
        result = FUNCTIONS[function](*values)
        self.made.append(weakref.ref(result))
        return result

    def delay_s(self) -> float:
        """How long something takes."""
        return self.random.random() * _MOST_DELAY_S


current_script: Final[ContextVar[Script]] = ContextVar("script")


def _sync(index: int, function: str, *values: Any) -> Any:
    script = current_script.get()
    check_cancelled()  # The thread had it in hand when the run ended; whether it knows that is seen here.
    with script.call(index):
        return script.result(index, function, values)


async def _async(index: int, function: str, *values: Any) -> Any:
    script = current_script.get()
    with script.call(index):
        for _ in range(int(script.random.random() * 3)):
            await asyncio.sleep(script.delay_s())
        return script.result(index, function, values)


async def _stubborn(index: int, function: str, *values: Any) -> Any:
    script = current_script.get()
    with script.call(index):
        try:
            await asyncio.sleep(script.delay_s())
            return script.result(index, function, values)
        finally:
            await asyncio.sleep(script.delay_s())


async def _swallowing(index: int, function: str, *values: Any) -> Any:
    script = current_script.get()
    with script.call(index):
        try:
            await asyncio.sleep(script.delay_s())
        except asyncio.CancelledError:
            await asyncio.sleep(script.delay_s())
        return script.result(index, function, values)


def _deferred(index: int, function: str, *values: Any) -> Coroutine[Any, Any, Any]:
    return _async(index, function, *values)


async def _nested(index: int, function: str, *values: Any) -> Any:
    script = current_script.get()
    with script.call(index):
        inner = Script(script.random, script.session, script.shared)
        current_script.set(inner)
        result = (await script.session.run(f"nested_{function}", dict(zip(NESTED, values, strict=False)))).results
        if inner.running:
            script.late.append(index)
        return script.result(index, "maximum", (result, result))


NESTED: Final = ("left", "right")
"""The placeholders of what is run by ops: a graph has `nested_add` and so on, which compute a function of them."""

OPS: Final[dict[str, OpFunction]] = {
    "thread": op(name="thread")(_sync),
    "thread retried": op(name="thread_retried", retry=2)(_sync),
    "thread limited": op(name="thread_limited", timeout_s=LIMIT_S)(_sync),
    "thread abandoned": op(name="thread_abandoned", abandon_on_cancel=True)(_sync),
    "thread limited abandoned": op(name="hasty", timeout_s=LIMIT_S, abandon_on_cancel=True)(_sync),
    "thread deferred": op(name="thread_deferred", where="thread")(_deferred),
    "thread deferred abandoned": op(name="deferred_abandoned", abandon_on_cancel=True)(_deferred),
    "inline": op(name="inline", where="inline", spec=f"float64[{SIZE}]")(_sync),
    "inline deferred": op(name="inline_deferred", where="inline")(_deferred),
    "async": op(name="async", spec=f"float64[{SIZE}]")(_async),
    "async retried": op(name="async_retried", retry=Retry(2, backoff_s=0.01))(_async),
    "async limited": op(name="async_limited", timeout_s=LIMIT_S)(_async),
    "async stubborn": op(name="stubborn")(_stubborn),
    "async swallowing": op(name="swallowing")(_swallowing),
    "nested": op(name="nested")(_nested),
}
"""An op for each way of being called."""
