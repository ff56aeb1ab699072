"""`@op` turns any function into an op of the graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, update_wrapper
from numbers import Real
from types import MethodType
from typing import Any, Final, cast, final, overload

from .._graph.building import current_graph
from .._graph.graph import Graph, reading
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

    Made by `@op`. In a class it is bound as what it was made of: a function to the instance, a classmethod
    to the class, a staticmethod to nothing. Pickled by module and name, as functions are.
    """

    # Fields:
    #   op: what its nodes apply.
    #   _declared: what `@op` was put on.
    #   _function: what is called.
    #   _signature: of that; None where it cannot be known, as of functions written in C.
    #   _names_itself: whether it has a parameter `name` of its own, so that `name=` does not name the node.
    #   _outputs: makes what `node` returns from the nodes of several outputs: `tuple`, or a named tuple.

    __qualname__: str

    def __init__(self, declared: Callable[..., Any], op: Op, call: Call, outputs: Callable[..., Any] | None) -> None:
        self.op: Final = op
        self._declared: Final = declared
        self._function: Final = call.function
        self._signature: Final = _signature(self._function, False)
        self._names_itself: Final = _takes_name(self._function)
        self._spec: Final = call.spec
        self._outputs: Final = outputs
        update_wrapper(self, declared)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A node, if there is one in the arguments, where `node` says; otherwise what the function returns."""
        if holds_node(args) or (kwargs and holds_node(kwargs)):
            return self.node(*args, **kwargs)
        return self._function(*args, **kwargs)

    def node(self, *args: Any, **kwargs: Any) -> Any:
        """The node of one call; a tuple of nodes if `spec=` says that there are several outputs.

        Lists, tuples, dicts, sets, bytearrays and arrays among the arguments are copied now. Nodes in lists,
        tuples (named ones too) and the values of dicts, at any depth, are replaced by their values when the
        call is made. Nothing else is searched: a dataclass or a deque reaches the function as it is, with
        any nodes that it holds. `name=` names the node, unless the function takes a `name` itself.

        Raises:
            GraphError: the nodes belong to several graphs, or there is none and no current graph.
            SpecTypeError: the arguments do not fit the function's signature; or there is a node in a set, or
                as the key of a dict.
        """
        name = None if self._names_itself else kwargs.pop("name", None)
        self._check(args, kwargs)
        template, nodes = template_of(args, kwargs)
        graph = _graph_of(nodes, self.op.name)
        nodes = tuple([reading(node) for node in nodes])
        spec = self._spec if isinstance(self._spec, ArraySpec) else ANY
        made = graph.add(self.op, nodes, {"template": template}, spec, name)
        if not isinstance(self._spec, tuple):
            return made
        assert self._outputs is not None
        return self._outputs([graph.add(OUTPUT, (made,), {"index": i}, one) for i, one in enumerate(self._spec)])

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._signature is None:
            return
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise SpecTypeError(f"{self.op.name}: {error}\n  expected: {self.op.name}{self._signature}") from None

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As what it was made of, taken from a class or an instance."""
        if isinstance(self._declared, partial):
            return self  # A partial in a class takes no instance, and Python 3.13 warns that it one day will.
        bind: Callable[..., Any] | None = getattr(self._declared, "__get__", None)
        bound = None if bind is None else bind(instance, owner)
        return _Bound(self, bound.__self__) if isinstance(bound, MethodType) else self

    def __reduce__(self) -> str:
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<op {self.op.name!r} of {self._function!r}>"


@final
class _Bound:
    """An op that was taken from an instance of the class it was defined in, or from the class."""

    def __init__(self, function: OpFunction, instance: object) -> None:
        self._of: Final = function
        self._instance: Final = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._of(self._instance, *args, **kwargs)

    def node(self, *args: Any, **kwargs: Any) -> Any:
        """As `OpFunction.node`, with the instance as first argument."""
        return self._of.node(self._instance, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self._of!r} bound to {self._instance!r}>"


