"""What went wrong for others on GPUs, with CuPy and beside it, as far as it can be provoked without a card.

`REPORTS` has all of the public reports that the backend was written with in mind, each with the test that plays it,
through a session where that is the point, or the reason why there is none. No GPU is used here, nor CuPy.
"""

from __future__ import annotations

import ast
import asyncio
import pickle
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import DeviceLostError

from ...standin.world import World
from .sessions import on, results, scaled
from .submitting import SECONDS


class Row(NamedTuple):
    """Reports of one thing, as owner/repository#number; its test, in any file of this folder, or why it has none."""

    reports: str
    test: str = ""
    reason: str = ""


_GRAPHS = "CUDA graphs are not used yet"
_NCCL = "collectives come with replicas"

REPORTS: Final = {
    1: Row("cupy/cupy#8068", "test_memory_that_another_stream_reads_is_not_given_out_meanwhile"),
    2: Row("NVIDIA/numba-cuda#317 NVIDIA/numba-cuda#321", "test_the_end_of_a_run_is_no_callback_of_the_driver_s"),
    3: Row("chainer/chainer#1709 chainer/chainer#2084", "test_the_end_of_a_run_is_no_callback_of_the_driver_s"),
    4: Row("cupy/cupy#9274", reason=_GRAPHS),
    5: Row("cupy/cupy#9655", reason=_GRAPHS),
    6: Row("cupy/cupy#6290", reason=_GRAPHS),
    7: Row("cupy/cupy#7820 cupy/cupy#7938", "test_a_result_is_there_when_it_is_delivered_and_never_changes"),
    8: Row("cupy/cupy#1692", "test_results_come_while_the_dispatcher_goes_on"),
    9: Row(
        "cupy/cupy#7532 cupy/cupy#7821 cupy/cupy#8090 cupy/cupy#5155",
        "test_what_is_fed_is_read_once_and_pinned_memory_of_the_caller_s_never_later",
    ),
    10: Row("cupy/cupy#6360 cupy/cupy#3625 cupy/cupy#4775", "test_however_much_is_fed_at_once_little_is_pinned"),
    11: Row("cupy/cupy#5006 cupy/cupy#5083", "test_whatever_an_op_leaves_current_the_next_has_its_device_and_lane"),
    12: Row(
        "cupy/cupy#5705 cupy/cupy#5943 cupy/cupy#6965 cupy/cupy#8377 cupy/cupy#7866 cupy/cupy#8379",
        "test_whatever_an_op_leaves_current_the_next_has_its_device_and_lane",
    ),
    13: Row("cupy/cupy#5237 cupy/cupy#5251", "test_streams_live_until_the_backend_is_closed_and_end_in_their_thread"),
    14: Row("cupy/cupy#4899 cupy/cupy#4618", "test_streams_and_events_are_those_of_the_device_in_any_thread"),
    15: Row("NVIDIA/cuCascade#189", "test_streams_and_events_are_those_of_the_device_in_any_thread"),
    16: Row("cupy/cupy#5069", "test_no_memory_is_given_out_on_a_default_stream"),
    17: Row(
        "cupy/cupy#1109 cupy/cupy#4866 pytorch/pytorch#6962",
        "test_one_thread_of_a_device_computes_and_a_limit_of_memory_is_one_device_s",
    ),
    18: Row(
        "cupy/cupy#1695 cupy/cupy#1938 cupy/cupy#2524 dask/dask#4040",
        "test_runs_at_one_time_are_on_streams_that_may_overlap",
    ),
    19: Row("cupy/cupy#6756 cupy/cupy#7678 cupy/cupy#1392", "test_memory_that_ran_out_is_there_for_the_next_run"),
    20: Row("cupy/cupy#5894", "test_a_library_that_finds_no_memory_is_asked_again"),
    21: Row(
        "cupy/cupy#7482 cupy/cupy#7615 rapidsai/cuml#7906 pytorch/pytorch#44624",
        "test_an_illegal_access_ends_its_device_for_all_runs_and_nothing_else",
    ),
    22: Row(
        "mars-project/mars#479 chainer/chainer#1087 pytorch/pytorch#83973 inducer/pycuda#137",
        "test_a_child_forked_after_cuda_was_initialised_is_told_so_and_one_forked_before_can_use_it",
    ),
    23: Row("cupy/cupy#8027", reason="no memory of a device is shared between processes: there are no IPC handles"),
    24: Row("cupy/cupy#5379 cupy/cupy#5496", "test_values_of_two_devices_meet_by_explicit_copies_alone"),
    25: Row("cupy/cupy#10084", "test_fortran_s_order_outlives_the_way_to_a_device_and_back_and_pickling"),
    26: Row("cupy/cupy#589 cupy/cupy#9065 cupy/cupy#8389", "test_nobody_has_to_convert_a_value_of_a_device"),
    27: Row("cupy/cupy#9400 cupy/cupy#8536", reason="kernels are not fused yet"),
    28: Row("cupy/cupy#8382", reason="flags of the compiler for a card; documented"),
    29: Row("cupy/cupy#2559 cupy/cupy#9029", reason="how a card adds up; documented, and tolerated by the kit"),
    30: Row("chainer/chainer#4648", "test_an_index_out_of_bounds_wraps_around_as_documented"),
    31: Row(
        "data-apis/array-api-compat#337 cupy/cupy#9848 cupy/cupy#10107",
        "test_arrays_that_are_made_of_nothing_are_made_on_their_device",
    ),
    32: Row(
        "NixOS/nixpkgs#551032 cupy/cupy#10271 cupy/cupy#9463",
        "test_a_broken_set_up_has_a_code_and_a_reason_that_says_what_to_do",
    ),
    33: Row("NVIDIA/warp#1284", "test_a_probe_writes_no_file_and_no_variable_of_its_own"),
    34: Row(
        "cupy/cupy#8466 cupy/cupy#9501 cupy/cupy#9853 NVIDIA/cuda-python#1707",
        "test_a_broken_set_up_has_a_code_and_a_reason_that_says_what_to_do",
    ),
    35: Row(
        "cupy/cupy#2658 cupy/cupy#2806 cupy/cupy#3173 cupy/cupy#8315",
        "test_a_process_that_closes_nothing_ends_without_noise",
    ),
    36: Row("NVIDIA/nccl#13 NVIDIA/nccl#70 NVIDIA/nccl#613 pytorch/pytorch#175145", reason=_NCCL),
    37: Row(
        "cupy/cupy#10290 cupy/cupy#9750 cupy/cupy#8014 cupy/cupy#7539",
        reason="CuPy's kernels on more than 2 GiB, which takes a card",
    ),
    38: Row(
        "cupy/cupy#8191 cupy/cupy#3298 cupy/cupy#9672 numpy/numpy#13150",
        "test_a_warm_run_makes_the_calls_that_are_made_by_hand_and_no_other",
    ),
    39: Row("cupy/cupy#8773", "test_the_first_kernels_of_a_process_start_in_one_thread"),
    40: Row("cupy/cupy#77 cupy/cupy#9621", reason="there are no ops that draw random numbers yet"),
    41: Row("cupy/cupy#7911", "test_who_waits_for_a_device_does_not_spin"),
    42: Row("NVIDIA/cudf#4529", "test_the_loop_goes_on_and_calls_nothing_of_cuda_s"),
}  # fmt: skip

