"""Values get slots, ops their kernels, and devices their transfers.

A run keeps its values in a frame: a list with a slot for each. The plan's template of it holds what is
the same in every run: Python numbers and folded values. A value that is needed on several devices has a
slot for each; it is moved once, by an instruction of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Final, cast, final

import numpy as np

from .._graph.exchange import FedArray, dlpack_device
from .._graph.node import Node, Scalar
from .._graph.spec import ANY
from .._graph.variable import Variable, assigned_by
from ..errors import KernelNotFoundError
from .control import NO_CONTROLS, Control, is_kernel
from .estimate import NOTHING, Estimate, Estimates
from .host_kernels import HOST_KERNELS
from .keys import exact_key
from .program import CHECK_EVERY, Checkpoint, Placement, Program
from .random_kernels import RANDOM_KERNELS


class Kind(Enum):
    """How an instruction is carried out."""

    KERNEL = "computed"
    THREAD = "called in a thread"
    INLINE = "called on the loop"
    ASYNC = "awaited on the loop"


@final
class Instruction:
    """One thing to do. Never changed; not a frozen dataclass, which takes four times as long to make.

    Fields:
        node: what it computes; for a transfer, the node whose value is moved.
        kind: how it is carried out.
        kernel: what computes it from the values of `operands`; `None` for a user's function.
        operands: the slots it reads.
        out: the slot it fills.
        where: the device it runs on, of a transfer the one that is not the host; `None` for the host, without a
            backend.
        after: instructions, by index, that are done first although it reads nothing of theirs.
        work: what it costs, without the cost of calling it.
        moves_to: of a transfer, the name of the device that the value is moved to, or "host"; otherwise `None`.
            What is fed on a device comes from there by a transfer, too, which makes it the backend's own array.
    """

    __slots__ = ("after", "kernel", "kind", "moves_to", "node", "operands", "out", "where", "work")

    def __init__(
        self,
        node: Node,
        kind: Kind,
        kernel: Callable[..., Any] | None,
        operands: tuple[int, ...],
        out: int,
        where: Placement | None,
        after: tuple[int, ...],
        work: Estimate,
        moves_to: str | None = None,
    ) -> None:
        self.node: Final = node
        self.kind: Final = kind
        self.kernel: Final = kernel
        self.operands: Final = operands
        self.out: Final = out
        self.where: Final = where
        self.after: Final = after
        self.work: Final = work
        self.moves_to: Final = moves_to


@final
@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A program with slots.

    Fields:
        instructions: in the program's order, transfers before what needs them.
        template: a frame before a run: numbers and folded values in their slots, `None` elsewhere.
        feeds: the slots of the program's feeds, in their order: the first.
        variables: those whose value a run is given, in the order of their slots, which come next.
        fetches: the slots of the program's fetches, in their order, where they are wanted.
        homes: the device where each of them is, `None` for the host.
        assigned: for each variable that is assigned or initialized, the slot of its new value, on its device.
        kept: of the folded values, the slots of those that calls have kept.
        draws: whether it draws random numbers. Then the slot after the variables' is given the key for them.
    """

    instructions: tuple[Instruction, ...]
    template: list[Any]
    feeds: tuple[int, ...]
    variables: tuple[Variable, ...]
    fetches: tuple[int, ...]
    homes: tuple[Placement | None, ...]
    assigned: tuple[tuple[Variable, int], ...]
    kept: frozenset[int]
    draws: bool = False

    @property
    def given(self) -> int:
        """How many slots are filled before a run: by feeds, variables, and the key of random numbers."""
        return len(self.feeds) + len(self.variables) + self.draws


