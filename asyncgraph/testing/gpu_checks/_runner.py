"""Runs sections of checks within their time, whatever a check does."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from threading import Timer
from time import perf_counter
from typing import Final, final

from ..._registry import registry
from ._report import Report
from ._rows import Row, failed, skipped
from ._subject import Subject

Check = Callable[[Subject], Iterable[Row]]
"""Looks at one thing. Its name is what a row is called if it raises or is left out."""

INTERRUPTED: Final = 130
_GRACE_S: Final = 10.0
"""After the budget: how long the watchdog may take to print."""


@final
@dataclass(frozen=True, slots=True)
class Section:
    """Checks that belong together.

    Fields:
        budget_s: how long they may take; no check begins later. `None` is all the time that is left.
    """

    name: str
    budget_s: float | None
    checks: Sequence[Check]


def on_a_card(check: Check) -> Check:
    """The check, left out on a stand-in."""

    @wraps(check)
    def looked(subject: Subject) -> Iterator[Row]:
        if subject.stand_in:
            yield skipped(_name(check), "needs a card")
        else:
            yield from check(subject)

    return looked


def run(sections: Sequence[Section], subject: Subject, report: Report, end_s: float) -> int:
    """Runs the checks until `end_s`, by `perf_counter`, with a row in the report for whatever happens.

    Sessions of the checks run on the subject's backend.

    Returns:
        The exit status: 0, 1 if a row failed, or `INTERRUPTED`.
    """
    status = 0
    with registry.lend(subject.backend):
        for section in sections:
            if status == INTERRUPTED:
                report.add(section.name, skipped("all of it", "interrupted"))
                continue
            try:
                _run_section(section, subject, report, end_s)
            except KeyboardInterrupt:
                report.add(section.name, skipped("the rest of it", "interrupted"))
                status = INTERRUPTED
            report.write()
    return status or int(report.failures > 0)


def _run_section(section: Section, subject: Subject, report: Report, end_s: float) -> None:
    until_s = end_s if section.budget_s is None else min(end_s, perf_counter() + section.budget_s)
    subject = replace(subject, until_s=until_s)
    for check in section.checks:
        if subject.seconds_left <= 0:
            whose = "all sections is" if until_s == end_s else "its section is"
            report.add(section.name, skipped(_name(check), f"the time of {whose} over"))
            continue
        try:
            for row in check(subject):
                report.add(section.name, row)
            # What it has started is no other check's, nor is an error of that.
            subject.synchronize()
        except Exception as error:  # Whatever a check runs into is what it found.
            report.add(section.name, failed(_name(check), error))


def _name(check: Check) -> str:
    name: str = getattr(check, "__name__", "check")
    return name.replace("_", " ").strip()


@contextmanager
def watchdog(report: Report, after_s: float) -> Generator[None]:
    """Inside, the process ends with status 1 after that time, even if a call never returns.

    The table is printed, the JSON file written, and what the threads were doing is on stderr. A call that holds the
    GIL keeps the table from being printed; then the stacks are all there is.
    """
    faulthandler.dump_traceback_later(after_s + _GRACE_S, exit=True, file=sys.__stderr__ or sys.stderr)
    timer = Timer(after_s, _give_up, [report, after_s])
    timer.daemon = True
    timer.name = "gpu_checks watchdog"
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def _give_up(report: Report, after_s: float) -> None:
    faulthandler.dump_traceback(file=sys.__stderr__ or sys.stderr)
    rows = report.rows
    last = f"the last row was {rows[-1][1].name!r} of {rows[-1][0]}" if rows else "there were no rows"
    report.add("watchdog", failed("all sections", TimeoutError(f"not done after {after_s:g} s; {last}")))
    finish(report)
    sys.stdout.flush()
    os._exit(1)


def finish(report: Report) -> None:
    """Prints the table, and writes the JSON file."""
    print(report.table(), flush=True)
    report.write()
