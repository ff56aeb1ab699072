"""A progress bar."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, final

from .._session.hook import Hook, RunContext
from .steps import steps_done

if TYPE_CHECKING:
    from .._session.session import Session
    from .._session.values import RunValues


@final
class ProgressHook(Hook):
    """Shows a progress bar, of tqdm or else of rich, whichever is installed.

    It goes by `global_step`, if the graph has that, or else by runs. It is removed only when the session ends without
    an error.

    Args:
        total: the last step, or how many runs there are; `None` if that is not known.
        description: stands before the bar.

    Raises:
        ModuleNotFoundError: when there is a session, and neither is installed.
    """

    def __init__(self, total: int | None = None, description: str = "") -> None:
        self._total: Final = total
        self._description: Final = description
        self._bar: _Bar | None = None
        self._counts_steps = False
        self._runs = 0

    async def after_create_session(self, session: Session) -> None:
        """As `Hook.after_create_session`."""
        self._counts_steps = "global_step" in session.graph
        if self._bar is None:
            self._bar = _new_bar(self._total, self._description)
        self._bar.show(await self._done(session))

    async def after_run(self, context: RunContext, values: RunValues[Any]) -> None:
        """As `Hook.after_run`."""
        self._runs += 1
        if self._bar is not None:
            self._bar.show(await self._done(context.session))

    def end(self, session: Session) -> None:
        """As `Hook.end`."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    async def _done(self, session: Session) -> int:
        return await steps_done(session) if self._counts_steps else self._runs


class _Bar(ABC):
    """A progress bar of some library, whose module it is given."""

    @abstractmethod
    def __init__(self, module: Any, total: int | None, description: str) -> None:
        """Shows it."""

    @abstractmethod
    def show(self, done: int) -> None:
        """Shows how far it is."""

    @abstractmethod
    def close(self) -> None:
        """Leaves it as it is."""


@final
class _TqdmBar(_Bar):
    def __init__(self, module: Any, total: int | None, description: str) -> None:
        self._bar: Final = module.tqdm(total=total, desc=description or None)

    def show(self, done: int) -> None:
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


@final
class _RichBar(_Bar):
    def __init__(self, module: Any, total: int | None, description: str) -> None:
        self._bars: Final = module.Progress()
        self._bar: Final = self._bars.add_task(description, total=total)
        self._bars.start()

    def show(self, done: int) -> None:
        self._bars.update(self._bar, completed=done)

    def close(self) -> None:
        self._bars.stop()


_BARS: Final[dict[str, type[_Bar]]] = {"tqdm": _TqdmBar, "rich.progress": _RichBar}
"""By the module that draws it, the first choice first."""


def _new_bar(total: int | None, description: str) -> _Bar:
    for name, bar in _BARS.items():
        try:
            module = import_module(name)
        except ModuleNotFoundError:
            continue
        return bar(module, total, description)
    raise ModuleNotFoundError("a ProgressHook needs tqdm or rich, and neither is installed\n  pip install tqdm")