@overload
def op(
    function: Callable[..., Any],
    /,
    *,
    name: str | None = None,
    spec: SpecLike | tuple[SpecLike, ...] | None = None,
    pure: bool = False,
    where: Where = "thread",
    retry: int | Retry | None = None,
    timeout_s: float | None = None,
    abandon_on_cancel: bool = False,
    on_device: bool = False,
) -> OpFunction: ...
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
    on_device: bool = False,
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
    on_device: bool = False,
) -> OpFunction | Callable[[Callable[..., Any]], OpFunction]:
    """Turns a function, sync or async, into an op: `@op`, `@op(...)`, or `op(function, ...)`.

    Called with a node among its arguments, or in lists, tuples and dicts of them, it builds a node; otherwise
    it just runs. Arrays reach it read-only; what it returns is the node's value, as it is. Sync functions run
    on a thread of the session's pool, in a copy of the caller's context; async ones on the session's loop.
    What a sync function returns is awaited if it can be.

    A function is async if calling it is known to give a coroutine; of any other it is the value that tells:
    a lambda, a partial or a decorated function may return a coroutine, an asyncio or a concurrent future, or
    anything else with `__await__`, and is called in a thread nevertheless.

    Each call has a copy of its caller's context: it sees the caller's ContextVars and `np.errstate`, and what
    it changes stays in it, be it sync or async. Futures of the loop belong to the loop's thread: a sync op
    that resolves one says `loop.call_soon_threadsafe(future.set_result, value)`.

    Args:
        function: what is called: any callable that is no async generator.
        name: what nodes are called; the function's own name if left out.
        spec: what it returns, an `ArraySpec` or its text; checked on every call. A tuple of specs, or a
            named tuple of them, says that it returns as many outputs, each a node of its own. A named
            dimension must be one size in all that a call is given and returns; sizes that the name has
            elsewhere in the run are not looked at.
        pure: equal arguments give equal results and nothing else happens, so that calls may be merged.
        where: "thread", or "inline" for sync functions that are done in microseconds: they run on the loop.
        retry: how many calls at most, or a `Retry`, which also says when. Neither a value that does not fit
            `spec` nor a cancellation is tried again. If what a sync function returned fails when it is
            awaited, the function is called again on the loop.
        timeout_s: seconds for one call; `NodeTimeoutError` when they are over. A thread is not
            interrupted: the run ends when it returns, unless `abandon_on_cancel`, and it is not called again.
        abandon_on_cancel: a run that is cancelled, or out of time, does not wait for the call: its late
            result is dropped, and the session names the thread until it is done.
        on_device: for async functions: it is given arrays of the device where its node is placed, as they are, and
            returns such arrays; it computes with them by `await ag.launch(function, *arrays)`, never on the loop. All
            other user ops are given NumPy arrays, wherever they are placed.

    Raises:
        SpecTypeError: it is no function, or an async generator; or the options do not go together.
    """
    if function is None:
        return partial(
            _made, name=name, spec=spec, pure=pure, where=where, retry=retry, timeout_s=timeout_s,
            abandon_on_cancel=abandon_on_cancel, on_device=on_device,
        )  # fmt: skip
    return _made(function, name, spec, pure, where, retry, timeout_s, abandon_on_cancel, on_device)


