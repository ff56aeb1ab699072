"""A value that is false is a value."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag

from .helpers import run


@pytest.mark.parametrize("is_async", [False, True])
async def test_ag_211_none_is_a_result(is_async: bool) -> None:
    """https://github.com/goodboy/tractor/pull/264, https://github.com/pywren/pywren/issues/183, https://github.com/coleifer/huey/issues/673."""
    calls: list[int] = []

    def give_none() -> None:
        calls.append(1)

    async def give_none_later() -> None:
        calls.append(1)

    with ag.Graph() as graph:
        n = ag.op(give_none_later if is_async else give_none).node()
        m = ag.op(lambda value: value is None)(n)

    async with asyncio.timeout(10):
        assert await run(graph, [n, m, n]) == [None, True, None]
    assert calls == [1]


FALSY = [0, 0.0, False, "", [], {}, np.array([]), np.array(0), float("nan"), NotImplemented, Ellipsis, None, ()]


@pytest.mark.parametrize("value", FALSY, ids=repr)
async def test_ag_212_a_falsy_result_is_computed_once_and_passed_on_as_it_is(value: Any) -> None:
    """https://github.com/anexia/django-request-cache/pull/7."""
    calls: list[int] = []
    seen: list[Any] = []

    def counting() -> Any:
        calls.append(1)
        return value

    with ag.Graph() as graph:
        n = ag.op(counting).node()
        consumers = [ag.op(seen.append)(n) for _ in range(3)]

    result, *_ = await run(graph, [n, *consumers])

    assert result is value
    assert calls == [1]
    assert [type(one) for one in seen] == [type(value)] * 3
    assert all(one is value or np.shares_memory(one, value) or one.size == 0 for one in seen)


@pytest.mark.parametrize("size", [0, 1, 3])
async def test_ag_213_arrays_are_never_asked_whether_they_are_true(size: int) -> None:
    """https://github.com/Qiskit/qiskit-ibm-provider/pull/145."""
    array = np.zeros(size)
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        anything = ag.placeholder(None)
        preset = ag.placeholder("float64", ("n",), default=array)
        preset_any = ag.placeholder(None, default=array)
        pair = ag.op(lambda value: [value, value])(x)
        nodes = [x, anything, preset, preset_any, x + 1, ag.op(lambda a, b: a)(anything, x), ag.item(pair, 1)]

    async with ag.Session(graph) as session:
        results = (await session.run(nodes, {x: array, anything: array})).results
        fed_all = (await session.run(nodes, dict.fromkeys(nodes, array))).results
    for result, expected in zip(results, [array] * 4 + [array + 1] + [array] * 2, strict=True):
        np.testing.assert_array_equal(result, expected)
    for result in fed_all:
        np.testing.assert_array_equal(result, array)
