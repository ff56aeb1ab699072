"""What is public is listed, documented and annotated; what is not listed is not public."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import asyncgraph
import asyncgraph.abc
import asyncgraph.checkpoints
import asyncgraph.errors
import asyncgraph.ops

PACKAGE = Path(asyncgraph.__file__).parent
MODULES = [asyncgraph, asyncgraph.ops]
SPECIAL = {"__init__", "__new__", "__call__"}


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public classes and functions that are this package's own."""
    for name, value in vars(module).items():
        home = getattr(value, "__module__", "")
        if not name.startswith("_") and callable(value) and home.startswith("asyncgraph"):
            yield f"{module.__name__}.{name}", value


OTHERS = [
    *(asyncgraph.abc, asyncgraph.checkpoints, asyncgraph.errors, asyncgraph.hooks, asyncgraph.sequential),
    *(asyncgraph.layers, asyncgraph.metrics, asyncgraph.nn, asyncgraph.optimizers, asyncgraph.schedules),
]
NAMESPACES = [
    *(asyncgraph.checkpoints, asyncgraph.layers, asyncgraph.metrics, asyncgraph.nn, asyncgraph.optimizers),
    *(asyncgraph.ops.linalg, asyncgraph.ops.random, asyncgraph.schedules, asyncgraph.sequential),
]
CALLABLES = dict(pair for module in [*MODULES, *OTHERS] for pair in public(module))


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """What a class itself defines and shows: functions and properties."""
    for name, value in vars(kind).items():
        value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if isinstance(value, (FunctionType, property)) and (not name.startswith("_") or name in SPECIAL):
            yield name, value


def functions(value: Any) -> Iterator[FunctionType]:
    """The functions behind a public name."""
    if isinstance(value, type):
        for _, member in members(value):
            yield from functions(member)
    elif isinstance(value, property):
        yield from functions(value.fget)
    elif isinstance(value, FunctionType) and value.__module__.startswith("asyncgraph"):
        yield value


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_listed_name_is_there_and_listed_once(module: ModuleType) -> None:
    listed = module.__all__
    assert len(set(listed)) == len(listed)
    assert [name for name in listed if name not in vars(module)] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_name_without_an_underscore_is_listed(module: ModuleType) -> None:
    submodules = {path.stem for path in Path(str(module.__file__)).parent.iterdir()}
    shown = {name for name in vars(module) if not name.startswith("_")} - {"annotations"}
    assert shown - set(module.__all__) - submodules == set()


@pytest.mark.parametrize("module", NAMESPACES, ids=lambda module: module.__name__)
def test_a_namespace_lists_what_is_defined_in_it(module: ModuleType) -> None:
    own = {name for name, value in public(module) if value.__module__ == module.__name__}
    assert {name.rpartition(".")[2] for name in own} - {*module.__all__} == set()


def test_every_public_submodule_can_be_imported() -> None:
    names = [path.stem for path in sorted(PACKAGE.iterdir()) if not path.name.startswith(("_", "."))]
    for name in names:
        if name not in ("testing", "py"):
            importlib.import_module(f"asyncgraph.{name}")
    assert {"abc", "errors", "ops"} <= set(names)


@pytest.mark.parametrize("name", CALLABLES)
def test_a_public_name_and_its_members_have_docstrings(name: str) -> None:
    value = CALLABLES[name]
    assert inspect.getdoc(value)
    if isinstance(value, type):
        undocumented = [member for member, one in members(value) if member not in SPECIAL and not one.__doc__]
        assert undocumented == []


@pytest.mark.parametrize("name", CALLABLES)
def test_a_public_name_is_annotated_to_the_last_parameter(name: str) -> None:
    for function in functions(CALLABLES[name]):
        signature = inspect.signature(function)
        given = [one for one in signature.parameters.values() if one.name not in ("self", "cls", "_cls")]
        assert [one.name for one in given if one.annotation is one.empty] == [], function
        assert signature.return_annotation is not signature.empty, function
