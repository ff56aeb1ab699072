"""Nodes and the edges between them: append-only, shared by threads, read while it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast, final, overload

import numpy as np

from ..errors import GraphError, GraphFinalizedError, NodeNotFoundError, SpecTypeError
from .node import Node, Scalar
from .op import CONSTANT, NO_PARAMS, RANDOM_OPS, VARIABLE, Op, Params, op_named
from .rules.infer import infer_spec
from .scopes import current_scope, enter_graph, leave_scope
from .sites import RawSite, Site, calling_site
from .spec import ArraySpec, intern_spec
from .variable import Variable

if TYPE_CHECKING:
    from types import TracebackType


@final
class Graph:
    """A computation, described once.

    `with graph:` makes it the current graph, for everything in the `with` block and for the tasks
    started there. A graph may be extended while sessions run it, from any thread. It holds no values
    but its constants, and may be pickled.
    """

    __slots__ = ("__weakref__", "_by_name", "_counts", "_finalized", "_lock", "_nodes", "_variables", "draws")

    def __init__(self) -> None:
        self._nodes: Final[list[Node]] = []
        self._variables: Final[list[Variable]] = []
        self._by_name: Final[dict[str, Node]] = {}
        # For each name that was asked for, how many nodes have it or it with a number behind.
        self._counts: Final[dict[str, int]] = {}
        self._finalized = False
        # Whether one of the nodes draws random numbers: then sessions number their runs.
        self.draws = False
        self._lock: Final = Lock()

    def __enter__(self) -> Graph:
        enter_graph(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        leave_scope()

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes, oldest first: a live view that only grows. Inputs stand before what uses them."""
        return _Nodes(self._nodes)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables, oldest first."""
        return tuple(self._variables)

    def __len__(self) -> int:
        return len(self._nodes)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, name: str) -> Node:
        """The node of that name.

        Raises:
            NodeNotFoundError: there is none; the message shows the names that are near.
        """
        node = self._by_name.get(name)
        if node is None:
            raise NodeNotFoundError(self._no_such_name(name))
        return node

    def __contains__(self, item: object) -> bool:
        if isinstance(item, Node):
            return item.graph is self
        return item in self._by_name

    def __repr__(self) -> str:
        return f"<Graph of {len(self._nodes)} nodes{', finalized' if self._finalized else ''}>"

    def __str__(self) -> str:
        return "\n".join(describe(node) for node in self._nodes)

    def __reduce__(self) -> tuple[Callable[..., Graph], tuple[object, ...]]:
        from .pickling import graph_from_table, table_of

        with self._lock:
            nodes, names = self._nodes.copy(), self._counts.copy()
        return graph_from_table, (table_of(nodes, names, self._finalized),)

    @property
    def finalized(self) -> bool:
        """Whether the graph takes no more nodes."""
        return self._finalized

    def finalize(self) -> None:
        """From now on, building a node is a `GraphFinalizedError`. Cannot be undone."""
        self._finalized = True

    def unique_name(self, name: str) -> str:
        """`name`, or `name_1`, `name_2`, …: the first that this graph has not given away."""
        with self._lock:
            unique = self._claim(name)
            self._counts.setdefault(unique, 1)
            return unique

    # -- building ------------------------------------------------------------------------------------

    def apply(self, op: str, operands: Sequence[object], params: Params = NO_PARAMS, name: str | None = None) -> Node:
        """The node of an op of the tables, applied to nodes, Python numbers, and anything that `constant` takes.

        Raises:
            SpecError, SpecTypeError, SpecOverflowError: the op can never take these. Nothing was added.
            GraphFinalizedError: the graph takes no more nodes.
        """
        checked = tuple([self.operand(value, op) for value in operands])
        spec = infer_spec(op, checked, params)
        return self.add(op_named(op), checked, params, spec, name)

    def add(
        self,
        op: Op,
        operands: tuple[Node | Scalar, ...],
        params: Params,
        spec: ArraySpec,
        name: str | None = None,
        after: tuple[Node, ...] = (),
    ) -> Node:
        """The node of any op, its spec and operands taken as they are, in the scopes in force."""
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise SpecTypeError(f"{op.name}: name={name!r}: give a text, or None")
        scope = current_scope()
        prefix = ""
        if scope is not _no_scope:
            if scope.graph is self or scope.graph is None:
                prefix = scope.prefix
            if scope.after:
                after += tuple(node for node in scope.after if node.graph is self)
        site = calling_site()
        with self._lock:
            if self._finalized:
                raise GraphFinalizedError(
                    f"the graph is finalized: it takes no node {(name or op.name)!r}\n"
                    "  build everything before finalize(), or fetch a node that exists already"
                )
            full = self._claim(prefix + (name or op.name))
            return self._append(op, operands, params, after, spec, scope.device, full, site)

    def restore(
        self,
        op: Op,
        operands: tuple[Node | Scalar, ...],
        params: Params,
        after: tuple[Node, ...],
        spec: ArraySpec,
        device: str | None,
        name: str,
        site: Site | None,
    ) -> Node:
        """The node of a pickled one: everything is taken as it is, and no scope applies.

        Raises:
            GraphError: another node has its name.
        """
        with self._lock:
            if name in self._by_name:
                raise GraphError(f"not a graph: two nodes are named {name!r}")
            return self._append(op, operands, params, after, spec, device, name, site)

    def restore_names(self, counts: Mapping[str, int]) -> None:
        """Goes on counting names where a pickled graph was."""
        with self._lock:
            self._counts.update(counts)

    def _append(
        self,
        op: Op,
        operands: tuple[Node | Scalar, ...],
        params: Params,
        after: tuple[Node, ...],
        spec: ArraySpec,
        device: str | None,
        name: str,
        site: RawSite,
    ) -> Node:
        """Under the lock."""
        for one in operands:
            if not isinstance(one, Node):
                inputs = tuple([one for one in operands if isinstance(one, Node)])
                break
        else:
            inputs = cast("tuple[Node, ...]", operands)  # one tuple to keep, not two
        kind = Node if op is not VARIABLE else Variable
        node = kind(self, len(self._nodes), op, operands, inputs, params, after, spec, device, name, site)
        if op in RANDOM_OPS:
            self.draws = True
        if op is VARIABLE:
            self._variables.append(cast("Variable", node))
        self._by_name[name] = node
        self._nodes.append(node)
        return node

    def operand(self, value: object, op: str) -> Node | Scalar:
        """What a node of this graph holds for `value`: a node or Python number itself, else a new constant.

        Raises:
            SpecTypeError: `value` is none of these, and no array of numbers, times or text.
            GraphError: it is a node of another graph.
        """
        if isinstance(value, Node):
            if value.graph is not self:
                raise GraphError(
                    f"{op}: {value!r} belongs to another graph\n"
                    "  build both operands in one graph; a value of another graph can be fed to a placeholder"
                )
            return value if type(value) is Node else reading(value)
        # np.float64 is a float, but takes part in promotion with its own dtype.
        if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
            return value
        if isinstance(value, np.matrix):
            raise SpecTypeError(
                f"{op}: an operand is an np.matrix, for which operators mean something else than for arrays\n"
                "  give np.asarray(matrix), and write @ for the product of matrices"
            )
        try:
            return self.constant(value)
        except SpecTypeError as error:
            raise SpecTypeError(f"{op}: {error}") from error.__cause__

    def constant(self, value: object, name: str | None = None) -> Node:
        """The node of an array that is copied now.

        Raises:
            SpecTypeError: `value` is no array of numbers, times or text.
        """
        array = frozen_copy(value)
        return self.add(CONSTANT, (), {"value": array}, intern_spec(array.dtype, array.shape), name)

    def _claim(self, name: str) -> str:
        """A name nobody has. Under the lock, which is held until it is among the nodes' or the counts."""
        count = self._counts.get(name)
        if count is None:
            if name not in self._by_name:
                self._counts[name] = 1
                return name
            count = 1
        while True:
            unique = f"{name}_{count}"
            count += 1
            # Somebody may have asked for "x_1" by that name.
            if unique not in self._by_name and unique not in self._counts:
                self._counts[name] = count
                return unique

    def _no_such_name(self, name: object) -> str:
        from difflib import get_close_matches

        if not isinstance(name, str):
            return f"{name!r} is no name of a node\n  nodes are found by name; by position: graph.nodes[0]"
        if name.endswith(":0") and name[:-2] in self._by_name:
            return f"no node is named {name!r} in {self!r}\n  names have no ':0' here; write {name[:-2]!r}"
        near = get_close_matches(name, list(self._by_name), n=3)
        hint = f"\n  near: {', '.join(map(repr, near))}" if near else ""
        return f"no node is named {name!r} in {self!r}{hint}"


