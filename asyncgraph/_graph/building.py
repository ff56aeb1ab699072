"""The nodes that every graph begins with: placeholders, constants, variables, groups, and items of objects."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from inspect import iscoroutinefunction
from typing import Any, Final, Literal, cast

import numpy as np

from ..errors import GraphError, SpecError, SpecTypeError
from .convert import ConversionError, as_exact_array
from .graph import Graph
from .node import Node
from .op import GROUP, ITEM, NO_PARAMS, PLACEHOLDER, VARIABLE, Call, Op, Params
from .scopes import control_dependencies, current_scope, name_scope
from .spec import ANY, ArraySpec, Shape
from .template import template_of
from .variable import Variable, may_be


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


def variable(
    initial: object, name: str | None = None, trainable: bool = True, *, dtype: object = None, shape: object = None
) -> Variable:
    """A node whose value sessions keep from run to run; see `Variable`.

    Args:
        initial: its value at first: an array, or anything else that becomes one without changing, copied now; or a
            node, which each session computes when it first needs it, with the values that other variables then
            have. Or a function without arguments that gives such a value: called now; but if `dtype` and `shape`
            are given, then by each session when it first needs it, in a thread, or awaited if it is async.
        name: what it is called, in checkpoints too.
        trainable: whether optimizers change it, if they are not told what to change.
        dtype: what it holds; as the initial value if left out.
        shape: a tuple of ints, and `None` for what may differ from run to run; as the initial value's if left out.

    Raises:
        SpecTypeError, SpecError: the initial value does not fit, or its dtype is not known.
        GraphError: there is no current graph.
    """
    declared = ArraySpec(dtype, shape)
    # A variable depends on nothing that runs: its value is there when a run begins.
    with control_dependencies(None):
        node = _initial(initial, declared, name or VARIABLE.name)
        found = node.spec
        known = declared.dtype or found.dtype
        if known is None:
            raise SpecTypeError(f"the dtype of variable {name!r} is not known: it is that of {node!r}\n  give dtype=")
        # Not `in`: to NumPy, float64 equals None.
        misfits = found.dtype is not None and found.dtype != known
        if misfits or not may_be(found.shape, declared.shape):
            raise SpecError(f"the initial value of variable {name!r} does not fit {declared!r}: it is {node!r}")
        dims = found.shape if declared.shape is None else declared.shape
        unnamed = None if dims is None else tuple([None if isinstance(dim, str) else dim for dim in dims])
        made = node.graph.add(VARIABLE, (node,), {"trainable": bool(trainable)}, ArraySpec(known, unnamed), name)
    return cast("Variable", made)


def global_step() -> Variable:
    """The variable "global_step" of the current graph, an int64 that begins at 0; built if there is none.

    Raises:
        GraphError: there is no current graph; or a node of that name is no such variable.
    """
    graph = current_graph()
    if "global_step" not in graph:
        with name_scope(None):
            return variable(np.int64(0), "global_step", trainable=False)
    found = graph["global_step"]
    if not isinstance(found, Variable) or found.dtype != np.int64 or found.shape != ():
        raise GraphError(f"{found!r} is not the variable that counts steps\n  give it another name")
    return found


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


def _initial(initial: object, declared: ArraySpec, name: str) -> Node:
    if callable(initial) and not isinstance(initial, Node):
        function = cast("Callable[[], object]", initial)
        if declared.dtype is None or declared.shape is None:
            return _initial(_no_function(function(), name), declared, name)
        call = Call(function=function, is_async=iscoroutinefunction(function), spec=declared)
        template, _ = template_of((), {})
        return current_graph().add(Op("initial", pure=False, call=call), (), {"template": template}, declared)
    if isinstance(initial, Node):
        return initial
    try:
        return constant(as_exact_array(initial, declared.dtype))
    except ConversionError as error:
        raise SpecTypeError(f"the initial value of variable {name!r} does not fit {declared!r}: {error}") from error


def _no_function(value: object, name: str) -> object:
    if callable(value) and not isinstance(value, Node):
        raise SpecTypeError(f"the initial value of variable {name!r} is a function that gives {value!r}")
    return value


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
