"""One application of an op. NumPy's operators and functions, applied to nodes, build more nodes.

Identity matters: two nodes are the same only if they are one object. `==` therefore builds a node,
like every operator, and a node's hash is its identity's. Nothing in this package compares nodes, and
none of its dictionaries can: nodes that differ have hashes that differ, so that a look-up ends before
it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import numpy as np

from ..errors import GraphError, NodeValueError, SpecError, SpecTypeError
from .op import ITEM, NO_PARAMS, Op, Params
from .protocols import ARRAY_FUNCTIONS, UFUNC_OPS, array_namespace, index_key
from .sites import RawSite, Site, resolve_site
from .spec import ANY, DType, Shape

if TYPE_CHECKING:
    from types import ModuleType

    from .graph import Graph
    from .spec import ArraySpec

Scalar = bool | int | float | complex
"""A Python number: it takes part in promotion by its kind alone (NEP 50)."""


class Node:  # not final: `Variable` is one, and nothing else is
    """One application of an op to its inputs, in a graph. Immutable; built by `ops`, operators and `@op`.

    Fields:
        graph, index: where it is: `node.graph.nodes[node.index] is node`.
        op: what it applies.
        operands: what it applies the op to: nodes, and Python numbers as they were written.
        inputs: the nodes among the operands.
        params: what else the op was given, such as an axis.
        after: nodes that run before it, although it does not use their values.
        spec: what is known of its value.
        requested_device: the device it was asked to run on, or `None`.
        name: unique in the graph. A label: nothing is looked up by it but `graph[name]` and the
            names used in `RunArgs`.
        raw_site: what `site` is made of.
    """

    __slots__ = (
        "__weakref__", "after", "graph", "index", "inputs", "name", "op", "operands", "params", "raw_site",
        "requested_device", "spec",
    )  # fmt: skip
    graph: Graph
    index: int
    op: Op
    operands: tuple[Node | Scalar, ...]
    inputs: tuple[Node, ...]
    params: Params
    after: tuple[Node, ...]
    spec: ArraySpec
    requested_device: str | None
    name: str
    raw_site: RawSite

    def __init__(
        self,
        graph: Graph,
        index: int,
        op: Op,
        operands: tuple[Node | Scalar, ...],
        inputs: tuple[Node, ...],
        params: Params,
        after: tuple[Node, ...],
        spec: ArraySpec,
        device: str | None,
        name: str,
        site: RawSite,
    ) -> None:
        _set_graph(self, graph)
        _set_index(self, index)
        _set_op(self, op)
        _set_operands(self, operands)
        _set_inputs(self, inputs)
        _set_params(self, params)
        _set_after(self, after)
        _set_spec(self, spec)
        _set_requested_device(self, device)
        _set_name(self, name)
        _set_raw_site(self, site)

    @property
    def site(self) -> Site | None:
        """The line of the program that built it."""
        return resolve_site(self.raw_site)

    @property
    def dtype(self) -> DType | None:
        """The dtype of its value, or `None` if that is unknown."""
        return self.spec.dtype

    @property
    def shape(self) -> Shape:
        """The shape of its value: ints, names and `None`; or `None` for an unknown rank."""
        return self.spec.shape

    @property
    def ndim(self) -> int | None:
        """The rank of its value, or `None` if that is unknown."""
        return self.spec.ndim

    @property
    def size(self) -> int | None:
        """The number of elements of its value, or `None` if that is unknown."""
        return self.spec.size

    @property
    def device(self) -> str | None:
        """The device it was asked to run on, or `None`."""
        return self.requested_device

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.name!r}: {self.spec!r}>"

    def __reduce__(self) -> tuple[Callable[[Graph, int], Node], tuple[Graph, int]]:
        return _node_of, (self.graph, self.index)

    def __copy__(self) -> Node:
        return self

    # -- what builds nodes ---------------------------------------------------------------------------

    def _apply(self, op: str, *operands: object) -> Node:
        return self.graph.apply(op, operands)

    # fmt: off
    def __neg__(self) -> Node: return self._apply("negative", self)
    def __pos__(self) -> Node: return self._apply("positive", self)
    def __abs__(self) -> Node: return self._apply("abs", self)
    def __invert__(self) -> Node: return self._apply("bitwise_invert", self)
    def __add__(self, other: object) -> Node: return self._apply("add", self, other)
    def __radd__(self, other: object) -> Node: return self._apply("add", other, self)
    def __sub__(self, other: object) -> Node: return self._apply("subtract", self, other)
    def __rsub__(self, other: object) -> Node: return self._apply("subtract", other, self)
    def __mul__(self, other: object) -> Node: return self._apply("multiply", self, other)
    def __rmul__(self, other: object) -> Node: return self._apply("multiply", other, self)
    def __truediv__(self, other: object) -> Node: return self._apply("divide", self, other)
    def __rtruediv__(self, other: object) -> Node: return self._apply("divide", other, self)
    def __floordiv__(self, other: object) -> Node: return self._apply("floor_divide", self, other)
    def __rfloordiv__(self, other: object) -> Node: return self._apply("floor_divide", other, self)
    def __mod__(self, other: object) -> Node: return self._apply("remainder", self, other)
    def __rmod__(self, other: object) -> Node: return self._apply("remainder", other, self)
    def __pow__(self, other: object) -> Node: return self._apply("pow", self, other)
    def __rpow__(self, other: object) -> Node: return self._apply("pow", other, self)
    def __matmul__(self, other: object) -> Node: return self._apply("matmul", self, other)
    def __rmatmul__(self, other: object) -> Node: return self._apply("matmul", other, self)
    def __and__(self, other: object) -> Node: return self._apply("bitwise_and", self, other)
    def __rand__(self, other: object) -> Node: return self._apply("bitwise_and", other, self)
    def __or__(self, other: object) -> Node: return self._apply("bitwise_or", self, other)
    def __ror__(self, other: object) -> Node: return self._apply("bitwise_or", other, self)
    def __xor__(self, other: object) -> Node: return self._apply("bitwise_xor", self, other)
    def __rxor__(self, other: object) -> Node: return self._apply("bitwise_xor", other, self)
    def __lshift__(self, other: object) -> Node: return self._apply("bitwise_left_shift", self, other)
    def __rlshift__(self, other: object) -> Node: return self._apply("bitwise_left_shift", other, self)
    def __rshift__(self, other: object) -> Node: return self._apply("bitwise_right_shift", self, other)
    def __rrshift__(self, other: object) -> Node: return self._apply("bitwise_right_shift", other, self)
    def __lt__(self, other: object) -> Node: return self._apply("less", self, other)
    def __le__(self, other: object) -> Node: return self._apply("less_equal", self, other)
    def __gt__(self, other: object) -> Node: return self._apply("greater", self, other)
    def __ge__(self, other: object) -> Node: return self._apply("greater_equal", self, other)
    # fmt: on

    def __eq__(self, other: object) -> Node:  # pyright: ignore[reportIncompatibleMethodOverride]  # elementwise, as NumPy's
        return self._apply("equal", self, other) if self._is_comparable(other) else NotImplemented

    def __ne__(self, other: object) -> Node:  # pyright: ignore[reportIncompatibleMethodOverride]  # elementwise, as NumPy's
        return self._apply("not_equal", self, other) if self._is_comparable(other) else NotImplemented

    __hash__ = object.__hash__

    def __getitem__(self, key: object) -> Node:
        """The node of `value[key]`: ints, slices, `...` and `None`, alone or in a tuple; any key for any Python object.

        Raises:
            SpecTypeError: the key has arrays or nodes in it.
            SpecError: the key has more indices than the value has dimensions, or an int is out of bounds.
        """
        if self.spec is ANY:
            if isinstance(key, Node):
                raise SpecTypeError(f"{key!r} cannot index {self!r}: give both to a function with @asyncgraph.op")
            return self.graph.add(ITEM, (self,), {"key": key}, ANY)
        return self.graph.apply("index", (self,), {"key": index_key(key)})

    @property
    def T(self) -> Node:  # the Array API standard's name
        """The transpose of a matrix.

        Raises:
            SpecError: the value is known not to be a matrix.
        """
        if self.ndim not in (None, 2):
            raise SpecError(f"{self!r}.T: only a matrix has T\n  write ops.permute_dims(x, axes), or x.mT for a stack")
        return self._apply("matrix_transpose", self)

    @property
    def mT(self) -> Node:  # the Array API standard's name
        """The transpose of the last two axes."""
        return self._apply("matrix_transpose", self)

    # -- NumPy's protocols ---------------------------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """`asyncgraph.ops`, for code that is written for any array library.

        Raises:
            ValueError: a later version of the Array API standard than 2025.12 is asked for.
        """
        return array_namespace(api_version)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> Node:
        """The node of `ufunc(*inputs)`, for every ufunc that has an op."""
        name = UFUNC_OPS.get(ufunc)
        if method != "__call__" or name is None or options:
            call = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
            what = f"{call} with {', '.join(options)}=" if options else call
            raise SpecTypeError(
                f"{what} has no op that could build a node\n"
                "  use a function of asyncgraph.ops, or wrap the call in a function with @asyncgraph.op"
            )
        return self.graph.apply(name, inputs)

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> object:
        """The node of `function(*args, **kwargs)`, for every NumPy function that has an op."""
        builds = ARRAY_FUNCTIONS.get(function)
        if builds is None:
            raise SpecTypeError(
                f"np{function.__module__.removeprefix('numpy')}.{function.__name__} has no op that could build a node\n"
                "  use a function of asyncgraph.ops, or wrap the call in a function with @asyncgraph.op"
            )
        return builds(*args, **kwargs)

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise self._is_no_value(
            "np.asarray(node)", "await session.run(node) to get its array; to join nodes, write ops.stack([a, b])"
        )

    # -- what a node cannot do -----------------------------------------------------------------------

    def __bool__(self) -> bool:
        raise self._is_no_value(
            "bool(node)", "`if node:` cannot be decided; use ops.where(condition, a, b), or `a is b` to compare nodes"
        )

    def __float__(self) -> float:
        raise self._is_no_value("float(node)", "run it first: float((await session.run(node)).results)")

    def __int__(self) -> int:
        raise self._is_no_value("int(node)", "run it first: int((await session.run(node)).results)")

    def __complex__(self) -> complex:
        raise self._is_no_value("complex(node)", "run it first: complex((await session.run(node)).results)")

    def __index__(self) -> int:
        raise self._is_no_value("a node as an index", "use ops.take(x, indices, axis=...)")

    def __format__(self, format_spec: str) -> str:
        if not format_spec:
            return repr(self)
        raise self._is_no_value(f"format(node, {format_spec!r})", "run it first, and format its result")

    def __contains__(self, item: object) -> bool:
        raise self._is_no_value("`x in node`", "use ops.any(node == x)")

    def __len__(self) -> int:
        return self._first_dimension("len(node)")

    def __iter__(self) -> Iterator[Node]:
        return iter([self[i] for i in range(self._first_dimension("iteration over a node"))])

    if not TYPE_CHECKING:  # Type checkers report all of these, unless they see that they are defined.

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"nodes are immutable: {name!r} cannot be set\n  build another node")

        def __delattr__(self, name: str) -> None:
            raise AttributeError(f"nodes are immutable: {name!r} cannot be deleted")

        def __setitem__(self, key: object, value: object) -> NoReturn:
            raise NodeValueError(
                f"node[...] = value: {self!r} stands for a value that is never written\n"
                "  build a new node: ops.at(x)[key].set(value), or ops.where(mask, value, x)"
            )

    def _first_dimension(self, what: str) -> int:
        shape = self.spec.shape
        if shape == ():
            raise self._is_no_value(what, "and a value of rank 0 has no length")
        if not shape or not isinstance(shape[0], int):
            raise self._is_no_value(what, "its length is not known before a run; give the placeholder a literal one")
        return shape[0]

    def _is_comparable(self, other: object) -> bool:
        # Anything else is left to Python, whose answer is identity's: `node == None` is False.
        if isinstance(other, (str, bytes)):
            return self.dtype is None or self.dtype.kind in "SU"
        return isinstance(other, (Node, bool, int, float, complex, np.ndarray, np.generic, list, tuple))

    def _is_no_value(self, what: str, instead: str) -> GraphError:
        return NodeValueError(f"{what}: {self!r} has no value before a run\n  {instead}")


# The slots' own accessors: `object.__setattr__` looks each name up again, at three times the cost.
_slots: Final[Mapping[str, Any]] = vars(Node)
_set_graph: Final[Any] = _slots["graph"].__set__
_set_index: Final[Any] = _slots["index"].__set__
_set_op: Final[Any] = _slots["op"].__set__
_set_operands: Final[Any] = _slots["operands"].__set__
_set_inputs: Final[Any] = _slots["inputs"].__set__
_set_params: Final[Any] = _slots["params"].__set__
_set_after: Final[Any] = _slots["after"].__set__
_set_spec: Final[Any] = _slots["spec"].__set__
_set_requested_device: Final[Any] = _slots["requested_device"].__set__
_set_name: Final[Any] = _slots["name"].__set__
_set_raw_site: Final[Any] = _slots["raw_site"].__set__


@final
class _NoMethod:
    """A method that arrays have and nodes have not. To look it up is an AttributeError that says what to write.

    Not `__getattr__`, which makes every look-up on a node slower: Python then specializes none.
    """

    def __init__(self, name: str) -> None:
        self._name: Final = name

    def __get__(self, node: object, kind: object = None) -> NoReturn:
        # With its name and without `obj`, Python does not add near attributes ("did you mean: 'shape'").
        text = f"nodes have no method {self._name}\n  write asyncgraph.ops.{self._name}(x, ...)"
        raise AttributeError(text, name=self._name)


for _name in (
    "all", "any", "argmax", "argmin", "astype", "clip", "conj", "imag", "max", "mean", "min",
    "prod", "real", "reshape", "round", "squeeze", "std", "sum", "take", "var",
):  # fmt: skip
    setattr(Node, _name, _NoMethod(_name))


def _node_of(graph: Graph, index: int) -> Node:
    return graph.nodes[index]


__all__ = ["NO_PARAMS", "Node", "Scalar"]
