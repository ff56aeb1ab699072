"""Progress bars: tqdm's or rich's, whichever is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, Final, final


class Bar(ABC):
    """Shows how far something is."""

    @abstractmethod
    def show(self, done: int, note: str = "") -> None:
        """So much is done now; with what is to stand behind the bar."""

    @abstractmethod
    def close(self) -> None:
        """Leaves it as it is."""


@final
class NoBar(Bar):
    """Shows nothing."""

    def show(self, done: int, note: str = "") -> None:
        """See `Bar`."""

    def close(self) -> None:
        """See `Bar`."""


@final
class Line(Bar):
    """Prints one line, when all is done."""

    def __init__(self, total: int, description: str) -> None:
        self._total: Final = total
        self._description: Final = description

    def show(self, done: int, note: str = "") -> None:
        """See `Bar`."""
        if done == self._total:
            print(f"{self._description}: {note}", flush=True)

    def close(self) -> None:
        """See `Bar`."""


@final
class TqdmBar(Bar):
    """One of tqdm's, on standard error."""

    def __init__(self, module: Any, total: int | None, description: str) -> None:
        self._bar: Final = module.tqdm(total=total, desc=description or None)

    def show(self, done: int, note: str = "") -> None:
        """See `Bar`."""
        self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """See `Bar`."""
        self._bar.close()


@final
class RichBar(Bar):
    """One of rich's."""

    def __init__(self, module: Any, total: int | None, description: str) -> None:
        columns = (*module.Progress.get_default_columns(), module.TextColumn("{task.fields[note]}"))
        self._bars: Final = module.Progress(*columns)
        self._task: Final = self._bars.add_task(description, total=total, note="")
        self._bars.start()

    def show(self, done: int, note: str = "") -> None:
        """See `Bar`."""
        self._bars.update(self._task, completed=done, note=note)

    def close(self) -> None:
        """See `Bar`."""
        self._bars.stop()


_BARS: Final[dict[str, type[TqdmBar | RichBar]]] = {"tqdm": TqdmBar, "rich.progress": RichBar}
"""By the module that draws it, the first choice first."""


def new_bar(total: int | None, description: str) -> Bar | None:
    """A bar that is shown from now on; `None` if no library for it is installed."""
    for name, bar in _BARS.items():
        try:
            module = import_module(name)
        except ModuleNotFoundError:
            continue
        return bar(module, total, description)
    return None
