"""`@op`: what it takes, what it makes of it, and what it refuses when the graph is built."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._graph.op import Retry
from asyncgraph.errors import GraphError, NodeResultError, SpecError, SpecTypeError
from asyncgraph.ops.custom import OpFunction


def run(*fetches: ag.Node, feeds: Any = None) -> Any:
    """The values of some nodes of one graph."""
    with ag.BlockingSession(fetches[0].graph) as session:
        return session.run(list(fetches), feeds).results


@pytest.fixture
def graph() -> Any:
    with ag.Graph() as graph:
        yield graph


# -- calls -----------------------------------------------------------------------------------------------


def add(a: Any, b: Any = 1) -> Any:
    """Adds."""
    return a + b


def test_a_call_without_nodes_just_runs(graph: ag.Graph) -> None:
    assert ag.op(add)(1, b=2) == 3
    assert list(graph.nodes) == []


@pytest.mark.parametrize(
    "arguments",
    [
        lambda x: ((x,), {}),
        lambda x: ((5,), {"b": x}),
        lambda x: (([x],), {"b": [1]}),
        lambda x: (((1, (x,)),), {"b": ()}),
    ],
)
def test_a_node_anywhere_in_the_arguments_builds_a_node(graph: ag.Graph, arguments: Any) -> None:
    x = ag.placeholder(None, name="x")
    args, kwargs = arguments(x)
    made = ag.op(add)(*args, **kwargs)
    with_value = arguments(7)

    assert isinstance(made, ag.Node)
    assert run(made, feeds={x: 7}) == [add(*with_value[0], **with_value[1])]


def test_node_always_builds_one_so_that_there_are_sources(graph: ag.Graph) -> None:
    now = ag.op(lambda: 5)
    assert now() == 5
    assert run(now.node()) == [5]


def test_nodes_in_dicts_and_keyword_arguments_are_replaced_by_their_values(graph: ag.Graph) -> None:
    x = ag.placeholder(None, name="x")
    made = ag.op(lambda d, **rest: (d, rest))({"a": [x, 1]}, more={"b": (x,)})
    assert run(made, feeds={x: 7}) == [({"a": [7, 1]}, {"more": {"b": (7,)}})]


@pytest.mark.parametrize("holder", [lambda x: {x}, lambda x: frozenset([x]), lambda x: {x: 1}, lambda x: [{x}]])
def test_a_node_where_it_cannot_be_replaced_is_an_error(graph: ag.Graph, holder: Any) -> None:
    x = ag.placeholder(None)
    function = ag.op(lambda *args: args)
    for call in (function, function.node):
        with pytest.raises(SpecTypeError, match="a node is"):
            call(holder(x))


def test_containers_are_copied_when_the_node_is_built_and_for_each_call(graph: ag.Graph) -> None:
    numbers, array = [1, 2], np.array([1.0, 2.0])

    def change(items: list[int], values: Any) -> Any:
        items.append(len(items))
        return list(items), values.tolist()

    made = ag.op(change).node(numbers, array)
    numbers.append(100)
    array[:] = 0.0

    assert run(made) == run(made) == [([1, 2, 2], [1.0, 2.0])]


def test_arrays_reach_a_function_read_only_and_scalars_as_arrays_of_rank_0(graph: ag.Graph) -> None:
    x = ag.placeholder("float64", ("n",), name="x")
    seen = ag.op(lambda *arrays: [(type(a), a.shape, a.flags.writeable) for a in arrays])(x, ag.ops.sum(x))
    fed = np.ones(3)

    assert run(seen, feeds={x: fed}) == [[(np.ndarray, (3,), False), (np.ndarray, (), False)]]
    assert fed.flags.writeable


def test_a_wrong_call_is_an_error_when_the_graph_is_built(graph: ag.Graph) -> None:
    x = ag.placeholder(None)
    for call in (lambda: ag.op(add)(x, 1, 2), lambda: ag.op(add)(x, c=1), lambda: ag.op(add).node()):
        with pytest.raises(SpecTypeError, match=r"add: .*\n  expected: add\(a: 'Any', b: 'Any' = 1\)"):
            call()
    assert [node.op.name for node in graph.nodes] == ["placeholder"]


def test_a_decorator_that_gives_arguments_of_its_own_is_believed(graph: ag.Graph) -> None:
    def with_five(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any) -> Any:
            return function(5, *args)

        return wrapped

    assert run(ag.op(with_five(add)).node(1)) == [6]


def test_nodes_of_two_graphs_do_not_meet(graph: ag.Graph) -> None:
    x = ag.placeholder(None)
    with ag.Graph():
        y = ag.placeholder(None)
    with pytest.raises(GraphError, match="belongs to another graph"):
        ag.op(add)(x, y)


def test_without_a_node_and_a_current_graph_there_is_nowhere_to_build() -> None:
    with pytest.raises(GraphError, match="no current graph"):
        ag.op(add).node(1)


# -- names -----------------------------------------------------------------------------------------------


class Adder:
    def __call__(self, a: int) -> int:
        return a + 1

    def method(self, a: int) -> int:
        return a + 2


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (add, "add"),
        (functools.partial(functools.partial(add, 1), 2), "add"),
        (Adder(), "Adder"),
        (functools.partial(Adder()), "Adder"),
        (Adder().method, "method"),
        (lambda: 1, "lambda"),
        (functools.lru_cache(add), "add"),
        (Adder, "Adder"),
        (abs, "abs"),
    ],
)
def test_an_op_is_named_after_what_is_called(function: Callable[..., Any], name: str) -> None:
    assert ag.op(function).op.name == name
    assert ag.op(name="own")(function).op.name == "own"


def test_name_names_the_node_unless_the_function_takes_a_name(graph: ag.Graph) -> None:
    x = ag.placeholder(None, name="x")
    assert ag.op(add)(x, name="sum").name == "sum"
    for function in (lambda v, name="nobody": (v, name), lambda v, **names: (v, names["name"])):
        made = ag.op(function)(x, name="somebody")
        assert made.name.startswith("lambda")
        assert run(made, feeds={x: 1}) == [(1, "somebody")]


def test_an_op_looks_like_the_function_it_was_made_of() -> None:
    made = ag.op(add)
    assert isinstance(made, OpFunction)
    assert (made.__name__, made.__doc__, inspect.unwrap(made)) == ("add", "Adds.", add)  # pyright: ignore[reportAttributeAccessIssue]  # as of any decorated function
    assert repr(made).startswith("<op 'add' of <function add")


# -- classes ---------------------------------------------------------------------------------------------


class Model:
    def __init__(self, weight: float) -> None:
        self.weight = weight

    @ag.op
    def scale(self, value: float) -> float:
        return self.weight * value

    @ag.op
    @staticmethod
    def double(value: float) -> float:
        return 2 * value

    @ag.op
    @classmethod
    def named(cls, value: float) -> tuple[str, float]:
        return cls.__name__, value

    @staticmethod
    @ag.op
    def triple(value: float) -> float:
        return 3 * value

    by_partial = ag.op(functools.partial(add, 10))


class Special(Model):
    pass


def test_ops_of_a_class_are_bound_as_what_they_are_made_of(graph: ag.Graph) -> None:
    x = ag.placeholder(None, name="x")
    model = Special(5.0)
    assert (model.scale(2.0), model.double(2.0), model.named(2.0)) == (10.0, 4.0, ("Special", 2.0))
    nodes = [
        *(function(x) for function in (model.scale, model.double, model.named, model.triple, model.by_partial)),
        *(function.node(x, name="n") for function in (model.scale, model.double, model.named, model.triple)),
        *(function(x) for function in (Special.double, Special.named, Special.triple)),
        Special.scale(model, x),
    ]
    values = run(*nodes, feeds={x: 2.0})

    assert values[:5] == [10.0, 4.0, ("Special", 2.0), 6.0, 12.0]
    assert values[5:9] == values[:4]
    assert values[9:] == [4.0, ("Special", 2.0), 6.0, 10.0]


# -- specs and outputs -----------------------------------------------------------------------------------


class Pair(NamedTuple):
    low: str
    high: str


def test_an_op_with_a_spec_has_it_and_its_value_fits(graph: ag.Graph) -> None:
    made = ag.op(spec="float32[n,2]")(lambda: np.zeros((3, 2), "float32")).node()
    assert (made.dtype, made.shape) == (np.dtype("float32"), ("n", 2))
    assert run(made)[0].shape == (3, 2)
    assert run(ag.op(spec="float32[?]")(lambda: [1, 2.5]).node())[0].dtype == np.float32
    big_endian = run(ag.op(spec="float32[?]")(lambda: np.array([1, 2.5], ">f4")).node())[0]
    assert (big_endian.dtype.isnative, big_endian.tolist()) == (True, [1, 2.5])


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        ("float32[2]", np.zeros(2), "returned float64[2]\n  expected: float32[2]"),
        ("float64[2]", np.zeros(3), "returned float64[3]\n  expected: float64[2]"),
        ("int8[]", 300, "returned 300: 300 is out of range for int8\n  expected: int8[]"),
        ("float64[]", "text", "returned 'text'"),
        (("float64[]", "float64[]"), [1.0], "returned [1.0]\n  expected: a tuple of 2: float64[], float64[]"),
        (("float64[]", "float64[]"), 1.0, "returned 1.0\n  expected: a tuple of 2: float64[], float64[]"),
    ],
)
def test_a_value_that_does_not_fit_the_spec_is_an_error_that_shows_both(
    graph: ag.Graph, spec: Any, value: Any, message: str
) -> None:
    made = ag.op(spec=spec, name="f")(lambda: value).node()
    with pytest.raises(NodeResultError) as caught:
        run(made[0] if isinstance(made, tuple) else made)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "value", "message"),
    [
        ("float64[n,n]", np.ones((2, 3)), r"float64\[2,3\]: in this call 'n' is 2\n  expected: float64\[n,n\]"),
        (("float64[m]", "float64[m]"), (np.ones(2), np.ones(3)), r"float64\[3\]: in this call 'm' is 2"),
        ("float64[n]", np.ones(5), r"float64\[5\]: in this call 'n' is 2"),
        (("?[...]", "float64[?,n]"), (1.0, np.ones((2, 5))), r"float64\[2,5\]: in this call 'n' is 2"),
    ],
)
def test_a_name_is_one_size_in_what_a_call_is_given_and_returns(
    graph: ag.Graph, spec: Any, value: Any, message: str
) -> None:
    async def later(_: Any) -> Any:
        return value

    x = ag.placeholder("float64", ("n",))
    for function in (lambda _: value, later):
        made = ag.op(spec=spec, name="f")(function)(x)
        with ag.BlockingSession(graph) as session, pytest.raises(NodeResultError, match=message):
            session.run(made, {x: [1.0, 2.0]})


def test_an_array_that_is_returned_has_the_dtype_of_its_spec_also_if_that_is_numpy_s_default(graph: ag.Graph) -> None:
    made = ag.op(spec="float64[n]", name="f")(lambda _: np.ones(2, "float32"))(ag.placeholder("float64", ("n",)))
    with ag.BlockingSession(graph) as session, pytest.raises(NodeResultError, match=r"float32\[2\]"):
        session.run(made, {made.inputs[0]: [1.0, 2.0]})


def test_a_name_is_as_large_as_a_call_says_where_its_arguments_do_not_name_it(graph: ag.Graph) -> None:
    x = ag.placeholder("float64", ("n",))
    made = ag.op(spec="float64[n,m,n,?]")(lambda _: np.ones((2, 0, 2, 7)))(x)
    with ag.BlockingSession(graph) as session:
        assert session.run(made, {x: [1.0, 2.0]}).results.shape == (2, 0, 2, 7)


def test_a_tuple_of_specs_gives_a_tuple_of_nodes_of_one_call(graph: ag.Graph) -> None:
    calls: list[int] = []

    def split(v: float) -> tuple[float, float]:
        calls.append(1)
        return v - 1, v + 1

    x = ag.placeholder("float64", (), name="x")
    low, high = ag.op(spec=("float64[]", "float64[]"))(split)(x)
    pair = ag.op(spec=Pair("float64[]", "float64[]"))(split)(x)

    assert run(low, high, feeds={x: 5.0}) == [4.0, 6.0]
    assert calls == [1]
    assert isinstance(pair, Pair)
    assert run(pair.high, pair.low, feeds={x: 5.0}) == [6.0, 4.0]  # pyright: ignore[reportArgumentType]  # nodes by now
    assert calls == [1, 1]


def test_equal_calls_are_merged_if_they_are_pure(graph: ag.Graph) -> None:
    calls: list[int] = []
    x = ag.placeholder(None, name="x")
    for pure, count in ((True, 1), (False, 2)):
        calls.clear()
        function = ag.op(pure=pure)(lambda v: calls.append(v))
        run(function(x), function(x), feeds={x: 1})
        assert len(calls) == count


# -- what is refused -------------------------------------------------------------------------------------


async def generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ag.op(5), SpecTypeError, "5 cannot be called"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: ag.op(ag.op(add)), SpecTypeError, "is an op already"),
        (lambda: ag.op(generator), SpecTypeError, "is an async generator: an op gives one value"),
        (lambda: ag.op(where="process")(add), SpecTypeError, "where='process'"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: ag.op(timeout_s=0)(add), SpecTypeError, "timeout_s=0"),
        (lambda: ag.op(spec=5)(add), SpecTypeError, "spec=5"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: ag.op(spec=["int8[]"])(add), SpecTypeError, "spec=\\['int8"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: ag.op(spec=())(add), SpecTypeError, "at least one output"),
        (lambda: ag.op(spec="float32[")(add), SpecError, "float32"),
        (lambda: ag.op(retry=0)(add), ValueError, "attempts=0"),
        (lambda: ag.op(retry=Retry(backoff_s=-1.0))(add), ValueError, "backoff_s=-1.0"),
        (lambda: ag.op(timeout_s="1")(add), SpecTypeError, "timeout_s='1'"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: ag.op(name=3)(add), SpecTypeError, "name=3"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: ag.op(retry="3")(add), SpecTypeError, "retry='3'"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Retry(attempts="3"), SpecError, "attempts='3'"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Retry(on=[OSError]), SpecTypeError, "a tuple of classes of Exception"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Retry(on=("OSError",)), SpecTypeError, "a tuple of classes of Exception"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: Retry(on=(KeyboardInterrupt,)), SpecTypeError, "a tuple of classes of Exception"),  # pyright: ignore[reportArgumentType]  # the point
        (lambda: ag.op(where="inline", retry=Retry(backoff_s=1.0))(add), SpecTypeError, "hold the loop while it waits"),
    ],
)
def test_what_cannot_be_an_op_is_refused_when_it_is_made(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()
