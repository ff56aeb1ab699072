"""Nodes are told apart by identity, values by type and bits: never by a name or by Python's equality."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import NodeValueError

from .helpers import run


async def test_ag_050_an_argument_that_equals_a_name_stays_what_it_is() -> None:
    """https://github.com/dask/distributed/issues/7551."""
    with ag.Graph() as graph:
        data = ag.op(lambda: [1, 2]).node(name="train")
        node = ag.op(lambda label, values: label)("train", data)

    assert await run(graph, node) == "train"


async def test_ag_051_nodes_are_replaced_at_every_depth_and_all_else_is_data() -> None:
    """https://github.com/dask/dask/issues/3523, https://github.com/dask/dask/issues/419."""
    same = ag.op(lambda value: value)
    with ag.Graph() as graph:
        n = ag.op(lambda: 7).node()
        task, nested = same.node((sum, [1, 2])), same.node(("a", ("b",)))
        deep = same.node([n, ("k", n), {"d": [n, {"e": (n,)}]}])

    assert await run(graph, [task, nested, deep]) == [
        (sum, [1, 2]),
        ("a", ("b",)),
        [7, ("k", 7), {"d": [7, {"e": (7,)}]}],
    ]


async def test_ag_052_equal_names_of_different_data() -> None:
    """https://github.com/dask/dask/issues/6036, https://github.com/dask/dask/issues/9964, https://github.com/xarray-contrib/xarray-spatial/pull/3255."""
    inc_sum = ag.op(pure=True)(lambda values: int((values + 1).sum()))
    with ag.Graph() as one:
        n1 = inc_sum.node(np.array([1, 2]), name="tmp")
        again = inc_sum.node(np.array([1, 2, 3]), name="tmp")
    with ag.Graph() as two:
        n2 = inc_sum.node(np.array([1, 2, 3]), name="tmp")

    assert await asyncio.gather(run(one, n1), run(two, n2)) == [5, 9]
    assert [await run(one, n1), await run(two, n2), await run(one, [n1, again])] == [5, 9, [5, 9]]
    assert (n1.name, n2.name, again.name) == ("tmp", "tmp", "tmp_1")


async def test_ag_053_equal_values_of_different_types_or_bits_are_not_merged() -> None:
    """https://github.com/dask/dask/pull/6844."""
    type_name = ag.op(pure=True)(lambda value: type(value).__name__)
    copysign = ag.op(pure=True)(lambda value: math.copysign(1.0, value))
    values = (1, True, 1.0, [1], (1,), "1", {1}, range(1, 2), b"1", bytearray(b"1"))
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        names = [type_name.node(value) for value in values]
        signs = [copysign.node(value) for value in (0.0, -0.0)]
        kernels = [ag.ops.copysign(x, 0.0), ag.ops.copysign(x, -0.0)]

    assert await run(graph, names) == [type(value).__name__ for value in values]
    assert await run(graph, signs) == [1.0, -1.0]
    assert await run(graph, kernels, {x: 1.0}) == [1.0, -1.0]


async def test_ag_054_nodes_are_found_by_identity_and_compare_by_building() -> None:
    """https://github.com/tensorflow/tensorflow/issues/35164, https://github.com/tensorflow/tensorflow/issues/36421, https://github.com/tensorflow/tensorflow/issues/34426."""
    with ag.Graph() as graph:
        a, b = ag.placeholder("float64", ()), ag.placeholder("float64", ())
        size = len(graph)

        assert {a: 1, b: 2}[a] == 1
        assert a in {a, b}
        assert a not in {b}
        assert len({a, b, a}) == 2
        with pytest.raises(NodeValueError, match="`a is b` to compare nodes"):
            bool(a == b)
        assert len(graph) == size + 1
    assert issubclass(NodeValueError, TypeError)

    size = len(graph)
    assert await run(graph, [b, a, b, a], {a: 1, b: 2}) == [2, 1, 2, 1]
    assert len(graph) == size  # nothing in between compared two nodes
