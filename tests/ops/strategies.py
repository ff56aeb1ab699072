"""Arrays, shapes and Python numbers as hypothesis draws them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.op import NO_PARAMS, PLACEHOLDER
from asyncgraph._graph.spec import ArraySpec

DTYPES = [
    np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
]  # fmt: skip

NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([127, 128, -129, 255, 256, 300, 2**15, -(2**31), 2**31, 2**63 - 1, 2**63, 2**64, -(2**63) - 1]),
    st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, float("inf"), float("nan")]),
    st.sampled_from([0j, 1 - 2j, complex("nan+infj")]),
)


def arrays(shapes: st.SearchStrategy[tuple[int, ...]]) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Arrays of every dtype the standard names and float16, special values and extremes among them."""
    return st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(dtype, shapes))


def placeholder(graph: Graph, array: np.ndarray[Any, Any]) -> Node:
    return graph.add(PLACEHOLDER, (), NO_PARAMS, ArraySpec(array.dtype, array.shape))
