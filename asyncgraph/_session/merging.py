"""One run of what its caller and its hooks ask for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, cast, final

from .._graph.node import Node
from .._plan.compiler import no_checkpoint
from ..errors import FetchError, HookConflictError, RunArgsError
from .args import DEFAULT_OPTIONS, RunArgs, RunOptions, number_of, numbered
from .engine import Engine
from .fetches import resolve
from .values import RunValues

CALLER: Final = "the caller"


@final
class Merging:
    """What several ask of one run, put together one by one, the caller first.

    Fields:
        options: of the run, as far as it is known by now.
        _number: of the run, if it has one.
        _engine: of the session that runs it.
        _parts: what each of them asked for.
        _fed: each node that is fed, with its value and who feeds it.
        _set_by: who has said what an option is to be, for each that somebody has.
    """

    def __init__(self, engine: Engine, args: RunArgs[Any]) -> None:
        self.options: RunOptions = args.options
        self._number: Final = number_of(args)
        self._engine: Final = engine
        self._parts: Final[dict[str, RunArgs[Any] | None]] = {CALLER: args}
        self._fed: Final[dict[Node, tuple[Any, str]]] = {}
        self._set_by: Final[dict[str, str]] = {}
        self._feed(CALLER, args)

    def add(self, who: str, asked: object) -> None:
        """Takes in what the hook `who` has returned.

        Raises:
            HookConflictError: somebody else feeds the same node, or wants an option to be something else.
            RunArgsError: it is neither a `RunArgs` nor `None`, or feeds what is no node of the graph.
        """
        if asked is not None and not isinstance(asked, RunArgs):
            raise RunArgsError(f"{who} returned {asked!r} from before_run\n  expected a RunArgs, or None")
        part = self._parts[who] = cast("RunArgs[Any] | None", asked)
        if part is not None:
            try:
                self._feed(who, part)
            except FetchError as error:
                raise _blaming(who, error) from error
            self.options = self._agreed(who, part.options)

    @property
    def args(self) -> RunArgs[list[Any]]:
        """What is to be run. Its results are a list: for the caller, and for each hook that wants something."""
        made = RunArgs(
            [part.fetches for part in self._parts.values() if part is not None and part.fetches is not None],
            {node: value for node, (value, _) in self._fed.items()},
            self.options,
        )
        return numbered(made, self._number)

    def shared_out(self, values: RunValues[list[Any]]) -> dict[str, RunValues[Any]]:
        """What each of them is given, of what the run gave; `None` as results to a hook that wanted nothing."""
        results = iter(values.results)
        return {
            who: values.part(None if part is None or part.fetches is None else next(results), self.options)
            for who, part in self._parts.items()
        }

    def blamed(self, error: RunArgsError) -> RunArgsError:
        """`error`, by which the run failed; or one that names the hook, if the run did not begin for its part."""
        feeds = {node: value for node, (value, _) in self._fed.items()}
        for who, part in self._parts.items():
            if part is None:
                continue
            wanted: Any = [] if part.fetches is None else part.fetches
            try:
                self._engine.check(RunArgs[Any](wanted, part.feeds))
                self._engine.request(RunArgs[Any](wanted, feeds, self.options), no_checkpoint)
            except RunArgsError as own:
                return error if who is CALLER else _blaming(who, own)
        return error

    def forget(self) -> None:
        """Forgets what was asked for: the frames of what a hook raised lead here, and somebody may keep that."""
        self._parts.clear()
        self._fed.clear()

    def _feed(self, who: str, args: RunArgs[Any]) -> None:
        for key, value in args.feeds.items():
            node = resolve(key, self._engine.graph, "feed")
            # By identity: values may be arrays, and arrays that are compared give no answer.
            if node in self._fed:
                _, other = self._fed[node]
                raise HookConflictError(f"{node.name!r} is fed twice in one run: by {other} and by {who}")
            self._fed[node] = (value, who)

    def _agreed(self, who: str, asked: RunOptions) -> RunOptions:
        """The options of the run, now that `who` asks for some. A field at its default asks for nothing."""
        if asked is DEFAULT_OPTIONS:
            return self.options
        agreed: dict[str, Any] = {}
        for field in dataclasses.fields(RunOptions):
            ours, theirs = getattr(self.options, field.name), getattr(asked, field.name)
            if theirs == field.default or theirs == ours:
                continue
            if field.name in _MERGED:
                agreed[field.name] = _MERGED[field.name](ours, theirs)
            elif field.name in _FREE and ours is None:
                agreed[field.name] = theirs
                self._set_by[field.name] = who
            else:
                other = self._set_by.get(field.name, CALLER)
                raise HookConflictError(
                    f"the option {field.name!r} of one run would be {ours!r} for {other}, and {theirs!r} for {who}"
                )
        return dataclasses.replace(self.options, **agreed) if agreed else self.options


def _shorter(ours: float | None, theirs: float) -> float:
    return theirs if ours is None else min(ours, theirs)


def _either(ours: bool, theirs: bool) -> bool:
    return ours or theirs


_MERGED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "timeout_s": _shorter,
    "trace": _either,
    "copy_feeds": _either,
}
"""Options about which nobody can disagree: what suits all is found."""
_FREE: Final = frozenset({"seed"})
"""Options of which the default says that it may be anything."""


def _blaming(who: str, error: RunArgsError) -> RunArgsError:
    return type(error)(f"{who}: {error}")
