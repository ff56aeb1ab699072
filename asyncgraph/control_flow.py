"""Nodes that run other nodes: only one branch of two, or again and again.

The nodes that a function given here builds are nodes of the graph like any other. What is special is who runs them:
`cond` and `while_loop` themselves, when and as often as they need them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, final, overload

import numpy as np

from ._graph.building import current_graph
from ._graph.control import lazy_inputs
from ._graph.convert import ConversionError, as_exact_array
from ._graph.graph import Graph
from ._graph.node import Node
from ._graph.op import ASSIGN, COND, LOOP_VALUE, NO_PARAMS, OUTPUT, WHILE_LOOP
from ._graph.scopes import branch, control_dependencies
from ._graph.spec import ANY, ArraySpec, DType, Shape, intern_spec
from ._graph.structures import flatten, leaves_as, rebuild
from ._graph.variable import Variable, assigned_by
from .errors import GraphError, SpecError, SpecTypeError

_Leaf = Node | complex | np.ndarray[Any, Any] | np.generic
"""What is a node, or becomes a constant."""


@overload
def cond(pred: Node, true_fn: Callable[[], _Leaf], false_fn: Callable[[], _Leaf], name: str | None = None) -> Node: ...
@overload
def cond(
    pred: Node,
    true_fn: Callable[[], tuple[_Leaf, _Leaf]],
    false_fn: Callable[[], tuple[_Leaf, _Leaf]],
    name: str | None = None,
) -> tuple[Node, Node]: ...
@overload
def cond(
    pred: Node | bool, true_fn: Callable[[], object], false_fn: Callable[[], object], name: str | None = None
) -> Any: ...
def cond(
    pred: Node | bool, true_fn: Callable[[], object], false_fn: Callable[[], object], name: str | None = None
) -> Any:
    """What `true_fn` gives where `pred` is true when the graph runs, and otherwise what `false_fn` gives.

    Both functions are called now, once, and build nodes. Of these, and of all that only branches need, also what was
    built before, only what the branch needs that is taken runs, as far as what it gives is wanted. Several `cond`s may
    share nodes: those run once, when the first branch is taken that needs them.

    Assignments built in a branch are made if it is taken, if what it gives depends on them, and anything that the
    `cond` gives is wanted. Whichever is taken, assignments built before that a branch uses are made; variables
    have their first values; and placeholders have to be fed. Values are computed on the devices where nodes were
    asked to run, and come back to the host. Gradients are those of the taken branch. In a trace, kernels of a branch
    are part of the span of its `cond`. Branches inside of each other, also of `cond`s that only they use, are refused
    by the run if they are more than 200.

    Args:
        pred: one boolean. A Python one calls only one of the functions, and gives what that does, as it is.
        true_fn: gives a node, anything that becomes a constant, or a list, tuple, dict or dataclass of them, at any
            depth. A Python number takes the dtype of what the other function gives at its place.
        false_fn: the same, of the same structure.
        name: what the node is called that runs the branches; what they give is called `name:0`, `name:1`, ...

    Returns:
        The structure that `true_fn` gives, of nodes whose dtypes are those of both branches, unknown if one is;
        dimensions that differ are unknown.

    Raises:
        SpecTypeError: the structures, or dtypes at one place, differ; something can be no node; or `pred` is not one
            boolean.
        GraphError: a node is of another graph than `pred`.
    """
    if isinstance(pred, (bool, np.bool_)):
        return true_fn() if pred else false_fn()
    if not isinstance(pred, Node):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise SpecTypeError(f"cond: the condition is {pred!r}\n  expected a node of one boolean, or a bool")
    _check_pred(pred)
    return build_cond(pred, true_fn, false_fn, name)


@overload
def while_loop(
    cond_fn: Callable[[Node], object],
    body_fn: Callable[[Node], object],
    loop_vars: _Leaf,
    name: str | None = None,
    *,
    maximum_iterations: int | None = None,
) -> Node: ...
@overload
def while_loop(
    cond_fn: Callable[[Node, Node], object],
    body_fn: Callable[[Node, Node], object],
    loop_vars: tuple[_Leaf, _Leaf],
    name: str | None = None,
    *,
    maximum_iterations: int | None = None,
) -> tuple[Node, Node]: ...
@overload
def while_loop(
    cond_fn: Callable[..., object],
    body_fn: Callable[..., object],
    loop_vars: object,
    name: str | None = None,
    *,
    maximum_iterations: int | None = None,
) -> Any: ...
def while_loop(
    cond_fn: Callable[..., object],
    body_fn: Callable[..., object],
    loop_vars: object,
    name: str | None = None,
    *,
    maximum_iterations: int | None = None,
) -> Any:
    """Computes the body again and again while the condition holds; gives the last values.

    Both functions are called now, with nodes for the values of an iteration, and build nodes; and again, if the body
    gives what less is known of than of what it was given. What they build runs in each iteration; what was built
    before and is used by them, in whatever branch, runs once, before the loop. Random numbers differ by iteration.

    A loop of kernels runs on a worker, or in the thread that blocks for it; never on an event loop. Between two
    iterations, or after a millisecond of them, the run sees its deadline and its cancellation. No iteration keeps the
    values of another; they come to the host after each. In a trace, kernels of a loop are one span. There is no
    gradient through a loop, and nothing is assigned in it: give the last values to `assign`.

    Args:
        cond_fn: takes what `loop_vars` has at its first level, each an argument, and gives one boolean.
        body_fn: takes the same and gives the values of the next iteration, in the structure of `loop_vars`, where a
            list does for a tuple at the first level, and the other way around. Python numbers take the dtype of the
            value that they follow.
        loop_vars: the values of the first iteration: a list or tuple of nodes, of what becomes a constant, and of
            structures of them; or one of these alone.
        name: what the node is called that runs the loop; what it gives is called `name:0`, `name:1`, ...
        maximum_iterations: after so many the loop ends, whatever the condition says.

    Returns:
        The structure of `loop_vars`, of nodes. A dimension that an iteration changes, or that has a name, is unknown.

    Raises:
        SpecTypeError, SpecError: the body gives another structure, or other dtypes or ranks; something can be no node;
            there are no values; or the condition is not one boolean.
        GraphError: something is assigned in the loop, or nodes are of several graphs.
    """
    leaves = flatten(loop_vars)
    if not leaves:
        raise SpecTypeError(f"while_loop: loop_vars is {loop_vars!r}\n  give at least one value, or there is no change")
    graph = next((one.graph for one in leaves if isinstance(one, Node)), None) or current_graph()
    if maximum_iterations is not None and not (isinstance(maximum_iterations, int) and maximum_iterations >= 0):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise SpecError(f"maximum_iterations={maximum_iterations!r}: give an int of at least 0, or None")
    starts = [_as_node(graph, one, None, WHILE_LOOP.name) for one in leaves]
    values, condition, body = _iterations(graph, cond_fn, body_fn, loop_vars, starts)
    params = {
        "values": tuple([one.index for one in values]),
        "condition": condition.nodes[0].index,
        "body": tuple([one.index for one in body.nodes]),
        "most": maximum_iterations,
    }
    captures = [one for one in _captures([condition, body]) if one not in set(values)]
    call = graph.add(WHILE_LOOP, (*starts, *captures), params, ANY, name)
    return rebuild(loop_vars, iter(_outputs(graph, call, [one.spec for one in values])))


def build_cond(
    pred: Node,
    true_fn: Callable[[], object],
    false_fn: Callable[[], object],
    name: str | None = None,
    outside: Collection[Node] = (),
    inside: Collection[Node] = (),
) -> Any:
    """As `cond`, of a node; for gradients of a `cond`.

    `outside` is what the branches use besides what they are seen to; and `inside` what was built before, but belongs
    to branches of another `cond` with that condition: gradients go through it in branches, on the way to `outside`.
    """
    graph = pred.graph
    true, false = _branches(graph, true_fn, false_fn)
    specs = [_common(a, b, name or COND.name) for a, b in zip(true.nodes, false.nodes, strict=True)]
    variables = list(dict.fromkeys([*true.assigned, *false.assigned]))
    for one in variables:
        for each in (true, false):
            last = each.assigned.get(one)
            each.nodes.append(each.inside(one.current) if last is None else last)
    captures = list(dict.fromkeys([*_captures([true, false]), *outside]))
    params: dict[str, object] = {
        "branches": tuple([tuple([node.index for node in each.nodes]) for each in (true, false)])
    }
    if inside:
        params["inside"] = tuple([one.index for one in captures if one in inside])
    call = graph.add(COND, (pred, *captures), params, ANY, name)
    hidden = _outputs(graph, call, [one.spec for one in variables], len(specs))
    made = [one.assign(value) for one, value in zip(variables, hidden, strict=True)]
    # Whoever wants what a branch gives wants what it assigns.
    with control_dependencies(made):
        return rebuild(true.structure, iter(_outputs(graph, call, specs)))


def _branches(graph: Graph, true_fn: Callable[[], object], false_fn: Callable[[], object]) -> tuple[_Branch, _Branch]:
    """What the two functions build, of one structure."""
    true, false = _Branch.build(graph, true_fn, 0), _Branch.build(graph, false_fn, 1)
    leaves = leaves_as(false.structure, true.structure)
    if leaves is None:
        raise SpecTypeError(
            f"cond: the branches give different structures\n  true: {true.structure!r}\n  false: {false.structure!r}"
        )
    false.leaves = leaves
    pairs = list(zip(true.leaves, false.leaves, strict=True))
    for each, places in ((true, pairs), (false, [(b, a) for a, b in pairs])):
        each.nodes = [each.inside(partial(_as_node, graph, one, _dtype(other), COND.name)) for one, other in places]
    return true, false


def _iterations(
    graph: Graph,
    cond_fn: Callable[..., object],
    body_fn: Callable[..., object],
    loop_vars: Any,
    starts: Sequence[Node],
) -> tuple[list[Node], _Branch, _Branch]:
    """As `_iteration`, with what is known of the values in every iteration, the first of which has `starts`."""
    specs = [_unnamed(one.spec) for one in starts]
    while True:
        values, condition, body = _iteration(graph, cond_fn, body_fn, loop_vars, specs)
        body.nodes = [
            body.inside(partial(_as_node, graph, one, start.dtype, WHILE_LOOP.name))
            for one, start in zip(body.leaves, starts, strict=True)
        ]
        wider = [_widened(*three) for three in zip(specs, body.nodes, starts, strict=True)]
        if wider == specs:
            break
        specs = wider  # Built again, of what is less known: what was built is not used by anything.
    for one in (*condition.assigned, *body.assigned):
        raise GraphError(
            f"while_loop: {one.name!r} is assigned in the loop\n"
            "  make it one of loop_vars, and assign the last value after the loop"
        )
    return values, condition, body


def _iteration(
    graph: Graph,
    cond_fn: Callable[..., object],
    body_fn: Callable[..., object],
    loop_vars: Any,
    specs: Sequence[ArraySpec],
) -> tuple[list[Node], _Branch, _Branch]:
    """The nodes that stand for the values of an iteration, and what the two functions build of them."""
    several = isinstance(loop_vars, (list, tuple))
    values = [graph.add(LOOP_VALUE, (), NO_PARAMS, spec) for spec in specs]
    given: Any = rebuild(loop_vars, iter(values))
    arguments = tuple(given) if several else (given,)
    condition = _Branch.build(graph, partial(cond_fn, *arguments), 0)
    body = _Branch.build(graph, partial(body_fn, *arguments), 1)
    holds: object = condition.structure
    if isinstance(holds, (list, tuple, dict)):
        raise SpecTypeError(f"while_loop: the condition gives {cast(object, holds)!r}\n  give one boolean")
    condition.nodes = [_as_node(graph, holds, None, WHILE_LOOP.name)]
    _check_pred(condition.nodes[0])
    # At its first level, a function gives a tuple for a list as easily.
    structure: Any = body.structure
    if {type(structure), type(loop_vars)} == {list, tuple}:
        structure = type(loop_vars)(structure)
    leaves = leaves_as(structure, loop_vars)
    if leaves is None:
        raise SpecTypeError(f"while_loop: the body gives {structure!r}\n  expected the structure of {loop_vars!r}")
    body.leaves = leaves
    return values, condition, body


@final
@dataclass(slots=True)
class _Branch:
    """What one function has built.

    Fields:
        index: what tells it from other branches.
        start: the index of the first of its nodes.
        structure: what it gave; `leaves` are what there is in it.
        nodes: the nodes of that; until all are made of the leaves, those that there are.
    """

    index: int
    start: int
    structure: Any
    leaves: list[object]
    nodes: list[Node]

    @classmethod
    def build(cls, graph: Graph, function: Callable[[], object], side: int) -> _Branch:
        if not callable(function):
            raise SpecTypeError(f"{function!r} is no function\n  give one that builds what is to run: lambda: ...")
        start = len(graph)
        index = 2 * start + side  # The other branch begins at the same node if this one builds none.
        with graph, branch(index):
            structure = function()
        leaves = flatten(structure)
        return cls(index, start, structure, leaves, [one for one in leaves if isinstance(one, Node)])

    def inside(self, build: Callable[[], Node]) -> Node:
        """What `build` builds, as if the function had."""
        with branch(self.index):
            return build()

    @property
    def assigned(self) -> dict[Variable, Node]:
        """The last assignment to each variable among what the function has built and its nodes depend on."""
        found: dict[Variable, Node] = {}
        for node in self.own():
            if node.op is ASSIGN:
                found[assigned_by(node)] = node
        return found

    def own(self) -> list[Node]:
        """The nodes that were built by the function, or since, and that its nodes depend on; in order."""
        seen: set[Node] = set()
        todo = list(self.nodes)
        while todo:
            node = todo.pop()
            if node.index >= self.start and node not in seen:
                seen.add(node)
                todo += (*node.inputs, *node.after, *lazy_inputs(node))
        return sorted(seen, key=lambda node: node.index)


def _captures(branches: Sequence[_Branch]) -> list[Node]:
    """What was built before the functions, and is used by what they have built, or given by them; in order."""
    found: set[Node] = set()
    for each in branches:
        found.update([one for one in each.nodes if one.index < each.start])
        for node in each.own():
            found.update([one for one in (*node.inputs, *node.after) if one.index < each.start])
    return sorted(found, key=lambda node: node.index)


def _outputs(graph: Graph, call: Node, specs: Sequence[ArraySpec], first: int = 0) -> list[Node]:
    label = call.name.rpartition("/")[2]
    return [graph.add(OUTPUT, (call,), {"index": i}, spec, f"{label}:{i}") for i, spec in enumerate(specs, first)]


def _check_pred(node: Node) -> None:
    if not (node.dtype is None or node.dtype == np.dtype(bool)) or node.shape not in (None, ()):
        raise SpecTypeError(
            f"{node!r} is not one boolean\n  write a comparison, or ops.any or ops.all of several booleans"
        )


def _as_node(graph: Graph, value: object, dtype: DType | None, what: str) -> Node:
    """The node of a leaf. If it is none, a constant, to which `dtype` is given where that is known, and fits."""
    if isinstance(value, Node):
        return cast(Node, graph.operand(value, what))
    try:
        return graph.constant(as_exact_array(value, dtype))
    except ConversionError as error:
        how = "" if dtype is None else f" of dtype {dtype}"
        raise SpecTypeError(f"{what}: {value!r} cannot be a constant{how}: {error}") from error


def _dtype(leaf: object) -> DType | None:
    return leaf.dtype if isinstance(leaf, Node) else None


def _common(a: Node, b: Node, name: str) -> ArraySpec:
    """The spec of what is one of two values."""
    if _differ(a.dtype, b.dtype):
        raise SpecTypeError(f"{name}: one branch gives {a!r}, and the other {b!r}\n  write ops.astype in one of them")
    if a.spec is ANY or b.spec is ANY:
        return ANY
    return intern_spec(None if b.dtype is None else a.dtype, _common_shape(a.shape, b.shape))


def _differ(one: DType | None, other: DType | None) -> bool:
    # None is equal to float64, to NumPy.
    return one is not None and other is not None and one != other


def _common_shape(a: Shape, b: Shape) -> Shape:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple([x if x == y else None for x, y in zip(a, b, strict=True)])


def _unnamed(spec: ArraySpec) -> ArraySpec:
    """A named dimension is one size in a run, but an iteration may change it."""
    if spec.shape is None:
        return spec
    return intern_spec(spec.dtype, tuple([None if isinstance(dim, str) else dim for dim in spec.shape]))


def _widened(before: ArraySpec, given: Node, start: Node) -> ArraySpec:
    """The spec of a value before and after an iteration, which gives `given`."""
    after = given.spec
    if _differ(before.dtype, after.dtype):
        raise SpecTypeError(
            f"while_loop: {start!r} becomes {given!r} in the body\n  write ops.astype in the body, or before the loop"
        )
    if before.shape is not None and after.shape is not None and len(before.shape) != len(after.shape):
        raise SpecError(f"while_loop: {start!r} becomes {given!r} in the body: its rank differs")
    if before is ANY or after is ANY:
        return ANY
    dtype = None if after.dtype is None else before.dtype
    return intern_spec(
        dtype, before.shape if _is_within(after.shape, before.shape) else _common_shape(before.shape, after.shape)
    )


def _is_within(shape: Shape, other: Shape) -> bool:
    """Whether all arrays of the one shape have the other, of the same rank."""
    if other is None:
        return True
    return shape is not None and all(b is None or a == b for a, b in zip(shape, other, strict=True))
