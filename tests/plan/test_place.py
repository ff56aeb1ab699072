"""Each node that has a kernel gets a device; what runs on the host has none."""

from __future__ import annotations

import pytest

import asyncgraph as ag
from asyncgraph._plan.place import place
from asyncgraph._plan.program import Placement
from asyncgraph.abc import Device
from asyncgraph.errors import DeviceNotFoundError
from asyncgraph_numpy import NumpyBackend

from .helpers import pruned

_BACKEND = NumpyBackend()
PLACES = {str(one): Placement(_BACKEND, one) for one in (Device("cpu"), Device("gpu"), Device("gpu", 1))}


class Placer:
    """Knows three devices, and what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def __call__(self, requested: str | None) -> Placement:
        self.asked.append(requested)
        try:
            return PLACES[requested or "cpu:0"]
        except KeyError:
            raise DeviceNotFoundError(f"there is no device {requested!r}") from None


def placed(*fetches: ag.Node) -> tuple[dict[str, str], list[str | None]]:
    """The device of each node that has one, by name; and what the placer was asked."""
    placer = Placer()
    found = place(pruned(fetches), placer).placements
    return {node.name: str(where.device) for node, where in found.items()}, placer.asked


def test_a_kernel_is_placed_where_it_was_asked_to_run_and_a_device_is_asked_for_once() -> None:
    with ag.Graph():
        x = ag.placeholder("float64", (2,), default=[1.0, 2.0], name="x")
        with ag.device("gpu:1"):
            a = ag.ops.add(x, 1, name="a")
            with ag.device("/gpu:0"):
                b = ag.ops.add(a, a, name="b")
            c = ag.ops.add(b, 1, name="c")
        d = ag.ops.add(c, 1, name="d")
    assert placed(d) == ({"a": "gpu:1", "b": "gpu:0", "c": "gpu:1", "d": "cpu:0"}, ["gpu:1", "gpu:0", None])


def test_user_ops_and_what_has_no_kernel_run_on_the_host_wherever_they_were_asked_to() -> None:
    with ag.Graph(), ag.device("gpu:0"):
        made = ag.op(abs).node(ag.constant(1.0))
        picked = ag.item(made, 0)
        outputs = ag.op(spec=("float64[]", "float64[]"))(divmod).node(3.0, 2.0)
        assert placed(ag.group(picked, *outputs)) == ({}, [])


def test_an_output_is_where_its_call_is() -> None:
    with ag.Graph():
        with ag.device("gpu:1"):
            first, _ = ag.ops.unstack(ag.ops.zeros((2,), name="z"), name="call")
        total = ag.ops.add(first, 1, name="total")
    devices, _ = placed(total)
    assert devices == {"z": "gpu:1", "call": "gpu:1", first.name: "gpu:1", "total": "cpu:0"}


def test_a_device_that_there_is_not_is_an_error_with_a_note_that_names_the_node_and_its_line() -> None:
    with ag.Graph(), ag.device("tpu:3"):
        node = ag.ops.zeros((1,), name="z")
    with pytest.raises(DeviceNotFoundError, match="there is no device 'tpu:3'") as caught:
        placed(node)
    (note,) = caught.value.__notes__
    assert note.startswith(f"asyncgraph: needed by node 'z' (zeros)\n  built at: {__file__}")
