"""What the backend uses of CuPy, collected from the backend itself, and whether a library has it.

There are three sources: what kernels call, recorded while they compute the conformance kit's cases on NumPy; what is
written in the backend's modules behind `.xp` and `.cupyx`; and the protocols of `_cuda_api`.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from asyncgraph_cupy import _cuda_api

BACKEND = Path(_cuda_api.__file__).parent
_MISSING: Any = object()


class Use(NamedTuple):
    """A name that is used, and how it is called.

    Fields:
        path: "cupy.cuda.Stream", or "DeviceArray.get" of a protocol.
        positional: how many arguments have no name; `None` if it is not called.
        keywords: the names of the others.
    """

    path: str
    positional: int | None = None
    keywords: frozenset[str] = frozenset()


# -- what is used ------------------------------------------------------------------------------------


class RecordingNamespace:
    """NumPy in CuPy's place: computes, and keeps what was called how. It gives arrays where NumPy gives scalars."""

    __name__ = "cupy"
    __version__ = "14.2.0"
    cuda = SimpleNamespace(runtime=None)

    def __init__(self) -> None:
        self.uses: set[Use] = set()

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        if isinstance(value, type):
            return value

        def recorded(*args: Any, **keywords: Any) -> Any:
            self.uses.add(Use(f"cupy.{name}", len(args), frozenset(keywords)))
            result = value(*args, **keywords)
            return tuple(map(np.asarray, result)) if isinstance(result, (tuple, list)) else np.asarray(result)

        def recorded_at(*args: Any) -> None:
            self.uses.add(Use(f"cupy.{name}.at", len(args)))
            value.at(*args)

        vars(recorded)["at"] = recorded_at
        return recorded


def written() -> set[Use]:
    """What the backend's modules say behind `.xp` or `.cupyx`, and how they call it."""
    roots = {"xp": "cupy", "cupyx": "cupyx"}
    uses: set[Use] = set()
    for path in sorted(BACKEND.glob("*.py")):
        tree = ast.parse(path.read_text())
        inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            names = _dotted(node)
            root = next((one for one in names if one in roots), None)
            if root is None or id(node) in inner or names[-1] == root:
                continue
            rest = names[names.index(root) + 1 :]
            uses.add(Use(".".join([roots[root], *rest]), *_how(calls.get(id(node)))))
    return uses


def _dotted(node: ast.AST) -> list[str]:
    """The names of `a.b.c` where it is read; none of anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return []
    before = _dotted(node.value)
    return [*before, node.attr] if before else []


def _how(call: ast.Call | None) -> tuple[int | None, frozenset[str]]:
    """How it is called; of a call with arguments that are not written out nothing is said."""
    if call is None or any(isinstance(one, ast.Starred) for one in call.args) or None in [k.arg for k in call.keywords]:
        return None, frozenset()
    return len(call.args), frozenset(one.arg for one in call.keywords if one.arg)


def protocols() -> dict[str, type]:
    """The protocols of `_cuda_api`, by name."""
    classes = inspect.getmembers(_cuda_api, inspect.isclass)
    return {name: one for name, one in classes if one.__module__ == _cuda_api.__name__ and "_is_protocol" in vars(one)}


def promised() -> set[Use]:
    """The members of the protocols; methods with all their arguments by position, and each by name."""
    uses: set[Use] = set()
    for name, protocol in protocols().items():
        members = {one for one in {*vars(protocol), *protocol.__annotations__} if not one.startswith("_")}
        members |= {one for one in vars(protocol) if one in ("__getitem__", "__dlpack__")}
        if AbstractContextManager in protocol.__mro__:
            members |= {"__enter__", "__exit__"}
        for member in members:
            uses |= _of_member(f"{name}.{member}", inspect.getattr_static(protocol, member, None))
    return uses


def _of_member(path: str, member: Any) -> set[Use]:
    if not inspect.isfunction(member):
        return {Use(path)}
    parameters = list(inspect.signature(member).parameters.values())[1:]
    by_name = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    by_position = [one for one in parameters if one.kind not in (one.KEYWORD_ONLY, one.VAR_KEYWORD)]
    uses = {Use(path, len(by_position))}
    # What Python calls for `with` and `[]` is never called by name.
    if len(by_name) == len(parameters) and not path.endswith("__"):
        uses.add(Use(path, 0, frozenset(by_name)))
    return uses


# -- whether a library has it ------------------------------------------------------------------------


def wrong(use: Use, faces: dict[str, Any]) -> str | None:
    """What is wrong with a use of a library; `None` if nothing is. `faces` are its modules and types, by first name."""
    first, *rest = use.path.split(".")
    found: Any = faces[first]
    for name in rest:
        owner = found
        found = getattr(owner, name, _MISSING)
        if found is _MISSING:
            # What an object has from its making on is spoken of in the documentation of its class.
            spoken_of = f"~{getattr(owner, '__name__', '')}.{name}" in (owner.__doc__ or "")
            return None if spoken_of else f"{use.path}: there is no such name"
    if use.positional is None:
        return None
    ufunc = [getattr(found, name, None) for name in ("nin", "nout")]
    if isinstance(ufunc[0], int):
        return None if (ufunc == [use.positional, 1] and not use.keywords) else f"{use}: a ufunc of {ufunc}"
    signature = signature_of(found)
    if signature is None:
        return f"{use.path}: it has no signature, and none in its documentation"
    return _unbound(use, signature, found)


def _unbound(use: Use, signature: inspect.Signature, function: Any) -> str | None:
    try:
        signature.bind(*[None] * (use.positional or 0), **dict.fromkeys(use.keywords))
    except TypeError as error:
        return f"{use.path}{signature}: {error}"
    # Keywords that are taken from a dictionary are named in the documentation alone.
    named = {one for one in use.keywords if one not in signature.parameters}
    unnamed = [one for one in named if function.__doc__ and not re.search(rf"\b{one}\b", function.__doc__)]
    return f"{use.path}: does not speak of {unnamed}" if unnamed else None


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Its signature without `self`; that which its documentation begins with, if it is not written in Python."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        begins = re.match(r"[\w.]+\((.*?)\)( ->.*)?(\n|$)", function.__doc__ or "")
        if begins is None:
            return None
        parameters = list(_declared(begins[1]))
    return inspect.Signature([one for one in parameters if one.name != "self"])


def _declared(text: str) -> Iterator[inspect.Parameter]:
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for part in filter(None, text.split(", ")):
        declared, _, default = part.partition("=")
        name = declared.split()[-1]
        if name == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        elif name.startswith("*"):
            variadic: Any = inspect.Parameter.VAR_KEYWORD if name.startswith("**") else inspect.Parameter.VAR_POSITIONAL
            yield inspect.Parameter(name.lstrip("*"), variadic)
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            yield inspect.Parameter(name, kind, default=default if default else inspect.Parameter.empty)