TESTED_ANYWAY: Final = {
    "test_a_broken_set_up_has_a_code_and_a_reason_that_says_what_to_do",
    "test_a_child_forked_after_cuda_was_initialised_is_told_so_and_one_forked_before_can_use_it",
    "test_a_probe_writes_no_file_and_no_variable_of_its_own",
    "test_what_is_fed_is_read_once_and_pinned_memory_of_the_caller_s_never_later",
}
"""Tests of what the backend promises by itself, which cite no reports."""


def documented() -> dict[str, str]:
    """The tests of the backend, with what their docstrings say."""
    trees = [ast.parse(path.read_text()) for path in Path(__file__).parent.glob("test_*.py")]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {one.name: ast.get_docstring(one) or "" for tree in trees for one in tree.body if isinstance(one, kinds)}


def test_each_of_the_reports_has_a_test_that_cites_it_or_a_reason() -> None:
    assert sorted(REPORTS) == list(range(1, 43))
    tests = documented()
    for number, (reports, test, reason) in REPORTS.items():
        assert bool(test) != bool(reason), number
        for one in reports.split():
            assert re.fullmatch(r"[\w-]+/[\w-]+#\d+", one), number
            assert not test or re.search(rf"{re.escape(one)}\b", tests[test]) or test in TESTED_ANYWAY, (number, one)


# -- what goes wrong ---------------------------------------------------------------------------------


