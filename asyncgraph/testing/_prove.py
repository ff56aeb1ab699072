"""The conformance kit without a file of tests: a table of what a backend does, and of what it does not."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final, cast, final

from .._registry import registry
from ..abc import Backend
from ..errors import BackendNotFoundError

if TYPE_CHECKING:
    import pytest

    from ._kit.base import KitBase

_WIDTH: Final = 120
_SHOWN: Final = 40
"""How many tests are named that fail, or are left out, for the same reason."""

_OUTCOMES: Final = ("passed", "failed", "expected failures", "skipped")
_FILE: Final = f"from {__name__} import kit_for\n\nTestBackend = kit_for({{!r}})\n"


def prove(name: str) -> int:
    """Runs the kit on a backend, by pytest in this process, and prints a table; the exit code.

    Raises:
        BackendNotFoundError: there is no such backend.
        ModuleNotFoundError: pytest is not installed.
    """
    import pytest

    if ":" not in name:
        registry.backend(name)  # What is imported from here on has pytest's assertions, so a module is left to it.
    account = _Account()
    with TemporaryDirectory() as folder:
        path = Path(folder)
        # A configuration of its own: that of the folder we are in is not meant for it.
        (path / "pytest.ini").write_text("[pytest]\nfilterwarnings = ignore:Module already imported\n")
        (path / "test_backend.py").write_text(_FILE.format(name))
        options = ["-q", "--tb=no", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:asyncio"]
        code = int(pytest.main([folder, "-c", str(path / "pytest.ini"), *options], plugins=[account]))
    if account.error is not None:
        raise account.error
    print(*account.lines(name), sep="\n")
    return code or (0 if account.counts["passed"] else 1)


def kit_for(name: str) -> type[KitBase]:
    """The kit for a backend by the name of its entry point, or for a "module:Class" of a backend, or of a kit itself.

    Raises:
        BackendNotFoundError: there is no such backend.
    """
    from ._kit.base import KitBase
    from .conformance import BackendConformance

    found = _look_up(name)
    if isinstance(found, type) and issubclass(found, KitBase):
        return found
    return type("TestBackend", (BackendConformance,), {"backend_class": found})


def _look_up(name: str) -> Callable[[], Any]:
    from ._kit.base import KitBase

    module, colon, attribute = name.partition(":")
    if not colon:
        return type(registry.backend(name))
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: object = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BackendNotFoundError(f"there is no backend {name!r}: {type(error).__name__}: {error}") from error
    if not callable(found) or (isinstance(found, type) and not issubclass(found, (Backend, KitBase))):
        raise BackendNotFoundError(
            f"{name!r} is {found!r}\n"
            "  expected: a class of asyncgraph.abc.Backend, a function that makes one, or a BackendConformance"
        )
    return cast("Callable[[], Backend]", found)


@final
class _Account:
    """A plug-in of pytest that counts.

    Fields:
        groups: the groups of the tests, by their ids.
        counts: how many tests there were of each outcome.
        tests: for each outcome that has a reason: the names of the tests of each reason.
        error: why there are no tests; `None` if there are.
    """

    def __init__(self) -> None:
        self.groups: Final[dict[str, str]] = {}
        self.counts: Final[Counter[str]] = Counter()
        self.tests: Final[dict[str, dict[str, list[str]]]] = {one: {} for one in _OUTCOMES[1:]}
        self.error: BaseException | None = None
        self._by_group: Final[Counter[tuple[str, str]]] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Called by pytest."""
        for item in session.items:
            marker = item.get_closest_marker("conformance")
            self.groups[item.nodeid] = "other" if marker is None else marker.kwargs["group"]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest, up to three times for a test."""
        if report.when != "call" and report.passed:
            return
        expected: str | None = getattr(report, "wasxfail", None)
        outcome = "expected failures" if expected is not None else report.outcome
        self.counts[outcome] += 1
        self._by_group[self.groups[report.nodeid], outcome] += 1
        if outcome in self.tests:
            name = report.nodeid.rpartition("::")[2]
            self.tests[outcome].setdefault(expected or _reason(report), []).append(name)

    def pytest_exception_interact(
        self, call: pytest.CallInfo[Any], report: pytest.TestReport | pytest.CollectReport
    ) -> None:
        """Called by pytest: there may be no such module, or class."""
        if report.when == "collect" and call.excinfo is not None:
            self.error = call.excinfo.value

    def lines(self, name: str) -> Iterator[str]:
        """A table with a line for each group, and below it what has a reason, by reason."""
        from ._kit import GROUPS

        rows = [["", *_OUTCOMES]]
        for group in dict.fromkeys([*GROUPS, *self.groups.values()]):
            rows.append([group, *[str(self._by_group[group, outcome]) for outcome in _OUTCOMES]])
        rows.append([name, *[str(self.counts[outcome]) for outcome in _OUTCOMES]])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        yield ""
        for first, *others in rows:
            yield "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])])
        for outcome, reasons in self.tests.items():
            if reasons:
                yield f"\n{outcome}:"
            for reason, names in reasons.items():
                yield f"  {reason}"
                more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
                text = ", ".join([*names[:_SHOWN], *more])
                yield fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)


def _reason(report: pytest.TestReport) -> str:
    """Why a test was skipped; or a line of what was raised."""
    longrepr: Any = report.longrepr
    if isinstance(longrepr, tuple):
        return str(cast("tuple[object, ...]", longrepr)[2]).removeprefix("Skipped: ")
    crash: Any = getattr(longrepr, "reprcrash", None)
    line = str(longrepr).rpartition("\n")[2] if crash is None else str(crash.message).partition("\n")[0]
    return line
