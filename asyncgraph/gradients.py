"""Gradients: nodes that compute the derivatives of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from ._gradients.backward import backward
from ._gradients.control import check_outside
from ._gradients.custom import UserGradient, row_of_function
from ._gradients.tables import USER_GRADIENTS
from ._graph.node import Node
from ._graph.scopes import control_dependencies, name_scope
from .errors import GraphError, SpecError, SpecTypeError
from .ops._build import build
from .ops.custom import OpFunction

if TYPE_CHECKING:
    from .ops._build import Operand

_Rule = TypeVar("_Rule", bound=UserGradient)


def gradients(
    ys: Node | Sequence[Node],
    xs: Node | Sequence[Node],
    grad_ys: Operand | Sequence[Operand | None] | None = None,
    stop: Node | Iterable[Node] = (),
) -> list[Node | None]:
    """For each of `xs` a node of the gradient of the sum of `ys` by it, or `None` where nothing of `ys` depends on it.

    Always a list, also for one node in `xs`, as in TensorFlow. A gradient has the shape that its `x` has in the run,
    and its dtype. What a value gives by being used twice, or broadcast, or by rows that are taken twice, adds up.
    Gradients are nodes like all others: they can be fed, fetched, and differentiated again.

    To read a variable, also after an assignment, is to depend on the variable, and on nothing that was assigned to it;
    the value of an assignment itself depends on what it assigns.

    No path leads through integers and booleans, nor through what is constant but for jumps, such as `floor`, `sign`
    and comparisons, nor through `stop_gradient`. So there is no gradient by what is only used cast to an integer.

    At the corners:

    * `maximum`, `minimum` and `clip` give half to each side of a tie; `max` and `min` equal shares to all equals.
    * `abs` and `hypot` have 0 at 0. `sqrt` has infinity at 0, and so NaN where that meets a factor 0, as in NumPy: keep
      away from it by `sqrt(x + 1e-12)`. `std` of equal elements has NaN, for the same reason.
    * `where(c, f(x), y)` gives exactly 0 to what it does not choose. But if the derivative of `f` is infinite or NaN
      there, 0 times that is NaN: choose before, too, as in `where(c, f(where(c, x, 1.0)), y)`.
    * Of a real value of complex z = a + bi it is d/da + i d/db, as in TensorFlow: what to add to z to make it grow.

    Args:
        ys: what is differentiated: one node, or several, whose sum it is. Of an array, the sum of its elements.
        xs: what it is differentiated by: nodes of any kind, such as placeholders, variables, and what is computed.
        grad_ys: for each of `ys` what its gradient begins with, broadcast to its shape; `None` for ones. For one node
            that is not in a list, it is in none either.
        stop: nodes that are taken for constants: what comes to them goes no further. Those among `xs` have a gradient
            nevertheless: that of what depends on them directly.

    The nodes are built in the graph of `ys`, in the name scope "gradients", each on the device of the node that it
    belongs to, unless a device scope is in force. Control dependencies in force do not apply to them: a gradient is
    that of the values that `ys` are computed from.

    Raises:
        SpecTypeError: one of `xs` is of integers, booleans, or an unknown dtype; or something is no node.
        GradientError: an op on the path has no gradient; or one of `xs` or `stop` belongs to a branch of a `cond`.
        GraphError: the nodes belong to several graphs.
    """
    y_nodes, x_nodes, stops = _nodes("ys", ys), _nodes("xs", xs), set(_nodes("stop", stop))
    everything = [*y_nodes, *x_nodes, *stops]
    if not everything:
        return []
    graph = everything[0].graph
    for one in everything:
        if one.graph is not graph:
            raise GraphError(f"gradients: {one!r} belongs to another graph than {everything[0]!r}")
    _check_dtypes(y_nodes, x_nodes)
    seeds = _seeds(y_nodes, grad_ys, isinstance(ys, Node))
    with graph, name_scope("gradients"), control_dependencies(None):
        made = backward(y_nodes, seeds, x_nodes, stops)
    check_outside(y_nodes, {*stops, *[x for x, one in zip(x_nodes, made, strict=True) if one is None]})
    return made


def stop_gradient(x: Operand, /, *, name: str | None = None) -> Node:
    """A node with the value of `x`, through which no gradient goes: for gradients it is a constant."""
    return build("stop_gradient", (x,), name=name)


def register_gradient(op: OpFunction) -> Callable[[_Rule], _Rule]:
    """Says what the gradient of a user op is: a decorator of a function that builds it.

        @ag.op(spec="float64[n]", pure=True)
        def cube(x): return x**3

        @ag.register_gradient(cube)
        def _(node, gradient): return gradient * 3 * node.inputs[0] ** 2

    The function is called when gradients are built: with the op's node, and the gradient of each of its outputs, which
    is `None` for integers and the like. It gives a node for each of `node.inputs`, in a list unless there is one, or
    `None` for an input that the outputs do not depend on. The inputs are the nodes among the op's arguments, each
    once. A gradient has the shape of its input; its dtype is seen to. What is registered last counts.

    Raises:
        SpecTypeError: `op` was not made by `@op`.
    """
    if not isinstance(op, OpFunction) or op.op.call is None:  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise SpecTypeError(f"register_gradient takes what @op has made, not {op!r}")
    function = op.op.call.function

    def register(rule: _Rule) -> _Rule:
        USER_GRADIENTS[function] = row_of_function(rule)
        return rule

    return register


def _nodes(what: str, given: Node | Iterable[Node]) -> list[Node]:
    several = isinstance(given, Iterable) and not isinstance(given, Node)  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
    listed = list(given) if several else [cast("Node", given)]
    for one in listed:
        if not isinstance(one, Node):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise SpecTypeError(f"gradients: {what} takes a node, or a list of nodes, not {one!r}")
    return listed


def _check_dtypes(ys: Sequence[Node], xs: Sequence[Node]) -> None:
    for node in [*ys, *xs]:
        if node.dtype is None:
            raise SpecTypeError(
                f"gradients: the dtype of {node!r} is not known\n"
                "  give the placeholder a dtype, the user op a spec, or write ops.astype(x, 'float64')"
            )
    for x in xs:
        if x.dtype is not None and x.dtype.kind not in "fc":
            raise SpecTypeError(
                f"gradients: there is no gradient by {x.name!r}, whose dtype is {x.dtype}: {x!r}\n"
                f"  built at: {x.site or 'unknown'}\n"
                "  give it a dtype of real or complex numbers, such as float64"
            )


def _seeds(ys: Sequence[Node], given: object, alone: bool) -> Sequence[object]:
    if given is None:
        return [None] * len(ys)
    listed = list(cast("Sequence[object]", given)) if isinstance(given, (list, tuple)) else None
    # In TensorFlow it is a list always.
    is_list = listed is not None and len(listed) == 1 and (listed[0] is None or isinstance(listed[0], Node))
    if alone and not is_list:
        return [cast("object", given)]
    if listed is None or len(listed) != len(ys):
        raise SpecError(f"gradients: grad_ys takes one for each of ys, of which there are {len(ys)}, not {given!r}")
    return listed
