"""Each row of the table of gradients, by central differences, whatever is known of shapes when the graph is built."""

from __future__ import annotations

import pytest

from asyncgraph._gradients.tables import GRADIENTS, NOWHERE
from asyncgraph._graph import op
from asyncgraph._graph.rules.tables import SPECS
from asyncgraph._graph.spec import ArraySpec
from asyncgraph.errors import GradientError
from asyncgraph.testing import check_gradients

from .table import CASES, Array

SPECIAL = {one.name for one in vars(op).values() if isinstance(one, op.Op)}
LEAVES = {"placeholder", "constant", "group", "item"}
"""Ops without operands, or whose values are of no known dtype."""
REFUSING = {"adam", "adam_rates", "while_loop"}
"""Ops that gradients do not go through."""


def test_every_op_has_a_row() -> None:
    assert (set(SPECS) | SPECIAL) - LEAVES - set(GRADIENTS) == set()


def test_every_row_that_reaches_anything_has_a_case() -> None:
    reaching = {op for op, row in GRADIENTS.items() if row is not NOWHERE}
    assert {case.op for case in CASES.values()} == reaching - SPECIAL - REFUSING


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_what_central_differences_give_and_so_is_its_own(name: str) -> None:
    case = CASES[name]
    for seed, shapes in enumerate(case.shapes):
        check_gradients(case.call, *case.inputs(shapes, seed), order=case.order)


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_right_where_sizes_are_named_or_not_known(name: str) -> None:
    case = CASES[name]
    for seed, shapes in enumerate(case.shapes):
        inputs = case.inputs(shapes, seed)
        for specs in (named(inputs), unknown(inputs)):
            check_gradients(case.call, *inputs, specs=specs)


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_right_where_ranks_are_not_known_or_says_that_they_must_be(name: str) -> None:
    case = CASES[name]
    inputs = case.inputs(case.shapes[0], 0)
    specs = [ArraySpec(one.dtype) for one in inputs]
    if case.ranks:
        check_gradients(case.call, *inputs, specs=specs)
    else:
        with pytest.raises(GradientError, match="the rank of"):
            check_gradients(case.call, *inputs, specs=specs)


def named(inputs: list[Array]) -> list[ArraySpec]:
    """Each size has a name of its own."""
    return [ArraySpec(one.dtype, tuple(f"d{size}" for size in one.shape)) for one in inputs]


def unknown(inputs: list[Array]) -> list[ArraySpec]:
    return [ArraySpec(one.dtype, (None,) * one.ndim) for one in inputs]
