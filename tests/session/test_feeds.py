"""Feeds convert only when no value changes, and nothing runs before all of them fit."""

from __future__ import annotations

import array
import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import asyncgraph as ag
from asyncgraph._graph.convert import ConversionError, as_exact_array
from asyncgraph.errors import FeedError, FeedOverflowError, FeedTypeError, FetchError, RunArgsError


@ag.op
def touch(*values: Any) -> None:
    raise AssertionError("something has run")


def fed(dtype: Any, shape: Any, value: Any) -> Any:
    """What comes out of a placeholder that `value` is fed for."""
    with ag.Graph() as graph:
        x = ag.placeholder(dtype, shape, name="x")
    with ag.BlockingSession(graph) as session:
        return session.run(x, {x: value}).results


ACCEPTED: list[tuple[str, Any, Any]] = [
    ("float64", np.int32(3), 3.0),
    ("float64", True, 1.0),
    ("float32", 0.1, np.float32(0.1)),
    ("float32", [0.1, 1], np.array([0.1, 1], "f4")),
    ("float32", np.array([0.5, np.nan, np.inf]), np.array([0.5, np.nan, np.inf], "f4")),
    ("float16", np.array([2048]), np.array([2048], "f2")),
    ("int32", np.array([3.0, -4.0]), [3, -4]),
    ("int32", np.array([7], np.uint64), [7]),
    ("uint8", [255, 0], [255, 0]),
    ("bool", [0, 1], [False, True]),
    ("complex64", [1, 0.5], [1, 0.5]),
    ("complex128", np.float32(2), 2),
    ("int32", [], []),
    ("int32", np.array([]), []),
    ("int16", np.array([], np.int64), []),
    ("float64", array.array("f", [1.5]), [1.5]),
    ("float64", memoryview(array.array("d", [1.5, 2.5])), [1.5, 2.5]),
    ("datetime64[ns]", np.array(["2024-01-01", "NaT"], "M8[D]"), np.array(["2024-01-01", "NaT"], "M8[ns]")),
    ("U5", "abc", "abc"),
]


@pytest.mark.parametrize(("dtype", "value", "expected"), ACCEPTED)
def test_a_feed_converts_when_no_value_changes(dtype: str, value: Any, expected: Any) -> None:
    result = fed(dtype, None, value)
    assert (type(result), result.dtype) == (np.ndarray, np.dtype(dtype))
    np.testing.assert_array_equal(result, np.asarray(expected, dtype))


REFUSED: list[tuple[str, Any, type[FeedError], str]] = [
    ("int32", 1.5, FeedError, "1.5 is no integer"),
    ("int64", [np.nan], FeedError, "nan is no integer"),
    ("int64", np.array([1e300]), FeedOverflowError, "is out of range for int64"),
    ("int32", 2**40, FeedOverflowError, "1099511627776 is out of range for int32"),
    ("int32", np.array([2**40]), FeedOverflowError, "1099511627776 is out of range for int32"),
    ("uint8", -1, FeedOverflowError, "-1 is out of range for uint8"),
    ("float32", np.array([0.1]), FeedError, r"0\.1 would become .*; if you mean it: \.astype\('float32'\)"),
    ("float32", [np.array([0.1]), np.array([0.2])], FeedError, "would become"),
    ("float32", array.array("d", [0.1]), FeedError, "would become"),
    ("float32", np.float64(0.1), FeedError, "would become"),
    ("float32", [np.float64(0.1)], FeedError, "would become"),
    ("float32", 1e300, FeedOverflowError, r"1e\+300 is too large for float32"),
    ("float32", np.array([2**24 + 1]), FeedError, "16777217 would become 16777216"),
    ("float64", np.array([2**63 - 1]), FeedError, "9223372036854775807 would become"),
    ("float64", [2**53 + 1, 0.5], FeedOverflowError, "the integer 9007199254740993 would be rounded"),
    ("complex128", [2**53 + 1, 1j], FeedOverflowError, "the integer 9007199254740993 would be rounded"),
    ("complex64", np.array([1 + 0.1j]), FeedError, "would become"),
    ("bool", [0, 2], FeedError, "2 is no boolean"),
    ("float64", 1 + 0j, FeedTypeError, "complex128 is never converted to float64"),
    ("float64", "1", FeedTypeError, "<U1 is never converted to float64"),
    ("float64", None, FeedTypeError, "Python objects, such as None"),
    ("float64", {"a": 1}, FeedTypeError, "Python objects"),
    ("float64", np.array([object()]), FeedTypeError, "Python objects"),
    ("float64", np.ma.array([1.0], mask=[True]), FeedTypeError, "masked array, whose mask would be lost"),
    ("float64", [[1, 2], [3]], FeedError, "inhomogeneous"),
    ("U2", "abc", FeedTypeError, "<U3 is never converted to <U2"),
    ("i4,i4", np.zeros(2, [("f1", "i4"), ("f0", "i4")]), FeedTypeError, "is never converted to"),
    ("datetime64[ns]", np.array(["3000-01-01"], "M8[D]"), FeedOverflowError, "3000-01-01 is out of range"),
    ("datetime64[D]", np.array(["2024-01-01T05"], "M8[h]"), FeedTypeError, "is never converted to"),
]


