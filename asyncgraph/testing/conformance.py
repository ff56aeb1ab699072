"""What `asyncgraph.abc` asks of a backend, as a class of tests for pytest.

    class TestMyBackend(BackendConformance):
        backend_class = MyBackend

is a whole file of tests. Each test asks one thing, of the backend alone or of a session that runs on its devices. No
entry point is needed.
"""

from __future__ import annotations

import asyncio
import re
import warnings
from abc import ABC
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from inspect import getmembers, isfunction
from threading import Barrier
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from .. import ops
from .._graph.building import constant, placeholder
from .._graph.graph import Graph
from .._graph.node import Node
from .._graph.op import CONSTANT, OUTPUT, PLACEHOLDER
from .._graph.rules.tables import VIEWS
from .._graph.scopes import device
from .._registry import registry
from .._session.args import RunOptions
from .._session.blocking import BlockingSession
from .._session.config import SessionConfig
from .._session.session import Session
from ..abc import Array, Backend, Capabilities, Device
from ..errors import GraphError
from ..ops.custom import op
from ._cases import CASES, DTYPES, OPS, Case
from ._watching import WatchingBackend

_made: dict[type[Backend], Backend] = {}
_KIND = re.compile(r"[a-z][a-z0-9_]*\Z")
_HostArray = np.ndarray[Any, Any]


