"""A device that there is not: another is taken and the log says why, or it is an error that does."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.errors import DeviceNotFoundError, GraphError, KernelNotFoundError

from .strict_backend import StrictBackend

pytestmark = pytest.mark.usefixtures("numpy_alone")

HARD = ag.SessionConfig(soft_placement=False)
NOT_THERE = "no backend has the device 'gpu:0'\n  backend 'numpy' has cpu:0"


def squared_on(device: str) -> tuple[ag.Graph, ag.Node, ag.Node]:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        with ag.device(device):
            y = ag.ops.square(x, name="y")
    return graph, x, y


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "asyncgraph"]


@pytest.mark.parametrize("spelling", ["gpu:0", "/gpu:0", "/device:GPU:0", "GPU"])
async def test_without_such_a_device_nodes_run_on_the_default_one_and_the_log_says_why_once(
    spelling: str, caplog: pytest.LogCaptureFixture
) -> None:
    graph, x, y = squared_on(spelling)
    with ag.device(spelling):
        z = y + 1

    async with ag.Session(graph) as session:
        runs = [session.run([y, z], {x: [float(i)]}) for i in range(3)]
        results = [values.results for values in await asyncio.gather(*runs)]
        explanation = session.explain(z, {x: [1.0]})

    np.testing.assert_array_equal(results, [[[0], [1]], [[1], [2]], [[4], [5]]])
    assert warnings_of(caplog) == [f"nodes placed on gpu:0 run on cpu:0 instead: {NOT_THERE}"]
    assert explanation.devices == {y: "cpu:0", z: "cpu:0"}
    assert "y: asked for gpu:0, but runs on cpu:0" in str(explanation)
    assert caplog.records[0].levelno == logging.WARNING


async def run(session: ag.Session, y: ag.Node, x: ag.Node) -> None:
    await session.run(y, {x: [1.0]})


async def explain(session: ag.Session, y: ag.Node, x: ag.Node) -> None:
    session.explain(y, {x: [1.0]})


@pytest.mark.parametrize("ask", [run, explain])
@pytest.mark.parametrize("spelling", ["gpu:0", "/gpu:0"])
async def test_without_soft_placement_it_is_an_error_with_the_reason_of_every_backend(
    ask: Callable[[ag.Session, ag.Node, ag.Node], object], spelling: str
) -> None:
    graph, x, y = squared_on(spelling)
    async with ag.Session(graph, config=HARD) as session:
        with pytest.raises(DeviceNotFoundError) as raised:
            await ask(session, y, x)  # pyright: ignore[reportGeneralTypeIssues]  # both are coroutine functions
        cpu = await session.run(x * 2, {x: [1.0]})
    assert str(raised.value) == (
        f"{NOT_THERE}\n  nodes that ask for it run elsewhere with SessionConfig(soft_placement=True)"
    )
    (note,) = raised.value.__notes__
    assert re.fullmatch(r"asyncgraph: needed by node 'y' \(square\)\n  built at: .*test_placement.py:\d+.*", note)
    assert cpu.results.tolist() == [2.0]


@pytest.mark.parametrize("value", ["1", "true"])
def test_where_a_gpu_is_required_it_is_an_error_also_with_soft_placement(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ASYNCGRAPH_REQUIRE_GPU", value)
    graph, x, y = squared_on("gpu:0")
    with ag.BlockingSession(graph) as session:
        with pytest.raises(DeviceNotFoundError) as raised:
            session.run(y, {x: [1.0]})
        assert session.run(x * 2, {x: [1.0]}).results.tolist() == [2.0]
    assert str(raised.value) == (
        f"{NOT_THERE}\n  nodes that ask for it run nowhere else, as ASYNCGRAPH_REQUIRE_GPU is set in the environment"
    )
    assert warnings_of(caplog) == []


@pytest.mark.parametrize(("value", "device"), [("0", "gpu:0"), ("", "gpu:0"), ("1", "tpu:0")])
def test_where_none_is_required_nodes_run_on_the_default_device(
    value: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASYNCGRAPH_REQUIRE_GPU", value)
    graph, x, y = squared_on(device)
    with ag.BlockingSession(graph) as session:
        assert session.run(y, {x: [3.0]}).results.tolist() == [9.0]


def test_a_default_device_that_there_is_not_is_an_error_also_with_soft_placement() -> None:
    graph, x, y = squared_on("cpu:0")
    with ag.BlockingSession(graph, config=ag.SessionConfig(device="gpu:0")) as session:
        assert session.run(y, {x: [3.0]}).results.tolist() == [9.0]
        with pytest.raises(DeviceNotFoundError) as raised:
            session.run(x + 1, {x: [3.0]})
    assert str(raised.value) == (
        f"{NOT_THERE}\n  it is where nodes run that ask for no device: give another SessionConfig(device=...)"
    )


def test_a_default_device_that_is_no_name_of_one_is_an_error_at_once() -> None:
    graph, _, _ = squared_on("cpu:0")
    with pytest.raises(GraphError, match="'gpu zero' is not the name of a device"):
        ag.BlockingSession(graph, config=ag.SessionConfig(device="gpu zero"))


def test_what_is_not_needed_may_ask_for_any_device() -> None:
    graph, x, _ = squared_on("gpu:7")
    z = x + 1
    with ag.BlockingSession(graph, config=HARD) as session:
        assert session.run(z, {x: [1.0]}).results.tolist() == [2.0]


def test_a_fed_node_needs_no_device() -> None:
    graph, _, y = squared_on("gpu:7")
    z = y + 1
    with ag.BlockingSession(graph, config=HARD) as session:
        assert session.run(z, {y: [1.0]}).results.tolist() == [2.0]


def test_a_kernel_that_a_backend_lacks_is_an_error_before_anything_runs(lent: StrictBackend) -> None:
    ran: list[object] = []
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        with ag.device("strict:1"):
            half = ag.ops.astype(ag.op(ran.append)(x), "float16", name="half")
    with ag.BlockingSession(graph) as session, pytest.raises(KernelNotFoundError) as raised:
        session.run(half, {x: [1.0]})
    assert ran == []
    assert isinstance(raised.value, NotImplementedError)
    assert re.fullmatch(
        "the backend 'strict' cannot compute 'half' \\(astype\\) on strict:1: array_api_strict has no dtype 'float16'\n"
        "  operands: any\n"
        "  built at: .*test_placement.py:.*\n"
        r"  build it on another device: with asyncgraph.device\(...\)",
        str(raised.value),
    )