class Foreign:
    """An array of another library, which knows NumPy only through DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_arrays_of_other_libraries_are_taken_through_dlpack_with_the_dtype_they_have() -> None:
    of_theirs = np.array([0.1, 0.2])
    result = fed("float64", ("n",), Foreign(of_theirs))
    assert np.shares_memory(result, of_theirs)
    with pytest.raises(FeedError, match="would become"):
        fed("float32", ("n",), Foreign(of_theirs))


@pytest.mark.parametrize(("dtype", "value", "error", "reason"), REFUSED)
def test_a_feed_that_would_change_is_an_error_that_names_the_placeholder_and_both_specs(
    dtype: str, value: Any, error: type[FeedError], reason: str
) -> None:
    with pytest.raises(error, match=reason) as caught:
        fed(dtype, None, value)
    assert type(caught.value) is error
    lines = str(caught.value).split("\n")
    assert lines[0].startswith("the value fed for 'x' does not fit it: ")
    assert lines[-3] == f"  expected: {np.dtype(dtype)}[...]"
    assert lines[-2].startswith("  fed:      ")
    assert lines[-1].startswith(f"  built at: {__file__}")


DTYPES = [*np.typecodes["AllInteger"], *"?efdFD"]
PAIRS = [(a, b) for a in DTYPES for b in DTYPES if (np.dtype(a).kind, np.dtype(b).kind) not in {("f", "b")}]
PAIRS = [(a, b) for a, b in PAIRS if np.dtype(a).kind != "c" or np.dtype(b).kind == "c"]


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.sampled_from(PAIRS), st.data())
def test_what_converts_is_equal_and_what_does_not_would_have_changed(pair: tuple[str, str], data: Any) -> None:
    source, target = map(np.dtype, pair)
    elements = hnp.from_dtype(source, allow_nan=source.kind == "f")
    value = data.draw(hnp.arrays(source, hnp.array_shapes(min_dims=0, max_dims=1, max_side=3), elements=elements))
    changes = any(_changes(one, target) for one in value.flat)
    try:
        made = as_exact_array(value, target)
    except ConversionError:
        assert changes
    else:
        assert made.dtype == target
        assert not changes


def _changes(one: Any, dtype: np.dtype[Any]) -> bool:
    """Whether NumPy makes another value of it. Python's numbers compare exactly, whatever their types."""
    before = one.item()
    if before != before or before in (np.inf, -np.inf):
        return dtype.kind in "iu"
    with np.errstate(all="ignore"):
        return bool(np.asarray(one).astype(dtype).item() != before)


def test_a_feed_that_fits_is_used_as_it_is_and_borrowed() -> None:
    value = np.arange(6.0).reshape(2, 3)[:, ::-1]
    result = fed("float64", ("n", 3), value)
    assert np.shares_memory(result, value)
    assert result.strides == value.strides
    assert not result.flags.writeable
    assert value.flags.writeable


def test_copy_feeds_takes_a_snapshot() -> None:
    buffer = array.array("d", [1.0, 2.0])
    values: list[Any] = [np.array([1.0, 2.0]), buffer, memoryview(buffer), np.array([1.0, 2.0])]
    with ag.Graph() as graph:
        xs = [ag.placeholder("float64", ("n",)) for _ in values[:-1]] + [ag.placeholder(None)]
    with ag.BlockingSession(graph) as session:
        feeds = dict(zip(xs, values, strict=True))
        borrowed = session.run(xs, feeds).results
        copied = session.run(xs, feeds, ag.RunOptions(copy_feeds=True)).results
    values[0][0] = buffer[0] = values[-1][0] = 9.0
    assert [one[0] for one in borrowed] == [9.0] * 4
    assert [one[0] for one in copied] == [1.0] * 4


async def test_a_named_dimension_is_one_size_per_run_across_the_graph_and_may_be_0_or_1() -> None:
    with ag.Graph() as graph:
        x, y = ag.placeholder("float64", ("n", 3), name="x"), ag.placeholder("int8", ("n",), name="y")
        both = ag.ops.sum(x) + ag.ops.sum(y)
    async with ag.Session(graph) as session:
        for n in (0, 1, 4):
            assert (await session.run(both, {x: np.ones((n, 3)), y: np.ones(n, np.int8)})).results == 4 * n
        with pytest.raises(FeedError) as caught:
            await session.run(both, {x: np.ones((2, 3)), y: np.ones(1, np.int8)})
    assert str(caught.value) == (
        "the dimension 'n' has one size in a run, but was fed several:\n"
        "  x: float64[n,3], fed (2, 3)\n"
        "  y: int8[n], fed (1,)"
    )


class Subclass(np.ndarray[Any, Any]):
    pass


