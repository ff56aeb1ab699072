"""From what a caller asks for to a plan and its feeds. Shared by the async and the blocking session.

Two caches, both bounded. Requests are found by what the caller wrote: fetches and feed keys, in the
caller's order, by identity. Plans are found by the indexes of the fetched and fed nodes, in the graph's
order. Many requests may share a plan; a request knows which of the plan's values are whose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final, TypeVar, final

from .._exec.results import another
from .._graph.exchange import FedArray, dlpack_device
from .._graph.graph import Graph
from .._graph.node import Node
from .._graph.op import PLACEHOLDER
from .._graph.structures import rebuild
from .._graph.variable import Variable
from .._plan.compiler import compile_plan
from .._plan.ownership import Owner
from .._plan.place import needs_device
from .._plan.plan import Plan
from .._plan.program import Checkpoint
from .._registry import registry
from ..errors import FeedError, FeedTypeError, FetchError, GraphError, SessionError
from .args import (
    RunArgs,
    initializes,
    is_flat,
    key_of,
    leaves_in,
    number_of,
    numbered,
    refed,
    stores,
    to_initialize,
)
from .config import SessionConfig
from .feeds import FeedBinder, may_be_anything
from .fetches import resolve
from .placement import Placer
from .store import Store

MOST_INLINE_CHUNKS: Final = 16
"""Chunks of a plan that is run where it is called. Longer ones are runs that can be stopped between two chunks."""

SMALL_GRAPH: Final = 2000
"""Nodes of a graph that is planned at once, on the loop: at 10 µs each. Larger ones are planned on a worker."""

T = TypeVar("T")
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


@final
class Request:
    """Fetches and feed keys as one caller wrote them, and the plan that serves them.

    Fields:
        plan: what is run.
        bind: checks and converts fed values: gives those of a frame's first slots, and the size of the largest array
            among them. See `FeedBinder.bind`.
        runs_inline: whether a run may be done where it is called, if its feeds are small, and needs no variables.
        runs_with_state: the same of one that does.
        most_elements: how large the largest fed array may be then.
        took_s: seconds that the last run took of those that assign, had waited for their turn, and were done in it.
        _flat: whether the fetches are a list of nodes, and nothing else.
        _fetch_order: for each leaf of the fetches, which of the plan's fetches.
        _repeated: leaves whose node has come before, and whose value is not what a user op returned.
    """

    __slots__ = (
        "_fetch_order",
        "_flat",
        "_repeated",
        "bind",
        "most_elements",
        "plan",
        "runs_inline",
        "runs_with_state",
        "took_s",
    )

    def __init__(
        self, plan: Plan, fetches: list[Node], flat: bool, feeds: list[Node], fed_on: _FedOn, budget_s: float
    ) -> None:
        position = {node: index for index, node in enumerate(feeds)}
        order = tuple([position[node] for node in plan.program.feeds])
        answers = {one.node: index for index, one in enumerate(plan.fetches)}
        self.plan: Final = plan
        bind = FeedBinder(feeds, fed_on).bind
        self.bind: Final = bind if order == tuple(range(len(order))) else partial(_bind_in_order, bind, order)
        self.most_elements: Final = plan.work.most_elements(budget_s)
        cheap = plan.single and len(plan.inline_chunks) <= MOST_INLINE_CHUNKS
        self.runs_inline: Final = cheap and not plan.stateful
        # What assigns must not stop between two chunks, as others would have to wait.
        self.runs_with_state: Final = cheap and plan.stateful and (not plan.writes or len(plan.inline_chunks) <= 1)
        self.took_s = 0.0
        self._flat: Final = flat
        self._fetch_order: Final = tuple([answers[node] for node in fetches])
        seen: set[int] = set()
        self._repeated: Final = tuple(
            [
                leaf
                for leaf, index in enumerate(self._fetch_order)
                if (index in seen or seen.add(index)) and plan.fetches[index].owner is not Owner.USER
            ]
        )

    def results(self, fetches: Any, values: Sequence[Any]) -> Any:
        """The values of the plan's fetches in the structure of `fetches`, no two places sharing writable memory."""
        if isinstance(fetches, Node):
            return values[0]
        placed = list(map(values.__getitem__, self._fetch_order))
        for leaf in self._repeated:
            placed[leaf] = another(placed[leaf])
        return placed if self._flat else rebuild(fetches, iter(placed))


_Bind = Callable[[Sequence[Any], bool], tuple[list[Any], int]]


def _bind_in_order(bind: _Bind, order: Sequence[int], values: Sequence[Any], copy: bool) -> tuple[list[Any], int]:
    bound, largest = bind(values, copy)
    return [bound[index] for index in order], largest


