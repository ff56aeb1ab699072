"""What a session's variables hold, saved and restored."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import asyncgraph as ag
from asyncgraph._registry import registry
from asyncgraph.errors import (
    CheckpointError,
    CheckpointFileError,
    CheckpointMismatchError,
    CheckpointTypeError,
    SessionLoopError,
)

from ..backends.strict_backend import StrictBackend
from .models import Model, files_in, versions


async def test_a_checkpoint_has_the_variables_by_name_and_the_global_step(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        await session.run(model.update)
        path = await session.save(tmp_path / "model")
    assert path == tmp_path / "model"
    found = load_file(path)
    assert {name: str(array.dtype) for name, array in found.items()} == {
        "layer/w": "float32", "b": "int16", "global_step": "int64",
    }  # fmt: skip
    assert versions(found.values()) == {1.0}
    with safe_open(path, framework="np") as file:
        assert file.metadata()["step"] == "1"


async def test_what_was_saved_is_restored_by_another_session(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        for _ in range(3):
            await session.run(model.update)
        await session.save(tmp_path / "model")
    async with ag.Session(model.graph) as session:
        header = await session.restore(tmp_path / "model")
        assert header.step == 3
        assert versions((await session.run(model.all)).results) == {3.0}
        await session.run(model.update)
        assert versions((await session.run(model.all)).results) == {4.0}


def test_a_blocking_session_saves_and_restores_too(tmp_path: Path) -> None:
    model = Model()
    with ag.BlockingSession(model.graph) as session:
        session.run(model.update)
        assert session.save(tmp_path / "model", step=7) == tmp_path / "model"
    with ag.BlockingSession(model.graph) as session:
        assert session.restore(tmp_path / "model").step == 7
        assert versions(session.run(model.all).results) == {1.0}


async def test_a_blocking_session_refuses_to_block_a_loop(tmp_path: Path) -> None:
    model = Model()
    with ag.BlockingSession(model.graph) as session:
        for call in (session.save, session.restore):
            with pytest.raises(SessionLoopError, match="would block the event loop"):
                call(tmp_path / "model")


async def test_saving_gives_variables_their_initial_values_first(tmp_path: Path) -> None:
    with ag.Graph() as graph:
        a = ag.variable([1.0, 2.0], name="a")
        ag.variable(a * 2, name="b")
    async with ag.Session(graph) as session:
        found = load_file(await session.save(tmp_path / "model"))
    assert {name: array.tolist() for name, array in found.items()} == {"a": [1.0, 2.0], "b": [2.0, 4.0]}


async def test_what_is_restored_needs_no_initial_value(tmp_path: Path) -> None:
    save_file({"v": np.arange(3.0)}, tmp_path / "model")

    def initial() -> np.ndarray[Any, Any]:
        raise AssertionError("nobody needs it")

    with ag.Graph() as graph:
        v = ag.variable(initial, name="v", dtype="float64", shape=(3,))
    async with ag.Session(graph) as session:
        await session.restore(tmp_path / "model")
        assert (await session.run(v)).results.tolist() == [0.0, 1.0, 2.0]


async def test_the_step_is_that_which_is_given_or_none(tmp_path: Path) -> None:
    with ag.Graph() as graph:
        ag.variable(1.0, name="v")
    async with ag.Session(graph) as session:
        await session.save(tmp_path / "with", step=5)
        await session.save(tmp_path / "without")
        with pytest.raises(CheckpointError, match="the step is -1: steps are counted from 0"):
            await session.save(tmp_path / "negative", step=-1)
        with pytest.raises(TypeError):
            await session.save(tmp_path / "half", step=0.5)  # pyright: ignore[reportArgumentType]  # that is the point
    read = ag.checkpoints.read_header
    assert (read(tmp_path / "with").step, read(tmp_path / "without").step) == (5, None)
    assert files_in(tmp_path) == ["with", "without"]


# -- what does not fit ---------------------------------------------------------------------------------


async def test_all_that_differs_is_told_at_once_and_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save_file(
        {"old": np.ones(1), "b": np.ones((), "int32"), "layer/w": np.ones((3, 2), "float32"), "older": np.ones(1)}, path
    )
    model = Model()
    async with ag.Session(model.graph) as session:
        await session.run(model.update)
        with pytest.raises(CheckpointMismatchError) as raised:
            await session.restore(path)
        assert versions((await session.run(model.all)).results) == {1.0}
    assert str(raised.value) == (
        f"the checkpoint {str(path)!r} does not fit the variables of the graph:\n"
        "  'layer/w' is float32[3,2], and the variable float32[2,3]\n"
        "  'b' is int32[], and the variable int16[]\n"
        "  it has not: 'global_step'\n"
        "  the graph has not: 'old', 'older'\n"
        "  restore some by variables=[...], or those that it has by strict=False"
    )


async def test_a_dtype_that_numpy_has_not_is_told_like_any_other(tmp_path: Path) -> None:
    header = b'{"v":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
    (tmp_path / "model").write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    with ag.Graph() as graph:
        ag.variable(np.ones(1, "float32"), name="v")
    async with ag.Session(graph) as session:
        with pytest.raises(CheckpointMismatchError, match=r"'v' is BF16\[1\], and the variable float32\[1\]"):
            await session.restore(tmp_path / "model")


async def test_a_message_does_not_show_millions_of_names(tmp_path: Path) -> None:
    save_file({f"n{index}": np.ones(1, "?") for index in range(1000)}, tmp_path / "model")
    model = Model()
    async with ag.Session(model.graph) as session:
        with pytest.raises(CheckpointMismatchError, match="and 900 more") as raised:
            await session.restore(tmp_path / "model")
    assert len(str(raised.value)) < 2000


async def test_without_strict_what_both_have_is_restored(tmp_path: Path) -> None:
    model = Model()
    save_file({"b": np.full((), 9, "int16"), "old": np.ones(1)}, tmp_path / "model")
    save_file({"old": np.ones(1)}, tmp_path / "nothing")
    save_file({"b": np.ones(2, "int16")}, tmp_path / "other")
    async with ag.Session(model.graph) as session:
        await session.restore(tmp_path / "model", strict=False)
        w, b, step = (await session.run(model.all)).results
        assert (versions([w]), int(b), int(step)) == ({0.0}, 9, 0)
        with pytest.raises(CheckpointMismatchError, match="it has not: 'layer/w', 'b', 'global_step'"):
            await session.restore(tmp_path / "nothing", strict=False)
        with pytest.raises(CheckpointMismatchError, match=r"'b' is int16\[2\], and the variable int16\[\]"):
            await session.restore(tmp_path / "other", strict=False)


async def test_chosen_variables_are_saved_and_restored_and_others_left(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        await session.run(model.update)
        await session.save(tmp_path / "part", variables=[model.b, "layer/w"])
        await session.save(tmp_path / "all")
    assert {*load_file(tmp_path / "part")} == {"b", "layer/w"}
    async with ag.Session(model.graph) as session:
        await session.restore(tmp_path / "all", variables=["b"])
        assert [versions([one]) for one in (await session.run(model.all)).results] == [{0.0}, {1.0}, {0.0}]
        with pytest.raises(CheckpointMismatchError, match="it has not: 'global_step'"):
            await session.restore(tmp_path / "part", variables=[model.b, model.step])


async def test_variables_can_have_other_names_in_the_file(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        await session.run(model.update)
        await session.save(tmp_path / "model", variables={"kernel": model.w, "bias": "b"})
    assert {*load_file(tmp_path / "model")} == {"kernel", "bias"}
    async with ag.Session(model.graph) as session:
        await session.restore(tmp_path / "model", variables={"kernel": model.w})
        assert [versions([one]) for one in (await session.run(model.all)).results] == [{1.0}, {0.0}, {0.0}]
        with pytest.raises(CheckpointError, match=r"from two names of a checkpoint: \['kernel', 'bias'\]"):
            await session.restore(tmp_path / "model", variables={"kernel": model.w, "bias": model.w})


async def test_what_is_no_variable_of_the_graph_is_refused(tmp_path: Path) -> None:
    model, other = Model(), Model()
    async with ag.Session(model.graph) as session:
        wrongs: list[Any] = [other.w, "nobody", model.update, 3]
        for wrong in wrongs:
            for call in (session.save, session.restore):
                with pytest.raises(CheckpointError, match="is no variable of"):
                    await call(tmp_path / "model", variables=[wrong])
        with pytest.raises(CheckpointError, match="cannot be saved as '__metadata__'"):
            await session.save(tmp_path / "model", variables={"__metadata__": model.w})
    with ag.Graph() as empty:
        ag.constant(1.0)
    async with ag.Session(empty) as session:
        with pytest.raises(CheckpointError, match="there are no variables to be saved"):
            await session.save(tmp_path / "model")
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("dtype", ["complex128", "longdouble", "<U3", "S2", "datetime64[s]", "timedelta64[ns]"])
async def test_a_dtype_that_the_format_has_not_is_refused_with_the_names_of_all_such_variables(
    dtype: str, tmp_path: Path
) -> None:
    kind = np.dtype(dtype)
    with ag.Graph() as graph:
        for name in "ab":
            ag.variable(np.zeros(2, kind), name=name)
        ag.variable(1.0, name="c")
    async with ag.Session(graph) as session:
        with pytest.raises(CheckpointTypeError) as raised:
            await session.save(tmp_path / "model")
    spec = ag.ArraySpec(kind, 2)
    told = f"a checkpoint cannot hold the dtype of:\n  'a' is {spec!r}\n  'b' is {spec!r}\n  it can hold bool, uint8"
    assert str(raised.value).startswith(told)
    assert files_in(tmp_path) == []


async def test_what_another_program_wrote_is_restored(tmp_path: Path) -> None:
    model = Model()
    values = {"layer/w": np.full((2, 3), 5, "float32"), "b": np.full((), 5, "int16"), "global_step": np.array(5)}
    save_file(values, tmp_path / "model", metadata={"format": "np"})
    async with ag.Session(model.graph) as session:
        assert (await session.restore(tmp_path / "model")).step is None
        assert versions((await session.run(model.all)).results) == {5.0}


async def test_a_shape_that_is_not_fixed_takes_any_size(tmp_path: Path) -> None:
    with ag.Graph() as graph:
        v = ag.variable(np.zeros((0, 2)), name="v", shape=(None, 2))
    save_file({"v": np.ones((3, 2))}, tmp_path / "model")
    save_file({"v": np.ones((3, 3))}, tmp_path / "other")
    async with ag.Session(graph) as session:
        await session.restore(tmp_path / "model")
        assert (await session.run(v)).results.shape == (3, 2)
        with pytest.raises(CheckpointMismatchError, match=r"'v' is float64\[3,3\], and the variable float64\[\?,2\]"):
            await session.restore(tmp_path / "other")


# -- memory --------------------------------------------------------------------------------------------


async def test_the_order_of_memory_is_restored(tmp_path: Path) -> None:
    with ag.Graph() as graph:
        v = ag.variable(np.asfortranarray(np.arange(6.0).reshape(2, 3)), name="v")
    async with ag.Session(graph) as session:
        await session.save(tmp_path / "model")
        strides = session.store.snapshot()[v].strides
    async with ag.Session(graph) as session:
        await session.restore(tmp_path / "model")
        assert session.store.snapshot()[v].strides == strides
        assert (await session.run(v)).results.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


async def test_what_was_restored_cannot_be_written_to(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        await session.save(tmp_path / "model")
        await session.restore(tmp_path / "model")
        for array in session.store.snapshot().values():
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 1


async def test_neither_saving_nor_restoring_has_the_state_in_memory_once_more(tmp_path: Path) -> None:
    size = 1_000_000
    with ag.Graph() as graph:
        v = ag.variable(np.ones(size), name="v")
    async with ag.Session(graph) as session:
        await session.run(v)
        tracemalloc.start()
        try:
            await session.save(tmp_path / "model")
            saving = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            await session.restore(tmp_path / "model")
            restoring = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert saving < 8 * size / 4
    assert restoring < 8 * size * 1.25


async def test_an_error_that_is_kept_keeps_no_values(tmp_path: Path) -> None:
    model = Model()
    async with ag.Session(model.graph) as session:
        await session.run(model.update)
        values = weakref.ref(session.store.snapshot()[model.w])
        with pytest.raises(CheckpointFileError, match="No such file") as raised:
            await session.save(tmp_path / "none" / "model")
        await session.run(model.update)
        gc.collect()
        assert values() is None
        assert "none" in str(raised.value)


async def test_variables_on_devices_are_saved_and_restored_there(tmp_path: Path) -> None:
    with registry.lend(StrictBackend()):
        with ag.Graph() as graph, ag.device("strict:1"):
            v = ag.variable(np.arange(6.0).reshape(2, 3), name="v")
            doubled = v.assign(v * 2)
        async with ag.Session(graph) as session:
            await session.run(doubled)
            assert load_file(await session.save(tmp_path / "model"))["v"].tolist() == [[0, 2, 4], [6, 8, 10]]
        async with ag.Session(graph) as session:
            await session.restore(tmp_path / "model")
            assert not isinstance(session.store.snapshot()[v], np.ndarray)
            assert (await session.run(v + 1)).results.tolist() == [[1, 3, 5], [7, 9, 11]]
