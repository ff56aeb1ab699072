"""Whoever writes into a result changes nothing but that result."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncgraph as ag

VIEWS = ["reshape", "index", "flip", "transpose", "unstack", "broadcast", "real", "astype", "expand", "squeeze"]
STEPS = [*VIEWS, "add", "imag", "merge", "user"]


def step(kind: str, x: ag.Node, y: ag.Node, a: Any, b: Any) -> list[tuple[ag.Node, Any]]:
    """Nodes made of two others, with NumPy's own values."""
    rank = a.ndim
    if kind == "reshape":
        return [(ag.ops.reshape(x, (-1,)), a.reshape(-1))]
    if kind == "index" and rank and a.shape[0]:
        return [(x[1:], a[1:]), (x[0], a[0]), (x[::-1], a[::-1])]
    if kind == "flip" and rank:
        return [(ag.ops.flip(x, axis=-1), np.flip(a, -1))]
    if kind == "transpose":
        return [(ag.ops.permute_dims(x, tuple(range(rank))[::-1]), a.T)]
    if kind == "unstack" and rank and a.shape[0] < 5 and x.shape is not None:
        return list(zip(ag.ops.unstack(x), a, strict=True))
    if kind == "broadcast" and rank < 4:
        return [(ag.ops.broadcast_to(x, (2, *a.shape)), np.broadcast_to(a, (2, *a.shape)))]
    if kind == "real":
        return [(ag.ops.real(x), a.real)]
    if kind == "imag":
        return [(ag.ops.imag(x), a.imag)]
    if kind == "astype":
        return [(ag.ops.astype(x, "float64", copy=False), a.astype("float64", copy=False))]
    if kind == "expand" and rank < 4:
        return [(ag.ops.expand_dims(x, axis=0), np.expand_dims(a, 0))]
    if kind == "squeeze" and rank and a.shape[0] == 1:
        return [(ag.ops.squeeze(x, axis=0), a.squeeze(0))]
    if kind == "merge":
        return [(x * 2, a * 2), (x * 2, a * 2)]
    if kind == "add" and a.shape == b.shape:
        return [(x + y, a + b)]
    return [(x + 1, a + 1)]


@ag.op(spec="float64[...]")
def give_back(array: Any) -> Any:
    return array


@st.composite
def graphs(draw: st.DrawFn) -> tuple[ag.Graph, list[ag.Node], dict[ag.Node, Any], list[Any]]:
    """A graph, its nodes to fetch, its feeds, and NumPy's values of the fetches."""
    shape = draw(st.sampled_from([(), (3,), (1, 3), (2, 3), (2, 1, 2), (0, 2), (40, 40)]))
    fed = np.arange(float(np.prod(shape))).reshape(shape)
    if draw(st.booleans()):
        fed = fed.copy(order="F")
    with ag.Graph() as graph:
        x = ag.placeholder("float64", shape)
        known: list[tuple[ag.Node, Any]] = [(x, fed), (ag.constant(fed + 5), fed + 5)]
        for _ in range(draw(st.integers(1, 7))):
            kind = draw(st.sampled_from(STEPS))
            (p, a), (q, b) = draw(st.sampled_from(known)), draw(st.sampled_from(known))
            known += [(give_back(p), a)] if kind == "user" else step(kind, p, q, a, b)
    wanted = draw(st.lists(st.sampled_from(known), min_size=1, max_size=6))
    return graph, [node for node, _ in wanted], {x: fed}, [value for _, value in wanted]


@settings(derandomize=True, deadline=None, max_examples=150)
@given(graphs())
def test_writing_into_a_writable_result_changes_no_feed_no_other_result_and_no_later_run(case: Any) -> None:
    graph, fetches, feeds, expected = case
    (fed,) = feeds.values()
    before = fed.copy()
    with ag.BlockingSession(graph) as session:
        for _ in range(2):
            results = session.run(fetches, feeds).results
            for result, value in zip(results, expected, strict=True):
                assert (type(result), result.dtype) == (np.ndarray, value.dtype)
                np.testing.assert_array_equal(result, value)
            for result, fetch in zip(results, fetches, strict=True):
                shares = [np.shares_memory(result, one) for one in [fed, *results] if one is not result]
                if result.flags.writeable and fetch.op.name != "give_back":
                    assert not any(shares)
                    result[...] = -1
            np.testing.assert_array_equal(fed, before)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(graphs())
def test_the_strides_of_a_result_that_shares_memory_with_nobody_are_numpys(case: Any) -> None:
    graph, fetches, feeds, expected = case
    with ag.BlockingSession(graph) as session:
        for fetch, value in zip(fetches, expected, strict=True):
            result = session.run(fetch, feeds).results
            if not any(value.strides) or value.size < 2 or value.base is not None or fetch.op.name in VIEWS:
                continue
            assert result.strides == value.strides


@settings(derandomize=True, deadline=None, max_examples=60)
@given(graphs())
def test_user_ops_see_values_with_numpys_strides(case: Any) -> None:
    graph, fetches, feeds, expected = case
    seen: list[Any] = []
    with graph:
        looks = [ag.op(seen.append)(fetch) for fetch in fetches]
    with ag.BlockingSession(graph) as session:
        for look, value in zip(looks, expected, strict=True):
            session.run(look, feeds)
            assert seen[-1].strides == np.asarray(value).strides
            assert not seen[-1].flags.writeable
