"""The checks for a card, as far as they can be shown without one: how they are run, and that they say what is so.

What runs on a stand-in is CuPy's surface with NumPy's values; figures of it are never shown.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from asyncgraph._registry import registry
from asyncgraph.abc import Backend, Device
from asyncgraph.testing import BackendConformance
from asyncgraph.testing.gpu_checks import __main__ as command
from asyncgraph.testing.gpu_checks import _children
from asyncgraph.testing.gpu_checks._children import UFUNCS, call_child, ends, lost, sticky
from asyncgraph.testing.gpu_checks._conformance import EXPECTED_FAILURES
from asyncgraph.testing.gpu_checks._graphs import STEPS
from asyncgraph.testing.gpu_checks._hazards import lost_context_rows
from asyncgraph.testing.gpu_checks._numbers import OPS
from asyncgraph.testing.gpu_checks._report import Report, source_hash
from asyncgraph.testing.gpu_checks._rows import Row, Verdict, fact, figure, holds
from asyncgraph.testing.gpu_checks._runner import INTERRUPTED, Check, Section, finish, on_a_card, run
from asyncgraph.testing.gpu_checks._sections import SECTIONS
from asyncgraph.testing.gpu_checks._subject import Subject
from asyncgraph.testing.gpu_checks._survival import end_of_a_process_rows, lost_device_rows
from asyncgraph_numpy import NumpyBackend

from ...standin.world import World
from .conftest import MakeBackend

IDLE = World(devices=1)
SUBJECT = Subject(NumpyBackend(), NumpyBackend, Device("cpu"), IDLE.cupy, IDLE.cupyx)


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return Report(tmp_path / "checks.json", "gpu:0")


def good(subject: Subject) -> Iterator[Row]:
    yield holds("sum", True, 4, "4")


def bad(subject: Subject) -> Iterator[Row]:
    yield fact("first", "seen")
    raise ValueError("of a check")


def interrupted(subject: Subject) -> Iterator[Row]:
    yield fact("first", "seen")
    raise KeyboardInterrupt


def sections(*checks: Check, budget_s: float | None = 60.0) -> list[Section]:
    """A section for each check."""
    return [Section(f"s{number}", budget_s, (check,)) for number, check in enumerate(checks)]


def verdicts(report: Report) -> list[tuple[str, str, str]]:
    return [(section, row.name, row.verdict.value) for section, row in report.rows]


# -- how they are run ----------------------------------------------------------------------------------


def test_without_a_card_the_reason_is_printed_and_written_and_the_status_is_2(tmp_path: Path) -> None:
    path = tmp_path / "checks.json"
    # No machine has that many.
    arguments = ["-m", "asyncgraph.testing.gpu_checks", "--device", "gpu:99", "--json", str(path)]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=50, check=False)

    assert done.returncode == 2, done.stderr
    written = json.loads(path.read_text())
    assert written["reason"].startswith("no backend has the device 'gpu:99'\n  backend 'numpy' has cpu:0")
    assert written["reason"] in done.stdout
    assert (written["subject"], written["rows"]) == ("none", [])
    assert written["source_sha256"] == source_hash()


def test_a_section_that_there_is_not_is_an_error_that_lists_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        command.main(["--sections", "launch,lunch"])
    assert f"no section is called lunch; there are {', '.join(SECTIONS)}" in capsys.readouterr().err


def test_a_device_that_is_none_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--device", "gpu 0"])
    assert "'gpu 0' is not the name of a device" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--device", "gpu:99", "--json", str(tmp_path / "none" / "checks.json")])
    assert "the JSON file cannot be written: " in capsys.readouterr().err


def test_the_sections_fit_into_their_time_and_leave_some_to_the_last() -> None:
    budgets = [section.budget_s for section in SECTIONS.values()]
    assert budgets[-1] is None
    assert sum(budget for budget in budgets if budget is not None) <= 330 - 60


def test_a_check_that_raises_is_a_failed_row_and_the_others_go_on(report: Report) -> None:
    assert run(sections(bad, good), SUBJECT, report, perf_counter() + 60) == 1
    assert verdicts(report) == [("s0", "first", "info"), ("s0", "bad", "FAIL"), ("s1", "sum", "ok")]
    assert report.rows[1][1].value == "ValueError: of a check"


def test_all_that_must_hold_and_does_gives_status_0_whatever_goals_are_missed(report: Report) -> None:
    def slow(subject: Subject) -> Iterator[Row]:
        yield figure("slow", 2.0, "us", at_most=1)

    assert run(sections(good, slow), SUBJECT, report, perf_counter() + 60) == 0
    assert verdicts(report) == [("s0", "sum", "ok"), ("s1", "slow", "missed")]


def test_what_a_check_leaves_to_be_done_is_its_own(report: Report, stand_in: Subject, world: World) -> None:
    def leaves(subject: Subject) -> Iterator[Row]:
        world.faults.lose(0)
        subject.cupy.full((4,), 1, dtype="float32")
        yield fact("launched", "yes")

    assert run(sections(leaves), stand_in, report, perf_counter() + 60) == 1
    assert verdicts(report) == [("s0", "launched", "info"), ("s0", "leaves", "FAIL")]


def test_what_does_not_hold_gives_status_1(report: Report) -> None:
    def wrong(subject: Subject) -> Iterator[Row]:
        yield holds("sum", False, 3, "4")

    assert run(sections(wrong), SUBJECT, report, perf_counter() + 60) == 1


@pytest.mark.parametrize(("value", "goal", "verdict"), [
    (1.0, {}, Verdict.INFO),
    (1.0, {"at_most": 1}, Verdict.OK),
    (1.1, {"at_most": 1}, Verdict.MISSED),
    (1.0, {"at_least": 1}, Verdict.OK),
    (0.9, {"at_least": 1}, Verdict.MISSED),
])  # fmt: skip
def test_a_goal_is_reached_or_missed(value: float, goal: dict[str, float], verdict: Verdict) -> None:
    assert figure("ratio", value, "x", **goal).verdict is verdict


def test_no_check_begins_after_its_sections_time(report: Report) -> None:
    run(sections(good, budget_s=0.0), SUBJECT, report, perf_counter() + 60)
    ((_, row),) = report.rows
    assert (row.name, row.verdict, row.expected) == ("good", Verdict.SKIPPED, "the time of its section is over")


@pytest.mark.parametrize("budget_s", [60.0, None])
def test_no_check_begins_after_the_time_of_all(report: Report, budget_s: float | None) -> None:
    assert run(sections(good, budget_s=budget_s), SUBJECT, report, perf_counter()) == 0
    ((_, row),) = report.rows
    assert (row.name, row.verdict, row.expected) == ("good", Verdict.SKIPPED, "the time of all sections is over")


def test_an_interrupt_leaves_the_table_and_says_what_was_left_out(
    report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(sections(good, interrupted, good), SUBJECT, report, perf_counter() + 60) == INTERRUPTED
    finish(report)

    assert verdicts(report) == [
        ("s0", "sum", "ok"),
        ("s1", "first", "info"),
        ("s1", "the rest of it", "skip"),
        ("s2", "all of it", "skip"),
    ]
    assert "1 ok, 1 info, 2 skip" in capsys.readouterr().out
    assert len(json.loads(report.path.read_text())["rows"]) == 4


HANGS = """
import sys
from pathlib import Path
from threading import Event
from time import perf_counter
from asyncgraph_numpy import NumpyBackend
from asyncgraph.abc import Backend, Device
from asyncgraph.testing.gpu_checks._children import UFUNCS, call_child, lost, sticky
from asyncgraph.testing.gpu_checks._conformance import EXPECTED_FAILURES
from asyncgraph.testing.gpu_checks._graphs import STEPS
from asyncgraph.testing.gpu_checks._hazards import lost_context_rows
from asyncgraph.testing.gpu_checks._numbers import OPS
from asyncgraph.testing.gpu_checks._report import Report
from asyncgraph.testing.gpu_checks._rows import fact
from asyncgraph.testing.gpu_checks._runner import Section, run, watchdog
from asyncgraph.testing.gpu_checks._subject import Subject

