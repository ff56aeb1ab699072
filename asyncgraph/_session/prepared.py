"""A run with its fetches and feed keys settled: what is left is the values."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, final

from .._exec.notes import forget_values
from .._exec.turn import Turn
from .._graph.node import Node
from .._plan.compiler import no_checkpoint
from ..errors import MissingFeedError, RunArgsError
from .args import DEFAULT_OPTIONS, Fetches, RunArgs, numbered, untyped_args
from .engine import Request
from .fetches import resolve
from .inline import Unfinished, run_request, run_with_state
from .later import assign_later, finish_later
from .values import RunValues

if TYPE_CHECKING:
    from .session import Session


@final
class PreparedRun:
    """`await prepared(a, b)` is `await session.run(RunArgs(fetches, {x: a, y: b}))`. Made by `Session.prepare`."""

    def __init__(self, session: Session, fetches: Fetches, feeds: Sequence[Node | str]) -> None:
        if isinstance(feeds, (Node, str)):
            raise RunArgsError(f"the feeds are {feeds!r}\n  expected a list of nodes and names: prepare(y, [x])")
        self._session: Final = session
        self._graph: Final = session.graph
        self._feeds: Final = tuple([resolve(key, session.graph, "feed") for key in feeds])
        if len(set(self._feeds)) < len(self._feeds):
            raise RunArgsError(f"a node is fed twice: {', '.join([node.name for node in self._feeds])}")
        asked = RunArgs[Any](fetches, dict.fromkeys(self._feeds))
        self._fetches: Final = asked.fetches
        # What is wrong with them is said now, not at the first call.
        try:
            self._request: Request | None = session.engine.request(asked, no_checkpoint)
        except MissingFeedError:
            if not session.hooked:
                raise
            self._request = None  # A hook may feed what is missing.

    async def __call__(self, *values: Any) -> RunValues[Any]:
        """Runs with `values` for the feeds, in their order. As `Session.run` in all else.

        Raises:
            RunArgsError: there are too many values, or too few.
        """
        began = perf_counter()
        if len(values) != len(self._feeds):
            raise RunArgsError(f"{self!r} takes {len(self._feeds)} values, not {len(values)}")
        session, request = self._session, self._request
        number = session.store.next_number() if self._graph.draws else None
        args: RunArgs[Any] | None = None
        waited = False
        try:
            if request is not None and not session.hooked and (request.runs_inline or request.runs_with_state):
                done, turn, runs = None, session.turn(), session.runs
                if turn is not None and turn.has_time:
                    try:
                        done = self._run_here(request, values, number, began, turn)
                    except BaseException:
                        runs.count_inline()
                        raise
                    finally:
                        turn.charge(perf_counter() - began)
                    if isinstance(done, Unfinished):
                        done = await finish_later(runs, done, turn)
                elif turn is not None and request.plan.writes:
                    waited = True
                    done = await assign_later(
                        session, request, self._fetches, values, DEFAULT_OPTIONS, number, began, turn, tried=False
                    )
                if done is not None:
                    runs.started += 1
                    runs.ended += 1
                    return done
            args = untyped_args(self._fetches, dict(zip(self._feeds, values, strict=True)))
            # Once the files that it loads were read there is a better plan, which may run inline.
            self._request = session.engine.known(args) or request
            args = numbered(args, number)
            return await (session.run_since(began, args, admitted=True) if waited else session.run(args))
        except BaseException as error:
            forget_values(error)
            del values, args  # Exceptions keep this frame.
            raise

    def _run_here(
        self, request: Request, values: tuple[Any, ...], number: int | None, began: float, turn: Turn
    ) -> RunValues[Any] | Unfinished | None:
        try:
            if request.runs_inline:
                return run_request(request, self._fetches, values, DEFAULT_OPTIONS, began, turn)
            store = self._session.engine.store
            return run_with_state(store, request, self._fetches, values, DEFAULT_OPTIONS, number, began, turn)
        finally:
            del values  # What is raised keeps this frame.

    def __repr__(self) -> str:
        return f"<prepared run of ({', '.join([node.name for node in self._feeds])})>"