class Closed:
    """Such as a dataset in a file."""

    dtype = np.dtype("f8")

    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("the file is closed")


@pytest.mark.parametrize(
    "value",
    [
        np.ones(3, "f4"), np.ones(3, ">f8"), np.ones(3).view(Subclass), [1.0] * 3, 1, None, "1", np.float64(1.0),
        np.ones(4), np.ones((3, 1)), np.array([1.0, None, 1.0]), np.ones(0), np.full(3, 1j), Closed(),
    ],
)  # fmt: skip
async def test_what_is_fed_after_what_has_fitted_is_looked_at_all_the_same(value: Any) -> None:
    with ag.Graph() as graph:
        x, y = ag.placeholder("float64", ("n",), name="x"), ag.placeholder("float64", ("n",), name="y")

    async def outcome(session: ag.Session) -> Any:
        try:
            result = (await session.run([x, y], {x: np.ones(3), y: value})).results
        except RunArgsError as error:
            return type(error), str(error)
        return [(type(one), one.dtype.str, one.tolist(), np.shares_memory(one, value)) for one in result]

    async with ag.Session(graph) as fresh, ag.Session(graph) as session:
        for count in (3, 4, 3):
            await session.run([x, y], {x: np.ones(count), y: np.ones(count)})
        assert await outcome(session) == await outcome(fresh)


@pytest.mark.parametrize(
    ("shape", "value", "reason"),
    [
        ((2, None), np.ones((3, 4)), "its axis 0 differs"),
        ((), [1.0], "its rank differs"),
        ((1,), 1.0, "its rank differs"),
    ],
)
def test_a_feed_of_another_shape_is_refused(shape: Any, value: Any, reason: str) -> None:
    with pytest.raises(FeedError, match=reason):
        fed("float64", shape, value)


async def test_all_validation_happens_before_anything_runs() -> None:
    with ag.Graph() as graph:
        x, y, n = ag.placeholder("int8", (), name="x"), ag.placeholder("int8", (2,), name="y"), ag.placeholder(None)
        unfed = touch(x, y, n)
    with ag.Graph():
        foreign = ag.placeholder("int8", (), name="x")
    good: dict[Any, Any] = {x: 1, y: [1, 2], n: None}
    wrong: list[tuple[Any, type[RunArgsError]]] = [
        ({**good, x: 300}, FeedOverflowError),
        ({**good, y: [1]}, FeedError),
        ({**good, n: x}, FeedTypeError),
        ({**good, x: n}, FeedTypeError),
        ({x: 1, y: [1, 2]}, RunArgsError),
        ({**good, foreign: 1}, FetchError),
        ({**good, "no such name": 1}, FetchError),
        ({**good, "x": 1}, FeedError),
        ({**good, 5: 1}, FetchError),
    ]
    async with ag.Session(graph) as session:
        for feeds, error in wrong:
            for start in (session.run, session.submit):
                with pytest.raises(error):
                    await start([unfed, x], feeds)
    with ag.BlockingSession(graph) as blocking:
        for feeds, error in wrong:
            with pytest.raises(error):
                await asyncio.to_thread(blocking.run, [unfed, x], feeds)


async def test_a_fed_nodes_ancestors_do_not_run_and_fetching_it_gives_the_fed_value() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        e = touch(x)
        h = ag.op(lambda value: value)(e)
    async with ag.Session(graph) as session:
        value = object()
        assert (await session.run([e, h], {e: value})).results == [value, value]


async def test_a_node_that_nothing_needs_may_be_fed() -> None:
    with ag.Graph() as graph:
        x, unused = ag.placeholder("float64", ()), ag.placeholder("float64", (2,), name="unused")
        y = x + 1
    async with ag.Session(graph) as session:
        assert (await session.run(y, {x: 1.0, unused: [1, 2]})).results == 2.0
        with pytest.raises(FeedError, match="'unused'"):
            await session.run(y, {x: 1.0, unused: 1.0})


async def test_any_python_object_passes_through_a_placeholder_without_dtype_and_shape() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder(None)
        y = ag.op(lambda value: value)(x)
    async with ag.Session(graph) as session:
        for value in (None, {}, [1, "a"], object(), "text", Ellipsis):
            assert [one is value for one in (await session.run([x, y], {x: value})).results] == [True, True]


async def test_a_default_is_used_where_nothing_is_fed_and_is_a_copy() -> None:
    value = np.array([1.0, 2.0])
    with ag.Graph() as graph:
        x, anything = ag.placeholder("float64", ("n",), default=value), ag.placeholder(None, default=value)
        nodes = [x, x * 2, anything]
    value[0] = 9
    async with ag.Session(graph) as session:
        for result, expected in zip((await session.run(nodes)).results, ([1, 2], [2, 4], [1, 2]), strict=True):
            np.testing.assert_array_equal(result, expected)
        assert [one.tolist() for one in (await session.run(nodes[:2], {x: [5.0]})).results] == [[5.0], [10.0]]
