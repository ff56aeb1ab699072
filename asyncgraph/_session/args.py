"""What one run is to compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar, final, overload

from .._graph.node import Node
from ..abc import Array

T = TypeVar("T")
_K = TypeVar("_K")

Fetches = Any
"""A node, the name of one, or any nesting of list, tuple, named tuple, dict and dataclass of them."""

Feeds = Mapping[Node, Any] | Mapping[str, Any] | Mapping[Node | str, Any]
"""Values by node or by name."""


@final
@dataclass(frozen=True, slots=True)
class RunOptions:
    """How one run is done.

    Fields:
        timeout_s: seconds from the call until the run is ended with `RunTimeoutError`, whatever it is
            doing; `None` is no limit.
        trace: whether to time every node; see `RunMetadata`. Slower, and never emitted code.
        results: "host" gives NumPy arrays; "device" leaves values where they were computed, in their
            backend's own arrays.
        copy_feeds: whether fed arrays are copied at the call. Otherwise they are borrowed until the run
            ends, and must not be changed before.
    """

    timeout_s: float | None = None
    trace: bool = False
    results: Literal["host", "device"] = "host"
    copy_feeds: bool = False

    def __post_init__(self) -> None:
        if self.timeout_s is not None and not self.timeout_s >= 0:
            raise ValueError(f"timeout_s={self.timeout_s!r}: give seconds, or None for no limit")
        if self.results not in ("host", "device"):
            raise ValueError(f"results={self.results!r}: give 'host' or 'device'")

    @property
    def allow_inline(self) -> bool:
        """Whether a run may be done where it is called: there is nothing to time, and some time to do it in."""
        return not self.trace and (self.timeout_s is None or self.timeout_s > 0)


DEFAULT_OPTIONS: Final = RunOptions()
_NO_FEEDS: Final[Mapping[Any, Any]] = {}


@final
class RunArgs(Generic[T]):
    """What one run is to compute. Immutable.

    Fields:
        fetches: what is wanted: a node, the name of one, or any nesting of list, tuple, named tuple, dict
            and dataclass. The results have the same structure, in the same types of container. A node may
            appear twice; it is computed once.
        feeds: values by node or name. Any node may be fed, not only placeholders: then what it is made
            of is not computed. Values are not copied; leave them unchanged until the run is done.
        options: how it is done.
    """

    __slots__ = ("feeds", "fetches", "options")
    fetches: Final[Fetches]
    feeds: Final[Mapping[Any, Any]]
    options: Final[RunOptions]

    @overload
    def __init__(
        self: RunArgs[Array], fetches: Node | str, feeds: Feeds | None = ..., options: RunOptions | None = ...
    ) -> None: ...
    @overload
    def __init__(
        self: RunArgs[list[Array]], fetches: list[Node], feeds: Feeds | None = ..., options: RunOptions | None = ...
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
        self: RunArgs[tuple[Array, ...]],
        fetches: tuple[Node, ...],
        feeds: Feeds | None = ...,
        options: RunOptions | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: RunArgs[dict[_K, Array]],
        fetches: dict[_K, Node],
        feeds: Feeds | None = ...,
        options: RunOptions | None = ...,
    ) -> None: ...
    @overload
    def __init__(self: RunArgs[T], fetches: T, feeds: Feeds | None = ..., options: RunOptions | None = ...) -> None: ...
    def __init__(self, fetches: Fetches, feeds: Feeds | None = None, options: RunOptions | None = None) -> None:
        _set_fetches(self, fetches)
        _set_feeds(self, _NO_FEEDS if feeds is None else feeds)
        _set_options(self, DEFAULT_OPTIONS if options is None else options)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"RunArgs is immutable: {name!r} cannot be set")

    def __reduce__(self) -> tuple[Any, ...]:
        return RunArgs, (self.fetches, self.feeds, self.options)

    def __repr__(self) -> str:
        parts = [repr(self.fetches)]
        if self.feeds:
            parts.append(f"feeds={dict(self.feeds)!r}")
        if self.options is not DEFAULT_OPTIONS:
            parts.append(f"options={self.options!r}")
        return f"RunArgs({', '.join(parts)})"


# The slots' own setters: `object.__setattr__` looks each name up again, at three times the cost.
_set_fetches: Final[Any] = vars(RunArgs)["fetches"].__set__
_set_feeds: Final[Any] = vars(RunArgs)["feeds"].__set__
_set_options: Final[Any] = vars(RunArgs)["options"].__set__
