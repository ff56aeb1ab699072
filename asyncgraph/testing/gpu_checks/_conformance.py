"""The conformance kit on the subject's own backend: the section `ag-conformance`."""

from __future__ import annotations

import io
import os
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from ._rows import Row, fact, holds, skipped
from ._subject import Subject

if TYPE_CHECKING:
    import pytest

_CHOSEN: Final = "NumPy converts 1 / 0, an infinity, to an integer as the processor does; CuPy gives 0"
EXPECTED_FAILURES: Final = {
    "test_values[reciprocal-int]": _CHOSEN,
    "test_values[reciprocal-limits]": _CHOSEN,
}
"""Tests of the kit that fail on a card, by their names, with the reason. One that passes is a failure, too."""

_SHOWN: Final = 25
"""Failures that have a row each."""
_LONGEST: Final = 400
"""Characters of one."""
_SPARE_S: Final = 3.0
"""What a test may take that began just in time."""
# Nothing is written into folders, and the watchdog of this process is left alone.
_OPTIONS: Final = (
    "-q",
    "-s",
    "--tb=short",
    "--import-mode=importlib",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:faulthandler",
)
_CURRENT: Final[list[Subject]] = []


def conformance(subject: Subject) -> Iterator[Row]:
    """The tests of the kit, in this process, as long as there is time."""
    if find_spec("pytest") is None:
        yield skipped("conformance", "pytest is not installed")
        return
    yield from _rows_of(_run(subject))


def generated() -> type:
    """A class of the kit's tests for the subject that is looked at; for the file that pytest collects."""
    from ... import testing

    (subject,) = _CURRENT
    kit: Any = testing.BackendConformance
    differs = {} if subject.stand_in else {"expected_failures": EXPECTED_FAILURES, "flushed": ("float32",)}
    return type("TestBackend", (kit,), {"backend_class": subject.make_backend, **differs})


_FILE: Final = f"from {__name__} import generated\n\nTestBackend = generated()\n"


@final
class _Account:
    """A plug-in of pytest that counts, and stops in time."""

    def __init__(self, subject: Subject) -> None:
        self.outcomes: Final[Counter[str]] = Counter()
        self.failures: Final[list[tuple[str, str]]] = []
        self.collected = 0
        self.interrupted = False
        self._subject: Final = subject

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Called by pytest."""
        self.collected = len(session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest, up to three times for a test."""
        expected = getattr(report, "wasxfail", None) is not None
        outcome = "failed as expected" if expected else report.outcome
        if report.when == "call" or outcome != "passed":
            self.outcomes[outcome] += 1
        if outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            text = str(report.longrepr if crash is None else crash.message)
            self.failures.append((report.nodeid.rpartition("::")[2], " ".join(text.split())[:_LONGEST]))

    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Called by pytest after each test."""
        if self._subject.seconds_left < _SPARE_S:
            item.session.shouldstop = "out of time"

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Called by pytest, which raises nothing then; and when it stops for a reason of its own, by a subclass."""
        self.interrupted = excinfo.type is KeyboardInterrupt


def _run(subject: Subject) -> _Account:
    import pytest

    account = _Account(subject)
    with tempfile.TemporaryDirectory(prefix="gpu_checks") as folder, _alone(), _current(subject):
        # A configuration of its own: not that of whatever folder this was called in.
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")
        # A module that was imported under its name is not imported again.
        file = Path(folder) / f"test_{Path(folder).name}.py"
        file.write_text(_FILE)
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            status = pytest.main([*_OPTIONS, str(file)], plugins=[account])
    if account.interrupted:
        raise KeyboardInterrupt
    if status not in (0, 1) and not account.collected:
        raise RuntimeError(f"pytest ended with {status}: {printed.getvalue()[-1000:]}")
    return account


@contextmanager
def _current(subject: Subject) -> Generator[None]:
    _CURRENT[:] = [subject]
    try:
        yield
    finally:
        _CURRENT.clear()


@contextmanager
def _alone() -> Generator[None]:
    """Inside, pytest loads no plug-in of its own accord."""
    name = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _rows_of(account: _Account) -> Iterator[Row]:
    ran = account.outcomes.total()
    for outcome in ("passed", "skipped", "failed as expected"):
        yield fact(f"tests that {outcome}" if outcome != "skipped" else "tests skipped", account.outcomes[outcome])
    failures = account.outcomes["failed"]
    yield holds("tests that failed", failures == 0, failures, "0")
    yield holds("tests that passed, at all", account.outcomes["passed"] > 0, account.outcomes["passed"], "some")
    for name, text in account.failures[:_SHOWN]:
        yield holds(name, False, text, "to pass")
    if ran < account.collected:
        yield skipped(f"{account.collected - ran} of {account.collected} tests", "out of time")
