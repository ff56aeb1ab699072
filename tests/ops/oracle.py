"""What holds for every op: NumPy gives dtype, shape, bits and errors; a vaguer spec is never wrong; rows are apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.op import NO_PARAMS, OUTPUT, PLACEHOLDER
from asyncgraph._graph.rules.tables import ROWS, RowQuestion
from asyncgraph._graph.spec import ANY, ArraySpec, Dim
from asyncgraph.errors import SpecError

from .helpers import evaluate

Array = np.ndarray[Any, Any]
Build = Callable[..., Any]
"""A function of `ops`, or of NumPy, with all but the arrays given. Several results are a tuple or a list."""

QUICK = settings(max_examples=40, derandomize=True, deadline=None)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def axes(ndim: int) -> st.SearchStrategy[int | tuple[int, ...] | None]:
    """All that is in bounds: `None`, one, or several, from either end."""
    if not ndim:
        return st.sampled_from([None, ()])
    several = st.lists(st.integers(0, ndim - 1), unique=True).flatmap(
        lambda drawn: st.tuples(*[st.sampled_from([axis, axis - ndim]) for axis in drawn])
    )
    return st.one_of(st.none(), one_axis(ndim), several)


def one_axis(ndim: int) -> st.SearchStrategy[int]:
    return st.integers(-ndim, ndim - 1)


def check(data: st.DataObject, build: Build, numpys: Build, *arrays: Array, counts: bool = False) -> None:
    """`build` does on nodes what `numpys` does on arrays, whatever is known of their specs.

    `counts` says that the number of results follows from a dimension, which may have to be literal.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected = listed(numpys(*arrays))
        except (ValueError, TypeError, IndexError):
            expected = None
        for specs in ([ArraySpec(one.dtype, one.shape) for one in arrays], [vaguer(data, one) for one in arrays]):
            with Graph() as graph:
                nodes = [placeholder(graph, spec) for spec in specs]
                if expected is None:
                    with pytest.raises((ValueError, TypeError, IndexError)):
                        [evaluate(one, dict(zip(nodes, arrays, strict=True))) for one in listed(build(*nodes))]
                    continue
                try:
                    made = listed(build(*nodes))
                except SpecError:
                    if counts and specs != [ArraySpec(one.dtype, one.shape) for one in arrays]:
                        continue
                    raise
                for node, wanted in zip(made, expected, strict=True):
                    assert agree(node.spec, np.asarray(wanted))
                    for scalars in (False, True):
                        feeds = {node: one[()] if scalars else one for node, one in zip(nodes, arrays, strict=True)}
                        assert same(evaluate(node, feeds), wanted)
                if all(spec.shape == one.shape and spec.dtype for spec, one in zip(specs, arrays, strict=True)):
                    assert [(one.dtype, one.shape) for one in made] == [(e.dtype, e.shape) for e in expected]


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def placeholder(graph: Graph, spec: ArraySpec) -> Node:
    return graph.add(PLACEHOLDER, (), NO_PARAMS, spec)


def vaguer(data: st.DataObject, array: Array) -> ArraySpec:
    """A spec that fits the array: dimensions may be names, one for each size, or unknown, as may rank and dtype."""
    dtype = array.dtype if data.draw(st.integers(0, 4)) else None
    if not data.draw(st.integers(0, 4)):
        return ArraySpec(dtype, None)
    dims: list[Dim] = [data.draw(st.sampled_from([dim, f"d{dim}", None])) for dim in array.shape]
    return ArraySpec(dtype, tuple(dims))


def agree(spec: ArraySpec, array: Array) -> bool:
    """Nothing the spec says of the array is false."""
    if spec.dtype is not None and spec.dtype != array.dtype:
        return False
    return spec.shape is None or (
        len(spec.shape) == array.ndim
        and all(dim in (None, size, f"d{size}") for dim, size in zip(spec.shape, array.shape, strict=True))
    )


def same(ours: Any, numpys: Any) -> bool:
    """The same dtype, shape and bits."""
    ours, numpys = np.asarray(ours), np.asarray(numpys)
    return (ours.dtype, ours.shape, ours.tobytes()) == (numpys.dtype, numpys.shape, numpys.tobytes())


# -- rows --------------------------------------------------------------------------------------------


def is_rowwise(build: Build, shapes: Sequence[tuple[int, ...]], carries: Sequence[bool], dtype: str = "int64") -> bool:
    """Whether the row rule says so, of operands whose first dimension is `n` where they carry rows."""
    with Graph() as graph:
        made = listed(build(*row_operands(graph, shapes, carries, dtype)))
        return bool(made) and says_rowwise(made[0], carries)


def row_operands(
    graph: Graph, shapes: Sequence[tuple[int, ...]], carries: Sequence[bool], dtype: str = "int64"
) -> list[Node]:
    dims = [("n", *shape[1:]) if carried else shape for shape, carried in zip(shapes, carries, strict=True)]
    return [placeholder(graph, ArraySpec(dtype, one)) for one in dims]


def says_rowwise(node: Node, carries: Sequence[bool]) -> bool:
    call = node.inputs[0] if node.op is OUTPUT else node
    operands = tuple(one.spec if isinstance(one, Node) else one for one in call.operands)
    return ROWS[call.op.name](RowQuestion(operands, tuple(carries), call.params, call.spec))


def check_rows(build: Build, arrays: Sequence[Array], carries: Sequence[bool]) -> bool:
    """What the row rule says. If yes, computing the first row and the others apart gives the rows of the whole."""
    shapes = [one.shape for one in arrays]
    with Graph() as graph:
        nodes = row_operands(graph, shapes, carries)
        try:
            made = listed(build(*nodes))
        except SpecError:
            return False
        if not made or not says_rowwise(made[0], carries):
            return False
        parts = [
            {node: one[rows] if carried else one for node, one, carried in zip(nodes, arrays, carries, strict=True)}
            for rows in (slice(None), slice(1), slice(1, None))
        ]
        for node in made:
            assert node.spec is not ANY
            whole, first, rest = [np.asarray(evaluate(node, part)) for part in parts]
            assert len(first) == 1
            np.testing.assert_array_equal(np.concat([first, rest]), whole)
    return True


def integers(shape: tuple[int, ...]) -> Array:
    """Distinct small numbers, so that a row taken for another is seen, and sums of them are exact."""
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.int64).reshape(shape)
