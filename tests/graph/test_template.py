"""Arguments of user ops: copied when a node is built and for each call, in their own types of container."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._graph.template import holds_node, template_of
from asyncgraph.errors import SpecTypeError


class Pair(NamedTuple):
    a: Any
    b: Any


class Strict(tuple[Any, ...]):
    def __new__(cls, a: Any, b: Any) -> Strict:
        made = tuple.__new__(cls, (a, b))
        made.label = "kept"
        return made

    label: str


class Names(list[Any]):
    label = "none"


class Kinds(set[Any]):
    pass


@pytest.fixture
def node() -> ag.Node:
    with ag.Graph():
        return ag.placeholder(None, name="x")


def filled(argument: Any, *values: Any) -> Any:
    template, _ = template_of((argument,), {})
    (made,), _ = template.fill(values)
    return made


def containers(one: Any) -> dict[str, Any]:
    names = Names([one])
    names.label = "kept"
    return {
        "list": [one, [one]],
        "tuple": (one, (one,)),
        "dict": {"a": one, "b": {"c": [one]}},
        "named tuple": Pair(one, 2),
        "tuple with a constructor of its own": Strict(one, 2),
        "list subclass": names,
        "ordered dict": OrderedDict(z=one, a=1),
        "default dict": defaultdict(list, a=one),
    }


@pytest.mark.parametrize("kind", containers(0))
def test_nodes_are_replaced_at_every_depth_in_containers_of_the_same_type(node: ag.Node, kind: str) -> None:
    argument, expected = containers(node)[kind], containers(7)[kind]
    assert holds_node(argument)
    made = filled(argument, 7)
    assert made == expected
    assert type(made) is type(expected)
    assert getattr(made, "label", None) == getattr(expected, "label", None)
    assert getattr(made, "default_factory", None) == getattr(expected, "default_factory", None)


@pytest.mark.parametrize(
    "argument",
    [
        [1, [2]],
        {"a": [1]},
        {1, 2},
        Kinds({1}),
        bytearray(b"ab"),
        Names([1]),
        defaultdict(list, a=[1]),
        OrderedDict(a=1),
    ],
    ids=lambda argument: type(argument).__name__,
)
def test_each_call_gets_a_copy_of_its_own(argument: Any) -> None:
    template, nodes = template_of((argument,), {"again": argument})
    (first,), named = template.fill(())
    (second,), _ = template.fill(())
    assert nodes == ()
    for made in (first, second, named["again"]):
        assert made == argument
        assert type(made) is type(argument)
        assert made is not argument
    assert first is not second
    first.clear()
    assert template.fill(())[0] == [argument]


def test_later_changes_of_an_argument_are_not_seen() -> None:
    inner, kinds, raw = [1], {1}, bytearray(b"a")
    template, _ = template_of((inner, {"k": inner}, kinds, raw), {})
    inner.append(2)
    kinds.add(2)
    raw.extend(b"b")
    assert template.fill(())[0] == [[1], {"k": [1]}, {1}, bytearray(b"a")]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3).T,
        np.ma.array([1, 2], mask=[False, True]),
        np.array([None, 1]),
        np.array([1], ">i4"),
    ],
)
def test_arrays_are_copied_once_as_they_are_and_read_only(array: Any) -> None:
    before = array.copy()
    made = filled([array])[0]
    assert type(made) is type(array)
    assert (made.dtype, made.strides, made.flags.writeable) == (array.dtype, array.strides, False)
    array[...] = array[::-1].copy()
    np.testing.assert_array_equal(made, before)


def test_what_is_no_container_passes_through() -> None:
    for value in (None, "text", range(3), frozenset({1}), object(), np.float64(1)):
        assert filled(value) is value


def test_a_node_that_is_given_twice_is_one_operand(node: ag.Node) -> None:
    template, nodes = template_of((node, [node]), {"k": node})
    assert nodes == (node,)
    assert repr(template) == "(x, [x], k=x)"


def test_a_node_where_no_value_can_stand_is_an_error(node: ag.Node) -> None:
    for wrong in ({node}, frozenset({node}), [{node}]):
        with pytest.raises(SpecTypeError, match="a node is in a set argument"):
            template_of((wrong,), {})
    with pytest.raises(SpecTypeError, match="a node is the key of a dict argument"):
        template_of(({node: 1},), {})


def test_a_container_that_holds_itself_is_an_error(node: ag.Node) -> None:
    itself: list[Any] = [1]
    itself.append(itself)
    for refuse in (holds_node, lambda value: template_of((value,), {})):
        with pytest.raises(SpecTypeError, match="holds itself"):
            refuse(itself)


def test_dataclasses_and_other_objects_are_not_searched_for_nodes(node: ag.Node) -> None:
    @dataclass
    class Holder:
        held: ag.Node

    for argument in (Holder(node), deque([node])):
        template, nodes = template_of((argument,), {})
        assert nodes == ()
        assert template.fill(())[0][0] is argument
        assert not holds_node(argument)
