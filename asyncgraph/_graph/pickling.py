"""Graphs as flat tables, which is how they are pickled.

A row stands for a node and names its inputs by their indexes, so that neither side of a pickle recurses:
a chain may be as long as memory allows. Everything that could not be pickled is found while the table is
made, when the node to blame is still known.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any, Final, NamedTuple, cast, final

import numpy as np

from ..errors import GraphError, GraphPicklingError
from .graph import Graph
from .node import Node, Scalar
from .op import Call, Op, Params, op_named
from .sites import RawSite, Site, resolve_site
from .spec import ArraySpec
from .template import Rebuilt, Template

_DEEPEST: Final = 100
"""How many decorators a function is looked for behind; one that wraps itself has no end."""


@final
class FunctionReference(NamedTuple):
    """Where other processes find a function: `module.qualname`, then `depth` times what it `__wrapped__`.

    `@op`, like every decorator, leaves itself under the function's name, so the name alone is not enough.
    """

    module: str
    qualname: str
    depth: int


@final
class OpRow(NamedTuple):
    """A user's op: its function by reference if it has one, and the other fields of its `Call`."""

    name: str
    pure: bool
    function: FunctionReference | Callable[..., Any]
    options: dict[str, object]


@final
class NodeRow(NamedTuple):
    """A node: `op` is a name of the tables or an index of `Table.ops`; an operand is `(index,)` or a number."""

    op: str | int
    operands: tuple[tuple[int] | Scalar, ...]
    params: dict[str, object]
    after: tuple[int, ...]
    spec: ArraySpec
    device: str | None
    name: str
    site: Site | None


@final
class Table(NamedTuple):
    """A graph. `names` counts the nodes and scopes that asked for each name, so that the next gets a new one."""

    nodes: list[NodeRow]
    ops: list[OpRow]
    names: dict[str, int]
    finalized: bool


def table_of(nodes: Sequence[Node], names: dict[str, int], finalized: bool) -> Table:
    """The table of all nodes of a graph, in order.

    Raises:
        GraphPicklingError: a node calls a function that other processes cannot find, or holds a value that
            cannot be pickled. The message names the node and the line that built it.
    """
    rows: list[NodeRow] = []
    ops: list[OpRow] = []
    index_of: dict[Op, int] = {}
    sites: dict[RawSite, Site | None] = {}
    for node in nodes:
        op: str | int = node.op.name
        if node.op.call is not None:
            if node.op not in index_of:
                index_of[node.op] = len(ops)
                ops.append(_op_row(node, node.op.call))
            op = index_of[node.op]
        params = dict(node.params)
        if params:
            _require_picklable(node, "its parameters", params)
        site = node.raw_site
        if site not in sites:
            sites[site] = resolve_site(site)
        operands = tuple([(one.index,) if isinstance(one, Node) else one for one in node.operands])
        after = tuple([one.index for one in node.after])
        rows.append(NodeRow(op, operands, params, after, node.spec, node.requested_device, node.name, sites[site]))
    return Table(rows, ops, names, finalized)


def graph_from_table(table: Table) -> Graph:
    """The graph of a table, its arrays read-only.

    Raises:
        GraphError: rows stand before what they need, as in a cycle, or two have one name.
        GraphPicklingError: a function is not where the table says.
    """
    _require_order(table.nodes)
    ops = [_op_of(row) for row in table.ops]
    graph = Graph()
    nodes = graph.nodes
    for row in table.nodes:
        graph.restore(
            ops[row.op] if isinstance(row.op, int) else op_named(row.op),
            tuple([nodes[one[0]] if isinstance(one, tuple) else one for one in row.operands]),
            _frozen(row.params),
            tuple([nodes[index] for index in row.after]),
            row.spec,
            row.device,
            row.name,
            None if row.site is None else Site(*row.site),
        )
    graph.restore_names(table.names)
    if table.finalized:
        graph.finalize()
    return graph


# -- functions ---------------------------------------------------------------------------------------


def _op_row(node: Node, call: Call) -> OpRow:
    options = {field.name: getattr(call, field.name) for field in fields(call) if field.name != "function"}
    _require_picklable(node, "the options of its op", options)
    function = _reference_to(call.function)
    if function is None:
        # Not found by a name of its own, but it may be a method, or an object that is called.
        function = call.function
        _require_picklable(node, f"the function {_name_of(function)}", function)
    return OpRow(node.op.name, node.op.pure, function, options)


