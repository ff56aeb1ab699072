"""Values: those of every op, over dtypes, shapes, layouts in memory and edge cases, are NumPy's."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Barrier
from typing import Any, Final, cast, final

import numpy as np
import pytest

from ... import ops
from ..._graph.building import placeholder
from ..._graph.graph import Graph
from ..._graph.node import Node
from ..._graph.op import CONSTANT, OUTPUT, PLACEHOLDER
from ..._graph.rules.tables import VIEWS
from ..._registry import registry
from ..._session.blocking import BlockingSession
from ..._session.config import SessionConfig
from ...abc import Array, Backend, Device
from ...errors import GraphError
from .base import HostArray, KitBase, group, listed, on_device, on_host, within
from .cases import CASES, LAID_OUT, OPS, Case
from .layouts import LAYOUTS
from .reference import NUMPY
from .tolerances import is_same

_THREADS: Final = 4
_MOST_SHOWN: Final = 5

Check = Callable[[Node, Callable[..., Array], list[Array]], Array]
"""Given a node, its kernel and operands on a device, calls the kernel and gives what it gave."""


@final
@dataclass(frozen=True, slots=True)
class _Call:
    """One call of an op.

    Fields:
        described: what it is, for messages.
        feeds: what is fed.
        build: calls it, in a namespace, with nodes or arrays in the place of the feeds.
        expected: what NumPy gives; `None` if it raises.
    """

    described: str
    feeds: list[HostArray]
    build: Callable[..., Any]
    expected: list[HostArray] | None


class Values(KitBase, ABC):
    """Each op is called in a session that runs on the backend's last device, and its kernel without a session."""

    @group("values")
    def test_an_unknown_op_is_not_implemented(self, backend: Backend, devices: Sequence[Device]) -> None:
        """`kernel` says so by `NotImplementedError`, before anything runs."""
        with pytest.raises(NotImplementedError):
            backend.kernel("no_such_op", {}, [], devices[0])

    @group("values")
    @pytest.mark.parametrize("case", CASES)
    def test_values(self, case: str, backend: Backend, devices: Sequence[Device]) -> None:
        """A session that runs on a device gives NumPy's values, and leaves what is fed as it is."""
        call, kind = CASES[case]
        tried = [
            self._call(call, arrays, call.call, "")
            for dtypes in call.dtypes(kind)
            if set(dtypes) <= set(self.dtypes)
            for arrays in call.operands(kind, dtypes, self.flushed)
        ]
        self._compare(call, [one for one in tried if one is not None], backend, devices[-1])

    @group("values")
    @pytest.mark.parametrize("case", LAID_OUT)
    def test_values_of_any_layout(self, case: str, backend: Backend, devices: Sequence[Device]) -> None:
        """So it does for operands that lie in memory in any way, as they are fed or as the device has made them."""
        call, arrays = self._first_of(LAID_OUT[case])
        tried: list[_Call | None] = []
        for name, layout in LAYOUTS.items():
            shapes = [one.shape for one in arrays]

            def build(xp: Any, *fed: Any, view: Any = layout.view, shapes: Any = shapes) -> Any:
                return call.call(xp, *[view(xp, *one) for one in zip(fed, shapes, strict=True)])

            tried.append(self._call(call, [layout.feed(one) for one in arrays], build, f", {name}"))
        self._compare(call, [one for one in tried if one is not None], backend, devices[-1])

    @group("values")
    @pytest.mark.parametrize("name", OPS)
    def test_a_kernel_writes_to_no_operand(self, name: str, backend: Backend, devices: Sequence[Device]) -> None:
        """Nor gives an operand's memory away, but for the ops whose results are views."""
        read = partial(on_host, backend, devices[-1])

        def check(node: Node, kernel: Callable[..., Array], operands: list[Array]) -> Array:
            moved = [one for one in operands if not isinstance(one, (int, float, complex))]
            before = [_bits(read(one)) for one in moved]
            result = kernel(*operands)
            assert [_bits(read(one)) for one in moved] == before, f"{node!r} wrote to an operand"
            if node.op.name not in VIEWS:
                for one in moved:
                    shares = np.may_share_memory(read(result)[0], read(one)[0])
                    assert not shares, f"the result of {node!r} shares memory with an operand"
            return result

        self._compute(name, backend, devices[-1], check)

    @group("values")
    @pytest.mark.parametrize("name", OPS)
    def test_a_kernel_may_be_called_by_several_threads(
        self, name: str, backend: Backend, devices: Sequence[Device]
    ) -> None:
        """At once, with the same operands: each gets what one alone would get."""
        together, read = Barrier(_THREADS), partial(on_host, backend, devices[-1])
        with ThreadPoolExecutor(_THREADS) as threads:

            def check(node: Node, kernel: Callable[..., Array], operands: list[Array]) -> Array:
                def call(_: int) -> str | None:
                    together.wait(timeout=30)
                    with np.errstate(all="ignore"):
                        return self._differs(node.op.name, read(kernel(*operands)), expected)

                alone = kernel(*operands)
                expected = [one.copy() for one in read(alone)]
                assert [one for one in threads.map(call, range(_THREADS)) if one] == []
                return alone

            self._compute(name, backend, devices[-1], check)

    # -- what they are made of -------------------------------------------------------------------------

    def _first_of(self, names: Sequence[str]) -> tuple[Case, list[HostArray]]:
        """The first of the cases that the backend has, and the largest operands for it."""
        for name in names:
            case, kind = CASES[name]
            dtypes = next((one for one in case.dtypes(kind) if set(one) <= set(self.dtypes)), None)
            if dtypes is not None and f"test_values[{name}]" not in self.expected_failures:
                operands = case.operands(kind, dtypes, self.flushed)
                return case, max(operands, key=lambda arrays: sum(one.size for one in arrays))
        pytest.skip("the backend has no such call")

    def _call(self, case: Case, feeds: list[HostArray], build: Callable[..., Any], what: str) -> _Call | None:
        """A call; `None` if it cannot be made, or has a result of a dtype that the backend lacks."""
        operands = ", ".join(f"{one.dtype}{list(one.shape)}" for one in feeds) or "numbers"
        with _quiet(), Graph():
            try:
                build(ops, *[placeholder(one.dtype, one.shape) for one in feeds])
            except GraphError:
                return None
            try:
                expected: list[HostArray] | None = [np.asarray(one) for one in listed(build(NUMPY, *feeds))]
            except (ValueError, IndexError):
                expected = None
        if expected is not None and not {one.dtype.name for one in expected} <= set(self.dtypes):
            return None
        return _Call(f"  {case.op} of {operands}{what}", feeds, build, expected)

    def _compare(self, case: Case, calls: list[_Call], backend: Backend, where: Device) -> None:
        if not calls:
            pytest.skip("the backend lacks the dtypes")
        # All at once, as a session of its own for each would take most of the time. What raises is told from the
        # others by being called alone.
        alone = [one for one in calls if one.expected is None]
        together = [one for one in calls if one.expected is not None]
        results = _run(together, backend, where) if together else []
        wrong: list[str] = []
        if isinstance(results, Exception):
            alone += together
        else:
            wrong += self._wrong(case, together, results)
        while alone and len(wrong) < _MOST_SHOWN:
            call = alone.pop()
            results = _run([call], backend, where)
            if not isinstance(results, Exception):
                wrong += self._wrong(case, [call], results)
            elif call.expected is not None:
                wrong.append(f"{call.described}: {type(results).__name__}: {results}")
        assert not wrong, f"these of {len(calls)} calls differ from NumPy's:\n" + "\n".join(wrong[:_MOST_SHOWN])

    def _wrong(self, case: Case, calls: list[_Call], results: list[list[Any]]) -> Iterator[str]:
        for call, given in zip(calls, results, strict=True):
            if call.expected is None:
                yield f"{call.described}: NumPy raises, but the result is {given!r}"
            elif wrong := self._differs(case.op, given, call.expected):
                yield f"{call.described}: {wrong}"

    def _differs(self, op: str, results: list[Any], expected: list[HostArray]) -> str | None:
        """In what results are not what is expected; `None` if they are."""
        for result, wanted in zip(results, expected, strict=True):
            if type(result) is not np.ndarray:
                return f"the result is no array: {result!r}"
            if (result.dtype, result.shape) != (wanted.dtype, wanted.shape):
                return f"{result.dtype}{list(result.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
            if result.tobytes() != wanted.tobytes() and (
                self.exact or not is_same(op, result, wanted, self.tolerances)
            ):
                return f"{result.tolist()} instead of {wanted.tolist()}"
        return None

    def _compute(self, name: str, backend: Backend, where: Device, check: Check) -> None:
        """Has `check` call the kernels of the first case of an op that the backend has, with operands on a device."""
        case, arrays = self._first_of(OPS[name])
        with _quiet(), Graph() as graph:
            case.call(ops, *[placeholder(one.dtype, one.shape) for one in arrays])
            feeds = iter(arrays)
            values: dict[Node, Array] = {}
            for node in graph.nodes:
                operands: list[Array] = [values[one] if isinstance(one, Node) else one for one in node.operands]
                if node.op is PLACEHOLDER:
                    values[node] = on_device(backend, where, next(feeds))
                elif node.op is CONSTANT:
                    values[node] = on_device(backend, where, cast("HostArray", node.params["value"]))
                elif node.op is OUTPUT:
                    values[node] = operands[0][node.params["index"]]
                else:
                    specs = [one.spec if isinstance(one, Node) else one for one in node.operands]
                    kernel = backend.kernel(node.op.name, node.params, specs, where)
                    values[node] = check(node, _submitted(backend, where, kernel), operands)


