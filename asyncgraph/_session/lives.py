"""The lives of a session's hooks, and how hooks are called."""

from __future__ import annotations

import asyncio
import inspect
from asyncio import CancelledError
from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

from .._exec.calls import CallScope, current_call, drive
from .._exec.notes import add_failure_line, explain_hook
from .._graph.graph import Graph
from ..errors import HookCancelledError, SessionError
from .hook import Hook, StopSwitch

if TYPE_CHECKING:
    from .session import Session

Named = tuple[str, Hook]
"""A hook, and what errors call it."""


def named(hooks: Iterable[Hook], whose: str) -> tuple[Named, ...]:
    """Hooks in their order, each with a name that tells it from the others.

    Raises:
        SessionError: there is something else among them.
    """
    given = tuple(hooks)
    for one in given:
        if not isinstance(one, Hook):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise SessionError(f"{one!r} is among the hooks\n  expected instances of subclasses of Hook")
    return tuple([(f"{type(one).__name__}, hooks[{index}] of {whose}", one) for index, one in enumerate(given)])


@final
class SessionHooks:
    """The hooks of one session, and how far they have come in their lives.

    Fields:
        named: the hooks.
        stop: whether one of them has asked the session to stop.
        _changing: held while their lives begin, and while they end.
        _begun: how many have begun.
        _created: how many have been told that there is a session.
        _ended: whether their lives have ended.
    """

    def __init__(self, hooks: Iterable[Hook]) -> None:
        self.named: Final = named(hooks, "the session")
        self.stop: Final = StopSwitch()
        self._changing: Final = asyncio.Lock()
        self._begun = 0
        self._created = 0
        self._ended = False

    @property
    def are_open(self) -> bool:
        """Whether all know of the session."""
        return self._created == len(self.named)

    async def open(self, session: Session) -> None:
        """Begins their lives, as far as that is still to be done.

        Raises:
            BaseException: what a hook raised. It is called again the next time.
        """
        async with self._changing:
            await self.begin(session.graph)
            while self._created < len(self.named):
                who, hook = self.named[self._created]
                await self._call(who, "after_create_session", partial(hook.after_create_session, session))
                self._created += 1

    async def begin(self, graph: Graph) -> None:
        """The first part of `open`, which may be done before there is a session."""
        while self._begun < len(self.named):
            who, hook = self.named[self._begun]
            await self._call(who, "begin", partial(_begin, hook, graph))
            self._begun += 1

    def forget_session(self) -> None:
        """The session is lost: the next one is made known to all of them by `open`."""
        self._created = 0

    async def end(self, session: Session) -> None:
        """Ends the lives of those that know of the session, once. Each is called, whatever others raise.

        Raises:
            BaseException: what a hook raised first, with a line for each other failure.
        """
        async with self._changing:
            if self._ended:
                return
            self._ended = True
            failure: BaseException | None = None
            for who, hook in reversed(self.named[: self._created]):
                try:
                    await self._call(who, "end", partial(hook.end, session))
                except BaseException as error:
                    failure = worse(failure, error, f"{who}, in end")
            if failure is not None:
                raise failure

    async def _call(self, who: str, method: str, call: Callable[[], Any]) -> None:
        context = copy_context()
        scope = CallScope(self, context.get(current_call), of_hooks=True)
        context.run(current_call.set, scope)
        try:
            await drive(settled(call), context)
        except CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise not_cancelled(who, method, "nobody cancelled it") from error
        except BaseException as error:
            explain_hook(error, f"{who} failed in {method}")
            raise
        finally:
            scope.end()


async def _begin(hook: Hook, graph: Graph) -> None:
    with graph:
        await settled(hook.begin)


async def settled(call: Callable[[], Any]) -> Any:
    """What a function returns, awaited if need be."""
    try:
        result = call()
    except StopIteration as error:
        raise RuntimeError("a hook raised StopIteration\n  to stop a session, call context.request_stop()") from error
    return await result if inspect.isawaitable(result) else result


def not_cancelled(who: str, method: str, told: str) -> HookCancelledError:
    """What a hook raises instead of a CancelledError that came of itself: whoever got that would think it was meant."""
    return HookCancelledError(f"{who} raised CancelledError in {method}, but {told}")


def worse(error: BaseException | None, other: BaseException, where: str) -> BaseException:
    """Which of two errors is to be raised, with a line on it about the other, which came later."""
    if error is None or error is other:
        return other
    if isinstance(other, _INTERRUPTS) and not isinstance(error, _INTERRUPTS):
        add_failure_line(other, "before", error)
        return other
    add_failure_line(error, where, other)
    return error


_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)
