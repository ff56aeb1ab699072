"""Kernels that run plans: one branch of two, a body again and again, or what is delayed once it is needed.

Where all that they run are kernels of the host that need no scheduler, they are kernels like others: they run on the
thread that computes their segment. Otherwise they are awaited, and each of their plans is a run of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from math import inf
from operator import itemgetter
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from .._graph.node import Node
from ..errors import SpecError, SpecTypeError
from .estimate import NOTHING, Estimate

if TYPE_CHECKING:
    from asyncio import Future

    from .plan import Plan

is_stopped: Final[ContextVar[Callable[[], bool] | None]] = ContextVar("asyncgraph is stopped", default=None)
"""Whether the run is over for which a loop runs. Set by who computes a plan with loops."""

UNKNOWN: Final = Estimate(float("inf"), 0.0)
"""The work of a loop: it is never done on an event loop."""

_Key = tuple[int, ...]
"""What random numbers are drawn from."""

_SLICE_S: Final = 1e-3
"""Seconds after which a loop lets other threads have the interpreter: the event loop's is likely to wait for it."""


@final
class Stopped(BaseException):  # no error: nobody sees it
    """A kernel of control flow ends since its run is over, or about to be."""


@final
class Body:
    """A plan that is run for a node of control flow.

    Fields:
        plan: what is run; its feeds are the values it is given.
        slots: where the values that it gives are in a frame after a run.
    """

    __slots__ = ("_pick", "_rest", "plan", "slots")

    def __init__(self, plan: Plan, results: Sequence[int]) -> None:
        """`results` says which of the plan's fetches it gives."""
        self.plan: Final = plan
        self.slots: Final = tuple([plan.fetches[index].slot for index in results])
        self._rest: Final = tuple(plan.frame([]))
        self._pick: Final[Callable[[Sequence[Any]], tuple[Any, ...]]] = _picker(self.slots)

    def compute(self, given: Sequence[Any], key: _Key | None) -> tuple[Any, ...]:
        """What it gives, if the plan needs no scheduler."""
        plan = self.plan
        frame = [*given, *self._rest] if key is None or not plan.draws else [*given, key, *self._rest]
        if plan.cold:
            plan.count_run()
        for chunk in plan.inline_chunks:
            chunk.run(frame)
        return self._pick(frame)

    def frame(self, given: Sequence[Any], key: _Key | None) -> list[Any]:
        """A frame for one run: what it is given, and what its random numbers are drawn from, if it draws any."""
        return self.plan.frame([*given, key] if self.plan.draws else list(given))


