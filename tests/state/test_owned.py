"""Nobody can change what a variable holds but by a run: not with what was handed in, nor with what was handed out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

from .helpers import KINDS, opened

pytestmark = pytest.mark.parametrize("kind", KINDS)

START = np.arange(6.0)


def spoil(array: Any) -> None:
    """Does what a careless caller does with an array, whatever it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            array[...] = -1
        array = array.base


def start() -> np.ndarray[Any, Any]:
    return START.copy()


# -- what is handed in -------------------------------------------------------------------------------------

kept_by_op = np.arange(6.0)


def returned(_: object) -> np.ndarray[Any, Any]:
    return kept_by_op


IN: dict[str, Callable[[ag.Node], ag.Node]] = {
    "a feed": lambda x: x,
    "a feed, reshaped": lambda x: ag.ops.reshape(x, (6,)),
    "a part of a feed": lambda x: ag.ops.reshape(ag.ops.reshape(x, (2, 3))[:, ::-1][:, ::-1], (6,)),
    "a feed, reversed twice": lambda x: x[::-1][::-1],
    "a feed, handed on by an op": lambda x: ag.op(lambda value: value, spec="float64[6]")(x),
    "what an op keeps": lambda x: ag.op(returned, spec="float64[6]")(x),
    "a view of what an op keeps": lambda x: ag.op(returned, spec="float64[6]")(x)[::-1][::-1],
    "an item of what an op returns": lambda x: ag.item(ag.op(lambda value: {"one": kept_by_op})(x), "one"),
    "an output of an op": lambda x: ag.op(lambda value: (kept_by_op, 1.0), spec=("float64[6]", "float64[]"))(x)[0],
    "what another variable is assigned": lambda x: ag.variable(np.zeros(6)).assign(x),
}


@pytest.mark.parametrize("way", IN)
async def test_what_was_assigned_stays_when_what_was_handed_in_is_overwritten(kind: str, way: str) -> None:
    kept_by_op[...] = START
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (6,))
        v, w = ag.variable(np.zeros(6)), ag.variable(np.zeros(6))
        value = IN[way](x)
        both = [v.assign(value), w.assign(value)]
    async with opened(kind, graph) as session:
        fed = start()
        results = await session.run([*both, value, v, w], {x: fed})
        for one in (fed, kept_by_op, *results):
            spoil(one)
        for one in await session.run([v, w]):
            np.testing.assert_array_equal(one, START)


async def test_what_was_replaced_or_is_an_initial_value_stays_when_its_source_is_overwritten(kind: str) -> None:
    source = start()
    with ag.Graph() as graph:
        v, w = ag.variable(source), ag.variable(np.zeros(6))
        u = ag.variable(lambda: kept_by_op, dtype="float64", shape=(6,))
        kept_by_op[...] = START
        changed = w.assign(source)
        source[...] = -1
    async with opened(kind, graph) as session:
        await session.run(changed)
        assert [one.tolist() for one in await session.run([v, w, u])] == [START.tolist()] * 3
        kept_by_op[...] = -1
        replacing = start()
        await session.replace({v: replacing})
        replacing[...] = -1
        assert [one.tolist() for one in await session.run([v, w, u])] == [START.tolist()] * 3


# -- what is handed out ------------------------------------------------------------------------------------

OUT: dict[str, Callable[[ag.Variable, ag.Node], Any]] = {
    "the variable": lambda v, x: v,
    "a read": lambda v, x: v.read(),
    "a view": lambda v, x: v[::-1],
    "a part": lambda v, x: v[:3],
    "a reshaped one": lambda v, x: ag.ops.reshape(v, (2, 3)),
    "a spread one": lambda v, x: ag.ops.broadcast_to(v, (2, 6)),
    "one of rank 0": lambda v, x: v[0],
    "what an op handed on": lambda v, x: ag.op(lambda value: value)(v),
    "what an op made a view of": lambda v, x: ag.op(lambda value: value[::2])(v),
    "the assignment": lambda v, x: v.assign(v + 0),
    "the assignment of a feed": lambda v, x: v.assign(x),
    "the assignment of itself": lambda v, x: v.assign(v),
    "views of what is assigned": lambda v, x: _views(v, v + 0),
    "views of what is assigned twice": lambda v, x: _views(v, v.assign(ag.ops.reshape(v + 0, (6,)))),
    "what is added": lambda v, x: [v.assign_add(0.0), v],
    "all kinds at once": lambda v, x: [v, v[::2], v.assign(x), x[::2], v.assign(v * 1), v + 0],
    "what an op saw of what is assigned": lambda v, x: _seen(v),
}


