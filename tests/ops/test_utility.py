from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecError
from asyncgraph.ops import utility

from .oracle import QUICK, SHAPES, axes, check, check_rows, integers, is_rowwise, placeholder
from .strategies import DTYPES, arrays


@pytest.mark.parametrize("name", ["all", "any"])
@QUICK
@given(data=st.data())
def test_it_is_numpys_in_dtype_shape_values_and_errors(name: str, data: st.DataObject) -> None:
    x = data.draw(arrays(SHAPES))
    params: dict[str, Any] = {"axis": data.draw(axes(x.ndim)), "keepdims": data.draw(st.booleans())}
    check(data, lambda x: vars(utility)[name](x, **params), lambda x: vars(np)[name](x, **params), x)


@pytest.mark.parametrize("name", ["all", "any"])
def test_the_result_is_boolean_of_every_dtype(name: str) -> None:
    with Graph() as graph:
        for dtype in DTYPES:
            assert repr(vars(utility)[name](placeholder(graph, ArraySpec(dtype, ("n", 2))), axis=1).spec) == "bool[n]"


@pytest.mark.parametrize("name", ["all", "any"])
def test_an_axis_out_of_bounds_is_an_error_that_shows_the_spec(name: str) -> None:
    with Graph() as graph, pytest.raises(SpecError) as raised:
        vars(utility)[name](placeholder(graph, ArraySpec("bool", ("n",))), axis=-2)
    assert str(raised.value) == f"{name} cannot take bool[n]\n  axis -2 is out of bounds for a value of rank 1"


@pytest.mark.parametrize("name", ["all", "any"])
@pytest.mark.parametrize(("axis", "apart"), [(1, True), ((1, 2), True), (0, False), (None, False)])
def test_rows_are_apart_unless_they_are_reduced(name: str, axis: Any, apart: bool) -> None:
    assert is_rowwise(lambda x: vars(utility)[name](x, axis=axis), [(2, 3, 4)], [True]) is apart
    assert check_rows(lambda x: vars(utility)[name](x, axis=axis), [integers((2, 3, 4)) % 3], [True]) is apart
