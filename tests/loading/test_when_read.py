"""The data is read when a run first needs it, once, in a thread, and goes with the graph."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import asyncgraph as ag

from .files import FORMATS, MATRIX, VECTOR, loaded, map_under, saved, set_shape


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_that_does_not_need_the_data_does_not_touch_the_file(form: str, tmp_path: Path) -> None:
    path = saved(tmp_path, form, w=MATRIX)
    with ag.Graph() as graph:
        w = ag.load(path)
        total = ag.ops.sum(w)
        other = ag.constant(1.0) + 1
    path.unlink()
    with ag.BlockingSession(graph) as session:
        assert session.run(other).results == 2.0
        assert session.run(total, {w: np.ones((3, 4), "float32")}).results == 12.0


async def test_the_data_is_read_in_a_thread_not_on_the_loop(tmp_path: Path) -> None:
    path = saved(tmp_path, "npy", w=MATRIX)
    with ag.Graph() as graph:
        w = ag.load(path, name="w")
    async with ag.Session(graph) as session:
        values = await session.run(w, options=ag.RunOptions(trace=True))
    trace = values.metadata.trace
    assert trace is not None
    (span,) = trace.spans
    assert span.node is w
    assert span.thread != threading.current_thread().name


@pytest.mark.parametrize("form", FORMATS)
def test_what_was_read_serves_later_runs_and_other_sessions(form: str, tmp_path: Path) -> None:
    path = saved(tmp_path, form, w=MATRIX)
    with ag.Graph() as graph:
        w = ag.load(path)
    with ag.BlockingSession(graph) as session:
        first = session.run(w).results
    path.unlink()
    with ag.BlockingSession(graph) as session:
        second = session.run(w).results
    assert np.shares_memory(first, second)
    set_shape(second, (12,))  # of its own object: the next run's has the shape of the file
    with ag.BlockingSession(graph) as session:
        assert session.run(w).results.shape == (3, 4)


def test_loads_of_one_file_share_one_map(tmp_path: Path) -> None:
    path = saved(tmp_path, "safetensors", w=MATRIX, v=VECTOR)
    w, v = loaded(path, "w"), loaded(path, "v")
    assert map_under(w) is map_under(v)


def test_the_map_goes_with_the_graph_and_the_results(tmp_path: Path) -> None:
    result = loaded(saved(tmp_path, "npy", w=MATRIX))
    found = map_under(result)
    assert found is not None
    gone = weakref.ref(found)
    del found, result
    gc.collect()
    assert gone() is None


def test_equal_loads_are_one_in_a_plan_which_prints_the_file_and_the_key(tmp_path: Path) -> None:
    path = saved(tmp_path, "npz", w=MATRIX, v=VECTOR)
    with ag.Graph() as graph:
        w, same, v = ag.load(path, "w", name="w"), ag.load(path, "w"), ag.load(path, "v", name="v")
        args = ag.RunArgs((w + same, v))
    with ag.BlockingSession(graph) as session:
        plan = str(session.explain(args))
        total, _ = session.run(args).results
    np.testing.assert_array_equal(total, MATRIX + MATRIX)
    assert "1 merged" in plan
    assert "w: float32[3,4] = load(" in plan
    assert "'arrays.npz', key='w'" in plan
