"""Placement: nodes run where they were built for, and values are moved where they are needed, once."""

from __future__ import annotations

import asyncio
from abc import ABC

import numpy as np
import pytest

from ... import ops
from ..._exec.launch import launch
from ..._graph.building import constant, placeholder
from ..._graph.graph import Graph
from ..._graph.node import Node
from ..._graph.scopes import device
from ..._session.args import RunOptions
from ..._session.blocking import BlockingSession
from ..._session.session import Session
from ...abc import Array, Device
from ...ops.custom import op
from .base import HostArray, KitBase, group, within
from .watching import WatchingBackend

ON_DEVICE = RunOptions(results="device")


class Placement(KitBase, ABC):
    """Sessions on all of the backend's devices, watched."""

    @group("placement")
    def test_nodes_run_on_the_device_they_were_built_for(self, watching: WatchingBackend) -> None:
        """And their values stay there with `results="device"`: nothing comes to the host."""
        with Graph() as graph:
            x = placeholder(self.a_float(), ("n",))
            nodes: list[Node] = []
            for one in watching.devices():
                with device(str(one)):
                    nodes.append(ops.square(x))
        with BlockingSession(graph) as session:
            results = session.run(nodes, {x: [1, 2]}, ON_DEVICE).results
        assert sorted(watching.computed) == sorted(map(str, watching.devices()))
        assert [watching.device_of(one) for one in results] == list(watching.devices())
        assert watching.to_hosts == []
        assert [_read(watching, one) for one in results] == [[1.0, 4.0]] * len(nodes)

    @group("placement")
    def test_results_for_the_host_are_numpy_arrays(self, watching: WatchingBackend) -> None:
        """Of every device, of rank 0 too, which the caller may write; each is moved once."""
        with Graph() as graph:
            x = placeholder(self.a_float(), ("n",))
            nodes: list[Node] = []
            for one in watching.devices():
                with device(str(one)):
                    nodes += [ops.square(x), ops.sum(x)]
        with BlockingSession(graph) as session:
            results = session.run([nodes, nodes], {x: [1, 2]}).results
        for squares, total in [one[i : i + 2] for one in results for i in range(0, len(nodes), 2)]:
            assert type(squares) is type(total) is np.ndarray
            assert (squares.tolist(), total.tolist()) == ([1, 4], 3)
            squares[...] = total[...] = 0
        moving = not watching.capabilities.host_arrays
        assert sorted(watching.to_hosts) == sorted(list(map(str, watching.devices())) * 2 * moving)

    @group("placement")
    def test_a_value_is_moved_once_to_each_device_that_needs_it(self, watching: WatchingBackend) -> None:
        """However often it is used there; a constant when the plan is made, not in a run."""
        first, *others = map(str, watching.devices())
        dtype = self.a_float()
        with Graph() as graph:
            x, c = placeholder(dtype, (3,)), constant(np.arange(3, dtype=dtype))
            with device(first):
                y = x * c
            sums: list[Node] = []
            for one in others:
                with device(one):
                    sums.append((y + x) * (y + c))
        runs, fed = 3, np.array([1, 2, 3], dtype)
        with BlockingSession(graph) as session:
            plan = session.explain([y, *sums], {x: fed}, ON_DEVICE)
            planned = len(watching.to_devices)
            results = [session.run([y, *sums], {x: fed}, ON_DEVICE).results for _ in range(runs)]
        moved_to_hosts = len(watching.to_hosts)
        on_devices = [_read(watching, one) for one in results[-1]]
        assert on_devices == [[0, 2, 6], *[[0, 12, 72]] * len(others)], str(plan)
        moving = not watching.capabilities.host_arrays
        assert planned == moving * (1 + len(others))  # the constant
        assert sorted(watching.to_devices[planned:]) == sorted([first, *others * 2] * runs) * moving
        through_the_host = moving and not watching.capabilities.between_devices
        assert moved_to_hosts == through_the_host * runs * bool(others)

    @group("placement")
    def test_user_ops_get_numpy_arrays_and_give_them_back(self, watching: WatchingBackend) -> None:
        """A user op runs on the host, between two devices or on the way back to one."""
        first, last = str(watching.devices()[0]), str(watching.devices()[-1])
        seen: list[type] = []

        @op(spec=f"{self.a_float()}[3]")
        def double(value: HostArray) -> HostArray:
            seen.append(type(value))
            return value * 2

        with Graph() as graph:
            x = placeholder(self.a_float(), (3,))
            with device(first):
                y = double(x + 1)
            with device(last):
                z = y - x
        with BlockingSession(graph) as session:
            assert session.run(z, {x: [1, 2, 3]}).results.tolist() == [3, 4, 5]
        assert seen == [np.ndarray]

    @group("placement")
    def test_an_op_that_computes_on_a_device_is_given_its_arrays_and_checked_by_theirs(
        self, watching: WatchingBackend
    ) -> None:
        """By `shape` and `dtype`, which arrays of a device have, whether they were moved there or computed."""
        dtype = self.a_float()
        seen: list[Device | None] = []

        @op(on_device=True, spec=f"{dtype}[n]")
        async def same(value: Array) -> Array:
            seen.append(watching.device_of(value))
            return await launch(_itself, value)

        for one in watching.devices():
            with Graph() as graph:
                x = placeholder(dtype, ("n",))
                with device(str(one)):
                    nodes = [same(x), same(x * x)]
            with BlockingSession(graph) as session:
                moved, computed = session.run(nodes, {x: [1, 2]}).results
            assert (moved.tolist(), computed.tolist()) == ([1, 2], [1, 4])
        assert seen == [one for one in watching.devices() for _ in range(2)]

    @group("placement")
    def test_many_runs_at_once_do_not_mix(self, watching: WatchingBackend) -> None:
        """Each gets the values of its own feeds."""
        with Graph() as graph:
            x = y = placeholder(self.a_float(), ("n",))
            for one in watching.devices():
                with device(str(one)):
                    y = y * 2 + 1

        async def main() -> list[float]:
            async with Session(graph) as session:
                runs = [session.run(y, {x: np.full(3 + i % 2, i)}) for i in range(20)]
                return [values.results[-1] for values in await asyncio.gather(*runs)]

        factor = 2 ** len(watching.devices())
        assert asyncio.run(main()) == [i * factor + factor - 1 for i in range(20)]

    @group("placement")
    def test_a_result_on_a_device_is_fed_back_over_dlpack_without_a_transfer(self, watching: WatchingBackend) -> None:
        """Where that is declared: it is used where it is."""
        if watching.capabilities.dlpack is None:
            pytest.skip("the backend does not declare dlpack")
        for one in watching.devices():
            with Graph() as graph:
                x = placeholder(self.a_float(), (2,))
                with device(str(one)):
                    y = ops.square(x)
            with BlockingSession(graph) as session:
                first = session.run(y, {x: [1, 2]}, ON_DEVICE).results
                moved = len(watching.to_devices)
                second = session.run(y, {x: first}, ON_DEVICE).results
            assert tuple(map(int, first.__dlpack_device__())) == (watching.capabilities.dlpack, one.index)
            assert len(watching.to_devices) == moved
            assert watching.to_hosts == []
            assert watching.taken.count(str(one)) == 1
            assert _read(watching, second) == [1, 16]
            watching.to_hosts.clear()


def _itself(value: Array) -> Array:
    return value


def _read(watching: WatchingBackend, array: Array) -> list[float]:
    where = watching.device_of(array)
    assert isinstance(where, Device)
    read: HostArray = within(watching, where, lambda: watching.to_host(array))
    return read.tolist()
