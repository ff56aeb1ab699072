"""`python -m asyncgraph.testing.gpu_checks`: see the package."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from ..._graph.scopes import canonical_device
from ...abc import Device
from ...errors import DeviceNotFoundError, GraphError
from . import __doc__ as about
from ._report import Report
from ._runner import INTERRUPTED, finish, run, watchdog
from ._sections import SECTIONS
from ._subject import facts, find

NO_CARD: Final = 2
_BUDGET_S: Final = 330.0
"""In all: less than six minutes, with the start of the process and its end."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is asked for; the exit status."""
    start_s = perf_counter()
    parser = ArgumentParser(prog="python -m asyncgraph.testing.gpu_checks", description=(about or "").splitlines()[0])
    parser.add_argument("--device", default="gpu:0", type=_device, help="the card (gpu:0)")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="which, separated by commas (all)")
    parser.add_argument("--json", default="gpu_checks.json", type=Path, metavar="PATH", help="the file to write")
    parser.add_argument("--budget", default=_BUDGET_S, type=float, metavar="SECONDS", help="for all of it (330)")
    asked = parser.parse_args(arguments)
    names: list[str] = asked.sections.split(",")
    if unknown := [name for name in names if name not in SECTIONS]:
        parser.error(f"no section is called {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    report = Report(asked.json, str(asked.device))
    try:
        report.write()
    except OSError as error:
        parser.error(f"the JSON file cannot be written: {error}")
    with watchdog(report, asked.budget):
        try:
            subject = find(asked.device)
            report.facts = facts(subject)
            # The rest is for printing, and for a check that began just in time.
            status = run([SECTIONS[name] for name in names], subject, report, start_s + 0.95 * asked.budget)
        except DeviceNotFoundError as error:
            report.reason = str(error)
            status = NO_CARD
        except KeyboardInterrupt:
            report.reason = "interrupted before the first check"
            status = INTERRUPTED
        finish(report)
    return status


def _device(name: str) -> Device:
    try:
        kind, _, index = str(canonical_device(name)).partition(":")
    except GraphError as error:
        raise ArgumentTypeError(str(error)) from error
    return Device(kind, int(index))


if __name__ == "__main__":
    sys.exit(main())