def _views(v: ag.Variable, computed: ag.Node) -> list[ag.Node]:
    return [computed, computed[:3], v.assign(computed), ag.ops.reshape(computed, (2, 3)), computed[::-1]]


def _seen(v: ag.Variable) -> list[ag.Node]:
    computed = v + 0
    return [v.assign(computed), ag.op(lambda value: value)(computed), ag.op(lambda value: [value])(v)]


def _leaves(results: Any) -> list[Any]:
    return [leaf for one in results for leaf in _leaves(one)] if isinstance(results, list) else [results]


@pytest.mark.parametrize("way", OUT)
async def test_what_is_handed_out_can_be_overwritten_without_a_change_of_the_variable(kind: str, way: str) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (6,))
        v = ag.variable(START)
        fetches = OUT[way](v, x)
    async with opened(kind, graph) as session:
        for _ in range(2):
            for one in _leaves(await session.run(fetches, {x: start()})):
                spoil(one)
            np.testing.assert_array_equal(await session.run(v), START)


async def test_a_fetched_variable_is_a_read_only_array_also_the_first_time_and_of_rank_0(kind: str) -> None:
    with ag.Graph() as graph:
        variables = [
            ag.variable(START),
            ag.variable(1.0),
            ag.variable(lambda: np.float64(1.0), dtype="float64", shape=()),
            ag.variable(ag.ops.sum(ag.constant(START))),
            ag.variable(ag.ops.broadcast_to(ag.constant(1.0), (3,))),
        ]
        changed = ag.group(*[v.assign(v * 2) for v in variables])
    async with opened(kind, graph) as session:
        for number in range(3):
            if number:
                await session.run(changed)
            for value in await session.run(variables):
                assert type(value) is np.ndarray
                assert not value.flags.writeable
                with pytest.raises(ValueError, match="WRITEABLE"):
                    value.flags.writeable = True


async def test_a_fetched_value_stays_what_it_was_when_the_variable_changes(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(START)
        more = v.assign_add(1.0)
    async with opened(kind, graph) as session:
        seen = [await session.run(v) for _ in range(3) if await session.run(more) is not None]
    assert [one[0] for one in seen] == [1.0, 2.0, 3.0]


async def test_what_a_user_op_gets_of_a_variable_is_read_only(kind: str) -> None:
    def write(value: Any) -> Any:
        value[...] = -1

    with ag.Graph() as graph:
        v = ag.variable(START)
        computed = v + 0
        wrong = [ag.op(write)(one) for one in (v, computed, v.assign(computed))]
    async with opened(kind, graph) as session:
        for one in wrong:
            with pytest.raises(ValueError, match="read-only"):
                await session.run([one, wrong[2]] if one is not wrong[2] else one)
        np.testing.assert_array_equal(await session.run(v), START)


async def test_what_is_not_assigned_stays_the_callers_own_beside_what_is(kind: str) -> None:
    with ag.Graph() as graph:
        v = ag.variable(START)
        computed = v + 0
        new, other = v.assign(computed), computed * 2
    async with opened(kind, graph) as session:
        result = (await session.run([new, other]))[1]
        assert result.flags.writeable
        assert result.base is None


async def test_a_small_part_of_something_large_does_not_keep_that_alive(kind: str) -> None:
    with ag.Graph() as graph:
        large, small = ag.variable(np.zeros(10_000)), ag.variable(np.zeros(2))
        fill = ag.ops.ones((10_000,))
        ways = [small.assign(large[:2]), small.assign((large + 1)[:2]), small.assign((fill * 2)[:2])]
    async with opened(kind, graph) as session:
        for way in ways:
            await session.run(way)
            held = session.held()[small]
            assert held.base is None or held.base.nbytes < 1000


async def test_variables_keep_dtype_and_values_of_every_kind(kind: str) -> None:
    values = [
        np.array(["a", "bcd"]),
        np.array(["2026-01-01"], "datetime64[D]"),
        np.array([True, False]),
        np.array([1 + 2j], np.complex64),
        np.zeros((0, 3), np.int8),
        np.array(-0.0),
        np.array([np.nan, np.inf]),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
    ]
    with ag.Graph() as graph:
        variables = [ag.variable(value) for value in values]
        fed = [ag.placeholder(value.dtype, value.shape) for value in values]
        new = [v.assign(x) for v, x in zip(variables, fed, strict=True)]
    async with opened(kind, graph) as session:
        for fetches in (variables, new, variables):
            for found, value in zip(
                await session.run(fetches, dict(zip(fed, values, strict=True))), values, strict=True
            ):
                assert found.dtype == value.dtype
                assert found.tobytes() == value.tobytes()
