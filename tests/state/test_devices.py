"""Variables on devices: their values stay there, are moved once a version, and are nobody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import asyncgraph as ag
from asyncgraph.abc import Backend, Device
from asyncgraph.errors import SpecError, SpecTypeError
from asyncgraph_cupy import CupyBackend, _backend, _dispatcher, _lanes, _reaper, _staging, _submission

from ..backends.late_backend import LateArray, LateBackend
from ..backends.strict_backend import StrictBackend
from ..standin.world import World
from .helpers import KINDS, Gate, opened


class Places(NamedTuple):
    """Two devices of one backend, and that."""

    one: str
    two: str
    backend: Backend


@pytest.fixture(params=["strict", "late", "late that shares", "stand-in"])
def places(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    if request.param == "strict":
        with ag.use_backend(backend := StrictBackend()):
            yield Places("strict:1", "strict:2", backend)
    elif request.param == "stand-in":
        world = World(devices=2, seed=11)
        world.watch(monkeypatch, _backend, _dispatcher, _lanes, _reaper, _staging, _submission)
        backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx, staging_bytes=1 << 18)
        with ag.use_backend(backend):
            yield Places("gpu:0", "gpu:1", backend)
        backend.close()
        world.check()
    else:
        sharing = request.param != "late"
        backend = LateBackend(between_devices=sharing, dlpack=sharing)
        with ag.use_backend(backend):
            yield Places("late:0", "late:1", backend)
        backend.close()
        assert backend.complaints == []


def on(device: str, build: Any, *operands: Any, **options: Any) -> Any:
    with ag.device(device):
        return build(*operands, **options)


@pytest.mark.parametrize("kind", KINDS)
async def test_variables_of_devices_and_the_host_are_read_and_assigned_across_all_of_them(
    kind: str, places: Places
) -> None:
    with ag.Graph() as graph:
        homes = ("cpu:0", places.one, places.two)
        variables = [on(home, ag.variable, np.full(3, float(number))) for number, home in enumerate(homes)]
        sums = [on(home, lambda: variables[0] + variables[1] + variables[2]) for home in homes]
        rotated = [v.assign(one) for v, one in zip(variables, [*variables[1:], variables[0]], strict=True)]
        added = [v.assign_add(one) for v, one in zip(variables, reversed(variables), strict=True)]
    async with opened(kind, graph) as session:
        assert [one.tolist() for one in await session.run(sums)] == [[3.0] * 3] * 3
        assert [one[0] for one in await session.run(rotated)] == [1.0, 2.0, 0.0]
        assert [one[0] for one in await session.run(variables)] == [1.0, 2.0, 0.0]
        assert [one[0] for one in await session.run(added)] == [1.0, 4.0, 1.0]
        assert [one[0] for one in await session.run([*sums, *variables])] == [6.0, 6.0, 6.0, 1.0, 4.0, 1.0]


async def test_ag_072_a_read_on_another_device_after_an_assignment_sees_what_was_assigned(places: Places) -> None:
    """https://github.com/tensorflow/tensorflow/issues/16277."""
    with ag.Graph() as graph:
        with ag.device(places.one):
            v = ag.variable(0.0)
            before = v + 1
            up = v.assign(ag.constant(100.0) + 0)
        elsewhere = [on(place, lambda: v * 1) for place in ("cpu:0", places.two)]
        with ag.control_dependencies([up]):
            after = [on(place, lambda: v + 2) for place in ("cpu:0", places.one, places.two)]
    async with ag.Session(graph) as session:
        values = (await session.run([before, *elsewhere, *after])).results
        assert [float(one) for one in values] == [1.0, 0.0, 0.0, 102.0, 102.0, 102.0]


async def test_what_a_device_holds_is_what_the_backend_computes_with_and_is_not_moved_again(places: Places) -> None:
    with ag.Graph() as graph:
        v = on(places.one, ag.variable, np.arange(3.0))
        more = on(places.one, lambda: v.assign(v + 1))
    async with ag.Session(graph) as session:
        for _ in range(3):
            await session.run(more, options=ag.RunOptions(results="device"))
        assert not isinstance(session.store.snapshot()[v], np.ndarray)
        text = str(session.explain(more))
        assert "moved to" not in text.split("fetches:")[0].replace("moved to host", "")
        assert (await session.run(v)).results.tolist() == [3.0, 4.0, 5.0]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_handed_in_is_the_callers_again_when_the_run_has_ended(kind: str, places: Places) -> None:
    kept = np.arange(3.0)
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (3,))
        returned = ag.op(lambda: kept, spec="float64[3]").node()
        variables = [on(places.one, ag.variable, np.zeros(3)) for _ in range(4)]
        values = [x, ag.ops.reshape(x, (3,)), on(places.one, ag.ops.reshape, x, (3,)), returned]
        new = [v.assign(value) for v, value in zip(variables, values, strict=True)]
    async with opened(kind, graph) as session:
        fed = np.arange(3.0)
        await session.run(new, {x: fed})
        fed[:] = kept[:] = -1
        assert [one.tolist() for one in await session.run(variables)] == [[0.0, 1.0, 2.0]] * 4
        replacing = np.ones(3)
        await session.replace(dict.fromkeys(variables, replacing))
        replacing[:] = -1
        assert [one.tolist() for one in await session.run(variables)] == [[1.0] * 3] * 4


