"""What a session's variables hold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from secrets import randbits
from threading import Lock
from typing import Any, Final, cast, final

import numpy as np

from .._exec.results import is_wasteful
from .._graph.graph import Graph
from .._graph.variable import Variable
from .._plan.host_kernels import misfit
from .._plan.ownership import Keep
from ..abc import Array
from ..errors import SpecTypeError
from .locks import LockQueue, LockRequest

State = Mapping[Variable, Array]
"""What variables hold; those without a value are not in it. Never changed."""
_NOTHING: Final[State] = {}


@final
class Store:
    """What the variables of one session hold. Any thread may call anything.

    A commit replaces `values`, which is never changed: who has it has one consistent state for as long as it likes.

    Fields:
        graph: whose variables they are.
        values: what was committed last.
        commits: how many there were; counted after `values` is there.
        _locks: who holds variables, and who waits for them.
        _lock: guards both. Held for a few dictionary look-ups, and never while anybody's code runs.
        _seed: what random numbers are drawn from; negative if nobody chose it.
        _draws: numbers runs in the order in which they are asked for, so that the schedule does not matter.
    """

    def __init__(self, graph: Graph, seed: int | None) -> None:
        self.graph: Final = graph
        self.values: State = {}
        self.commits = 0
        self._locks: Final = LockQueue()
        self._lock: Final = Lock()
        self._seed: Final = -1 - randbits(63) if seed is None else seed
        self._draws = count()

    def snapshot(self) -> State:
        """What the variables hold that have a value, on their devices: read-only arrays. Never changed."""
        return self.values

    @property
    def uninitialized(self) -> frozenset[Variable]:
        """The variables that have no value yet."""
        values = self.values
        return frozenset([one for one in self.graph.variables if one not in values])

    @property
    def first_key(self) -> tuple[int, int]:
        """What first values are drawn from: that of no run, so that it does not matter which run needs them first."""
        return self._seed, -1

    def next_number(self) -> int:
        """The number of the run that is asked for now."""
        return next(self._draws)

    def number_on_from(self, other: Store) -> None:
        """Numbers runs from where `other` has come to: the two never give one number to two runs."""
        self._draws = other._draws

    def key_of(self, seed: int | None, number: int | None) -> tuple[int, int]:
        """What the random numbers of a run are drawn from: for each run something else, but for a fixed seed."""
        if seed is not None:
            return seed, 0
        return self._seed, self.next_number() if number is None else number

    @property
    def blocks(self) -> bool:
        """Whether nodes of other runs wait for variables, and may keep threads from everybody else meanwhile."""
        return self._locks.blocks

    def enter(self, request: LockRequest, waits: bool = True) -> bool:
        """Asks for variables; whether they are granted at once. If not, and it does not wait, it has asked for nothing.

        Raises:
            StateConflictError: the run would wait for a run that waits for it.
        """
        granted = True  # Unless it waits; then whoever keeps the request, as an error does, keeps who waits.
        try:
            with self._lock:
                granted = self._locks.enter(request, waits)
        finally:
            if granted:
                request.on_grant = None
        return granted

    @property
    def idle(self) -> bool:
        """Whether nobody holds variables, nor waits for any."""
        return self._locks.idle

    def replace(self, old: State, new: State) -> bool:
        """Commits what a run has made of `old`, of which nobody knew; whether it has.

        That is as if it had held what it needs, unless others have committed something meanwhile, or may do so.
        """
        with self._lock:
            if self.values is not old or not self._locks.idle:
                return False
            self.values = new
            self.commits += 1
            return True

    def leave(self, request: LockRequest, new: State = _NOTHING, first: State = _NOTHING) -> None:
        """Commits what a run has assigned, lets go of what it holds, and tells those who waited for that.

        `first` is for those variables that have no value yet.
        """
        with self._lock:
            if new or first:
                # Copied as it is, which is less work than to build it anew.
                values = dict(self.values) if not first else {**first, **self.values}
                values.update(new)
                self.values = values
                self.commits += 1
            freed = self._locks.leave(request)
        request.on_grant = None
        for one in freed:
            on_grant, one.on_grant = one.on_grant, None
            if on_grant is not None:
                on_grant()


def kept(value: Any, keep: Keep, variable: Variable, on_host: bool) -> Array:
    """What a variable, of the host or of a device, holds once it is assigned `value`: nobody else can write to it.

    Raises:
        SpecTypeError, SpecError: its dtype or its shape are not the variable's, or it is no array of the host.
    """
    check_fits(value, variable)
    if not isinstance(value, (np.ndarray, np.generic)):
        if on_host:
            raise SpecTypeError(_misfit(variable, f"a {type(value).__name__}, which is no array of NumPy's"))
        return value  # An array of a device, which nobody writes to.
    array = cast("np.ndarray[Any, Any]", value)
    if isinstance(value, np.generic) or not _may_be_kept(array, keep):
        array = np.array(array, order="K")
    array.flags.writeable = False
    return array


def _may_be_kept(array: np.ndarray[Any, Any], keep: Keep) -> bool:
    """Whether a variable may hold it without a copy: nobody writes to it, and it keeps nothing larger alive."""
    if keep is Keep.SHARE:
        return not is_wasteful(array)
    return keep is Keep.OWN and array.flags.owndata


def check_fits(value: Any, variable: Variable) -> None:
    """Raises if a variable cannot hold a value.

    Raises:
        SpecTypeError, SpecError: its dtype or its shape are not the variable's.
    """
    found = misfit(value, variable.spec)
    if found is not None:
        kind, what = found
        raise kind(_misfit(variable, what))


def _misfit(variable: Variable, what: str) -> str:
    return (
        f"{variable.name!r} would hold {what}\n  expected: {variable.spec!r}\n  built at: {variable.site or 'unknown'}"
    )