def _made(
    function: Callable[..., Any],
    name: str | None,
    spec: SpecLike | tuple[SpecLike, ...] | None,
    pure: bool,
    where: Where,
    retry: int | Retry | None,
    timeout_s: float | None,
    abandon_on_cancel: bool,
    on_device: bool,
) -> OpFunction:
    called = _called(function)
    if where not in ("thread", "inline"):
        raise SpecTypeError(f"where={where!r}: an op runs in a 'thread', or 'inline' on the loop")
    bare = _unwrapped(called)
    if inspect.isasyncgenfunction(bare):
        raise SpecTypeError(
            f"{function!r} is an async generator: an op gives one value\n"
            "  return a list, or make a session.map over its items"
        )
    if timeout_s is not None and not (isinstance(timeout_s, Real) and timeout_s > 0):
        raise SpecTypeError(f"timeout_s={timeout_s!r}: give a positive number of seconds, or None")
    if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise SpecTypeError(f"name={name!r}: give a text, or None")
    rule = Retry(attempts=retry) if isinstance(retry, int) else retry
    if rule is not None and not isinstance(rule, Retry):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise SpecTypeError(f"retry={rule!r}: give a number of calls, a Retry, or None")
    is_async = inspect.iscoroutinefunction(bare)
    if where == "inline" and not is_async and rule is not None and rule.backoff_s:
        raise SpecTypeError(f"{rule!r} with where='inline' would hold the loop while it waits\n  leave out one of them")
    if on_device and not is_async:
        raise SpecTypeError(
            f"on_device=True is for async functions, and {function!r} is none\n"
            "  write `async def`, and compute by `await ag.launch(function, *arrays)`"
        )
    call = Call(
        function=called,
        is_async=is_async,
        where=where,
        retry=rule,
        timeout_s=timeout_s,
        abandon_on_cancel=abandon_on_cancel,
        spec=_specs(spec),
        on_device=on_device,
    )
    made = Op(name or _name_of(called), pure=pure, call=call)
    return OpFunction(function, made, call, _outputs_of(spec))


def _called(declared: object) -> Callable[..., Any]:
    """What is called of what `@op` was put on."""
    if isinstance(declared, OpFunction):
        raise SpecTypeError(f"{declared!r} is an op already")
    if isinstance(declared, (staticmethod, classmethod)):
        function: Callable[..., Any] = cast("Any", declared).__func__
        return function
    if not callable(declared):
        raise SpecTypeError(f"{declared!r} cannot be called, so it is no op")
    return declared


def _specs(spec: SpecLike | tuple[SpecLike, ...] | None) -> ArraySpec | tuple[ArraySpec, ...] | None:
    if isinstance(spec, tuple):
        if not spec:
            raise SpecTypeError("spec=(): an op has at least one output\n  leave spec out for any Python object")
        return tuple([_spec(one) for one in spec])
    return None if spec is None else _spec(spec)


def _spec(spec: SpecLike) -> ArraySpec:
    if isinstance(spec, str):
        return ArraySpec.parse(spec)
    if not isinstance(spec, ArraySpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
        raise SpecTypeError(f"spec={spec!r}: give an ArraySpec, its text, or a tuple of them for several outputs")
    return spec


def _outputs_of(spec: SpecLike | tuple[SpecLike, ...] | None) -> Callable[..., Any] | None:
    if not isinstance(spec, tuple):
        return None
    make: Callable[..., Any] = getattr(cast("object", spec), "_make", tuple)
    return make  # a named tuple of specs gives a named tuple of nodes


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is called in the end, behind partials and objects with `__call__`."""
    while isinstance(function, partial):
        function = cast("Callable[..., Any]", function.func)
    if not (inspect.isroutine(function) or inspect.isclass(function)):
        call: Callable[..., Any] = type(function).__call__
        return call
    return function


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = cast("Callable[..., Any]", function.func)
    name: str = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else name


def _signature(function: Callable[..., Any], follow_wrapped: bool) -> inspect.Signature | None:
    try:
        return inspect.signature(function, follow_wrapped=follow_wrapped)
    except (TypeError, ValueError):
        return None  # The call itself will say.


def _takes_name(function: Callable[..., Any]) -> bool:
    # What a decorator hands on is what the function behind it takes.
    signature = _signature(function, True)
    parameters = () if signature is None else signature.parameters.values()
    return any(one.name == "name" or one.kind is one.VAR_KEYWORD for one in parameters)


def _graph_of(nodes: tuple[Node, ...], op_name: str) -> Graph:
    if not nodes:
        return current_graph()
    graph = nodes[0].graph
    for node in nodes:
        if node.graph is not graph:
            raise GraphError(f"{op_name}: {node!r} belongs to another graph than {nodes[0]!r}")
    return graph
