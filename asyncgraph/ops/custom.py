"""`@op` turns any function into an op of the graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any, Final, final, overload

from .._graph.building import current_graph
from .._graph.graph import Graph
from .._graph.node import Node
from .._graph.op import OUTPUT, Call, Op, Retry, Where
from .._graph.spec import ANY, ArraySpec
from .._graph.template import holds_node, template_of
from ..errors import GraphError, SpecTypeError

SpecLike = ArraySpec | str
"""A spec, or the text that `ArraySpec.parse` reads."""


@final
class OpFunction:
    """A function that builds a node when it is called with one, and just runs otherwise.

    Made by `@op`. Pickled by module and name, as functions are.
    """

    def __init__(self, function: Callable[..., Any], op: Op, outputs: Callable[..., Any] | None) -> None:
        self.op: Final = op
        self._function: Final = function
        # Makes what `node` returns from the nodes of several outputs: `tuple`, or a named tuple.
        self._outputs: Final = outputs
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A node, if there is one anywhere in the arguments; otherwise what the function returns."""
        if holds_node(args) or (kwargs and holds_node(kwargs)):
            return self.node(*args, **kwargs)
        return self._function(*args, **kwargs)

    def node(self, *args: Any, name: str | None = None, **kwargs: Any) -> Any:
        """The node of one call; a tuple of nodes if `spec=` says that there are several outputs.

        Lists, tuples, dicts and arrays among the arguments are copied now; nodes in them, at any depth,
        are replaced by their values when the call is made.

        Raises:
            GraphError: the nodes belong to several graphs, or there is none and no current graph.
            SpecTypeError: the arguments do not fit the function's signature.
        """
        self._check(args, kwargs)
        template, nodes = template_of(args, kwargs)
        graph = _graph_of(nodes, self.op.name)
        call = self.op.call
        assert call is not None
        several = isinstance(call.spec, tuple)
        spec = call.spec if isinstance(call.spec, ArraySpec) else ANY
        made = graph.add(self.op, nodes, {"template": template}, spec, name)
        if not several:
            return made
        assert isinstance(call.spec, tuple) and self._outputs is not None
        outputs = [graph.add(OUTPUT, (made,), {"index": i}, one) for i, one in enumerate(call.spec)]
        return self._outputs(outputs)

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            inspect.signature(self._function).bind(*args, **kwargs)
        except ValueError:
            return  # Functions written in C may have no signature; the call itself will say.
        except TypeError as error:
            raise SpecTypeError(f"{self.op.name}: {error}") from error

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a function in a class: bound to the instance."""
        return self if instance is None else _Bound(self, instance)

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[attr-defined]  # update_wrapper set it

    def __repr__(self) -> str:
        return f"<op {self.op.name!r} of {self._function!r}>"


@final
class _Bound:
    """An op that was taken from an instance of the class it was defined in."""

    def __init__(self, function: OpFunction, instance: object) -> None:
        self._of: Final = function
        self._instance: Final = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._of(self._instance, *args, **kwargs)

    def node(self, *args: Any, name: str | None = None, **kwargs: Any) -> Any:
        """As `OpFunction.node`, with the instance as first argument."""
        return self._of.node(self._instance, *args, name=name, **kwargs)


@overload
def op(function: Callable[..., Any], /) -> OpFunction: ...
@overload
def op(
    *,
    name: str | None = None,
    spec: SpecLike | tuple[SpecLike, ...] | None = None,
    pure: bool = False,
    where: Where = "thread",
    retry: int | Retry | None = None,
    timeout_s: float | None = None,
    abandon_on_cancel: bool = False,
) -> Callable[[Callable[..., Any]], OpFunction]: ...
def op(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    spec: SpecLike | tuple[SpecLike, ...] | None = None,
    pure: bool = False,
    where: Where = "thread",
    retry: int | Retry | None = None,
    timeout_s: float | None = None,
    abandon_on_cancel: bool = False,
) -> OpFunction | Callable[[Callable[..., Any]], OpFunction]:
    """Turns a function, sync or async, into an op: `@op`, `@op(...)`, or `op(function)`.

    Called with a node anywhere in its arguments it builds a node; otherwise it just runs. Arrays reach
    it read-only; what it returns is the node's value, as it is. Sync functions run on a thread of the
    session's pool, in a copy of the caller's context; async ones on the session's loop. What a sync
    function returns is awaited if it can be.

    Args:
        name: what nodes are called; the function's own name if left out.
        spec: what it returns, an `ArraySpec` or its text; checked on every call. A tuple of specs, or a
            named tuple of them, says that it returns as many outputs, each a node of its own.
        pure: equal arguments give equal results and nothing else happens, so that calls may be merged.
        where: "thread", or "inline" for sync functions that are done in microseconds: they run on the loop.
        retry: how many calls at most, or a `Retry`, which also says when.
        timeout_s: seconds for one call; `NodeTimeoutError` when they are over. A thread is not
            interrupted: the run waits for it, unless `abandon_on_cancel`.
        abandon_on_cancel: a run that is cancelled, or out of time, does not wait for the call: its late
            result is dropped, and the session names the thread until it is done.

    Raises:
        SpecTypeError: it is no function, or an async generator; or the options do not go together.
    """
    if function is None:
        return partial(
            _made, name=name, spec=spec, pure=pure, where=where, retry=retry, timeout_s=timeout_s,
            abandon_on_cancel=abandon_on_cancel,
        )  # fmt: skip
    return _made(function, name, spec, pure, where, retry, timeout_s, abandon_on_cancel)


def _made(
    function: Callable[..., Any],
    name: str | None,
    spec: SpecLike | tuple[SpecLike, ...] | None,
    pure: bool,
    where: Where,
    retry: int | Retry | None,
    timeout_s: float | None,
    abandon_on_cancel: bool,
) -> OpFunction:
    if isinstance(function, OpFunction):
        raise SpecTypeError(f"{function!r} is an op already")
    if not callable(function):
        raise SpecTypeError(f"{function!r} cannot be called, so it is no op")
    if where not in ("thread", "inline"):
        raise SpecTypeError(f"where={where!r}: an op runs in a 'thread', or 'inline' on the loop")
    bare = _unwrapped(function)
    if inspect.isasyncgenfunction(bare):
        raise SpecTypeError(
            f"{function!r} is an async generator: an op gives one value\n"
            "  return a list, or make a session.map over its items"
        )
    if timeout_s is not None and not timeout_s > 0:
        raise SpecTypeError(f"timeout_s={timeout_s!r}: give a positive number of seconds, or None")
    call = Call(
        function=function,
        is_async=inspect.iscoroutinefunction(bare),
        where=where,
        retry=Retry(attempts=retry) if isinstance(retry, int) else retry,
        timeout_s=timeout_s,
        abandon_on_cancel=abandon_on_cancel,
        spec=_specs(spec),
    )
    made = Op(name or _name_of(bare), pure=pure, call=call)
    return OpFunction(function, made, _outputs_of(spec))


def _specs(spec: SpecLike | tuple[SpecLike, ...] | None) -> ArraySpec | tuple[ArraySpec, ...] | None:
    if isinstance(spec, tuple):
        return tuple(_spec(one) for one in spec)
    return None if spec is None else _spec(spec)


def _spec(spec: SpecLike) -> ArraySpec:
    return ArraySpec.parse(spec) if isinstance(spec, str) else spec


def _outputs_of(spec: object) -> Callable[..., Any] | None:
    if not isinstance(spec, tuple):
        return None
    return getattr(type(spec), "_make", tuple)  # a named tuple of specs gives a named tuple of nodes


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is called in the end, behind partials and objects with `__call__`."""
    while isinstance(function, partial):
        function = function.func
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        return type(function).__call__  # type: ignore[no-any-return]  # a method, bound or not
    return function


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else name


def _graph_of(nodes: tuple[Node, ...], op_name: str) -> Graph:
    if not nodes:
        return current_graph()
    graph = nodes[0].graph
    for node in nodes:
        if node.graph is not graph:
            raise GraphError(f"{op_name}: {node!r} belongs to another graph than {nodes[0]!r}")
    return graph
