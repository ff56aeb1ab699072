from __future__ import annotations

import numpy as np
import pytest

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import SpecOverflowError
from asyncgraph.ops import manipulation

from .helpers import evaluate
from .oracle import placeholder


@pytest.mark.parametrize("number", [2, 2.5, 2j, True, 300])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float32", "float64"])
def test_a_number_that_is_joined_to_flat_arrays_promotes_as_in_numpy(dtype: str, number: complex) -> None:
    array = np.zeros(2, dtype)
    with Graph() as graph:
        x = placeholder(graph, ArraySpec(dtype, (2,)))
        try:
            right = np.concatenate([array, number], axis=None)
        except OverflowError:
            with pytest.raises(SpecOverflowError):
                manipulation.concat([x, number], axis=None)
            return
        y = manipulation.concat([x, number], axis=None)
        assert y.dtype == right.dtype
        assert evaluate(y, {x: array}).dtype == right.dtype
