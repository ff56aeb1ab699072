"""Progress of epochs: a bar of tqdm's or rich's, whichever is installed; else a line for each epoch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, final


class Progress(ABC):
    """Shows how far epochs are."""

    @abstractmethod
    def start(self, title: str, steps: int) -> None:
        """An epoch of that many steps begins."""

    @abstractmethod
    def advance(self, scores: Mapping[str, float]) -> None:
        """One more step is done; what the scores are now."""

    @abstractmethod
    def finish(self, scores: Mapping[str, float]) -> None:
        """The epoch is over; what its scores are."""

    @abstractmethod
    def close(self) -> None:
        """Nothing more is shown. What is begun stays as it is."""


@final
class Silence(Progress):
    """Shows nothing."""

    def start(self, title: str, steps: int) -> None:
        """See `Progress`."""

    def advance(self, scores: Mapping[str, float]) -> None:
        """See `Progress`."""

    def finish(self, scores: Mapping[str, float]) -> None:
        """See `Progress`."""

    def close(self) -> None:
        """See `Progress`."""


@final
class Lines(Progress):
    """Prints a line for each epoch."""

    def __init__(self) -> None:
        self._title = ""

    def start(self, title: str, steps: int) -> None:
        """See `Progress`."""
        self._title = title

    def advance(self, scores: Mapping[str, float]) -> None:
        """See `Progress`."""

    def finish(self, scores: Mapping[str, float]) -> None:
        """See `Progress`."""
        print(f"{self._title}: {shown(scores)}", flush=True)

    def close(self) -> None:
        """See `Progress`."""


@final
class TqdmBars(Progress):
    """A bar of tqdm's for each epoch, on standard error, or in a notebook as one of its own."""

    def __init__(self) -> None:
        self._new: Final[Any] = import_module("tqdm.auto").tqdm
        self._bar: Any = None

    def start(self, title: str, steps: int) -> None:
        """See `Progress`."""
        self._bar = self._new(total=steps, desc=title, unit="step")

    def advance(self, scores: Mapping[str, float]) -> None:
        """See `Progress`."""
        self._bar.set_postfix_str(shown(scores), refresh=False)
        self._bar.update()

    def finish(self, scores: Mapping[str, float]) -> None:
        """See `Progress`."""
        self._bar.set_postfix_str(shown(scores))
        self.close()

    def close(self) -> None:
        """See `Progress`."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()


@final
class RichBars(Progress):
    """A bar of rich's for each epoch."""

    def __init__(self) -> None:
        rich = import_module("rich.progress")
        columns = (*rich.Progress.get_default_columns(), rich.TextColumn("{task.fields[scores]}"))
        self._bars: Final[Any] = rich.Progress(*columns)
        self._bars.start()
        self._task: Any = None

    def start(self, title: str, steps: int) -> None:
        """See `Progress`."""
        self._task = self._bars.add_task(title, total=steps, scores="")

    def advance(self, scores: Mapping[str, float]) -> None:
        """See `Progress`."""
        self._bars.update(self._task, advance=1, scores=shown(scores))

    def finish(self, scores: Mapping[str, float]) -> None:
        """See `Progress`."""
        self._bars.update(self._task, scores=shown(scores))

    def close(self) -> None:
        """See `Progress`."""
        self._bars.stop()


_LIBRARIES: Final[Mapping[str, type[TqdmBars | RichBars]]] = {"tqdm": TqdmBars, "rich": RichBars}


def progress(wanted: bool) -> Progress:
    """What shows progress here: nothing if it is not wanted."""
    if not wanted:
        return Silence()
    for library, bars in _LIBRARIES.items():
        if find_spec(library) is not None:
            return bars()
    return Lines()


def shown(scores: Mapping[str, float]) -> str:
    """`loss 0.1234, accuracy 0.9700`."""
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
