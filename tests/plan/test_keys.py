"""Merge keys hold type and bit pattern."""

from __future__ import annotations

from collections import OrderedDict
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._graph.spec import ArraySpec
from asyncgraph._graph.template import Template, template_of
from asyncgraph._plan.keys import exact_key, params_key


def template(*args: Any) -> Template:
    return template_of(args, {})[0]


record = np.array([(1, 2)], [("a", "i4"), ("b", "i4")])
DIFFERENT: list[Any] = [
    1, True, 1.0, 1 + 0j, "1", b"1", [1], (1,), {1: 1}, np.array(1), np.array([1]), np.array([1], "i4"), None, ...,
    0.0, -0.0, complex(0.0, -0.0), complex(0.0, 0.0), float("nan"), slice(1), slice(None, 1, 1), slice(1, None), "",
    [], (), {}, [[]], {"a": 1}, {"a": True}, {"a": [1]}, np.array([0.0]), np.array([-0.0]), np.ones((2, 2)),
    np.asfortranarray(np.ones((2, 2))), np.array(["2024"], "M8[Y]"), np.array(["2024"], "M8[D]"), record,
    record.view([("b", "i4"), ("a", "i4")]), ArraySpec("float32", ("n",)), ArraySpec("float32", ("m",)), template(1),
    template([1]), template((1,)), template({1}), template([1.0]), template({"a": 1}), template({"b": 1}),
    template(OrderedDict(a=1)), template(bytearray(b"1")), template(b"1"), template(), template([[1]]),
    template(([1],)),
]  # fmt: skip


def test_keys_of_what_can_be_told_apart_differ() -> None:
    for a, b in combinations(DIFFERENT, 2):
        assert exact_key(a) != exact_key(b), (a, b)


@pytest.mark.parametrize(
    "make",
    [
        lambda: 10**30, lambda: "ab" * 3, lambda: float("nan"), lambda: (1, [2.0, {"a": slice(0, 1)}]),
        lambda: np.arange(5.0), lambda: template([1, (2, [3])], {"a": {4}}, bytearray(b"xy")),
    ],
)  # fmt: skip
def test_keys_of_what_cannot_be_told_apart_are_equal(make: Any) -> None:
    a, b = make(), make()
    assert exact_key(a) == exact_key(b)
    assert hash(exact_key(a)) == hash(exact_key(b))
    assert params_key({"x": a}) == params_key({"x": b}) != params_key({"y": b})


def test_large_arrays_and_unknown_objects_are_compared_by_identity() -> None:
    for make in (lambda: np.zeros(1000), lambda: np.array([None]), object, lambda: range(3)):
        a, b = make(), make()
        assert exact_key(a) == exact_key(a) != exact_key(b)


def test_holes_of_templates_are_told_apart_by_their_node() -> None:
    with ag.Graph():
        x, y = ag.placeholder(None), ag.placeholder(None)
    assert exact_key(template([x, y])) == exact_key(template([y, x])) != exact_key(template([x, x]))
