"""When it is time again."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final, final

Clock = Callable[[], float]
"""Gives seconds, from any beginning."""


@final
class Timer:
    """Says when it is time again: after so many steps, or after so many seconds. The first time it is at once.

    Args:
        every_steps, every_s: one of them; the other is `None`. If both are, it is every `default_steps` steps.
        default_steps: see there.
        clock: gives the seconds.

    Raises:
        ValueError: both are given, or one is not more than 0.
    """

    def __init__(
        self, every_steps: int | None, every_s: float | None, default_steps: int = 1, clock: Clock = monotonic
    ) -> None:
        if every_steps is not None and every_s is not None:
            raise ValueError(f"every_steps={every_steps!r} and every_s={every_s!r}: give one of them")
        for name, value in (("every_steps", every_steps), ("every_s", every_s)):
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value!r}: give a number of more than 0, or None")
        self._every_s: Final = every_s
        self._every_steps: Final = default_steps if every_steps is None else every_steps
        self._clock: Final = clock
        self._last: tuple[int, float] | None = None

    def is_due(self, step: int) -> bool:
        """Whether it is time, at `step`. Never twice at one step."""
        if self._last is None:
            return True
        last_step, last_s = self._last
        if step == last_step:
            return False
        if self._every_s is not None:
            return self._clock() >= last_s + self._every_s
        # After a recovery steps are counted from where the checkpoint is.
        return step < last_step or step >= last_step + self._every_steps

    def mark(self, step: int) -> tuple[int, float] | None:
        """Says that it was done at `step`; gives steps and seconds since the last time, `None` if there was none."""
        last, self._last = self._last, (step, self._clock())
        return None if last is None else (step - last[0], self._last[1] - last[1])
