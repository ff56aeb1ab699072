"""What the passes map: the nodes to compute, in order, and what became of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final, TypeVar, final

from .._graph.node import Node
from .._graph.variable import Variable
from ..abc import Backend, Device
from .state import NO_STATE, State

T = TypeVar("T")
Checkpoint = Callable[[], None]
"""Called now and then by passes over long programs; raises when nobody waits for the plan any more."""

CHECK_EVERY: Final = 1024
"""Nodes between two calls of the checkpoint: about a millisecond."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where a node runs: a device, and the backend that has it. One object for each device of a session."""

    backend: Backend
    device: Device

    @property
    def on_host(self) -> bool:
        """Whether its values are the host's own arrays, so that nothing is transferred."""
        return self.backend.capabilities.host_arrays

    @property
    def is_asynchronous(self) -> bool:
        """Whether its kernels and transfers are submitted, and done some time later."""
        return self.backend.capabilities.asynchronous

    def reaches(self, other: Placement) -> bool:
        """Whether its arrays are moved to another device without a stop on the host."""
        return self.backend is other.backend and self.backend.capabilities.between_devices

    def now(self, work: Callable[[], T]) -> T:
        """What `work` gives, which calls kernels or transfers, once the device has done it.

        Blocks for an asynchronous device; an interrupt of the thread is raised when the device is done.

        Raises:
            BaseException: what `work` raised, or the device.
        """
        if not self.is_asynchronous:
            return work()
        over, context = Event(), copy_context()
        results: list[T] = []
        errors: list[BaseException] = []

        def call() -> None:
            results[:] = [context.run(work)]

        def done(error: BaseException | None) -> None:
            if error is not None:
                errors.append(error)
            over.set()

        self.backend.submit(self.device, call, done)
        while not over.is_set():
            try:
                over.wait()
            except BaseException as error:  # KeyboardInterrupt: the device goes on with what `work` holds.
                errors.append(error)
        if errors:
            try:
                raise errors[0]
            finally:
                errors.clear()  # Its traceback holds this frame.
        return results[0]

    def __str__(self) -> str:
        return f"{self.device} ({self.backend.name})"


@final
@dataclass(frozen=True, slots=True)
class Program:
    """The nodes of a run, without values.

    Fields:
        fetches: the nodes whose values are wanted, each once.
        feeds: the nodes whose values are given, each once.
        nodes: what is to be computed, inputs first, and depth first: what was computed last is used
            next, so that few values live at once.
        pruned: how many nodes of the graph are not needed.
        state: what they have to do with variables.
        bodies: for each node of control flow, what it runs.
        homes: where the values of variables are kept.
        placements: where each of `nodes` runs, but user ops of the host and what has no kernel; and where feeds are
            that are arrays of a device.
        same: for nodes whose value is that of another: that one. None of these is among the keys.
        folded: for nodes whose value is known: the value.
    """

    fetches: tuple[Node, ...]
    feeds: tuple[Node, ...]
    nodes: tuple[Node, ...]
    pruned: int = 0
    state: State = NO_STATE
    bodies: Mapping[Node, Bodies] = field(default_factory=dict[Node, "Bodies"])
    homes: Mapping[Variable, Placement] = field(default_factory=dict[Variable, Placement])
    placements: Mapping[Node, Placement] = field(default_factory=dict[Node, Placement])
    same: Mapping[Node, Node] = field(default_factory=dict[Node, Node])
    folded: Mapping[Node, Any] = field(default_factory=dict[Node, Any])

    def levels(self) -> Iterator[Program]:
        """It, and what its nodes of control flow run."""
        yield self
        for bodies in self.bodies.values():
            for one in bodies.programs:
                yield from one.levels()


@final
@dataclass(frozen=True, slots=True)
class Bodies:
    """What one node of control flow runs.

    Fields:
        programs: of "cond" those of its branches; of "while_loop" the condition and the body.
        results: for each of them, the nodes whose values it gives; a node may stand there twice.
        takes: nodes whose values it is given, of the program that it stands in: the condition of a "cond", or the first
            values of a loop; and then what is captured, each once.
    """

    programs: tuple[Program, ...]
    results: tuple[tuple[Node, ...], ...]
    takes: tuple[Node, ...]