def lower(
    program: Program,
    checkpoint: Checkpoint,
    on_host: bool = True,
    controls: Mapping[Node, Control] = NO_CONTROLS,
) -> Lowered:
    """The instructions of a program, whose fetches are wanted on the host, or where they are computed.

    `controls` are the kernels of its nodes of control flow.

    Raises:
        KernelNotFoundError: a backend has no kernel for a node that was placed on it.
    """
    lowering = _Lowering(program, checkpoint, controls)
    for count, node in enumerate(program.nodes, 1):
        if not count % CHECK_EVERY:
            checkpoint()
        lowering.add(node)
    fetches = [program.same.get(node, node) for node in program.fetches]
    homes = [None if on_host else lowering.home(node) for node in fetches]
    slots = [lowering.slot_on(node, home) for node, home in zip(fetches, homes, strict=True)]
    assigned = [(variable, lowering.slot_of_assigned(node)) for variable, node in program.state.assigned.items()]
    return Lowered(
        tuple(lowering.instructions),
        lowering.template,
        tuple(range(len(program.feeds))),
        tuple(program.state.stored.values()),
        tuple(slots),
        tuple(homes),
        tuple(assigned),
        frozenset(lowering.kept),
        lowering.key is not None,
    )


@final
class _Lowering:
    """What is known while instructions are made.

    Fields:
        instructions, template: as in `Lowered`, so far.
        checkpoint: as `lower`'s.
        slots: where the value of a node is, on the device that computed it.
        homes: that device; `None` for the host.
        moved: where it is on other devices; the host is `None`.
        fed_there: the slots of feeds that are on a device, which a transfer makes arrays of its backend.
        numbers: the slots of Python numbers and of values that were folded.
        kept: as in `Lowered`, so far.
        made_by: the instruction that computes a node.
        late: for values that are known, but not to be used before something is done: that.
        estimates: of the work of nodes.
        controls: as `lower`'s.
        key: the slot of the key of random numbers, if any are drawn.
        known: kernels and estimates of ops without parameters, by op, device and specs: most graphs apply
            few ops to few specs.
    """

    def __init__(self, program: Program, checkpoint: Checkpoint, controls: Mapping[Node, Control]) -> None:
        self.program: Final = program
        self.checkpoint: Final = checkpoint
        self.instructions: Final[list[Instruction]] = []
        stored = program.state.stored
        given = (*program.feeds, *stored)
        self.controls: Final = controls
        draws = any(one.draws for one in controls.values()) or any(_draws(node) for node in program.nodes)
        self.key: Final = len(given) if draws else None
        self.template: Final[list[Any]] = [None] * (len(given) + draws)
        self.slots: Final[dict[Node, int]] = {node: slot for slot, node in enumerate(given)}
        self.homes: Final[dict[Node, Placement | None]] = dict.fromkeys(program.feeds)
        self.moved: Final[dict[tuple[Node, Placement | None], int]] = {}
        self.numbers: Final[dict[Hashable, int]] = {}
        self.kept: Final[set[int]] = set()
        self.made_by: Final[dict[Node, int]] = {}
        self.late: Final = _late(program)
        outside = [node.spec for node in given] + [node.spec for node in program.nodes if node.op.call is not None]
        self.estimates: Final = Estimates(outside)
        self.known: Final[dict[tuple[object, ...], tuple[Kind, Callable[..., Any] | None, Estimate]]] = {}
        fed_there = [node for node in program.feeds if node in program.placements]
        self.fed_there: Final = {node: self.slots[node] for node in fed_there}
        for node in self.fed_there:
            self.homes[node] = program.placements[node]
            del self.slots[node]
        for node in stored:
            self.homes[node] = self.home(node)

    def add(self, node: Node) -> None:
        """Appends the instruction of a node, after the transfers that it needs."""
        where, target = self.program.placements.get(node), self.home(node)
        same = self.program.same
        slots, homes = self.slots, self.homes
        operands: list[int] = []
        for one in self._operands(node):
            if isinstance(one, Node):
                one = same.get(one, one)
                slot = slots.get(one)
                # Nearly all values are where they are needed.
                operands.append(slot if slot is not None and homes[one] is target else self.slot_on(one, target))
            else:
                operands.append(self.number(one))
        if self.key is not None and (_draws(node) or (node in self.controls and self.controls[node].draws)):
            # What a branch is given comes last; what a kernel draws from, first.
            operands.insert(len(operands) if node in self.controls else 0, self.key)
        after = self._after(node) if node.after or self.late else ()
        kind, kernel, work = self._kernel(node, where)
        out = self.slots[node] = len(self.template)
        self.homes[node] = target
        self.template.append(None)
        self.made_by[node] = len(self.instructions)
        self.instructions.append(Instruction(node, kind, kernel, tuple(operands), out, where, after, work))

    def _operands(self, node: Node) -> Sequence[Node | Scalar]:
        if node in self.controls:
            return self.program.bodies[node].takes
        source = self.program.state.sources.get(node)
        return node.operands if source is None else (source,)

    def home(self, node: Node) -> Placement | None:
        """The device that computes a node; `None` for the host."""
        if node in self.homes:
            return self.homes[node]
        where = self.program.placements.get(node)
        return None if where is None or where.on_host else where

    def slot_at_home(self, node: Node) -> int:
        """Where the value of a node is, on the device that computes it."""
        slot = self.slots.get(node)
        if slot is None:
            home = self.homes[node] = self.home(node)
            fed = self.fed_there.get(node)
            if fed is None:
                slot = self._folded(node, self.program.folded[node])
            else:
                assert home is not None
                slot = self._move(node, partial(_from_dlpack, home), fed, home, str(home.device))
            self.slots[node] = slot
        return slot

    def slot_on(self, node: Node, target: Placement | None) -> int:
        """Where the value of a node is, on a device; it is moved there if it is not."""
        home = self.home(node)
        if home is target:
            return self.slot_at_home(node)
        slot = self.moved.get((node, target))
        if slot is not None:
            return slot
        if node in self.program.folded:
            slot = self._folded_on(node, home, target)
        elif target is None:
            assert home is not None
            slot = self._to_host(node, home)
        else:
            # If one device does not reach the other the way is through the host, which may need it, too.
            if home is not None and home.reaches(target):
                kernel = partial(target.backend.to_device, device=target.device)
                slot = self._move(node, kernel, self.slot_at_home(node), target, str(target.device))
            else:
                slot = self._to_device(node, self.slot_on(node, None), target)
        self.moved[node, target] = slot
        return slot

    def slot_of_assigned(self, node: Node) -> int:
        """Where the value is that a variable has at the end: of `node`, which assigns it or is the variable."""
        variable = node if isinstance(node, Variable) else assigned_by(node)
        return self.slot_on(self._stands(node), self._home_of(variable))

    def number(self, value: Scalar) -> int:
        """The slot of a Python number."""
        key = exact_key(value)
        slot = self.numbers.get(key)
        if slot is None:
            slot = self.numbers[key] = len(self.template)
            self.template.append(value)
        return slot

    def _home_of(self, variable: Variable) -> Placement | None:
        where = self.program.homes[variable]
        return None if where.on_host else where

    def _after(self, node: Node) -> tuple[int, ...]:
        first = [*node.after]
        for one in (*node.after, *node.inputs):
            first += self.late.get(self._stands(one), ())
        made = [self.made_by.get(self._stands(one)) for one in first]
        return tuple(dict.fromkeys([one for one in made if one is not None]))

    def _stands(self, node: Node) -> Node:
        return self.program.same.get(node, node)

    def _folded_on(self, node: Node, home: Placement | None, target: Placement | None) -> int:
        # Moved now, not in every run; which may have to wait for all that the device does.
        self.checkpoint()
        if target is not None:
            value = target.now(partial(_to_device, node, target, self.template[self.slot_on(node, None)]))
        else:
            assert home is not None
            value = home.now(partial(_to_host, home, self.program.folded[node]))
        return self._folded(node, value)

    def _folded(self, node: Node, value: Any) -> int:
        """A slot for the value of a folded node."""
        slot = len(self.template)
        self.template.append(value)
        if node.op.call is not None:
            self.kept.add(slot)
        return slot

    def _to_device(self, node: Node, source: int, target: Placement) -> int:
        return self._move(node, partial(_to_device, node, target), source, target, str(target.device))

    def _to_host(self, node: Node, home: Placement) -> int:
        kernel = home.backend.to_host if node.spec is not ANY else partial(_to_host, home)
        return self._move(node, kernel, self.slot_at_home(node), home, "host")

    def _move(self, node: Node, kernel: Callable[..., Any], source: int, where: Placement, moves_to: str) -> int:
        out = len(self.template)
        self.template.append(None)
        work = self.estimates.moved(node)
        self.instructions.append(Instruction(node, Kind.KERNEL, kernel, (source,), out, where, (), work, moves_to))
        return out

    def _kernel(self, node: Node, where: Placement | None) -> tuple[Kind, Callable[..., Any] | None, Estimate]:
        call = node.op.call
        if call is not None:
            return Kind.ASYNC if call.is_async else _CALL_KINDS[call.where], None, NOTHING
        control = self.controls.get(node)
        if control is not None:
            return Kind.KERNEL if is_kernel(control) else Kind.ASYNC, control, control.work
        make = HOST_KERNELS.get(node.op)
        if make is not None:
            return Kind.KERNEL, make(node), NOTHING
        make = RANDOM_KERNELS.get(node.op.name)
        if make is not None:
            return Kind.KERNEL, make(node), self.estimates.of(node)
        assert where is not None, node
        if node.params or node.operands is not node.inputs:
            return self._asked(node, where)
        key = (node.op, where, node.spec, *[one.spec for one in node.inputs])
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self._asked(node, where)
        return known

    def _asked(self, node: Node, where: Placement) -> tuple[Kind, Callable[..., Any] | None, Estimate]:
        specs = [one.spec if isinstance(one, Node) else one for one in node.operands]
        try:
            kernel = where.backend.kernel(node.op.name, node.params, specs, where.device)
        except NotImplementedError as error:
            raise KernelNotFoundError(_no_kernel(node, where, error)) from error
        return Kind.KERNEL, kernel, self.estimates.of(node)