async def test_an_array_that_is_fed_on_a_device_is_copied_when_it_is_assigned() -> None:
    backend = LateBackend(dlpack=True)
    with ag.use_backend(backend), ag.Graph() as graph:
        x = ag.placeholder("float64", (3,))
        with ag.device("late:0"):
            v, w = ag.variable(np.zeros(3)), ag.variable(np.zeros(3))
            new = [v.assign(x), w.assign(ag.ops.reshape(x, (3,)))]
        async with ag.Session(graph) as session:
            made = (await session.run(w.assign(v + 1), options=ag.RunOptions(results="device"))).results
            assert isinstance(made, LateArray)
            fed = LateArray(np.arange(3.0), Device("late", 0), made.made_in)
            await session.run(new, {x: fed})
            await session.replace({v: fed})
            fed.planned[:] = -1
            assert [one.tolist() for one in (await session.run([v, w])).results] == [[0.0, 1.0, 2.0]] * 2
    backend.close()
    assert backend.complaints == []


async def test_a_run_that_fails_on_a_device_changes_nothing(places: Places) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None,))
        with ag.device(places.one):
            v = ag.variable(np.zeros(2))
            new = [v.assign_add(1.0), x + v]
    async with ag.Session(graph) as session:
        with pytest.raises(ValueError):  # noqa: PT011  # each library words it in its own way
            await session.run(new, {x: [1.0, 2.0, 3.0]})
        assert (await session.run(v)).results.tolist() == [0.0, 0.0]
        await session.run(new, {x: [1.0, 2.0]})
        assert (await session.run(v)).results.tolist() == [1.0, 1.0]


async def test_a_value_that_turns_out_not_to_fit_is_an_error_on_a_device_too(places: Places) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", (None,))
        returned = ag.op(lambda: np.zeros(2, np.float32)).node()
        with ag.device(places.one):
            v = ag.variable(np.zeros(2))
            wrong = [(v.assign(x * 1), SpecError), (v.assign(returned), SpecTypeError)]
    async with ag.Session(graph) as session:
        for node, error in wrong:
            with pytest.raises(error):
                await session.run(node, {x: [1.0, 2.0, 3.0]})
        assert (await session.run(v)).results.tolist() == [0.0, 0.0]


async def test_first_values_are_computed_where_the_variable_is_or_moved_there(places: Places) -> None:
    with ag.Graph() as graph:
        host = ag.variable(np.arange(3.0))
        with ag.device(places.one):
            one = ag.variable(host * 2)
            two = ag.variable(lambda: np.ones(3), dtype="float64", shape=(3,))
        three = on(places.two, ag.variable, one)
        four = on("cpu:0", ag.variable, three)
    async with ag.Session(graph) as session:
        values = (await session.run([four, three, two, one])).results
        assert [value.tolist() for value in values] == [[0, 2, 4], [0, 2, 4], [1, 1, 1], [0, 2, 4]]


async def test_runs_of_a_device_at_the_same_time_lose_no_update(places: Places) -> None:
    gate = Gate()
    with ag.Graph() as graph, ag.device(places.one):
        v = ag.variable(np.zeros(3))
        add, slow = v.assign_add(1.0), v.assign(v + gate.node(1.0))
    async with asyncio.timeout(20), ag.Session(graph) as session:
        await session.run([v, add], {add: np.zeros(3)})
        session.prepare(add), session.prepare(slow)
        runs = [session.submit(slow), *[session.submit(add) for _ in range(10)]]
        await gate.has_begun()
        assert (await session.run(v)).results.tolist() == [0.0] * 3
        gate.open()
        await asyncio.gather(*runs)
        assert (await session.run(v)).results.tolist() == [11.0] * 3


async def test_old_versions_of_a_devices_variable_are_given_back() -> None:
    world = World(devices=1, seed=3)
    with pytest.MonkeyPatch.context() as patch:
        world.watch(patch, _backend, _dispatcher, _lanes, _reaper, _staging, _submission)
        backend = CupyBackend(cupy=world.cupy, cupyx=world.cupyx, staging_bytes=1 << 18)
        with ag.use_backend(backend), ag.Graph() as graph:
            with ag.device("gpu:0"):
                v = ag.variable(np.zeros(50_000))
                more = v.assign_add(1.0)
            async with ag.Session(graph) as session:
                for _ in range(6):
                    await session.run(more, options=ag.RunOptions(results="device"))
                assert world.cupy.get_default_memory_pool().used_bytes() <= 3 * 400_000
            del session
        backend.close()
        world.check()
