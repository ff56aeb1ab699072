"""The house rules that a program can check: each test gives the places that break one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def files(*folders: str) -> dict[str, str]:
    """The source of each module in these folders, by its path."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


LIBRARY = files("asyncgraph", "backends")
EVERYTHING = LIBRARY | files("tests", "examples")
TREES = {path: ast.parse(source) for path, source in EVERYTHING.items()}
OPEN_BASES = re.compile(r"(ABC|Protocol|Enum|\w*Error|Exception)\b")
"""What a class has as a base that is there for others to extend, or that nobody can extend."""
IGNORE = re.compile(r"# *(pyright: *ignore|type: *ignore|noqa|pragma: *no cover).*")
GOOD_IGNORE = re.compile(r"# (pyright: ignore\[[\w, ]+\]|noqa: [A-Z0-9, ]+|pragma: no cover)  # \S.*")


def nodes(folder: dict[str, str]) -> Iterator[tuple[str, ast.AST]]:
    for path in folder:
        for node in ast.walk(TREES[path]):
            yield f"{path}:{getattr(node, 'lineno', 0)}", node


def lines(folder: dict[str, str]) -> Iterator[tuple[str, str]]:
    for path, source in folder.items():
        for number, line in enumerate(source.splitlines(), start=1):
            yield f"{path}:{number}", line


def nothing(places: Iterable[str]) -> None:
    assert "\n".join(places) == ""


def test_the_rules_are_asked_of_every_module() -> None:
    assert {"asyncgraph/__init__.py", "backends/asyncgraph_numpy/__init__.py", "tests/test_house_rules.py"} <= {*TREES}


def test_a_module_has_at_most_500_lines() -> None:
    nothing(path for path, source in EVERYTHING.items() if source.count("\n") > 500)


def test_a_function_has_at_most_60_lines() -> None:
    functions = [
        (place, node) for place, node in nodes(EVERYTHING) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    nothing(place for place, node in functions if (node.end_lineno or 0) - node.lineno >= 60)


def test_no_except_catches_everything_without_saying_so() -> None:
    handlers = [(place, node) for place, node in nodes(EVERYTHING) if isinstance(node, ast.ExceptHandler)]
    nothing(place for place, node in handlers if node.type is None)


def test_nothing_is_left_to_do_in_comments() -> None:
    left = re.compile(r"#.*\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
    nothing(place for place, line in lines(EVERYTHING) if left.search(line))


def test_an_ignore_names_its_rule_and_gives_its_reason() -> None:
    ignores = [(place, IGNORE.search(line)) for place, line in lines(EVERYTHING) if "re.compile" not in line]
    nothing(place for place, found in ignores if found and not GOOD_IGNORE.fullmatch(found[0]))


def test_a_class_is_abstract_or_final() -> None:
    classes = [(place, node) for place, node in nodes(LIBRARY) if isinstance(node, ast.ClassDef)]
    closed = {place for place, node in classes if "final" in map(ast.unparse, node.decorator_list)}
    open_ = {place for place, node in classes if any(OPEN_BASES.match(ast.unparse(base)) for base in node.bases)}
    node = {place for place, node in classes if node.name == "Node"}  # a variable is one
    nothing(sorted({place for place, _ in classes} - closed - open_ - node))


def test_capabilities_are_declared_and_never_probed() -> None:
    calls = [(place, node) for place, node in nodes(LIBRARY) if isinstance(node, ast.Call)]
    probes = [(place, node) for place, node in calls if ast.unparse(node.func) == "hasattr"]
    # A protocol of Python's or NumPy's, such as "__dlpack__", has no other way of being declared.
    nothing(place for place, node in probes if not ast.unparse(node.args[1]).startswith("'__"))
