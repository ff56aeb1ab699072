"""What a check gives: rows of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, final

Value = float | int | str | bool
_LONGEST: Final = 600
"""Characters of an error that a row has."""


@final
class Verdict(Enum):
    """What a row says: the text is what the table shows."""

    OK = "ok"
    FAILED = "FAIL"
    MISSED = "missed"
    INFO = "info"
    SKIPPED = "skip"


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One thing that was looked at.

    Fields:
        name, value, unit: what, and what was found.
        verdict: whether that is as it should be.
        expected: how it should be, in words; or why it was left out.
        measured: whether the value is a figure of the machine, which means nothing on a stand-in.
    """

    name: str
    value: Value = ""
    unit: str = ""
    verdict: Verdict = Verdict.INFO
    expected: str = ""
    measured: bool = False

    def on_a_stand_in(self) -> Row:
        """The row without what could be taken for a figure of a card."""
        if not self.measured:
            return self
        return replace(self, value="stand-in", unit="", verdict=Verdict.INFO, expected="")


def figure(name: str, value: float, unit: str, *, at_most: float | None = None, at_least: float | None = None) -> Row:
    """A measurement; with a goal, missed or not."""
    goals = [("at most", at_most, 1), ("at least", at_least, -1)]
    asked = [(words, goal, sign) for words, goal, sign in goals if goal is not None]
    missed = any(value * sign > goal * sign for _, goal, sign in asked)
    verdict = Verdict.INFO if not asked else Verdict.MISSED if missed else Verdict.OK
    return Row(name, value, unit, verdict, ", ".join(f"{words} {goal:g}" for words, goal, _ in asked), measured=True)


def fact(name: str, value: Value, expected: str = "") -> Row:
    """What was found, to be read."""
    return Row(name, value, expected=expected)


def holds(name: str, held: bool, value: Value, expected: str) -> Row:
    """What must hold."""
    return Row(name, value, verdict=Verdict.OK if held else Verdict.FAILED, expected=expected)


def failed(name: str, error: BaseException) -> Row:
    """A check that raised."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if len(text) > _LONGEST:
        # What went wrong first is at one end, what was said of it at the other.
        text = f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    return Row(name, text, verdict=Verdict.FAILED, expected="no error")


def skipped(name: str, reason: str) -> Row:
    """A check that was left out."""
    return Row(name, verdict=Verdict.SKIPPED, expected=reason)
