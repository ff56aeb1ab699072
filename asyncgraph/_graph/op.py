"""What a node applies: an op is a name, plus what passes may assume of it.

What an op computes is in tables: its spec, row, cost and alias rules in `_graph.rules`, its kernel in
the backend. A user's function is an op too; what it is and how it is to be called is in its `Call`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, Literal, cast, final

from ..errors import SpecError, SpecTypeError
from .spec import ArraySpec

Where = Literal["thread", "inline"]


@final
@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and after what, a call of a user op is tried again.

    Fields:
        attempts: how many calls at most, the first included; at least 1.
        backoff_s: seconds before the second call; each further wait is twice the last.
        on: the exceptions that are tried again; others end the run at once.

    Raises:
        SpecError, SpecTypeError: a field has a value that means nothing.
    """

    attempts: int = 3
    backoff_s: float = 0.0
    on: tuple[type[Exception], ...] = (Exception,)

    def __post_init__(self) -> None:
        if not (isinstance(self.attempts, Integral) and self.attempts >= 1):
            raise SpecError(f"attempts={self.attempts!r}: give an int of at least 1, as a call is made at least once")
        if not (isinstance(self.backoff_s, Real) and self.backoff_s >= 0):
            raise SpecError(f"backoff_s={self.backoff_s!r}: give seconds, at least 0")
        on: Any = self.on
        if not isinstance(on, tuple) or not all(map(_is_exception_class, cast("tuple[Any, ...]", on))):
            raise SpecTypeError(f"on={on!r}: give a tuple of classes of Exception, such as (ConnectionError,)")


def _is_exception_class(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, Exception)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A user's function and how it is to be called.

    Fields:
        function: any callable that is no async generator. What it returns, if awaitable, is awaited.
        is_async: whether calling it is known to give an awaitable, so that no thread is needed.
        where: for functions that are not async: a thread of the session's pool, or the loop itself.
        retry: when to call again after a failure.
        timeout_s: seconds that one call may take, or `None`.
        abandon_on_cancel: whether a run that ends does not wait for the call, whose late result is dropped.
        spec: what the result is, as far as it is known; a tuple for several outputs.
        kept: of a function that keeps its first result for all later calls, and takes no node's value: takes
            what it takes, and gives what it has kept, `None` if that is nothing. Plans have it as a constant.
        on_device: whether it is given, and gives, arrays of the device where its node is placed; it is async.
    """

    function: Callable[..., Any]
    is_async: bool = False
    where: Where = "thread"
    retry: Retry | None = None
    timeout_s: float | None = None
    abandon_on_cancel: bool = False
    spec: ArraySpec | tuple[ArraySpec, ...] | None = None
    kept: Callable[..., Any] | None = None
    on_device: bool = False


@final
class Op:
    """A name, and what passes may assume.

    Fields:
        name: the row of every table.
        pure: whether equal inputs give equal results and nothing else happens, so that calls may be
            merged, or made when the plan is compiled.
        call: the user's function, or `None` for an op of the tables.
    """

    __slots__ = ("call", "name", "pure")

    def __init__(self, name: str, *, pure: bool = True, call: Call | None = None) -> None:
        self.name: Final = name
        self.pure: Final = pure
        self.call: Final = call

    def __repr__(self) -> str:
        return f"<op {self.name!r}>"


Params = Mapping[str, object]
"""What an op is applied with besides values: axes, dtypes, index keys. Never changed once a node holds it."""

NO_PARAMS: Final[Params] = {}

PLACEHOLDER: Final = Op("placeholder", pure=False)
CONSTANT: Final = Op("constant")
GROUP: Final = Op("group", pure=False)
OUTPUT: Final = Op("output")
ITEM: Final = Op("item")
VARIABLE: Final = Op("variable", pure=False)
READ: Final = Op("read", pure=False)
CURRENT: Final = Op("current", pure=False)
ASSIGN: Final = Op("assign", pure=False)
RANDOM_BERNOULLI: Final = Op("random_bernoulli", pure=False)
RANDOM_NORMAL: Final = Op("random_normal", pure=False)
RANDOM_PERMUTATION: Final = Op("random_permutation", pure=False)
RANDOM_UNIFORM: Final = Op("random_uniform", pure=False)
RANDOM_OPS: Final = frozenset({RANDOM_BERNOULLI, RANDOM_NORMAL, RANDOM_PERMUTATION, RANDOM_UNIFORM})
"""The ops that draw random numbers, on the host."""
COND: Final = Op("cond", pure=False)
WHILE_LOOP: Final = Op("while_loop", pure=False)
LOOP_VALUE: Final = Op("loop_value", pure=False)

_special: Final = (
    *RANDOM_OPS,
    PLACEHOLDER, CONSTANT, GROUP, OUTPUT, ITEM, VARIABLE, READ, CURRENT, ASSIGN, COND, WHILE_LOOP, LOOP_VALUE,
)  # fmt: skip
_ops: dict[str, Op] = {op.name: op for op in _special}


def op_named(name: str) -> Op:
    """The op of the tables that has that name; one object for each name."""
    op = _ops.get(name)
    return op if op is not None else _ops.setdefault(name, Op(name))
