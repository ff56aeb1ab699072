"""What a traced run did, when, and in which thread: as data, and as a file for chrome://tracing or Perfetto."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from ._exec.recorder import Span as Span

__all__ = ["Span", "Trace"]


@final
@dataclass(frozen=True, slots=True)
class Trace:
    """The spans of one run.

    Fields:
        spans: one for each node that ran, in the order in which they ended; seconds of `time.perf_counter`.
        start_s: when the run began.
    """

    spans: tuple[Span, ...]
    start_s: float

    def to_chrome(self) -> dict[str, Any]:
        """The trace in the Trace Event Format, which chrome://tracing and ui.perfetto.dev read.

        Times are microseconds since the run began. Each thread is a row; on the event loop, where
        coroutines overlap, each has as many rows as it needs.
        """
        rows = _Rows()
        events: list[dict[str, Any]] = []
        for span in sorted(self.spans, key=lambda one: one.start_s):
            events.append(
                {
                    "name": span.node.name,
                    "cat": span.node.op.name,
                    "ph": "X",
                    "ts": (span.start_s - self.start_s) * 1e6,
                    "dur": (span.end_s - span.start_s) * 1e6,
                    "pid": os.getpid(),
                    "tid": rows.row_for(span),
                    "args": {"spec": repr(span.node.spec), "built at": str(span.node.site)},
                }
            )
        names = [
            {"name": "thread_name", "ph": "M", "pid": os.getpid(), "tid": tid, "args": {"name": name}}
            for tid, name in enumerate(rows.names)
        ]
        return {"traceEvents": names + events, "displayTimeUnit": "ms"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_chrome()` as JSON."""
        Path(path).write_text(json.dumps(self.to_chrome()), encoding="utf-8")


@final
class _Rows:
    """Rows of a picture in which no two spans overlap.

    Fields:
        names: of each row, the thread's.
        _ends: of each row, when its last span ended.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._ends: list[float] = []

    def row_for(self, span: Span) -> int:
        """The first row of the span's thread that is free when it begins."""
        for row, name in enumerate(self.names):
            if name == span.thread and self._ends[row] <= span.start_s:
                self._ends[row] = span.end_s
                return row
        self.names.append(span.thread)
        self._ends.append(span.end_s)
        return len(self.names) - 1
