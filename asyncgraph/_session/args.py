"""What one run is to compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, cast, final, overload

from .._graph.node import Node
from .._graph.structures import is_list_of_nodes, rebuild
from ..abc import Array
from ..errors import RunArgsError, RunTimeoutError
from .fetches import Leaf, leaves_of
from .hook import Hook

T = TypeVar("T")
_K = TypeVar("_K")

Fetches = object
"""A node, the name of one, or any nesting of list, tuple, named tuple, dict and dataclass of them."""

Feeds = Mapping[Node, object] | Mapping[str, object] | Mapping[Node | str, object]
"""Values by node or by name."""


class _NamedTuple(Protocol):
    def _asdict(self) -> dict[str, Any]: ...


_N = TypeVar("_N", bound=_NamedTuple)


@final
@dataclass(frozen=True, slots=True)
class RunOptions:
    """How one run is done.

    Fields:
        timeout_s: seconds from the call until the run is ended with `RunTimeoutError`, whatever it is
            doing; `None` is no limit. If they are over before anything has run, nothing does: so it is
            with 0, always. Fetches and feeds are checked first.
        trace: whether to time every node; see `RunMetadata`. Slower, and never emitted code. On an asynchronous
            device it is the starting of a kernel that is timed, not what the device does.
        results: "host" gives NumPy arrays; "device" leaves values where they were computed, in their
            backend's own arrays, which are not to be written to: they may share memory.
        copy_feeds: whether fed arrays of the host are copied at the call. Otherwise, and on a device, they are
            borrowed until the run ends, and must not be changed before.
        seed: what its random numbers are drawn from: with an int the same numbers in any run; `None` draws new ones,
            from the session's seed.
        hooks: what watches this run, besides the session's own hooks; with `None` nothing does, not even those.

    Raises:
        RunArgsError: a field has a value that means nothing.
    """

    timeout_s: float | None = None
    trace: bool = False
    results: Literal["host", "device"] = "host"
    copy_feeds: bool = False
    seed: int | None = None
    hooks: tuple[Hook, ...] | None = ()

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not (isinstance(self.timeout_s, Real) and self.timeout_s >= 0):
            raise RunArgsError(f"timeout_s={self.timeout_s!r}: give seconds, or None for no limit")
        if self.results not in ("host", "device"):
            raise RunArgsError(f"results={self.results!r}: give 'host' or 'device'")
        if self.seed is not None and not (isinstance(self.seed, Integral) and self.seed >= 0):
            raise RunArgsError(f"seed={self.seed!r}: give an int of at least 0, or None")
        if self.hooks != () and self.hooks is not None:
            hooks: Any = self.hooks
            if not isinstance(hooks, tuple) or not all(isinstance(one, Hook) for one in cast("tuple[Any, ...]", hooks)):
                raise RunArgsError(f"hooks={hooks!r}: give a tuple of Hooks, or None for no hooks at all")


def out_of_time(options: RunOptions) -> RunTimeoutError:
    """The error of a run that took longer than its options allow."""
    return RunTimeoutError(f"the run took longer than its timeout_s={options.timeout_s}")


DEFAULT_OPTIONS: Final = RunOptions()
_NO_FEEDS: Final[Mapping[Any, Any]] = {}
_ELSEWHERE: Final = object()
"""In a key: the results are wanted where they are computed. No name of a node, as those are keys of feeds."""
_FLAT: Final = object()
"""In a key, between fetches and feeds: the fetches are a list of nodes; in any other structure it is `None`."""
_STORED: Final = object()
"""In a key, the last: what is fed is assigned."""
_INITIALIZED: Final = object()
"""In a key, the last: what is fetched are variables, which get their first values."""


@final
class RunArgs(Generic[T]):
    """What one run is to compute.

    Immutable: what happens later to the structure of `fetches`, or to the dict `feeds`, is not seen.

    Fields:
        fetches: what is wanted: a node, the name of one, or any nesting of list, tuple, named tuple, dict
            and dataclass. The results have the same structure, in the same types of container. A node may
            appear twice; it is computed once. `None`, with feeds or options beside it, is for hooks, which may want
            nothing fetched; a caller's is an error when it is run.
        feeds: values by node or name. Any node may be fed, not only placeholders: then what it is made
            of is not computed, and fetching it gives the fed value. If its ancestors are fed too, they
            serve the other nodes that need them. A value converts to its node's dtype only if it does not
            change: int32 into float64, but neither 1.5 or NaN into int32, nor "1" into float64, nor an
            int32 that float32 cannot hold; Python's floats become the nearest float32. Arrays are not
            copied; leave them unchanged until the run is done. Arrays on a device of a backend, of any library
            that has DLPack, stay there, and have their node's dtype; whatever computes them must be done, or
            have been started on that device's default stream.
        options: how it is done.

    Raises:
        FetchError: there is something else in the structure of `fetches`, such as `None`; the message
            gives the path to it.
        RunArgsError: `feeds` is no mapping, or `options` no `RunOptions`.
    """

    __slots__ = ("_key", "_number", "feeds", "fetches", "options")
    _key: tuple[object, ...]
    _number: int
    feeds: Mapping[Any, Any]
    fetches: Any
    options: RunOptions

    @overload
    def __init__(
        self: RunArgs[Array], fetches: Node | str, feeds: Feeds | None = ..., options: RunOptions | None = ...
    ) -> None: ...
    @overload
    def __init__(
        self: RunArgs[list[Array]], fetches: list[Any], feeds: Feeds | None = ..., options: RunOptions | None = ...
    ) -> None: ...
    @overload
    def __init__(
        self: RunArgs[_N], fetches: _N, feeds: Feeds | None = ..., options: RunOptions | None = ...
    ) -> None: ...
    @overload
    def __init__(
        self: RunArgs[tuple[Array, Array]],
        fetches: tuple[Node, Node],
        feeds: Feeds | None = ...,
        options: RunOptions | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: RunArgs[tuple[Any, ...]],
        fetches: tuple[Any, ...],
        feeds: Feeds | None = ...,
        options: RunOptions | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: RunArgs[dict[_K, Array]],
        fetches: dict[_K, Any],
        feeds: Feeds | None = ...,
        options: RunOptions | None = ...,
    ) -> None: ...
    @overload
    def __init__(self, fetches: T, feeds: Feeds | None = ..., options: RunOptions | None = ...) -> None: ...
    def __init__(self, fetches: Any, feeds: Feeds | None = None, options: RunOptions | None = None) -> None:
        given = _copy_dict(feeds) if feeds.__class__ is dict else _NO_FEEDS if feeds is None else _copied(feeds)
        if isinstance(fetches, Node):
            _set_key(self, (fetches, None, *given))
        elif fetches is None and (feeds is not None or options is not None):
            _set_key(self, (None, *given))
        elif is_list_of_nodes(fetches):
            fetches = fetches.copy()
            _set_key(self, (*fetches, _FLAT, *given))
        else:
            leaves = leaves_of(fetches)
            fetches = rebuild(fetches, iter(leaves))
            _set_key(self, (*leaves, None, *given))
        _set_fetches(self, fetches)
        _set_feeds(self, given)
        if options is None:
            options = DEFAULT_OPTIONS
        elif options.__class__ is not RunOptions:
            raise RunArgsError(f"the options are {options!r}\n  expected RunOptions, such as RunOptions(timeout_s=1.0)")
        elif options.results != "host":
            _set_key(self, (*key_of(self), _ELSEWHERE))
        _set_options(self, options)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"RunArgs is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"RunArgs is immutable: {name!r} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return RunArgs, (self.fetches, self.feeds, self.options)

    def __repr__(self) -> str:
        parts = [repr(self.fetches)]
        if self.feeds:
            parts.append(f"feeds={dict(self.feeds)!r}")
        if self.options is not DEFAULT_OPTIONS:
            parts.append(f"options={self.options!r}")
        return f"RunArgs({', '.join(parts)})"


def _copied(feeds: Any) -> dict[Any, Any]:
    if not isinstance(feeds, Mapping):
        raise RunArgsError(f"the feeds are {feeds!r}\n  expected a dict of values by node or name")
    return dict(cast("Mapping[Any, Any]", feeds))


untyped_args: Final[Callable[..., RunArgs[Any]]] = RunArgs
"""`RunArgs`, without its overloads. `RunArgs[Any](...)` is the same, and takes three times as long: 6 µs more."""


def as_args(args: Any, feeds: Feeds | None, options: RunOptions | None) -> RunArgs[Any]:
    """`args` if it is a `RunArgs`, or one of bare fetches.

    Raises:
        RunArgsError: feeds or options are given twice.
    """
    if args.__class__ is RunArgs:
        if feeds is not None or options is not None:
            raise RunArgsError("feeds and options stand in the RunArgs, or beside bare fetches, but not in both")
        return cast("RunArgs[Any]", args)
    return untyped_args(args, feeds, options)


# The slots' own accessors: `object.__setattr__` looks each name up again, at three times the cost.
_slots: Final[Mapping[str, Any]] = vars(RunArgs)
_copy_dict: Final[Callable[[Any], dict[Any, Any]]] = vars(dict)["copy"]
_new: Final[Callable[[Any], Any]] = object.__new__
_set_key: Final[Any] = _slots["_key"].__set__
_set_fetches: Final[Any] = _slots["fetches"].__set__
_set_feeds: Final[Any] = _slots["feeds"].__set__
_set_options: Final[Any] = _slots["options"].__set__
_set_number: Final[Any] = _slots["_number"].__set__

key_of: Final[Callable[[RunArgs[Any]], tuple[object, ...]]] = _slots["_key"].__get__
"""The fetches and feed keys as they were written: leaves of the fetches, `None` or `_FLAT`, keys of the feeds;
and `_ELSEWHERE`, if the results are not wanted on the host; and `_STORED` or `_INITIALIZED`."""


def numbered(args: RunArgs[T], number: int | None) -> RunArgs[T]:
    """`args` of the run of that number, from which its random numbers are drawn, unless it has a seed.

    It is no option: what a run was given may be given to another, which has a number of its own.
    """
    if number is None:
        return args
    made = cast("RunArgs[T]", _new(RunArgs))
    _set_key(made, key_of(args))
    _set_fetches(made, args.fetches)
    _set_feeds(made, args.feeds)
    _set_options(made, args.options)
    _set_number(made, number)
    return made


def number_of(args: RunArgs[Any]) -> int | None:
    """What `numbered` has given, if it has. A slot that is empty costs those nothing who need no number."""
    return getattr(args, "_number", None)


def to_store(values: Mapping[Any, Any]) -> RunArgs[list[Any]]:
    """What assigns values to variables, all of them or none. The values are borrowed until the run ends."""
    args = RunArgs[list[Any]]([], values)
    _set_key(args, (*key_of(args), _STORED))
    return args


def stores(args: RunArgs[Any]) -> bool:
    """Whether what is fed is assigned."""
    return key_of(args)[-1] is _STORED


def to_initialize(
    variables: Iterable[Any], feeds: Mapping[Any, Any] = _NO_FEEDS, timeout_s: float | None = None
) -> RunArgs[list[Any]]:
    """What gives variables that have no value their first one, all of them or none. They stay where they are."""
    args = RunArgs[list[Any]]([*variables], feeds, RunOptions(timeout_s, results="device"))
    _set_key(args, (*key_of(args), _INITIALIZED))
    return args


def initializes(args: RunArgs[Any]) -> bool:
    """Whether variables get their first values."""
    return key_of(args)[-1] is _INITIALIZED


def refed(args: RunArgs[T], feeds: Mapping[Any, Any]) -> RunArgs[T]:
    """`args` with other values for the same feeds."""
    made: RunArgs[T] = untyped_args(args.fetches, feeds, args.options)
    _set_key(made, key_of(args))
    return numbered(made, number_of(args))


def leaves_in(key: tuple[object, ...]) -> Sequence[Leaf]:
    """The leaves of the fetches in a key."""
    return cast("Sequence[Leaf]", key[: key.index(_FLAT if is_flat(key) else None)])


def is_flat(key: tuple[object, ...]) -> bool:
    """Whether the fetches are a list of nodes."""
    return any(one is _FLAT for one in key)
