"""Once the data was read it is a constant: of plans that are made then, but for whose memory results are."""

from __future__ import annotations

import asyncio
import gc
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph._plan.compiler import no_checkpoint
from asyncgraph.errors import LoadError

from .files import MATRIX, VECTOR, saved, set_shape

ROWS = np.ones((2, 3), "float32")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(tmp_path, "npz", w=MATRIX, v=VECTOR)


def product_of(path: Path) -> tuple[ag.Graph, ag.RunArgs[Any]]:
    with ag.Graph() as graph:
        x = ag.placeholder("float32", ("n", 3), name="x")
        y = ag.ops.matmul(x, ag.load(path, "w", name="w"), name="y")
    return graph, ag.RunArgs(y, {x: ROWS})


def loads(session: ag.BlockingSession | ag.Session, args: Any) -> bool:
    return "= load(" in str(session.explain(args))


def test_threads_run_a_plan_with_the_constant_once_the_data_was_read(path: Path) -> None:
    graph, args = product_of(path)
    with ag.BlockingSession(graph) as session:
        assert loads(session, args)
        for _ in range(3):
            np.testing.assert_array_equal(session.run(args).results, ROWS @ MATRIX, strict=True)
            assert not loads(session, args)
        assert session.engine.plan_count == 1


async def test_tasks_run_a_plan_with_the_constant_without_a_hop_however_they_ask(path: Path) -> None:
    graph, args = product_of(path)
    async with ag.Session(graph) as session:
        prepared = session.prepare("y", ["x"])
        ways: list[Callable[[], Any]] = [
            lambda: session.run(args), lambda: session.submit(args), lambda: session.run("y", {"x": ROWS}),
            lambda: prepared(ROWS), lambda: prepared(ROWS),
        ]  # fmt: skip
        assert loads(session, args)
        for way in ways:
            np.testing.assert_array_equal((await way()).results, ROWS @ MATRIX, strict=True)
        assert not loads(session, args)


async def test_a_prepared_run_goes_over_to_the_new_plan(path: Path) -> None:
    graph, args = product_of(path)
    async with ag.Session(graph) as session:
        prepared = session.prepare(args.fetches, list(args.feeds))
        plan = weakref.ref(session.engine.request(args, no_checkpoint).plan)
        for _ in range(3):
            np.testing.assert_array_equal((await prepared(ROWS)).results, ROWS @ MATRIX, strict=True)
        gc.collect()
        assert plan() is None


async def test_first_runs_at_the_same_time_are_right(path: Path) -> None:
    graph, args = product_of(path)
    async with ag.Session(graph) as session:
        results = await asyncio.gather(*[session.run(args) for _ in range(50)])
        assert not loads(session, args)
    for values in results:
        np.testing.assert_array_equal(values.results, ROWS @ MATRIX, strict=True)


def test_first_runs_of_many_threads_are_right(tmp_path: Path) -> None:
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        graph, args = product_of(saved(folder, "npz", w=MATRIX, v=VECTOR))
        with ag.BlockingSession(graph) as session, ThreadPoolExecutor(8) as pool:
            for values in pool.map(session.run, [args] * 16):
                np.testing.assert_array_equal(values.results, ROWS @ MATRIX, strict=True)
            assert not loads(session, args)


def test_planning_reads_nothing(path: Path) -> None:
    graph, args = product_of(path)
    path.unlink()
    with ag.BlockingSession(graph) as session:
        for _ in range(2):
            assert loads(session, args)
        with pytest.raises(LoadError):
            session.run(args)
        assert loads(session, args)


def test_what_other_sessions_and_graphs_have_read_is_a_constant_at_once(path: Path) -> None:
    graph, args = product_of(path)
    with ag.BlockingSession(graph) as session:
        session.run(args)
    path.unlink()
    with ag.BlockingSession(graph) as session:
        assert not loads(session, args)
        np.testing.assert_array_equal(session.run(args).results, ROWS @ MATRIX, strict=True)