def hangs(subject):
    yield fact("before", "seen")
    Event().wait()

report = Report(Path(sys.argv[1]), "gpu:0")
subject = Subject(NumpyBackend(), NumpyBackend, Device("cpu"), None, None)
with watchdog(report, 0.3):
    run([Section("s", None, (hangs,))], subject, report, perf_counter() + 60)
"""


def test_the_watchdog_ends_what_hangs_with_a_table_and_says_where(tmp_path: Path) -> None:
    path = tmp_path / "checks.json"
    done = subprocess.run(
        [sys.executable, "-c", HANGS, str(path)], capture_output=True, text=True, timeout=50, check=False
    )

    assert done.returncode == 1, done.stderr
    assert "in hangs" in done.stderr
    text = "TimeoutError: not done after 0.3 s; the last row was 'before' of s"
    assert text in done.stdout
    assert [row["value"] for row in json.loads(path.read_text())["rows"]] == ["seen", text]


def test_rows_are_written_after_each_section_in_case_nothing_can_be_later(report: Report) -> None:
    def looks(subject: Subject) -> Iterator[Row]:
        assert [row["name"] for row in json.loads(report.path.read_text())["rows"]] == ["sum"]
        yield fact("written", "yes")

    assert run(sections(good, looks), SUBJECT, report, perf_counter() + 60) == 0


def test_a_figure_of_a_stand_in_is_not_shown(report: Report) -> None:
    report.stand_in = True
    report.add("launch", figure("add", 123.4567, "us", at_most=1))
    report.add("launch", holds("sum", False, 3, "4"))
    report.write()

    assert "123" not in report.table()
    assert "123" not in report.path.read_text()
    assert "stand-in, no card" in report.table()
    assert json.loads(report.path.read_text())["subject"] == "stand-in"
    # What must hold is asked of it, too.
    assert verdicts(report) == [("launch", "add", "info"), ("launch", "sum", "FAIL")]


def test_what_needs_a_card_is_left_out_on_a_stand_in(report: Report) -> None:
    run(sections(on_a_card(good)), replace(SUBJECT, stand_in=True), report, perf_counter() + 60)
    assert verdicts(report) == [("s0", "good", "skip")]


def test_an_error_that_the_table_has_no_room_for_stands_below_it(report: Report) -> None:
    def wordy(subject: Subject) -> Iterator[Row]:
        raise ValueError("word " * 50 + "end")
        yield

    run(sections(wordy), SUBJECT, report, perf_counter() + 60)
    assert report.table().splitlines()[-2].endswith("word end")


# -- on the stand-in -----------------------------------------------------------------------------------

NEEDS_A_CARD = {
    "env": ["device", "cold start"],
    "copy": ["pinned memory"],
    "overlap": ["small kernels"],
    "complete": ["wake up"],
    "hazard": ["lost context"],
    "num": ["single values", "repeated", "exchange with torch"],
    "ag-results": ["a tensor of torch is fed"],
    "ag-end": ["end of a process"],
    "ag-lost": ["lost device"],
}
"""By section, the checks that nothing stands in for."""


@pytest.fixture
def stand_in(world: World, make_backend: MakeBackend) -> Subject:
    return Subject(make_backend(), make_backend, Device("gpu"), world.cupy, world.cupyx, stand_in=True)


@pytest.mark.parametrize("name", [name for name in SECTIONS if name != "ag-conformance"])
def test_a_section_finds_nothing_wrong_on_the_stand_in(
    name: str, world: World, stand_in: Subject, report: Report
) -> None:
    report.stand_in = True
    status = run([SECTIONS[name]], stand_in, report, perf_counter() + 50)
    stand_in.backend.close()

    assert [(row.name, row.value) for _, row in report.rows if row.verdict is Verdict.FAILED] == []
    assert status == 0
    left_out = [row.name for _, row in report.rows if row.verdict is Verdict.SKIPPED]
    assert left_out == NEEDS_A_CARD.get(name, [])
    if name == "hazard":
        # The one that is looked for: without protection, memory is used again too early.
        assert len(world.races) == 1
        world.races.clear()
    world.check()


def test_the_kit_runs_on_the_subjects_own_backend_as_long_as_there_is_time(
    world: World, stand_in: Subject, report: Report
) -> None:
    report.stand_in = True
    run([SECTIONS["ag-conformance"]], stand_in, report, perf_counter() + 4.5)

    found = {row.name: row for _, row in report.rows}
    # How many there is time for, and whether they pass, is not this test's affair.
    assert int(found["tests that passed"].value) + int(found["tests that failed"].value) > 0
    assert report.rows[-1][1].expected == "out of time"
    assert world.counts["launch"] > 0


def test_a_test_of_the_kit_that_fails_is_a_row_with_its_name_and_error(stand_in: Subject, report: Report) -> None:
    def broken() -> Backend:
        raise ValueError("made in no way")

    subject = replace(stand_in, make_backend=broken)
    assert run([SECTIONS["ag-conformance"]], subject, report, perf_counter() + 4) == 1

    failures = [row for _, row in report.rows if row.expected == "to pass"]
    assert len(failures) > 0
    assert {(row.name.partition("_")[0], row.value) for row in failures} == {("test", "ValueError: made in no way")}


def test_what_the_kit_is_told_to_expect_of_a_card_are_names_of_its_tests() -> None:
    assert {*EXPECTED_FAILURES} <= {*BackendConformance.names_of_tests()}


def test_a_lost_context_is_told_from_an_event_that_is_not_there_yet() -> None:
    # Its device does nothing before somebody asks for it.
    world = World(devices=1, eagerness=0)
    stand_in = replace(SUBJECT, cupy=world.cupy, cupyx=world.cupyx, stand_in=True)

    def poison() -> None:
        world.faults.lose(0)
        world.cupy.full((4,), 1, dtype="float32")

    rows = list(lost_context_rows(sticky(stand_in, poison)))

    assert [row.name for row in rows if row.verdict is Verdict.FAILED] == []
    assert {row.name: row.value for row in rows} == {
        "eventQuery": 700,
        "event.synchronize": "CUDARuntimeError 700",
        "event.done": False,
        "allocation": "CUDARuntimeError 700",
        "kernel": "CUDARuntimeError 700",
        "new stream": "CUDARuntimeError 700",
    }


def test_a_context_that_is_as_good_as_new_is_no_lost_one(stand_in: Subject) -> None:
    rows = list(lost_context_rows(sticky(stand_in, lambda: None)))
    assert [row.name for row in rows if row.verdict is Verdict.FAILED] == ["eventQuery", "event.synchronize"]


def test_a_child_that_fails_says_what_it_failed_of(stand_in: Subject) -> None:
    with pytest.raises(
        RuntimeError, match=r"the child 'sticky' ended with 1: (.|\n)*no backend has the device 'gpu:99'"
    ):
        call_child(replace(stand_in, device=Device("gpu", 99)), "sticky")


def test_a_process_is_to_end_without_a_word(stand_in: Subject, world: World) -> None:
    with registry.lend(stand_in.backend):
        assert ends(stand_in) == {"kept": "ndarray"}
    _children._kept.clear()
    world.check()
    (silent,), (told,) = end_of_a_process_rows(""), end_of_a_process_rows("Exception ignored in:\n <function>")
    assert (silent.verdict, told.verdict) == (Verdict.OK, Verdict.FAILED)
    assert told.value == "Exception ignored in: <function>"


def test_runs_of_a_lost_device_fail_and_those_of_the_host_go_on(world: World, stand_in: Subject) -> None:
    with registry.lend(stand_in.backend):
        rows = list(lost_device_rows(lost(stand_in, lambda: world.faults.lose(0))))

    assert [(row.name, row.value) for row in rows if row.verdict is Verdict.FAILED] == []
    assert {row.name: row.value for row in rows}["runs after that"] == "2 DeviceLostError"


def test_a_device_that_is_not_lost_is_seen(world: World, stand_in: Subject) -> None:
    with registry.lend(stand_in.backend):
        rows = list(lost_device_rows(lost(stand_in, lambda: None)))
    assert [row.name for row in rows if row.verdict is Verdict.FAILED] == ["runs after that"]


# -- the names of CuPy that they use -------------------------------------------------------------------

FOLDER = Path(command.__file__).parent
MODULES = {"cupy": "cupy", "cupyx": "cupyx", "runtime": "cupy.cuda.runtime"}
"""What names of variables and attributes stand for, in the source of the checks."""


def dotted(node: ast.AST) -> str:
    """The name of CuPy's that an expression is, "" if it is none: "cupy.cuda.Stream" for `subject.cupy.cuda.Stream`."""
    if isinstance(node, ast.Name):
        return MODULES.get(node.id, "")
    if not isinstance(node, ast.Attribute):
        return ""
    inside = dotted(node.value)
    return f"{inside}.{node.attr}" if inside else MODULES.get(node.attr, "")