_no_scope: Final = current_scope()


def reading(node: Node) -> Node:
    """What stands for `node` where it is used now: for a variable, in control dependencies, a read after these."""
    if isinstance(node, Variable) and any(one.graph is node.graph for one in current_scope().after):
        return node.read()
    return node


@final
class _Nodes(Sequence[Node]):
    """A read-only view of a graph's list of nodes."""

    __slots__ = ("_nodes",)

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> list[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | list[Node]:
        return self._nodes[index]

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    # By identity: where a sequence compares, nodes would build nodes.

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Node) and value.index < len(self._nodes) and self._nodes[value.index] is value

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        if isinstance(value, Node) and value in self and value.index in range(len(self._nodes))[start:stop]:
            return value.index
        raise ValueError(f"{value!r} is not among these nodes")

    def count(self, value: object) -> int:
        return int(value in self)

    def __repr__(self) -> str:
        return f"<{len(self._nodes)} nodes>"


def frozen_copy(value: object) -> np.ndarray[Any, Any]:
    """A read-only copy in native byte order, with the strides NumPy's `copy` gives.

    Raises:
        SpecTypeError: `value` is no array of numbers, times or text.
    """
    if isinstance(value, np.ma.MaskedArray):
        masked = cast("object", value)
        raise SpecTypeError(
            f"{_short(masked)} cannot be a constant: it is a masked array, whose mask would be lost\n"
            "  fill it first: array.filled(...)"
        )
    try:
        array = np.array(value)
    except GraphError:
        raise  # a node among the values, which says what to write
    except (TypeError, ValueError) as error:
        raise SpecTypeError(f"{_short(value)} cannot be a constant: {error}") from error
    if array.dtype.hasobject:
        large = next((one for one in array.flat if isinstance(one, int) and not -(2**63) <= one < 2**64), None)
        if large is not None:
            raise SpecTypeError(f"{_short(value)} cannot be a constant: no dtype of NumPy's holds the integer {large}")
        raise SpecTypeError(
            f"{_short(value)} cannot be a constant: it is no array of numbers\n"
            "  give a Python object to a user op as an argument, or feed it to placeholder(dtype=None)"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    array.flags.writeable = False
    return array


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def describe(node: Node) -> str:
    """One line: `y: float32[n] = add(x, 1)`."""
    after = f"  after {', '.join(one.name for one in node.after)}" if node.after else ""
    where = f"  on {node.requested_device}" if node.requested_device else ""
    return f"{node.name}: {node.spec!r} = {node.op.name}({_arguments(node)}){where}{after}"


def _arguments(node: Node) -> str:
    template = node.params.get("template")
    if template is not None:
        return repr(template)[1:-1]  # A user op's arguments are its own, with its operands among them.
    parts = [one.name if isinstance(one, Node) else repr(one) for one in node.operands]
    parts += [f"{key}={_param(value)}" for key, value in node.params.items()]
    return ", ".join(parts)


def _param(value: object) -> str:
    if isinstance(value, np.ndarray):
        return "..." if value.size > 4 else repr(value.tolist())
    return _short(value)