def test_a_plan_stays_as_long_as_some_of_its_files_are_not_read(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.npy"
    np.save(other, MATRIX + 1)
    with ag.Graph() as graph:
        w, second = ag.load(path, "w", name="w"), ag.load(other, name="second")
        both = ag.ops.add(w, second, name="both")
    hidden = other.rename(tmp_path / "hidden")
    with ag.BlockingSession(graph) as session:
        before = session.engine.request(ag.RunArgs(both), no_checkpoint).plan
        session.run(w)
        assert session.engine.request(ag.RunArgs(both), no_checkpoint).plan is before
        with pytest.raises(LoadError):
            session.run(both)
        assert loads(session, ag.RunArgs([both, w]))  # of `second` alone
        hidden.rename(other)
        for _ in range(2):
            np.testing.assert_array_equal(session.run(both).results, MATRIX + (MATRIX + 1))
            total, loaded = session.run([both, w]).results
            np.testing.assert_array_equal(total - loaded, MATRIX + 1)
        assert not loads(session, ag.RunArgs(both))
        assert not loads(session, ag.RunArgs([both, w]))


def test_a_fed_load_is_what_is_fed_before_and_after_the_data_was_read(path: Path) -> None:
    graph, args = product_of(path)
    w = graph["w"]
    fed = ag.RunArgs([args.fetches, w], {**args.feeds, w: 2 * MATRIX})
    with ag.BlockingSession(graph) as session:
        plans = [session.engine.request(fed, no_checkpoint).plan]
        for _ in range(2):
            y, fetched = session.run(fed).results
            np.testing.assert_array_equal(y, ROWS @ (2 * MATRIX))
            np.testing.assert_array_equal(fetched, 2 * MATRIX)
            np.testing.assert_array_equal(session.run(args).results, ROWS @ MATRIX)
            plans.append(session.engine.request(fed, no_checkpoint).plan)
    assert plans[0] is plans[1] is plans[2]


def test_a_load_waits_for_its_control_dependencies_in_every_run(path: Path) -> None:
    done: list[str] = []
    with ag.Graph() as graph:
        first = ag.op(lambda: done.append("first")).node()
        with ag.control_dependencies([first]):
            w = ag.load(path, "w")
        ag.op(lambda array: done.append("second"))(w, name="last")
    with ag.BlockingSession(graph) as session:
        for _ in range(3):
            session.run("last")
    assert done == ["first", "second"] * 3


def test_a_pickled_graph_reads_for_itself(path: Path) -> None:
    graph, args = product_of(path)
    with ag.BlockingSession(graph) as session:
        session.run(args)
    again = pickle.loads(pickle.dumps(graph))
    with ag.BlockingSession(again) as session:
        asked = ag.RunArgs("y", {"x": ROWS})
        assert loads(session, asked)
        np.testing.assert_array_equal(session.run(asked).results, ROWS @ MATRIX, strict=True)
        assert not loads(session, asked)


# -- whose memory results are ------------------------------------------------------------------------


echo = ag.op(lambda array: array, name="echo")
FETCHES: dict[str, Callable[[ag.Node, ag.Node], list[ag.Node]]] = {
    "itself": lambda w, same: [w],
    "itself twice": lambda w, same: [w, w],
    "an equal load": lambda w, same: [w, same],
    "a view": lambda w, same: [w.T],
    "two views": lambda w, same: [w.T, w[:1]],
    "itself and a view": lambda w, same: [w, w.T],
    "a view twice": lambda w, same: [ag.ops.reshape(w, (-1,)), ag.ops.reshape(same, (-1,))],
    "a part": lambda w, same: [ag.item(w, 0)],
    "a number": lambda w, same: [ag.item(w, (0, 0))],
    "what an op was given": lambda w, same: [echo(w), w.T],
    "what kernels give back": lambda w, same: [ag.ops.astype(w, "float32", copy=False), +w],
    "what is computed": lambda w, same: [w + 1, w],
    "one element many times": lambda w, same: [ag.ops.broadcast_to(w[0, 0], (5,))],
}


@pytest.mark.parametrize("rows", [3, 30_000], ids=["folded", "too large to fold"])
@pytest.mark.parametrize("what", FETCHES)
def test_later_runs_give_what_the_first_gave_writable_and_shared_alike(what: str, rows: int, tmp_path: Path) -> None:
    array = np.arange(rows * 4, dtype="float32").reshape(rows, 4)
    path = saved(tmp_path, "npy", w=array)
    with ag.Graph() as graph:
        w = ag.load(path)
        args = ag.RunArgs(FETCHES[what](w, ag.load(path)))
    seen: list[Any] = []
    with ag.BlockingSession(graph) as session:
        for _ in range(3):
            results = session.run(args).results
            loaded = session.run(w).results
            seen.append([memory(one, [loaded, *results]) for one in results])
            for one in results:
                if one.flags.writeable:
                    one[...] = -1
        np.testing.assert_array_equal(session.run(w).results, array)
        assert not loads(session, args)
    assert seen[0] == seen[1] == seen[2]


def memory(result: Any, others: list[Any]) -> tuple[object, ...]:
    """What an array is, whether it may be written to, and with which others it shares memory."""
    shared = [np.shares_memory(result, one) for one in others]
    return type(result), result.dtype, result.shape, result.strides, result.flags.writeable, shared


def test_a_shape_that_a_caller_sets_is_its_own(path: Path) -> None:
    with ag.Graph() as graph:
        w = ag.load(path, "w")
    with ag.BlockingSession(graph) as session:
        for _ in range(3):
            result = session.run(w).results
            assert result.shape == (3, 4)
            assert not result.flags.writeable
            set_shape(result, (12,))