def names_used() -> dict[str, set[str]]:
    """The names of CuPy's that the checks use, each with the keywords that it is called with."""
    used: dict[str, set[str]] = {}
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (isinstance(node, ast.Attribute | ast.Name)) and (name := dotted(node)):
                used.setdefault(name, set())
            if isinstance(node, ast.Call) and (name := dotted(node.func)):
                used.setdefault(name, set()).update(one.arg for one in node.keywords if one.arg)
    for name in (*UFUNCS, *OPS, *[name for name, _ in STEPS]):
        used.setdefault(f"cupy.{name}", set())
    return used


METHODS: dict[str, tuple[str, set[str]]] = {
    "ndarray.get": ("cupy.ndarray", {"stream", "out", "blocking"}),
    "ndarray.set": ("cupy.ndarray", {"stream"}),
    "RawKernel.compile": ("cupy.RawKernel", set()),
    "Event.record": ("cupy.cuda.Event", {"stream"}),
    "Event.synchronize": ("cupy.cuda.Event", set()),
    "Event.done": ("cupy.cuda.Event", set()),
    "Stream.wait_event": ("cupy.cuda.Stream", set()),
    "Stream.synchronize": ("cupy.cuda.Stream", set()),
    "Device.use": ("cupy.cuda.Device", set()),
    "Device.synchronize": ("cupy.cuda.Device", set()),
    "MemoryPool.set_limit": ("cupy.cuda.MemoryPool", {"size"}),
    "MemoryPool.get_limit": ("cupy.cuda.MemoryPool", set()),
    "MemoryPool.used_bytes": ("cupy.cuda.MemoryPool", set()),
    "MemoryPool.total_bytes": ("cupy.cuda.MemoryPool", set()),
    "MemoryPool.free_all_blocks": ("cupy.cuda.MemoryPool", set()),
}
"""Methods that the checks call, with the keywords that they give."""


def keywords(function: Any) -> str:
    """The text that a function's parameters are named in: of a compiled one, its docstring."""
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return str(function.__doc__)


def missing_keywords(function: Any, given: set[str]) -> list[str]:
    return [one for one in sorted(given) if not re.search(rf"\b{one}\b", keywords(function))]


def test_every_name_of_cupy_and_every_keyword_is_in_the_installed_one() -> None:
    pytest.importorskip("cupy", reason="CuPy is not installed")
    used = names_used()
    assert {"cupy.cuda.Stream", "cupyx.empty_pinned", "cupy.cuda.runtime.eventQuery", "cupy.RawKernel"} <= {*used}
    wrong: list[str] = []
    for name, given in used.items():
        module, _, path = name.partition(".")
        try:
            value = attrgetter(path)(import_module(module)) if path else None
        except AttributeError:
            wrong.append(name)
        else:
            wrong += [f"{name}({one}=)" for one in missing_keywords(value, given)]
    for method, (kind, given) in METHODS.items():
        value = getattr(attrgetter(kind.partition(".")[2])(import_module("cupy")), method.partition(".")[2])
        wrong += [f"{method}({one}=)" for one in missing_keywords(value, given)]
    assert wrong == []