class BackendConformance(ABC):
    """The tests of a backend. To be subclassed, with a name that pytest collects; subclasses set its attributes.

    On a machine where the backend finds no device, its tests are skipped, and say why.
    """

    backend_class: ClassVar[type[Backend]]
    """The backend. It is made once, without arguments, as a session's is."""

    exact: ClassVar[bool] = False
    """Whether values equal NumPy's bit for bit; otherwise floats may differ as far as rounding can account for."""

    dtypes: ClassVar[Sequence[str]] = DTYPES
    """The dtypes that its devices have. What needs, or gives, any other is not asked for."""

    expected_failures: ClassVar[Mapping[str, str]] = {}
    """Tests that fail, by their names as pytest prints them ("test_values[sin-int]"), with the reason. Strict: one
    that passes is a failure, so that the list stays true."""

    # -- fixtures --------------------------------------------------------------------------------------

    @pytest.fixture(autouse=True)
    def _expect_failure(self, request: pytest.FixtureRequest) -> None:
        reason = self.expected_failures.get(cast("pytest.Item", request.node).name)
        if reason is not None:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture
    def backend(self) -> Backend:
        """The backend."""
        made = _made.get(self.backend_class)
        if made is None:
            made = _made[self.backend_class] = self.backend_class()
        return made

    @pytest.fixture
    def devices(self, backend: Backend) -> Sequence[Device]:
        """Its devices."""
        try:
            return backend.devices()
        except Exception as error:
            pytest.skip(f"no device: {error}")

    @pytest.fixture
    def watching(self, backend: Backend, devices: Sequence[Device]) -> Iterator[WatchingBackend]:
        """A backend that watches this one, and that sessions find in its place."""
        watching = WatchingBackend(backend)
        with registry.lend(watching):
            yield watching

    # -- what it declares ------------------------------------------------------------------------------

    def test_it_has_a_name_and_distinct_devices(self, backend: Backend, devices: Sequence[Device]) -> None:
        """`name`, `capabilities` and `devices()` are what they are said to be."""
        assert backend.name
        assert isinstance(backend.capabilities, Capabilities)
        assert len(devices) > 0
        assert len(set(devices)) == len(devices)
        for one in devices:
            assert _KIND.match(one.kind), f"{one.kind!r} is not lower-case letters, digits and '_'"
            assert one.index >= 0

    def test_every_expected_failure_is_the_name_of_a_test(self) -> None:
        """A name that is none would hide that a test was renamed, or never failed."""
        assert sorted(set(self.expected_failures) - set(_names_of_tests(type(self)))) == []

    def test_an_unknown_op_is_not_implemented(self, backend: Backend, devices: Sequence[Device]) -> None:
        """`kernel` says so by `NotImplementedError`, before anything runs."""
        with pytest.raises(NotImplementedError):
            backend.kernel("no_such_op", {}, [], devices[0])

    # -- transfers -------------------------------------------------------------------------------------

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_an_array_comes_back_as_it_was(self, dtype: str, backend: Backend, devices: Sequence[Device]) -> None:
        """Its dtype, shape and bits, from every device, whatever its strides; it is not written meanwhile."""
        self._skip_unless_supported([dtype])
        for where in devices:
            for array in _layouts(dtype):
                before = array.tobytes()
                back = backend.to_host(backend.to_device(array, where))
                assert type(back) is np.ndarray
                assert (back.dtype, back.shape) == (array.dtype, array.shape)
                assert back.tobytes() == before
                assert array.tobytes() == before

    def test_values_go_from_device_to_device_through_the_host(
        self, backend: Backend, devices: Sequence[Device]
    ) -> None:
        """What one device computed, another takes."""
        array = np.arange(6, dtype=self._a_float()).reshape(2, 3)
        for start in devices:
            for end in devices:
                there = backend.to_device(backend.to_host(backend.to_device(array, start)), end)
                assert backend.to_host(there).tobytes() == array.tobytes()

    # -- values ----------------------------------------------------------------------------------------

    @pytest.mark.parametrize("case", CASES)
    def test_values(self, case: str, backend: Backend, devices: Sequence[Device]) -> None:
        """A session that runs on a device gives NumPy's values, and leaves what is fed as it is."""
        call, kind = CASES[case]
        compared, wrong = 0, list[str]()
        config = SessionConfig(device=str(devices[-1]), soft_placement=False)
        for dtypes in call.dtypes(kind):
            if not set(dtypes) <= set(self.dtypes):
                continue
            for arrays in call.operands(kind, dtypes):
                outcome = self._compare(call, arrays, backend, config)
                if outcome is not None:
                    compared += 1
                    wrong += outcome
        if not compared:
            pytest.skip("the backend lacks the dtypes")
        assert not wrong, f"{len(wrong)} of {compared} calls differ from NumPy's:\n" + "\n".join(wrong[:5])

    @pytest.mark.parametrize("name", OPS)
    def test_a_kernel_writes_to_no_operand(self, name: str, backend: Backend, devices: Sequence[Device]) -> None:
        """Nor gives an operand's memory away, but for the ops whose results are views."""

        def check(node: Node, kernel: Callable[..., Array], operands: list[Array]) -> Array:
            moved = [one for one in operands if not isinstance(one, (int, float, complex))]
            before = [_bits(backend, one) for one in moved]
            result = kernel(*operands)
            assert [_bits(backend, one) for one in moved] == before, f"{node!r} wrote to an operand"
            if node.op.name not in VIEWS:
                for one in moved:
                    shares = np.may_share_memory(_on_host(backend, result)[0], _on_host(backend, one)[0])
                    assert not shares, f"the result of {node!r} shares memory with an operand"
            return result

        self._compute(name, backend, devices[-1], check)

    @pytest.mark.parametrize("name", OPS)
    def test_a_kernel_may_be_called_by_several_threads(
        self, name: str, backend: Backend, devices: Sequence[Device]
    ) -> None:
        """At once, with the same operands: each gets what one alone would get."""
        together = Barrier(_THREADS)
        with ThreadPoolExecutor(_THREADS) as threads:

            def check(node: Node, kernel: Callable[..., Array], operands: list[Array]) -> Array:
                def call(_: int) -> str | None:
                    together.wait(timeout=30)
                    with np.errstate(all="ignore"):
                        return self._differs(_on_host(backend, kernel(*operands)), expected)

                alone = kernel(*operands)
                expected = [one.copy() for one in _on_host(backend, alone)]
                assert [one for one in threads.map(call, range(_THREADS)) if one] == []
                return alone

            self._compute(name, backend, devices[-1], check)

    # -- sessions on its devices -----------------------------------------------------------------------

    def test_nodes_run_on_the_device_they_were_built_for(self, watching: WatchingBackend) -> None:
        """And their values stay there with `results="device"`: nothing comes to the host."""
        with Graph() as graph:
            x = placeholder(self._a_float(), ("n",))
            nodes: list[Node] = []
            for one in watching.devices():
                with device(str(one)):
                    nodes.append(ops.square(x))
        with BlockingSession(graph) as session:
            results = session.run(nodes, {x: [1, 2]}, RunOptions(results="device")).results
        assert sorted(watching.computed) == sorted(map(str, watching.devices()))
        assert [watching.device_of(one) for one in results] == list(watching.devices())
        assert watching.to_hosts == []
        assert [watching.to_host(one).tolist() for one in results] == [[1.0, 4.0]] * len(nodes)

    def test_a_value_is_moved_once_to_each_device_that_needs_it(self, watching: WatchingBackend) -> None:
        """However often it is used there; a constant when the plan is made, not in a run."""
        first, *others = map(str, watching.devices())
        dtype = self._a_float()
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
            plan = session.explain([y, *sums], {x: fed})
            planned = len(watching.to_devices)
            results = [session.run([y, *sums], {x: fed}, RunOptions(results="device")).results for _ in range(runs)]
        on_devices = [watching.to_host(one).tolist() for one in results[-1]]
        assert on_devices == [[0, 2, 6], *[[0, 12, 72]] * len(others)], str(plan)
        moving = not watching.capabilities.host_arrays
        assert planned == moving * (1 + len(others))  # the constant
        assert sorted(watching.to_devices[planned:]) == sorted([first, *others * 2] * runs) * moving
        assert len(watching.to_hosts) - len(on_devices) == moving * runs * bool(others)

    def test_user_ops_get_numpy_arrays_and_give_them_back(self, watching: WatchingBackend) -> None:
        """A user op runs on the host, between two devices or on the way back to one."""
        first, last = str(watching.devices()[0]), str(watching.devices()[-1])
        seen: list[type] = []

        @op(spec=f"{self._a_float()}[3]")
        def double(value: _HostArray) -> _HostArray:
            seen.append(type(value))
            return value * 2

        with Graph() as graph:
            x = placeholder(self._a_float(), (3,))
            with device(first):
                y = double(x + 1)
            with device(last):
                z = y - x
        with BlockingSession(graph) as session:
            assert session.run(z, {x: [1, 2, 3]}).results.tolist() == [3, 4, 5]
        assert seen == [np.ndarray]

    def test_many_runs_at_once_do_not_mix(self, watching: WatchingBackend) -> None:
        """Each gets the values of its own feeds."""
        with Graph() as graph:
            x = y = placeholder(self._a_float(), ("n",))
            for one in watching.devices():
                with device(str(one)):
                    y = y * 2 + 1

        async def main() -> list[float]:
            async with Session(graph) as session:
                runs = [session.run(y, {x: np.full(3 + i % 2, i)}) for i in range(20)]
                return [values.results[-1] for values in await asyncio.gather(*runs)]

        factor = 2 ** len(watching.devices())
        assert asyncio.run(main()) == [i * factor + factor - 1 for i in range(20)]

    # -- what the tests are made of --------------------------------------------------------------------

    def _a_float(self) -> str:
        return next(one for one in ("float64", "float32", *self.dtypes) if one in self.dtypes)

    def _skip_unless_supported(self, dtypes: Sequence[str]) -> None:
        if not set(dtypes) <= set(self.dtypes):
            pytest.skip("the backend lacks the dtype")

    def _compare(
        self, case: Case, arrays: list[_HostArray], backend: Backend, config: SessionConfig
    ) -> list[str] | None:
        """What is wrong with a call, `None` if it cannot be made or has a result of a dtype that the backend lacks."""
        described = f"  {case.op} of {', '.join(f'{one.dtype}{list(one.shape)}' for one in arrays) or 'numbers'}"
        before = [one.tobytes() for one in arrays]
        results: list[Any] = []
        with _quiet(), Graph() as graph:
            nodes = [placeholder(one.dtype, one.shape) for one in arrays]
            try:
                fetches = _listed(case.call(ops, *nodes))
            except GraphError:
                return None
            try:
                expected: list[_HostArray] | None = [np.asarray(one) for one in _listed(case.call(np, *arrays))]
            except (ValueError, IndexError):
                expected = None
            if expected is not None and not {one.dtype.name for one in expected} <= set(self.dtypes):
                return None
            try:
                with registry.lend(backend), BlockingSession(graph, config=config) as session:
                    results += session.run(fetches, dict(zip(nodes, arrays, strict=True))).results
            except Exception as error:
                return [] if expected is None else [f"{described}: {type(error).__name__}: {error}"]
        if [one.tobytes() for one in arrays] != before:
            return [f"{described}: a feed was written"]
        if expected is None:
            return [f"{described}: NumPy raises, but the result is {results!r}"]
        wrong = self._differs(results, expected)
        return [f"{described}: {wrong}"] if wrong else []

    def _differs(self, results: list[Any], expected: list[_HostArray]) -> str | None:
        """In what results are not what is expected; `None` if they are."""
        for result, wanted in zip(results, expected, strict=True):
            if type(result) is not np.ndarray:
                return f"the result is no array: {result!r}"
            if (result.dtype, result.shape) != (wanted.dtype, wanted.shape):
                return f"{result.dtype}{list(result.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
            if result.tobytes() != wanted.tobytes() and (self.exact or not _is_close(result, wanted)):
                return f"{result.tolist()} instead of {wanted.tolist()}"
        return None

    def _compute(
        self,
        op: str,
        backend: Backend,
        where: Device,
        check: Callable[[Node, Callable[..., Array], list[Array]], Array],
    ) -> None:
        """Has `check` call the kernels of the first case of an op that the backend has, with operands on a device."""
        for name in OPS[op]:
            case, kind = CASES[name]
            dtypes = next((one for one in case.dtypes(kind) if set(one) <= set(self.dtypes)), None)
            if dtypes is not None and f"test_values[{name}]" not in self.expected_failures:
                break
        else:
            pytest.skip("the backend has no such call")
        *_, arrays = case.operands(kind, dtypes)
        with _quiet(), Graph() as graph:
            case.call(ops, *[placeholder(one.dtype, one.shape) for one in arrays])
            feeds = iter(arrays)
            values: dict[Node, Array] = {}
            for node in graph.nodes:
                operands: list[Array] = [values[one] if isinstance(one, Node) else one for one in node.operands]
                if node.op is PLACEHOLDER:
                    values[node] = backend.to_device(next(feeds), where)
                elif node.op is CONSTANT:
                    values[node] = backend.to_device(cast("_HostArray", node.params["value"]), where)
                elif node.op is OUTPUT:
                    values[node] = operands[0][node.params["index"]]
                else:
                    specs = [one.spec if isinstance(one, Node) else one for one in node.operands]
                    values[node] = check(node, backend.kernel(node.op.name, node.params, specs, where), operands)


