"""What one run has to do with the variables of its session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any, Final, final

from .._exec.calls import current_call
from .._plan.chunk import Frame
from .._plan.plan import Plan
from .locks import LockRequest
from .store import State, Store, kept

_NOBODY: Final[tuple[LockRequest, ...]] = ()


@final
class Transaction:
    """From the start of a run to its end: it reads one consistent state, and commits what it assigns, or nothing.

    A run that assigns holds what it may read and write. Any other never waits. A nested run reads the state that the
    run reads which waits for it; but if it assigns, then of what no such run holds, what was committed last.

    Fields:
        store: what it reads from, and commits to.
        parent: that of the run, of the same session, that waits for this one.
        values: what it reads, once it has begun.
        _seed: what its random numbers are drawn from, if that is fixed.
        _key: what they are drawn from, once it is known.
        _request: what it holds, or waits for.
    """

    __slots__ = ("_key", "_request", "_seed", "parent", "store", "values")

    def __init__(self, store: Store, parent: Transaction | None, seed: int | None) -> None:
        self.store: Final = store
        self.parent: Final = parent
        self.values: State = {}
        self._seed: Final = seed
        self._key: tuple[int, int] | None = None
        self._request: LockRequest | None = None

    def enter(self, plan: Plan, on_grant: Callable[[], None]) -> bool:
        """Asks for what `plan` assigns and reads; whether it may begin at once. Otherwise `on_grant` is called then.

        Raises:
            StateConflictError: it is nested, and would wait for a run that waits for it.
        """
        if plan.draws and self._key is None:
            self._key = self.store.next_key(self._seed)
        if not plan.writes:
            return True
        ancestors = _NOBODY if self.parent is None else tuple(self.parent.requests())
        reads = plan.reads
        for one in ancestors:
            reads = reads.difference(one.writes, one.reads)
        self._request = LockRequest(reads, plan.writes, on_grant, ancestors)
        try:
            return self.store.enter(self._request)
        except BaseException:
            self._request = None
            raise

    @property
    def waits(self) -> bool:
        """Whether it still waits for what it has asked for."""
        return self._request is not None and not self._request.granted

    def begin(self, plan: Plan) -> list[Any] | None:
        """What `plan` is given besides the feeds, in the order of its slots, from the state that the run reads.

        `None` if the plan was made for another state, in which other variables had a value.
        """
        values = self.values = self._state(plan)
        try:
            given: list[Any] = [values[one] for one in plan.variables]
        except KeyError:
            return None
        initialized = plan.program.state.initialized
        if initialized and not values.keys().isdisjoint(initialized):
            return None
        if plan.draws:
            given.append(self._key)
        return given

    def _state(self, plan: Plan) -> State:
        committed = self.store.values
        if self.parent is None or self.parent.values is committed:
            return committed
        if not plan.writes:
            return {**committed, **self.parent.values}
        held = {variable for one in self.parent.requests() for variable in (*one.writes, *one.reads)}
        return {**committed, **{one: value for one, value in self.parent.values.items() if one in held}}

    def commit(self, plan: Plan, frame: Frame) -> None:
        """Commits what the run has assigned. Once it has, it has ended.

        Raises:
            SpecTypeError, SpecError: an initial value does not fit its variable. Nothing is committed.
        """
        if self._request is not None:
            new = {one.variable: kept(frame[one.slot], one.keep, one.variable) for one in plan.assigned}
            request, self._request = self._request, None
            self.store.leave(request, new)

    def end(self) -> None:
        """Ends it without a commit, if there was none. May be called at any time, also while it waits."""
        request, self._request = self._request, None
        if request is not None:
            self.store.leave(request)

    def requests(self) -> Iterator[LockRequest]:
        """What it holds, and the runs that wait for it."""
        one: Transaction | None = self
        while one is not None:
            request = one._request
            if request is not None:
                yield request
            one = one.parent


def parent_in(context: Context, store: Store) -> Transaction | None:
    """The transaction of the run that waits for what is run in `context`, if it is one of `store`."""
    call = context.get(current_call)
    while call is not None:
        transaction = getattr(call.run, "transaction", None)
        if isinstance(transaction, Transaction) and transaction.store is store:
            return transaction
        call = call.outer
    return None
