"""A traced run says what ran, when, and in which thread."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import asyncgraph as ag
from asyncgraph.tracing import Span, Trace


async def traced(fetches: Any, graph: ag.Graph, feeds: Any = None) -> Trace:
    async with ag.Session(graph) as session:
        values = await session.run(fetches, feeds, ag.RunOptions(trace=True))
    assert values.metadata.trace is not None
    return values.metadata.trace


async def test_a_span_for_each_node_that_ran() -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        y = ag.ops.sin(x, name="y")
        z = ag.op(lambda value: value)(y, name="z")
        ag.ops.cos(y, name="unused")
    trace = await traced(z, graph, {x: [1.0]})

    assert [span.node.name for span in trace.spans] == ["y", "z"]
    assert all(trace.start_s <= span.start_s <= span.end_s for span in trace.spans)
    assert trace.spans[0].end_s <= trace.spans[1].start_s
    assert trace.spans[1].thread.startswith("asyncgraph")


async def test_the_file_is_in_the_trace_event_format(tmp_path: Path) -> None:
    with ag.Graph() as graph:
        x = ag.placeholder("float64", ("n",), name="x")
        y = ag.ops.sin(x, name="waves")
        z = ag.op(lambda value: value)(y)
    trace = await traced([y, z], graph, {x: [1.0]})
    path = tmp_path / "trace.json"
    trace.save(path)

    saved = json.loads(path.read_text())
    assert saved == trace.to_chrome()
    assert saved["displayTimeUnit"] == "ms"
    events = saved["traceEvents"]
    assert {event["ph"] for event in events} == {"X", "M"}
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = [event for event in events if event["ph"] == "X"]
    assert [(span["name"], span["cat"]) for span in spans] == [("waves", "sin"), ("lambda", "lambda")]
    for span in spans:
        assert span["ts"] >= 0
        assert span["dur"] >= 0
        assert isinstance(span["pid"], int)
        assert span["tid"] in names
    assert spans[0]["args"]["spec"] == "float64[n]"
    assert __file__ in spans[0]["args"]["built at"]


async def test_coroutines_that_overlap_get_rows_of_their_own_and_others_share_one() -> None:
    both = asyncio.Barrier(2)

    async def meet(*after: Any) -> None:
        await both.wait()

    with ag.Graph() as graph:
        a, b = (ag.op(meet).node() for _ in range(2))
        c, d = (ag.op(meet)(a, b) for _ in range(2))
    trace = await traced([c, d], graph)

    spans = [event for event in trace.to_chrome()["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == 4
    assert {span["tid"] for span in spans} == {0, 1}
    for one in spans:
        for other in spans:
            if one is not other and one["tid"] == other["tid"]:
                assert one["ts"] + one["dur"] <= other["ts"] or other["ts"] + other["dur"] <= one["ts"]


@pytest.mark.parametrize(
    ("times", "rows"),
    [
        ([("main", 0, 1), ("main", 1, 2)], [0, 0]),
        ([("main", 0, 2), ("main", 1, 3), ("main", 2, 4)], [0, 1, 0]),
        ([("main", 0, 1), ("worker", 0, 1), ("main", 1, 2), ("worker", 1, 2)], [0, 1, 0, 1]),
    ],
)
def test_rows_belong_to_threads_and_are_as_many_as_it_needs(times: list[tuple[str, int, int]], rows: list[int]) -> None:
    with ag.Graph():
        node = ag.constant(1)
    trace = Trace(tuple(Span(node, start, end, thread) for thread, start, end in times), 0.0)
    events = [event for event in trace.to_chrome()["traceEvents"] if event["ph"] == "X"]
    assert [event["tid"] for event in events] == rows


async def test_a_failed_run_has_a_trace_up_to_where_it_failed() -> None:
    def fail(value: Any) -> None:
        raise LookupError

    with ag.Graph() as graph:
        x = ag.placeholder("float64", ())
        y = ag.op(fail)(ag.ops.sin(x, name="y"))
    async with ag.Session(graph) as session:
        future = session.submit(y, {x: 1.0}, ag.RunOptions(trace=True))
        with pytest.raises(LookupError):
            await future
        assert list(future.metadata.node_seconds) == ["y"]