def _late(program: Program) -> dict[Node, tuple[Node, ...]]:
    """For folded nodes with control dependencies, and those computed of them: what they depend on."""
    late: dict[Node, tuple[Node, ...]] = {}
    for node in program.folded:
        if node.after or late:
            found = dict.fromkeys(node.after)
            for one in (*node.after, *node.inputs):
                found |= dict.fromkeys(late.get(program.same.get(one, one), ()))
            if found:
                late[node] = tuple(found)
    return late


_CALL_KINDS: Final = {"thread": Kind.THREAD, "inline": Kind.INLINE}


def _draws(node: Node) -> bool:
    return node.op.name in RANDOM_KERNELS


def _from_dlpack(where: Placement, fed: FedArray) -> Any:
    return where.backend.from_dlpack(fed.value, where.device)


def _to_host(home: Placement, value: Any) -> Any:
    # What is fetched may be a call with several results.
    if isinstance(value, (tuple, list)):
        return tuple([home.backend.to_host(one) for one in cast("Sequence[Any]", value)])
    return home.backend.to_host(value)


def _to_device(node: Node, where: Placement, value: Any) -> Any:
    # Kernels take Python numbers as they are: as arrays they would promote otherwise.
    if isinstance(value, (int, float, complex)) and not isinstance(value, np.generic):
        return value
    if dlpack_device(value) is not None:
        raise TypeError(
            f"the value of {node.name!r} is an array on a device, which was not known when the plan was made\n"
            "  give the placeholder a dtype, or the op that returns it on_device=True and a spec"
        )
    array: np.ndarray[Any, Any] = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(
            f"the value of {node.name!r} is a {type(value).__name__} and cannot be moved to {where.device}\n"
            "  give it an array for its value, or build what takes it on the host: with asyncgraph.device(...)"
        )
    return where.backend.to_device(array, where.device)


def _no_kernel(node: Node, where: Placement, error: NotImplementedError) -> str:
    operands = ", ".join([repr(one.spec if isinstance(one, Node) else one) for one in node.operands])
    return (
        f"the backend {where.backend.name!r} cannot compute {node.name!r} ({node.op.name}) on {where.device}: {error}\n"
        f"  operands: {operands or 'none'}\n"
        f"  built at: {node.site or 'unknown'}\n"
        "  build it on another device: with asyncgraph.device(...)"
    )
