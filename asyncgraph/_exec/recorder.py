"""Who did what, when, and in which thread."""

from __future__ import annotations

from threading import current_thread
from time import perf_counter
from typing import Final, NamedTuple, final

from .._graph.node import Node
from .._plan.chunk import Chunk, Frame


@final
class Span(NamedTuple):
    """One timed piece of a run, in seconds of `perf_counter`."""

    node: Node
    start_s: float
    end_s: float
    thread: str


@final
class Recorder:
    """The spans of one run. `add` is called by any thread."""

    __slots__ = ("spans", "start_s")

    def __init__(self) -> None:
        self.start_s: Final = perf_counter()
        self.spans: Final[list[Span]] = []

    def add(self, node: Node, start_s: float, end_s: float) -> None:
        """Notes a span of the calling thread."""
        self.spans.append(Span(node, start_s, end_s, current_thread().name))


def run_chunk(chunk: Chunk, frame: Frame, recorder: Recorder | None) -> None:
    """Computes a chunk on a frame, and notes its spans if they are wanted. Raises what a kernel raises."""
    if recorder is None:
        chunk.run(frame)
    else:
        chunk.run_traced(frame, recorder.add)