_THREADS = 4
_ROUNDINGS = 64
"""Units in the last place by which a float may differ from NumPy's."""


def _is_close(result: _HostArray, wanted: _HostArray) -> bool:
    if wanted.dtype.kind not in "fc":
        return False
    finite = np.abs(wanted[np.isfinite(wanted)])
    tolerance = _ROUNDINGS * float(np.finfo(wanted.dtype).eps)
    largest = float(finite.max()) if finite.size else 0.0
    return np.allclose(result, wanted, rtol=tolerance, atol=tolerance * min(largest, 1.0), equal_nan=True)


def _layouts(dtype: str) -> list[_HostArray]:
    """Arrays of all kinds of memory: of rank 0, empty, reversed, transposed, strided, repeated, read-only."""
    base = np.arange(24).astype(dtype).reshape(4, 6)
    locked = base.copy()
    locked.flags.writeable = False
    return [
        base, base[0, 1:2].reshape(()), base[:0], base[:, ::-1], base[::-1, ::-2], base.T, base[1::2, 2:],
        np.broadcast_to(base[0, 1:2], (2, 3)), locked,
    ]  # fmt: skip


@contextmanager
def _quiet() -> Generator[None]:
    """Inside, nothing warns of infinities and NaN, or of the means of nothing: they are asked for."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _listed(results: Any) -> list[Any]:
    return list(cast("Sequence[Any]", results)) if isinstance(results, (tuple, list)) else [results]


def _on_host(backend: Backend, value: Array) -> list[_HostArray]:
    return [backend.to_host(one) for one in _listed(value)]


def _bits(backend: Backend, value: Array) -> list[bytes]:
    return [one.tobytes() for one in _on_host(backend, value)]


def _names_of_tests(kind: type[BackendConformance]) -> Iterator[str]:
    for name, function in getmembers(kind, isfunction):
        marks: list[pytest.Mark] = getattr(function, "pytestmark", [])
        parameters = [one.args[1] for one in marks if one.name == "parametrize"]
        yield from [f"{name}[{one}]" for one in parameters[0]] if parameters else [name]
