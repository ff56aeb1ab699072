"""Imports point one way: from a row to its own row or a lower one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [
    {"errors", "abc", "_composed", "_safetensors", "_progress"},
    {"_graph"},
    {"ops", "_gradients", "gradients", "control_flow", "_plan", "loading"},
    {"nn", "optimizers", "schedules", "metrics", "layers"},
    {"_exec", "tracing"},
    {"_registry", "_session", "checkpoints", "hooks", "_hooks"},
    {"asyncgraph", "sequential"},
    {"__main__", "_doctor", "testing"},
]
APART = [{"ops", "_plan"}, {"_gradients", "_plan"}]
"""Neighbours in a row that do not import each other."""

SOURCES = sorted((ROOT / "asyncgraph").rglob("*.py"))
BACKENDS = sorted((ROOT / "backends").rglob("*.py"))


def imports(source: str, package: str) -> Iterator[str]:
    """What a module of `package` imports, wherever in it: "asyncgraph.errors.SpecError"."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def layer(name: str) -> str:
    """The layer of a module or of a name in one: the first part under `asyncgraph` that has a row."""
    part = name.split(".")[1] if "." in name else ""
    return part if any(part in row for row in ROWS) else "asyncgraph"


def offences(source: str, package: str, here: str) -> list[str]:
    row = next(i for i, layers in enumerate(ROWS) if here in layers)
    allowed = set[str]().union(*ROWS[: row + 1])
    for pair in APART:
        allowed -= pair - {here} if here in pair else set()
    ours = [name for name in imports(source, package) if name.split(".")[0] == "asyncgraph"]
    return [name for name in ours if layer(name) not in allowed]


def package_of(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).parent.parts)


def layer_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "asyncgraph").with_suffix("").parts
    return "asyncgraph" if parts == ("__init__",) else parts[0]


def test_a_module_imports_from_its_own_row_or_below() -> None:
    assert len(SOURCES) > 10
    for path in SOURCES:
        assert offences(path.read_text(), package_of(path, ROOT), layer_of(path)) == [], path


def test_nothing_above_the_backends_names_one() -> None:
    for path in SOURCES:
        assert re.findall(r"\basyncgraph_\w+", path.read_text()) == [], path


def test_a_backend_imports_only_what_is_there_for_backends() -> None:
    assert BACKENDS
    for path in BACKENDS:
        package = package_of(path, ROOT / "backends")
        allowed = ("asyncgraph.abc.", "asyncgraph.errors.", f"{package}.")
        ours = [name for name in imports(path.read_text(), package) if name.startswith("asyncgraph")]
        assert [name for name in ours if not name.startswith(allowed)] == [], path


@pytest.mark.parametrize(
    ("source", "package", "here", "found"),
    [
        (
            "from .._session.session import Session",
            "asyncgraph._graph",
            "_graph",
            ["asyncgraph._session.session.Session"],
        ),
        ("def f():\n  from ... import ops", "asyncgraph._plan.passes", "_plan", ["asyncgraph.ops"]),
        ("import asyncgraph", "asyncgraph._exec", "_exec", ["asyncgraph"]),
        ("from asyncgraph import Session", "asyncgraph.testing", "testing", []),
        ("from .spec import ArraySpec\nfrom ..errors import SpecError", "asyncgraph._graph", "_graph", []),
        ("from .._plan.plan import Plan", "asyncgraph.ops", "ops", ["asyncgraph._plan.plan.Plan"]),
    ],
)
def test_an_import_that_points_up_is_found_wherever_it_stands(
    source: str, package: str, here: str, found: list[str]
) -> None:
    assert offences(source, package, here) == found