async def test_memory_that_ran_out_is_there_for_the_next_run(gpus: World) -> None:
    """cupy/cupy#6756, cupy/cupy#7678, cupy/cupy#1392: the frames of an error kept what there was no room for."""
    gpus.pools[0].capacity = 1 << 17
    graph, x, y = scaled()
    fits, does_not = np.ones(5000), np.ones(12_000)

    async with ag.Session(graph) as session:
        # One at a time has room; for those that have none the others are waited for.
        runs = [session.submit(y, {x: fits * i}) for i in range(10)]
        for i, one in enumerate(runs):
            np.testing.assert_array_equal((await one).results, fits * (2 * i + 1))
        kept: list[BaseException] = []
        for _ in range(3):
            with pytest.raises(MemoryError, match="Out of memory") as caught:
                await session.run(y, {x: does_not})
            kept.append(caught.value)
            gpus.sweep()
            assert gpus.pools[0].used == 0
        np.testing.assert_array_equal((await session.run(y, {x: fits})).results, fits * 3)
    assert all("gpu:0 has too little memory" in "".join(one.__notes__) for one in kept)


async def test_a_library_that_finds_no_memory_is_asked_again(gpus: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """cupy/cupy#5894: CURAND_STATUS_ALLOCATION_FAILED, as its handles have no memory of CuPy's pool."""
    error = type("CURANDError", (RuntimeError,), {"status": 102})
    given_back: list[int] = []
    give_back = gpus.pools[0].free_all_blocks
    monkeypatch.setattr(gpus.pools[0], "free_all_blocks", lambda: given_back.append(0) or give_back())
    graph, x, y = scaled()

    gpus.faults.fail_kernel(0, error, at=2)
    assert (await results(graph, y, {x: 1.0})) == 3

    assert given_back


async def test_an_illegal_access_ends_its_device_for_all_runs_and_nothing_else(gpus: World) -> None:
    """cupy/cupy#7482, cupy/cupy#7615, rapidsai/cuml#7906, pytorch/pytorch#44624: afterwards every call failed.

    `done` of an event is then false for ever: who asks for it alone never ends.
    """
    graph, x, y = scaled()
    with graph:
        others = on("gpu:1", ag.ops.negative, x), on("cpu:0", ag.ops.negative, x)

    async with ag.Session(graph) as session:
        await session.run(y, {x: 1.0})
        gpus.faults.lose(0, at=40)  # the last copy of ten runs, of four operations each
        ends = await asyncio.gather(*[session.run(y, {x: 1.0}) for _ in range(10)], return_exceptions=True)
        lost = [one for one in ends if isinstance(one, BaseException)]
        assert ends[-1] in lost
        assert {type(one) for one in lost} == {DeviceLostError}
        assert all("gpu:0 is lost: CUDARuntimeError: cudaErrorIllegalAddress" in str(one) for one in lost)
        asked = len(gpus.log)
        for _ in range(3):
            with pytest.raises(DeviceLostError, match="start a new one; other devices go on"):
                await session.run(y, {x: 1.0})
        assert len(gpus.log) == asked
        assert [one.item() for one in (await session.run(others, {x: 1.0})).results] == [-1, -1]


# -- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peers", [True, False])
async def test_values_of_two_devices_meet_by_explicit_copies_alone(gpus: World, peers: bool) -> None:
    """cupy/cupy#5379, cupy/cupy#5496: an op of arrays of two devices failed, or read them over there, slowly."""
    gpus.peers = peers
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        there = on("gpu:1", ag.ops.multiply, x, 2)
        fetches = [on(one, ag.ops.add, on("gpu:0", ag.ops.negative, x), there) for one in ("gpu:0", "gpu:1")]

    async with ag.Session(graph) as session:
        before = gpus.counts
        assert [one.tolist() for one in (await session.run(fetches, {x: [1.0, 2.0]})).results] == [[1.0, 2.0]] * 2
        # Kernels refuse arrays of another device; one copy for each value that is needed there.
        assert (gpus.counts - before)["d2d"] == 2


@pytest.mark.parametrize("rows", [3, 3000])
async def test_fortran_s_order_outlives_the_way_to_a_device_and_back_and_pickling(gpus: World, rows: int) -> None:
    """cupy/cupy#10084: an array of CuPy's lost its order when it was pickled. Results of the host are NumPy's."""
    fed = np.asfortranarray(np.arange(rows * 5.0).reshape(rows, 5))
    with ag.Graph() as graph, ag.device("gpu:0"):
        x = ag.placeholder("float64", (None, 5))
        y = ag.ops.negative(x)

    left = await results(graph, y, {x: fed}, results="device")
    back = await results(graph, y, {x: fed})

    assert left.flags.f_contiguous
    for one in (back, pickle.loads(pickle.dumps(back))):
        assert (type(one), one.flags.f_contiguous) == (np.ndarray, True)
        np.testing.assert_array_equal(one, -fed)


async def test_nobody_has_to_convert_a_value_of_a_device(gpus: World) -> None:
    """cupy/cupy#589, cupy/cupy#9065, cupy/cupy#8389: "Implicit conversion to a NumPy array is not allowed"."""
    seen: list[type] = []

    @ag.op(spec="float64[n]")
    def shifted(value: Any) -> Any:
        seen.append(type(value))
        return np.asarray(value) + 1

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",))
        y = np.negative(on("gpu:0", shifted, on("gpu:0", ag.ops.multiply, x, 2)))
        host = x + 1
    there = gpus.cupy.asarray([1.0, 2.0])

    for fed in ([1.0, 2.0], there):
        assert [one.tolist() for one in await results(graph, [y, host], {x: fed})] == [[-3, -5], [2, 3]]
    assert seen == [np.ndarray] * 2


async def test_an_index_out_of_bounds_wraps_around_as_documented(gpus: World) -> None:
    """chainer/chainer#4648: by design, as to look would mean to wait for the device. NumPy raises."""
    with ag.Graph() as graph, ag.device("gpu:0"):
        x, at = ag.placeholder("float64", ("n",)), ag.placeholder("int64", ("k",))
        taken = ag.ops.take(x, at, axis=0)

    assert (await results(graph, taken, {x: [1.0, 2.0, 3.0], at: [7, -1]})).tolist() == [2, 3]
    readme = " ".join((Path(__file__).parents[3] / "README.md").read_text().split())
    assert "`take` wraps an index that is out of range around" in readme


async def test_arrays_that_are_made_of_nothing_are_made_on_their_device(gpus: World) -> None:
    """data-apis/array-api-compat#337, cupy/cupy#9848, cupy/cupy#10107: `device=` was ignored, or is not there."""
    with ag.Graph() as graph, ag.device("gpu:1"):
        x = ag.placeholder("float64", (2,))
        made = [
            ag.ops.zeros((2,)), ag.ops.ones((2,)), ag.ops.full((2,), 7.0), ag.ops.arange(2.0), ag.ops.eye(2),
            ag.ops.linspace(0.0, 1.0, 2), ag.ops.zeros_like(x), ag.ops.full_like(x, 3.0),
        ]  # fmt: skip
        used = [one + x for one in made]

    left = await results(graph, made + used, {x: [0.0, 0.0]}, results="device")

    assert {one.device.id for one in left} == {1}
    for one, other in zip(left[: len(made)], left[len(made) :], strict=True):
        np.testing.assert_array_equal(one.get(), other.get())


# -- a process ---------------------------------------------------------------------------------------

ENDING = textwrap.dedent("""
    import atexit, sys, threading, weakref
    sys.path[:0] = [{tests!r}]
    import asyncgraph as ag
    from asyncgraph_cupy import CupyBackend
    from standin.world import World

    world, made = World(), []
    make = world.cupy.cuda.Stream.__init__

    def making(stream, **options):
        make(stream, **options)
        made.append(weakref.ref(stream))

    def look(when):
        threads = [one.name for one in threading.enumerate() if one.name.startswith("asyncgraph cupy")]
        print(when, len(made), "streams,", sum(one() is not None for one in made), "left,", len(threads), "threads")

    world.cupy.cuda.Stream.__init__ = making
    # As CuPy's own, which was imported before: by then all must be gone.
    atexit.register(look, "then")
    backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx)
    with ag.Graph() as graph, ag.device("gpu:0"):
        x = ag.placeholder("float64", ())
        y = x * 2
    lent = ag.use_backend(backend)
    lent.__enter__()
    with ag.BlockingSession(graph) as session:
        assert session.run(y, {{x: 1.0}}).results == 2.0
    look("first")
""")


def test_a_process_that_closes_nothing_ends_without_noise() -> None:
    """cupy/cupy#2658, cupy/cupy#2806, cupy/cupy#3173, cupy/cupy#8315: streams were destroyed after CUDA had ended."""
    source = ENDING.format(tests=str(Path(__file__).parents[2]))
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == ["first 1 streams, 1 left, 2 threads", "then 1 streams, 0 left, 0 threads"]