def _op_of(row: OpRow) -> Op:
    function = _referred(row.function) if isinstance(row.function, FunctionReference) else row.function
    options: dict[str, Any] = row.options
    return Op(row.name, pure=row.pure, call=Call(function=function, **options))


def _reference_to(function: Callable[..., Any]) -> FunctionReference | None:
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(qualname, str)):
        return None
    try:
        found = _looked_up(module, qualname)
    except (ImportError, AttributeError):
        return None
    for depth in range(_DEEPEST):
        if found is function:
            return FunctionReference(module, qualname, depth)
        found = getattr(found, "__wrapped__", None)
    return None


def _referred(reference: FunctionReference) -> Callable[..., Any]:
    try:
        found = _looked_up(reference.module, reference.qualname)
        for _ in range(reference.depth):
            found = found.__wrapped__
    except (ImportError, AttributeError) as error:
        raise GraphPicklingError(
            f"the graph calls {reference.module}.{reference.qualname}, which this process cannot find: {error}\n"
            "  it must be importable here as it was where the graph was pickled"
        ) from error
    return found


def _looked_up(module: str, qualname: str) -> Any:
    found: Any = import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _name_of(function: Callable[..., Any]) -> str:
    qualname = getattr(function, "__qualname__", None)
    return repr(function) if qualname is None else f"{function.__module__}.{qualname}"


# -- values ------------------------------------------------------------------------------------------


def _require_picklable(node: Node, what: str, value: object) -> None:
    try:
        # Arrays are left out of the trial, not copied: that is what a callback without a result asks for.
        pickle.dumps(value, protocol=5, buffer_callback=_leave_out)
    except Exception as error:
        raise GraphPicklingError(
            f"the node {node.name!r} cannot be pickled, because of {what}: {error}\n"
            f"  built at {node.site}\n"
            "  use a function defined at the top level of a module, and values that can be pickled"
        ) from error


def _leave_out(buffer: pickle.PickleBuffer) -> None:
    pass


def _frozen(params: dict[str, object]) -> Params:
    todo: list[object] = list(params.values())
    while todo:
        value = todo.pop()
        if isinstance(value, Template):
            todo += (*value.args, *value.kwargs.values())
        elif isinstance(value, Rebuilt):
            todo += value.parts
        elif isinstance(value, np.ndarray):
            array = cast("np.ndarray[Any, Any]", value)
            array.flags.writeable &= array.dtype.hasobject  # arrays of objects never were read-only
    return params


# -- order -------------------------------------------------------------------------------------------


def _needed_by(row: NodeRow) -> Iterator[int]:
    yield from (one[0] for one in row.operands if isinstance(one, tuple))
    yield from row.after


def _require_order(rows: Sequence[NodeRow]) -> None:
    for index, row in enumerate(rows):
        for needed in _needed_by(row):
            if not 0 <= needed < len(rows):
                raise GraphError(f"not a graph: {row.name!r} needs row {needed}, of {len(rows)}")
            if needed >= index:
                cycle = _cycle(rows)
                if cycle:
                    names = " -> ".join(rows[one].name for one in cycle)
                    raise GraphError(f"not a graph: a cycle, in which each node needs the next: {names}")
                raise GraphError(f"not a graph: {row.name!r} stands before {rows[needed].name!r}, which it needs")


def _cycle(rows: Sequence[NodeRow]) -> list[int]:
    """The rows of a cycle, its first again at its end; empty if there is none."""
    left: set[int] = set()
    for start in range(len(rows)):
        if start in left:
            continue
        path, on_path, todo = [start], {start}, [_needed_by(rows[start])]
        while todo:
            needed = next(todo[-1], None)
            if needed is None:
                todo.pop()
                done = path.pop()
                on_path.remove(done)
                left.add(done)
            elif needed in on_path:
                return [*path[path.index(needed) :], needed]
            elif needed not in left:
                path.append(needed)
                on_path.add(needed)
                todo.append(_needed_by(rows[needed]))
    return []