@final
class Engine:
    """Requests and plans of a graph. Any thread may call anything; no lock is held while a plan is made.

    Raises:
        GraphError: `graph` is none.
        SessionError: `config` is no `SessionConfig`.
    """

    def __init__(self, graph: Graph, config: SessionConfig) -> None:
        if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise GraphError(f"a session runs a Graph, not {graph!r}\n  write Session(graph), and fetch nodes in run")
        if not isinstance(config, SessionConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers are not all typed
            raise SessionError(f"config={config!r}\n  expected a SessionConfig, such as SessionConfig(workers=2)")
        self.graph: Final = graph
        self.config: Final = config
        self.store: Final = Store(graph, config.seed)
        self.placer: Final = Placer(registry, config.device, config.soft_placement)
        self._requests: Final = BoundedCache[tuple[object, ...], Request](4 * config.plan_cache_size)
        self._plans: Final = BoundedCache[tuple[object, ...], Plan](config.plan_cache_size)

    @property
    def plan_count(self) -> int:
        """How many plans are kept."""
        return len(self._plans)

    def known(self, args: RunArgs[Any]) -> Request | None:
        """The request for `args`, if it was made before, even if its plan is outdated."""
        return self._requests.get(key_of(args))

    def key(self, args: RunArgs[Any]) -> tuple[object, ...]:
        """What `args` asks for, without the values: it finds the request."""
        return _key(args, self._fed_on(args))

    def is_planned(self, args: RunArgs[Any]) -> bool:
        """Whether `request` has the plan for `args` already."""
        request = self._requests.get(self.key(args))
        return request is not None and not request.plan.is_outdated

    def plans_at_once(self, args: RunArgs[Any]) -> bool:
        """Whether the event loop may make that plan: a small one, for which no device has to be looked for."""
        return self.is_small and not self.waits_for_devices(args)

    @property
    def is_small(self) -> bool:
        """Whether the graph is one of those that the event loop may plan."""
        return len(self.graph) <= SMALL_GRAPH

    def waits_for_devices(self, args: RunArgs[Any]) -> bool:
        """Whether who makes that plan may have to wait: for devices to be found, or to be given constants."""
        if any(self._fed_on(args)):
            return True
        wanted = {node.requested_device for node in self.graph.nodes if needs_device(node)}
        return not all(self.placer.is_prompt(one) for one in wanted)

    def request(self, args: RunArgs[Any], checkpoint: Checkpoint) -> Request:
        """The request for `args`, made if need be.

        Raises:
            RunArgsError: the graph cannot give what is asked for.
            DeviceNotFoundError: a node asks for a device that there is not.
        """
        fed_on = self._fed_on(args)
        key = _key(args, fed_on)
        request = self._requests.get(key)
        if request is None or request.plan.is_outdated:
            fetches = self._fetched_nodes(args)
            feeds = self._fed_nodes(args.feeds)
            fed = dict(zip(feeds, fed_on, strict=True))
            once = initializes(args)
            plan = (self._compiled if once else self._plan)(fetches, fed, args, checkpoint)
            request = Request(plan, fetches, is_flat(key), feeds, fed_on, self.config.inline_budget_s)
            if not once:
                self._requests.put(key, request)
        return request

    def first_values(self, plan: Plan, fed: Sequence[Any], timeout_s: float | None = None) -> RunArgs[Any] | None:
        """What is to be run before `plan`, which is fed `fed`: it gives variables that `plan` reads their first values.

        These may depend on placeholders, but on nothing else that is fed, as they stay. `None` if all have values.
        """
        values = self.store.values
        missing = [one for one in plan.variables if one not in values]
        if not missing:
            return None
        given = {
            node: value.value if isinstance(value, FedArray) else value
            for node, value in zip(plan.program.feeds, fed, strict=True)
            if node.op is PLACEHOLDER
        }
        return to_initialize(missing, given, timeout_s)

    def numbered(self, args: RunArgs[T]) -> RunArgs[T]:
        """`args` for the run that is asked for now. For graphs that draw random numbers."""
        return args if number_of(args) is not None else numbered(args, self.store.next_number())

    def check(self, args: RunArgs[T]) -> RunArgs[T]:
        """`args` with the fed values as they will be run with, copied if they are to be: all that needs no plan.

        Raises:
            RunArgsError: the graph has no such nodes, or a value does not fit.
        """
        self._fetched_nodes(args)
        binder = FeedBinder(self._fed_nodes(args.feeds), self._fed_on(args))
        values, _ = binder.bind(tuple(args.feeds.values()), args.options.copy_feeds)
        given = [one.value if isinstance(one, FedArray) else one for one in values]
        return refed(args, dict(zip(args.feeds, given, strict=True)))

    def copies(self, args: RunArgs[Any]) -> dict[Variable, Any]:
        """Copies of the values that are fed for variables, as these hold them.

        Raises:
            RunArgsError: something else is fed, or a value does not fit.
        """
        nodes = self._fed_nodes(args.feeds)
        _check_variables(nodes)
        values, _ = FeedBinder(nodes, self._fed_on(args)).bind(tuple(args.feeds.values()), copy=True)
        return {one: value for one, value in zip(nodes, values, strict=True) if isinstance(one, Variable)}

    def _plan(
        self,
        fetches: list[Node],
        feeds: Mapping[Node, tuple[int, int] | None],
        args: RunArgs[Any],
        checkpoint: Checkpoint,
    ) -> Plan:
        by_index: Callable[[Node], int] = _index
        wanted = sorted(dict.fromkeys(fetches), key=by_index)
        given = sorted(feeds, key=by_index)
        fed_on = {node: self.placer.holder_of(on, node) for node, on in feeds.items() if on is not None}
        key = (
            *[node.index for node in wanted],
            args.options.results,
            stores(args),
            *[(node.index, fed_on.get(node)) for node in given],
        )
        plan = self._plans.get(key)
        if plan is None or plan.is_outdated:
            plan = self._compiled(fetches, feeds, args, checkpoint)
            self._plans.put(key, plan)
        return plan

    def _compiled(
        self,
        fetches: list[Node],
        feeds: Mapping[Node, tuple[int, int] | None],
        args: RunArgs[Any],
        checkpoint: Checkpoint,
    ) -> Plan:
        by_index: Callable[[Node], int] = _index
        wanted = sorted(dict.fromkeys(fetches), key=by_index)
        fed_on = {node: self.placer.holder_of(on, node) for node, on in feeds.items() if on is not None}
        given = sorted(feeds, key=by_index)
        if stores(args):
            _check_variables(given)
        uninitialized: Collection[Variable] = ()
        if initializes(args):
            _check_variables(wanted)
            uninitialized = self.store.uninitialized
        on_host = args.options.results == "host"
        return compile_plan(wanted, given, self.placer, checkpoint, fed_on, on_host, uninitialized, stores(args))

    def _fed_on(self, args: RunArgs[Any]) -> _FedOn:
        found = [dlpack_device(value) for value in args.feeds.values()]
        if not any(found):
            return tuple(found)
        # What may be any Python object is that, wherever its memory is.
        nodes = [resolve(key, self.graph, "feed") for key in args.feeds]
        return tuple([None if may_be_anything(node) else on for node, on in zip(nodes, found, strict=True)])

    def _fetched_nodes(self, args: RunArgs[Any]) -> list[Node]:
        if args.fetches is None:
            raise FetchError("fetches is None\n  only a hook may ask for nothing, in what its before_run returns")
        return [resolve(leaf, self.graph) for leaf in leaves_in(key_of(args))]

    def _fed_nodes(self, feeds: Mapping[Any, Any]) -> list[Node]:
        nodes: dict[Node, Any] = {}
        for key in feeds:
            if not isinstance(key, (Node, str)):
                raise FetchError(f"a key of the feeds is {key!r}\n  expected a node, or the name of one")
            node = resolve(key, self.graph, "feed")
            if node in nodes:
                raise FeedError(f"{node.name!r} is fed twice: by {nodes[node]!r} and by {key!r}")
            nodes[node] = key
        return list(nodes)


_FedOn = tuple[tuple[int, int] | None, ...]
"""For each feed the device it is on, in DLPack's terms; `None` for the host."""


def _key(args: RunArgs[Any], fed_on: _FedOn) -> tuple[object, ...]:
    return (*key_of(args), fed_on) if any(fed_on) else key_of(args)


def _index(node: Node) -> int:
    return node.index


def _check_variables(nodes: list[Node]) -> None:
    for node in nodes:
        if not isinstance(node, Variable):
            raise FeedTypeError(f"{node!r} is no variable: it holds nothing")


@final
class BoundedCache(dict[_K, _V]):
    """A dict that forgets its oldest entries. Reading takes no lock."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit: Final = limit
        self._lock: Final = Lock()

    def put(self, key: _K, value: _V) -> None:
        """Adds an entry; the oldest goes if there are too many."""
        with self._lock:
            self[key] = value
            while len(self) > self._limit:
                del self[next(iter(self))]
