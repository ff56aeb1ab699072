"""What one run has to do with the variables of its session.

It reads one consistent state, and commits what it assigns at its end, or nothing. A run that assigns holds what it may
read and write, so that what it reads is what was committed last until it has ended. Any other reads what was committed
last when it began, and never waits.

A cheap run that assigns while nobody holds anything needs no transaction (`inline`): it holds nothing, and commits what
it has made of a state unless there is another one by then; if there is, it is computed again, and holds what it needs.
It may share that with others that are brief (`locks`): it begins when its turn comes, and nobody commits meanwhile.

What gives variables their first values holds nothing but these. Nobody else computes them meanwhile, and nobody has
read them: so it is as if they had been there when it began, before whatever was assigned since.

A nested run that assigns is like any other: what its ancestors hold nobody else has changed. One that does not assign
reads what its parent does, so that all that one run does sees one state; or, once a nested run of the parent's has
assigned something, what was committed last then: whoever assigns and reads after each other sees what it has assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any, Final, final

import numpy as np

from .._exec.calls import current_call
from .._graph.node import Node
from .._graph.variable import Variable
from .._plan.chunk import Frame
from .._plan.plan import Plan
from .locks import LockRequest
from .store import State, Store, kept

_NOTHING: Final[State] = {}
_ARRAY: Final[Any] = np.ndarray
_SCALAR: Final[Any] = np.generic


@final
class Transaction:
    """From the start of a run to its end.

    Fields:
        store: what it reads from, and commits to.
        parent: that of the run, of the same session, that waits for this one.
        values: what it reads, once it has begun; and what nested runs of it read, until it is over.
        blocks: whether a node of another run, whatever that holds, waits for it.
        over: whether it has ended: what its nodes have left running is nested no more.
        _seed, _number: what its random numbers are drawn from: the seed, if there is one, or the number of the run.
        _key: what they are drawn from, once it is known.
        _request: what it holds, or waits for.
        _new: what it has assigned, once that is known.
        _first: the same of variables that had no value.
    """

    __slots__ = (
        "_first",
        "_key",
        "_new",
        "_number",
        "_request",
        "_seed",
        "blocks",
        "over",
        "parent",
        "store",
        "values",
    )

    def __init__(
        self,
        store: Store,
        parent: Transaction | None,
        seed: int | None = None,
        number: int | None = None,
        blocks: bool = False,
    ) -> None:
        self.store: Final = store
        self.parent: Final = parent
        self.values: State = _NOTHING
        self.blocks: Final = blocks
        self.over = False
        self._seed: Final = seed
        self._number: Final = number
        self._key: tuple[int, int] | None = None
        self._request: LockRequest | None = None
        self._new: State = _NOTHING
        self._first: State = _NOTHING

    def enter(self, plan: Plan, on_grant: Callable[[], None] | None = None, brief: bool = False) -> bool:
        """Asks for what `plan` assigns and reads; whether it may begin at once. Otherwise `on_grant` is called then.

        Without `on_grant` it does not wait, and has asked for nothing. If it is `brief`, it begins, ends and commits in
        one go, on the loop: see `locks`.

        Raises:
            StateConflictError: it is nested, and would wait for a run that waits for it.
        """
        if plan.writes and not self._asks_for(*_needs_of(plan), on_grant, brief):
            return False
        if plan.draws and self._key is None:
            self._key = self.store.first_key if plan.initialized else self.store.key_of(self._seed, self._number)
        return not self.waits

    def enter_to_replace(self, values: State, on_grant: Callable[[], None]) -> bool:
        """As `enter`, for what is committed without a plan: `values`, which nobody else can write to.

        Raises:
            StateConflictError: as `enter`.
        """
        self._new = values
        self._asks_for(frozenset(), frozenset(values), on_grant)
        return not self.waits

    def _asks_for(
        self,
        reads: frozenset[Node],
        writes: frozenset[Node],
        on_grant: Callable[[], None] | None,
        brief: bool = False,
    ) -> bool:
        """Whether it has what it assigns and reads, or waits for it."""
        ancestors = () if self.parent is None else tuple(self.outer_requests())
        for one in ancestors:
            reads = reads.difference(one.writes, one.reads)
        request = LockRequest(reads, writes, on_grant or _nobody_waits, ancestors, self.blocks, brief)
        if not self.store.enter(request, waits=on_grant is not None) and on_grant is None:
            return False
        self._request = request
        return True

    @property
    def waits(self) -> bool:
        """Whether it still waits for what it has asked for."""
        request = self._request
        return request is not None and not request.granted

    def is_urgent(self) -> bool:
        """Whether nodes may be waiting for what it holds, and all threads with them."""
        return self._request is not None and self.store.blocks

    def begin(self, plan: Plan) -> list[Any] | None:
        """What `plan` is given besides the feeds, in the order of its slots, from the state that the run reads.

        `None` if the plan was made for another state, in which other variables had a value.
        """
        values = self.store.values
        if self.parent is not None and not self.parent.over and not plan.writes:
            older = self.parent.values
            # If a variable had no value then, all are read as they are now: a mixture may never have been committed.
            if values is not older and all(one in older for one in plan.variables):
                values = older
        self.values = values
        given = given_of(plan, values)
        if given is not None and plan.draws:
            given.append(self._key)
        return given

    def succeed(self, plan: Plan, frame: Frame) -> None:
        """The run has computed all: what it has assigned is ready to be committed.

        Raises:
            SpecTypeError, SpecError: a value does not fit its variable.
        """
        new: dict[Variable, Any] = {}
        assign(plan, frame, new)
        if plan.initialized:
            self._first = {one: new.pop(one) for one in plan.initialized}
        self._new = new

    def commit(self) -> None:
        """Commits what the run has assigned. With that it has ended."""
        if self._request is not None:
            request, self._request = self._request, None
            self.store.leave(request, self._new, self._first)
            if self.parent is not None:
                self._show_outer_runs()
        self.end()

    def end(self) -> None:
        """Ends it without a commit, if there was none. May be called at any time, also while it waits."""
        if self.over:
            return
        request, self._request = self._request, None
        self.over = True
        self.values = self._new = self._first = _NOTHING  # Contexts that user code keeps may lead here.
        if request is not None:
            self.store.leave(request)

    def outer_requests(self) -> Iterator[LockRequest]:
        """What the runs hold that wait for it."""
        for one in self._outer():
            if one._request is not None:
                yield one._request

    def requests(self) -> Iterator[LockRequest]:
        """What it holds, and the runs that wait for it."""
        if self._request is not None:
            yield self._request
        yield from self.outer_requests()

    def _outer(self) -> Iterator[Transaction]:
        one = self.parent
        while one is not None:
            yield one
            one = one.parent

    def _show_outer_runs(self) -> None:
        """Has what their nodes run next see what was committed."""
        store = self.store
        for one in self._outer():
            # Another thread may do so at the same time.
            while not one.over and one.values is not store.values:
                one.values = store.values


def given_of(plan: Plan, values: State) -> list[Any] | None:
    """What `plan` is given of what variables hold; `None` if it was made for a state in which others had a value."""
    try:
        given: list[Any] = list(map(values.__getitem__, plan.variables))
    except KeyError:
        return None
    return None if plan.initialized and not values.keys().isdisjoint(plan.initialized) else given


def assign(plan: Plan, frame: Frame, values: dict[Variable, Any]) -> None:
    """Puts what a run has assigned into `values`.

    Raises:
        SpecTypeError, SpecError: a value does not fit its variable.
    """
    for variable, slot, plain, keep in plan.commits:
        value = frame[slot]
        if plain and type(value) is _ARRAY and value.base is None:
            value.setflags(False)
            values[variable] = value
        elif plain and isinstance(value, _SCALAR):  # as NumPy's functions give of rank 0
            values[variable] = value = np.asarray(value)
            value.setflags(write=False)
        else:
            values[variable] = kept(value, keep, variable, plan.program.homes[variable].on_host)


def _needs_of(plan: Plan) -> tuple[frozenset[Node], frozenset[Node]]:
    """What a run of `plan` reads and does not change, and what it changes."""
    if not plan.initialized:
        return plan.reads, plan.writes
    # The initial values stand for these variables, which others may assign meanwhile.
    others = plan.writes.difference(plan.initialized)
    return plan.reads if others else frozenset(), others.union([one.initial for one in plan.initialized])


def _nobody_waits() -> None:
    pass


def parent_in(context: Context, store: Store) -> Transaction | None:
    """The transaction of the run that waits for what is run in `context`, if it is one of `store`."""
    call = context.get(current_call)
    while call is not None:
        transaction = getattr(call.run, "transaction", None)
        if isinstance(transaction, Transaction) and transaction.store is store and not transaction.over:
            return transaction
        call = call.outer
    return None
