"""What the kit compares with: tolerances, and layouts of operands."""

from __future__ import annotations

import numpy as np
import pytest

from asyncgraph._graph.rules.tables import SPECS
from asyncgraph.testing._kit.layouts import LAYOUTS
from asyncgraph.testing._kit.tolerances import CLASSES, TOLERANCES, is_same


def test_every_op_with_a_class_is_an_op_and_has_one() -> None:
    ops = [op for ops in CLASSES.values() for op in ops.split()]
    assert sorted(set(ops) - set(SPECS)) == ["asarray"]
    assert len(ops) == len(set(ops))


@pytest.mark.parametrize(
    ("op", "dtype", "factor", "same"),
    [
        ("floor", "float64", 1, False),
        ("max", "float32", 1, False),
        ("sin", "float64", 60, True),
        ("sin", "float64", 80, False),
        ("sin", "float16", 7, True),
        ("sin", "float16", 10, False),
        ("sum", "float16", 30, True),
        ("matmul", "complex64", 60, True),
        ("matmul", "complex64", 80, False),
    ],
)
def test_a_float_may_be_wrong_by_so_many_roundings(op: str, dtype: str, factor: int, same: bool) -> None:
    wanted = np.array([1.0, 8.0, np.nan, np.inf], dtype)
    result = wanted.copy()
    result[1] += factor * 8 * np.finfo(dtype).eps
    assert is_same(op, result, wanted, {}) is same


def test_the_sign_of_zero_counts_where_nothing_is_computed_and_that_of_nan_never() -> None:
    zeros, nans = np.array([0.0, np.nan]), np.array([-0.0, -np.nan])
    assert not is_same("negative", zeros, nans, {})
    assert is_same("maximum", zeros, nans, {})
    assert is_same("negative", zeros[1:], nans[1:], {})


def test_integers_and_special_values_are_never_nearly_right() -> None:
    assert not is_same("sum", np.array([1]), np.array([2]), {("sum", "int64"): 1.0})
    assert not is_same("sin", np.array([np.inf]), np.array([1e308]), {})
    assert not is_same("sin", np.array([0.0]), np.array([np.nan]), {})


def test_a_tolerance_of_a_kit_takes_the_place_of_the_table_s() -> None:
    wanted, result = np.array([1.0], np.float32), np.array([1.01], np.float32)
    assert TOLERANCES["reduction", "float32"] < 1e-4
    assert not is_same("sum", result, wanted, {("elementwise", "float32"): 0.02})
    assert is_same("sum", result, wanted, {("reduction", "float32"): 0.02})


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 1, 3)])
def test_an_operand_of_any_layout_has_its_shape_and_dtype(name: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    operand = LAYOUTS[name].view(np, LAYOUTS[name].feed(array), shape)
    assert (operand.shape, operand.dtype) == (array.shape, array.dtype)
    assert sorted(set(operand.ravel().tolist())) == sorted(
        set(array[:1].ravel() if "repeated" in name else array.ravel())
    )