def _picker(slots: tuple[int, ...]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Takes the values of slots out of a frame."""
    if not slots:
        return lambda frame: ()
    if len(slots) == 1:
        (slot,) = slots
        return lambda frame: (frame[slot],)
    return cast("Callable[[Sequence[Any]], tuple[Any, ...]]", itemgetter(*slots))


@final
class Conditional:
    """Runs one of two bodies.

    A kernel: takes the condition, what both bodies are given, and the key of random numbers, if one of them draws;
    gives a tuple of values.

    Fields:
        node: whose values it computes.
        bodies: what is run if the condition holds, and if not.
        draws: whether one of them draws random numbers.
    """

    __slots__ = ("bodies", "draws", "node")
    names: Final = ("true", "false")

    def __init__(self, node: Node, bodies: tuple[Body, Body]) -> None:
        self.node: Final = node
        self.bodies: Final = bodies
        self.draws: Final = any(one.plan.draws for one in bodies)

    def __call__(self, pred: Any, *operands: Any) -> tuple[Any, ...]:
        if self.draws:
            given, key = split_key(operands, True)
            return self.chosen(pred).compute(given, key)
        # As nearly all are, and so run in loops: without a call that is not needed.
        body = (self.bodies[0] if pred else self.bodies[1]) if pred.__class__ is _Bool else self.chosen(pred)
        return body.compute(operands, None)

    def chosen(self, pred: Any) -> Body:
        """The body to run.

        Raises:
            SpecError, SpecTypeError: the condition is not one boolean.
        """
        return self.bodies[0] if truth(pred, self.node) else self.bodies[1]

    @property
    def work(self) -> Estimate:
        """What the dearer body costs."""
        one, other = [body.plan.work for body in self.bodies]
        return Estimate(max(one.fixed_s, other.fixed_s), max(one.per_element_s, other.per_element_s))


@final
class Iteration:
    """Runs a body while a condition holds.

    A kernel: takes the first values, what both bodies are given besides, and the key of random numbers, if one of them
    draws; gives a tuple of values.

    Fields:
        node: whose values it computes.
        bodies: the condition, and the body.
        count: how many values there are.
        most: how many iterations at most; `None` for any number.
        draws: whether one of the bodies draws random numbers.
        work: never known.
    """

    __slots__ = ("bodies", "count", "draws", "most", "node")
    names: Final = ("condition", "body")
    work: Final = UNKNOWN

    def __init__(self, node: Node, bodies: tuple[Body, Body], count: int, most: int | None) -> None:
        self.node: Final = node
        self.bodies: Final = bodies
        self.count: Final = count
        self.most: Final = most
        self.draws: Final = any(one.plan.draws for one in bodies)

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        condition, body = self.bodies
        check = is_stopped.get()
        given, key = split_key(operands, self.draws)
        values, captured = given[: self.count], given[self.count :]
        keys: tuple[_Key | None, _Key | None] = (None, None)
        most = inf if self.most is None else self.most
        until = perf_counter() + _SLICE_S
        iteration = 0
        while iteration < most:
            if key is not None:
                keys = keys_of(key, iteration)
            given = values + captured if captured else values
            (held,) = condition.compute(given, keys[0])
            if not (held if held.__class__ is _Bool else truth(held, self.node)):
                break
            values = body.compute(given, keys[1])
            iteration += 1
            if perf_counter() > until:
                if check is not None and check():
                    raise Stopped
                time.sleep(0)
                until = perf_counter() + _SLICE_S
        return values

    def goes_on(self, iteration: int) -> bool:
        """Whether there may be another one."""
        return self.most is None or iteration < self.most


@final
class Delay:
    """Makes delayed values.

    A kernel: takes what its body is given, and the key of random numbers, if that draws; gives a `Delayed`.

    Fields:
        node: what stands for them.
        bodies: the one that computes them.
        draws: whether it draws random numbers.
        work: of delaying them: none.
    """

    __slots__ = ("bodies", "draws", "node")
    names: Final = ("delayed",)
    work: Final = NOTHING

    def __init__(self, node: Node, bodies: tuple[Body]) -> None:
        self.node: Final = node
        self.bodies: Final = bodies
        self.draws: Final = bodies[0].plan.draws

    def __call__(self, *operands: Any) -> Delayed:
        given, key = split_key(operands, self.draws)
        return Delayed(self.bodies[0], given, key)


@final
class Delayed:
    """Values that are computed once, when the first of them is needed; of one run.

    Fields:
        body: computes them.
        given, key: of what, until it has begun.
        begun: whether somebody has. Set under the lock, or on the event loop.
        values: they, once they are known.
        known: whether they are.
        future: of an event loop, for those who wait while somebody computes them; made for the first who does.
    """

    __slots__ = ("begun", "body", "future", "given", "key", "known", "lock", "values")

    def __init__(self, body: Body, given: tuple[Any, ...], key: _Key | None) -> None:
        self.body: Final = body
        self.given = given
        self.key: Final = key
        self.begun = False
        self.values: tuple[Any, ...] = ()
        self.known = False
        self.future: Future[None] | None = None
        self.lock: Final = Lock()

    def now(self) -> tuple[Any, ...]:
        """The values, if no scheduler is needed for them. Blocks while another thread computes them.

        Raises:
            Stopped: who computed them has failed, and with it the run.
        """
        if self.known:
            return self.values
        with self.lock:
            if not self.known:
                self.know(self.body.compute(self.begin(), self.key))
        return self.values

    def begin(self) -> tuple[Any, ...]:
        """What they are computed of, for who asks first.

        Raises:
            Stopped: another has asked, and has failed.
        """
        if self.begun:
            raise Stopped
        self.begun = True
        given, self.given = self.given, ()
        return given

    def know(self, values: tuple[Any, ...]) -> None:
        """They have been computed."""
        self.values = values
        self.known = True


@final
class Force:
    """Gives delayed values.

    A kernel: takes a `Delayed`, and gives a tuple.

    Fields:
        node: what stands for them where they are needed.
        bodies: the one that computes them.
        draws: never; what they draw from was fixed when they were delayed.
    """

    __slots__ = ("bodies", "node")
    names: Final = ("forced",)
    draws: Final = False

    def __init__(self, node: Node, bodies: tuple[Body]) -> None:
        self.node: Final = node
        self.bodies: Final = bodies

    def __call__(self, delayed: Delayed) -> tuple[Any, ...]:
        return delayed.now()

    @property
    def work(self) -> Estimate:
        """What computing them costs."""
        return self.bodies[0].plan.work


Control = Conditional | Iteration | Delay | Force


NO_CONTROLS: Final[Mapping[Node, Control]] = {}


def is_kernel(control: Control) -> bool:
    """Whether all that it runs are kernels of the host, which need no scheduler."""
    return isinstance(control, Delay) or all(one.plan.single for one in control.bodies)


def split_key(operands: tuple[Any, ...], draws: bool) -> tuple[tuple[Any, ...], _Key | None]:
    """What a kernel of control flow takes, without the key of random numbers; and that."""
    return (operands[:-1], operands[-1]) if draws else (operands, None)


def keys_of(key: _Key | None, iteration: int) -> tuple[_Key | None, _Key | None]:
    """What the condition and the body of an iteration draw their random numbers from: of each something else."""
    return (None, None) if key is None else ((*key, iteration, 0), (*key, iteration, 1))


_Bool: Final = np.bool_


def truth(value: Any, node: Node) -> bool:
    """Whether a condition holds.

    Raises:
        SpecError, SpecTypeError: it is not one boolean.
    """
    if value.__class__ is _Bool or value.__class__ is bool:  # as nearly all are
        return bool(value)
    dtype, shape = getattr(value, "dtype", None), tuple(getattr(value, "shape", ()))
    if dtype != np.dtype(bool):
        raise SpecTypeError(
            f"the condition of {node.name!r} is no boolean, but of type {dtype or type(value).__name__}"
        )
    if shape != ():
        raise SpecError(f"the condition of {node.name!r} has the shape {shape}: it is not one boolean")
    return bool(value)
