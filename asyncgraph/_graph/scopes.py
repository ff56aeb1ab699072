"""The scopes in force while nodes are built: graph, name, device, control dependencies.

All four are in one frozen record in one ContextVar. So a scope is seen by the tasks and, through
`asyncio.to_thread`, the threads started inside it, and building a node reads one variable. Each
record knows the one outside it, and leaving a scope restores that: no token is kept on an object
that several tasks may have entered.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from ..errors import GraphError, SpecTypeError

if TYPE_CHECKING:
    from .graph import Graph
    from .node import Node

_SCOPE_NAME: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.\-/]*\Z")
_DEVICE: Final = re.compile(r"(?:/device:|/)?([A-Za-z][A-Za-z0-9_]*)(?::(\d+))?\Z")


@final
@dataclass(frozen=True, slots=True)
class Scope:
    """What is in force.

    Fields:
        graph: the graph that takes nodes which do not know theirs, such as placeholders.
        prefix: what names of nodes begin with: "" or "a/b/".
        device: where nodes are asked to run: "gpu:0", or `None` for wherever the session likes.
        after: nodes that run before whatever is built now.
        branch: the branches of `cond` and bodies of `while_loop` that are being built, from the outermost in.
        outer: what is in force again once this scope is left.
    """

    graph: Graph | None = None
    prefix: str = ""
    device: str | None = None
    after: tuple[Node, ...] = ()
    branch: tuple[int, ...] = ()
    outer: Scope | None = None


_T = TypeVar("_T")
_NONE: Final = Scope()
_current: ContextVar[Scope] = ContextVar("asyncgraph scope", default=_NONE)


def current_scope() -> Scope:
    """What is in force in this context."""
    return _current.get()


def enter_graph(graph: Graph) -> None:
    """Makes `graph` the current one. Another graph's names and control dependencies end at its border."""
    scope = _current.get()
    if scope.graph is graph:
        _current.set(replace(scope, outer=scope))
    else:
        _current.set(Scope(graph=graph, device=scope.device, outer=scope))


def leave_scope() -> None:
    """Restores what was in force outside the innermost scope."""
    outer = _current.get().outer
    _current.set(_NONE if outer is None else outer)


@contextmanager
def name_scope(name: str | None) -> Generator[str]:
    """Nodes built inside have names that begin with `name/`. Scopes nest: `a/b/`.

    Gives the scope's own prefix. A name ending in "/" enters exactly that scope again; otherwise a
    scope entered twice becomes `name_1`, as in TF1. `None` or "" goes back to the root.

    Raises:
        GraphError: the name has characters that no scope's name may have.
    """
    scope = _current.get()
    if name is None or (type(name) is str and not name):
        prefix = ""
    elif not (isinstance(name, str) and _SCOPE_NAME.match(name)):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise GraphError(f"{name!r} cannot name a scope\n  use letters, digits, '_', '.', '-' and '/'")
    elif name.endswith("/"):
        prefix = name
    elif scope.graph is None:
        prefix = f"{scope.prefix}{name}/"
    else:
        prefix = scope.graph.unique_name(f"{scope.prefix}{name}") + "/"
    yield from _inside(replace(scope, prefix=prefix, outer=scope), prefix)


@contextmanager
def device(name: str | None) -> Generator[str | None]:
    """Nodes built inside are asked to run on that device: "cpu:0", "gpu:1", or TF's "/gpu:1".

    The innermost scope wins; `None` lets the session choose again. Whether there is such a device is
    the session's question: see `SessionConfig.soft_placement`.

    Raises:
        GraphError: `name` is not the name of a device.
    """
    scope = _current.get()
    known = canonical_device(name)
    yield from _inside(replace(scope, device=known, outer=scope), known)


@contextmanager
def control_dependencies(nodes: Iterable[Node] | None) -> Generator[None]:
    """Nodes built inside run after all of `nodes`. Scopes add up; `None` clears them.

    The edge is a property of the node built inside: fetching that node runs `nodes` first. Using a
    node that was built outside adds nothing to it. So does a node of another graph than the one built
    inside: nothing can run after it, since a run is of one graph, and it is left out without an error.
    """
    from .node import Node

    scope = _current.get()
    if nodes is None:
        after: tuple[Node, ...] = ()
    else:
        # Strings are iterable too, and a name is the likely mistake.
        one = isinstance(nodes, (str, Node)) or not isinstance(nodes, Iterable)  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        given: list[Any] = [nodes] if one else list(nodes)
        for node in given:
            if not isinstance(node, Node):
                raise SpecTypeError(f"control_dependencies takes a list of nodes, not {node!r}")
        after = tuple(dict.fromkeys(scope.after + tuple(given)))
    yield from _inside(replace(scope, after=after, outer=scope), None)


@contextmanager
def branch(index: int) -> Generator[None]:
    """Assignments built inside are made only when, and as often as, the branch or body of that index runs."""
    scope = _current.get()
    yield from _inside(replace(scope, branch=(*scope.branch, index), outer=scope), None)


def _inside(scope: Scope, value: _T) -> Generator[_T]:
    _current.set(scope)
    try:
        yield value
    finally:
        leave_scope()


def canonical_device(name: str | None) -> str | None:
    """`kind:index`, in lower case: "GPU" and "/gpu:0" are "gpu:0".

    Raises:
        GraphError: `name` is not the name of a device.
    """
    if name is None:
        return None
    match = _DEVICE.match(name) if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
    if match is None:
        raise GraphError(f"{name!r} is not the name of a device\n  write, for example, 'cpu:0' or 'gpu:1'")
    kind, index = match.groups()
    return f"{kind.lower()}:{int(index or 0)}"