def _submitted(backend: Backend, where: Device, kernel: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *operands: within(backend, where, lambda: kernel(*operands))


def _run(calls: list[_Call], backend: Backend, where: Device) -> list[list[Any]] | Exception:
    """The results of calls in one run, or what it raised."""
    before = [[one.tobytes() for one in call.feeds] for call in calls]
    feeds: dict[Node, HostArray] = {}
    fetches: list[list[Node]] = []
    config = SessionConfig(device=str(where), soft_placement=False)
    with _quiet(), Graph() as graph:
        for call in calls:
            nodes = [placeholder(one.dtype, one.shape) for one in call.feeds]
            feeds.update(zip(nodes, call.feeds, strict=True))
            fetches.append(listed(call.build(ops, *nodes)))
        try:
            with registry.lend(backend), BlockingSession(graph, config=config) as session:
                results: list[list[Any]] = session.run(fetches, feeds).results
        except Exception as error:
            return error
    assert [[one.tobytes() for one in call.feeds] for call in calls] == before, "a feed was written"
    return results


@contextmanager
def _quiet() -> Generator[None]:
    """Inside, nothing warns of infinities and NaN, or of the means of nothing: they are asked for."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _bits(arrays: list[HostArray]) -> list[bytes]:
    return [one.tobytes() for one in arrays]
