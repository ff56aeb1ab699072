"""dtypes meet as in NEP 50."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import SpecOverflowError

from .helpers import run

OUT_OF_RANGE: list[tuple[str, Any]] = [("uint8", 300), ("uint8", -1), ("uint64", -1), ("int8", 128)]


@pytest.mark.parametrize(("dtype", "number"), OUT_OF_RANGE)
async def test_ag_173_a_python_integer_out_of_range_fails_when_built_or_else_when_run(dtype: str, number: int) -> None:
    """https://github.com/google/jaxite/issues/80, https://github.com/numpy/numpy/pull/21875, https://github.com/scipy/scipy/issues/19239."""
    message = f"Python integer {number} out of bounds for {dtype}"
    with ag.Graph() as graph:
        known, unknown = ag.placeholder(dtype, ("n",)), ag.placeholder(None, ("n",))
        late = ag.ops.add(unknown, number, name="late")
        with pytest.raises(SpecOverflowError, match=message):
            known + number
    assert issubclass(SpecOverflowError, OverflowError)

    with pytest.raises(OverflowError, match=message) as caught:
        await run(graph, late, {unknown: np.array([1], dtype)})
    assert any("'late'" in note for note in caught.value.__notes__)


async def test_ag_173_a_product_with_a_python_integer_out_of_range() -> None:
    """https://github.com/numpy/numpy/pull/21875."""
    with ag.Graph():
        y = ag.placeholder("uint32", ())
        with pytest.raises(OverflowError, match="Python integer 4294967296 out of bounds for uint32"):
            y * 2**32


async def test_ag_174_uint64_with_int64_is_float64_and_a_python_integer_is_neither() -> None:
    """https://github.com/TileDB-Inc/TileDB-Py/pull/2000."""
    with ag.Graph() as graph:
        a, b = ag.placeholder("uint64", (1,)), ag.placeholder("int64", (1,))
        total = a + b
        with pytest.raises(OverflowError, match="Python integer -1 out of bounds for uint64"):
            a + -1

    result = await run(graph, total, {a: np.array([2**63 + 1], np.uint64), b: [0]})
    assert (result.dtype, total.dtype, result.tolist()) == (np.float64, np.float64, [9.223372036854775808e18])


async def test_ag_176_booleans_count_in_sums_and_saturate_in_additions() -> None:
    """https://github.com/IntelPython/dpnp/pull/2233."""
    with ag.Graph() as graph:
        t, unknown = ag.placeholder("bool", ("n",)), ag.placeholder(None, ("n",))
        nodes = [ag.ops.sum(t), t + t, ag.ops.sum(t, dtype="bool")]
        late = ag.ops.subtract(unknown, unknown, name="difference")
        with pytest.raises(TypeError, match=r"(?s)subtract.*boolean subtract"):
            t - t

    counted, either, saturated = await run(graph, nodes, {t: [True, True]})
    assert (counted.dtype, counted.item()) == (np.int64, 2)
    assert (either.dtype, either.tolist()) == (np.bool_, [True, True])
    assert (saturated.dtype, saturated.item()) == (np.bool_, True)
    with pytest.raises(TypeError, match="numpy boolean subtract") as caught:
        await run(graph, late, {unknown: [True, True]})
    assert any("'difference'" in note for note in caught.value.__notes__)


async def test_ag_177_a_python_float_too_large_overflows_and_warns() -> None:
    """https://github.com/numpy/numpy/pull/21103."""
    with ag.Graph() as graph:
        x = ag.placeholder("float32", ("n",))
        y = x * 1e200
        known = ag.constant(np.array([1, 2], "f4")) * 1e200

    for node in (y, known):
        with pytest.warns(RuntimeWarning, match="overflow encountered in cast"):
            result = await run(graph, node, {x: np.array([1.0, 2.0], np.float32)})
        assert (result.dtype, result.tolist()) == (np.float32, [np.inf, np.inf])
