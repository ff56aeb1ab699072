"""The conformance kit's cases as calls of kernels, without a session: what `make_kernel` makes of each op."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from asyncgraph import ops
from asyncgraph._graph.building import placeholder
from asyncgraph._graph.graph import Graph
from asyncgraph._graph.node import Node
from asyncgraph._graph.op import CONSTANT, OUTPUT
from asyncgraph.abc import Device
from asyncgraph.errors import GraphError
from asyncgraph.testing._kit.cases import CASES
from asyncgraph.testing._kit.reference import NUMPY
from asyncgraph_cupy._cuda_api import CudaApi
from asyncgraph_cupy._kernels import make_kernel

HostArray = np.ndarray[Any, Any]
HERE = Device("gpu", 0)


class Tried(NamedTuple):
    """A call of an op.

    Fields:
        described: what it is, for messages.
        nodes: the graph, in order.
        fetched: those of them whose values are the result.
        feeds: the operands, by placeholder.
        expected: what NumPy gives; `None` if it raises.
    """

    described: str
    nodes: tuple[Node, ...]
    fetched: list[Node]
    feeds: dict[Node, HostArray]
    expected: list[HostArray] | None


def listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def tried(name: str) -> Tried:
    """A call of a case with dtypes of one kind: of the first that there are, and of the last shapes."""
    case, kind = CASES[name]
    for dtypes in case.dtypes(kind):
        *_, arrays = case.operands(kind, dtypes)
        with quiet(), Graph() as graph:
            nodes = [placeholder(one.dtype, one.shape) for one in arrays]
            try:
                fetched = listed(case.call(ops, *nodes))
            except GraphError:
                continue
            try:
                expected = [np.asarray(one) for one in listed(case.call(NUMPY, *arrays))]
            except (ValueError, IndexError):
                expected = None
        described = f"{case.op} of {', '.join(f'{one.dtype}{list(one.shape)}' for one in arrays)}"
        return Tried(described, tuple(graph.nodes), fetched, dict(zip(nodes, arrays, strict=True)), expected)
    raise LookupError(name)


def compute(one: Tried, api: CudaApi, to_device: Callable[[HostArray], Any], known: bool = True) -> list[Any]:
    """What the kernels give; `known` is whether they are made knowing the dtypes and shapes of the operands."""
    values: dict[Node, Any] = {node: to_device(array) for node, array in one.feeds.items()}
    for node in one.nodes:
        operands: list[Any] = [values[part] if isinstance(part, Node) else part for part in node.operands]
        if node.op is CONSTANT:
            values[node] = to_device(np.asarray(node.params["value"]))
        elif node.op is OUTPUT:
            values[node] = operands[0][node.params["index"]]
        elif node not in values:
            specs = [(part.spec if known else _UNKNOWN) if isinstance(part, Node) else part for part in node.operands]
            values[node] = make_kernel(api, node.op.name, node.params, specs, HERE)(*operands)
    return [values[node] for node in one.fetched]


@contextmanager
def quiet() -> Generator[None]:
    """Inside, nothing warns of infinities and NaN, or of the means of nothing."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


class _Unknown:
    dtype = None
    shape = None


_UNKNOWN = _Unknown()
