from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph import ops
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.op import NO_PARAMS, PLACEHOLDER
from asyncgraph._graph.rules.tables import ROWS, VIEWS, RowQuestion
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecTypeError

from .helpers import evaluate
from .strategies import DTYPES, arrays, placeholder


def of(graph: Graph, spec: str) -> Node:
    return graph.add(PLACEHOLDER, (), NO_PARAMS, ArraySpec.parse(spec))


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    x=arrays(hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)),
    dtype=st.sampled_from([*DTYPES, np.dtype("U"), np.dtype("U7"), np.dtype("S"), np.dtype("datetime64[s]")]),
    copy=st.booleans(),
)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_astype_is_numpys_in_dtype_shape_and_values(x: np.ndarray[Any, Any], dtype: Any, copy: bool) -> None:
    node = placeholder(Graph(), x)
    with np.errstate(all="ignore"):
        try:
            expected = x.astype(dtype, copy=copy)
        except (TypeError, ValueError) as error:
            with pytest.raises(TypeError if isinstance(error, TypeError) else ValueError):
                evaluate(ops.astype(node, dtype, copy=copy), {node: x})
            return
        made = ops.astype(node, dtype, copy=copy)
        value = evaluate(made, {node: x})

    assert made.spec is ArraySpec(expected.dtype, expected.shape)
    assert (value.dtype, value.shape, value.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


def test_astype_takes_what_has_no_array_of_its_own() -> None:
    with Graph() as graph:
        x = of(graph, "float64[]")
        # Of rank 0, NumPy's functions make scalars.
        assert evaluate(ops.astype(x + 1, "float32"), {x: np.array(1.5)}) == np.float32(2.5)
        assert evaluate(ops.astype(3, "float32")) == np.float32(3)
        assert ops.astype(of(graph, "any"), "float32").spec is ArraySpec("float32", None)
        assert ops.astype(of(graph, "?[n]"), "U").spec is ArraySpec(None, ("n",))


def test_astype_shares_memory_only_if_it_may() -> None:
    value = np.ones(3)
    x = placeholder(Graph(), value)

    assert np.shares_memory(evaluate(ops.astype(x, "float64", copy=False), {x: value}), value)
    assert not np.shares_memory(evaluate(ops.astype(x, "float64"), {x: value}), value)
    assert VIEWS["astype"] == (0,)


def test_astype_keeps_rows_apart() -> None:
    x, y = ArraySpec("float32", ("n", 3)), ArraySpec("int8", ("n", 3))
    assert ROWS["astype"](RowQuestion((x,), (True,), {"dtype": y.dtype}, y))


def test_an_impossible_conversion_is_refused_when_it_is_built() -> None:
    pairs = Graph().add(PLACEHOLDER, (), NO_PARAMS, ArraySpec("f4,i4", ("n",)))
    with pytest.raises(SpecTypeError, match=r"astype cannot take \[.*\]\[n\]\n  Cannot cast"):
        ops.astype(pairs, "float64")
    with pytest.raises(SpecTypeError, match="'nonsense' is not a dtype"):
        ops.astype(of(Graph(), "float32[n]"), "nonsense")


def test_questions_about_dtypes_are_answered_at_once_and_take_nodes() -> None:
    graph = Graph()
    x, count = of(graph, "float32[n]"), of(graph, "int16[]")

    assert ops.can_cast(count, ops.float32)
    assert not ops.can_cast(x, ops.int64)
    assert ops.finfo(x).eps == np.finfo("float32").eps
    assert ops.iinfo(count).max == 32767
    assert ops.isdtype(x, "real floating")
    assert ops.isdtype(count, (ops.int16, "complex floating"))
    assert ops.result_type(x, count, 1.0) == np.float32
    assert ops.result_type(ops.uint64, ops.int64) == np.float64
    assert len(graph) == 2


def test_numpys_questions_about_nodes_are_answered() -> None:
    x: Any = of(Graph(), "float32[n]")

    assert np.result_type(x, 1.0) == np.float32
    assert np.can_cast(x, "float64")
    assert np.astype(x, np.dtype("int8")).dtype == np.int8


def test_questions_without_an_answer_say_why() -> None:
    unknown = of(Graph(), "?[n]")

    for ask in (lambda: ops.result_type(unknown, 1), lambda: ops.can_cast(unknown, "int8")):
        with pytest.raises(SpecTypeError, match=r"the dtype of <placeholder .*> is not known"):
            ask()
    for ask, words in (
        (lambda: ops.finfo("int8"), "write iinfo"),
        (lambda: ops.iinfo("float32"), "write finfo"),
        (lambda: ops.isdtype("int8", "nonsense"), "isdtype: "),
        (lambda: ops.result_type(), "result_type: "),
        (lambda: ops.result_type("datetime64[s]", "complex64"), "result_type: "),
        (lambda: ops.result_type("nonsense"), "result_type: "),
    ):
        with pytest.raises(SpecTypeError, match=words):
            ask()


def test_the_namespace_has_the_standards_dtypes_and_constants() -> None:
    for name in ("bool", "int8", "uint64", "float32", "complex128"):
        assert np.dtype(vars(ops)[name]).name == name
    assert (ops.e, ops.inf, ops.pi, ops.newaxis) == (np.e, np.inf, np.pi, None)
    assert ops.nan != ops.nan
    assert of(Graph(), "int8[]").__array_namespace__() is ops
    assert set(ops.__all__) <= set(vars(ops))
