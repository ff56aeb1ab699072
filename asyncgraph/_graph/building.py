"""The nodes that every graph begins with: placeholders, constants, groups, and items of objects."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Literal, cast

import numpy as np

from ..errors import GraphError, SpecError, SpecTypeError
from .convert import ConversionError, as_exact_array
from .graph import Graph
from .node import Node
from .op import GROUP, ITEM, NO_PARAMS, PLACEHOLDER, Params
from .scopes import current_scope
from .spec import ANY, ArraySpec, Shape


class _Missing(Enum):
    MISSING = "no default"


MISSING: Final = _Missing.MISSING


def current_graph() -> Graph:
    """The graph of the innermost `with graph:` of this context.

    Raises:
        GraphError: there is none, as in a thread that was started bare.
    """
    graph = current_scope().graph
    if graph is None:
        raise GraphError(
            "there is no current graph\n"
            "  build inside `with graph:`; a thread has its own context, so enter the graph there again"
        )
    return graph


def placeholder(
    dtype: object,
    shape: object = None,
    name: str | None = None,
    default: object | Literal[_Missing.MISSING] = MISSING,
) -> Node:
    """A node whose value is fed when a graph is run.

    Args:
        dtype: what its array holds; `None` lets the fed value decide. With neither dtype nor shape, any
            Python object may be fed and comes through as it is.
        shape: a tuple of ints, dimension names and `None` for unknown; `None` for an unknown rank. A name
            is one size per run, for all placeholders of the graph that have it.
        name: what errors call it, and a key to feed it by.
        default: its value where none is fed. An array is copied now; of any other Python object each run
            gets the same one.

    Raises:
        SpecError, SpecTypeError: dtype or shape are none, or the default does not fit them, or is a node.
        GraphError: there is no current graph.
    """
    graph = current_graph()
    spec = ArraySpec(dtype, shape)
    params: Params = NO_PARAMS
    if default is not MISSING:
        params = {"default": _fitting(default, spec, name or PLACEHOLDER.name)}
    return graph.add(PLACEHOLDER, (), params, spec, name)


def constant(value: object, name: str | None = None) -> Node:
    """A node whose value is an array that is copied now; later changes of `value` are not seen.

    Raises:
        SpecTypeError: `value` is no array of numbers, times or text.
        GraphError: there is no current graph.
    """
    return current_graph().constant(value, name)


def group(*nodes: Node, name: str | None = None) -> Node:
    """A node without a value (`None` when fetched) that is done when all of `nodes` are.

    Raises:
        SpecTypeError: something is not a node.
        GraphError: the nodes belong to several graphs, or there are none and no current graph.
    """
    for node in nodes:
        if not isinstance(node, Node):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise SpecTypeError(f"group takes nodes, not {node!r}")
    graph = nodes[0].graph if nodes else current_graph()
    for node in nodes:
        if node.graph is not graph:
            raise GraphError(f"group: {node!r} belongs to another graph than {nodes[0]!r}")
    return graph.add(GROUP, (), NO_PARAMS, ANY, name, after=tuple(dict.fromkeys(nodes)))


def item(node: Node, key: object, name: str | None = None) -> Node:
    """The node of `value[key]`, where the value is a Python object such as a user op's dict.

    Raises:
        SpecTypeError: `node` is not one.
    """
    if not isinstance(node, Node):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise SpecTypeError(f"item takes a node, not {node!r}")
    return node.graph.add(ITEM, (node,), {"key": key}, ANY, name)


def _fitting(default: object, spec: ArraySpec, name: str) -> object:
    if isinstance(default, Node):
        raise SpecTypeError(f"the default of placeholder {name!r} is a node: {default!r}\n  give a value")
    if spec is ANY:
        return _frozen(cast("np.ndarray[Any, Any]", default)) if isinstance(default, np.ndarray) else default
    try:
        array = as_exact_array(default, spec.dtype)
    except ConversionError as error:
        raise SpecTypeError(f"the default of placeholder {name!r} does not fit {spec!r}: {error}") from error
    if not fits(array.shape, spec.shape):
        raise SpecError(f"the default of placeholder {name!r} has shape {array.shape}, and does not fit {spec!r}")
    return _frozen(array)


def _frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copied = array.copy(order="K")
    copied.flags.writeable = False
    return copied


def fits(actual: tuple[int, ...], shape: Shape) -> bool:
    """Whether an array of that shape fits, whatever sizes the names have."""
    if shape is None:
        return True
    return len(actual) == len(shape) and all(
        size == dim or not isinstance(dim, int) for size, dim in zip(actual, shape, strict=True)
    )
