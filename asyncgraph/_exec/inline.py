"""A run whose plan is one cheap segment, or none: no scheduler, no thread, no task."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Final, final

from .._graph.node import Node
from .._plan.chunk import Frame
from .._plan.plan import Plan
from .notes import add_enclosing_line, add_node_note, trim_traceback
from .recorder import Recorder, run_chunk


def explain_failure(plan: Plan, segment: int, error: BaseException) -> Node | None:
    """Tells an error of a kernel which node it was, gives that node, and clears what the traceback holds."""
    node = _explain(plan, segment, error)
    trim_traceback(error)
    return node


def _explain(plan: Plan, segment: int, error: BaseException) -> Node | None:
    inner = None
    for control in plan.bodies[segment]:
        for body in control.bodies:
            if inner is None and body.plan.segments:
                inner = _explain(body.plan, 0, error)
    failure = plan.failed(segment, error)
    if failure is None:
        return inner
    node = failure.instruction.node
    if inner is not None:
        add_enclosing_line(error, node)
    else:
        add_node_note(error, node, failure.instruction.where, failure.operands)
    return node if inner is None else inner


@final
class InlineRun:
    """Such a run, a chunk at a time, for the turns of a loop.

    Fields:
        plan, frame: what is run, and its values.
        error: what ended it, if it did not succeed.
    """

    __slots__ = ("_context", "_on_end", "_position", "_recorder", "error", "frame", "plan")

    def __init__(
        self,
        plan: Plan,
        frame: Frame,
        context: Context,
        on_end: Callable[[InlineRun], None],
        recorder: Recorder | None = None,
        position: int = 0,
    ) -> None:
        self.plan: Final = plan
        self.frame: Final = frame
        self.error: BaseException | None = None
        self._context: Final = context
        self._on_end: Final = on_end
        self._recorder: Final = recorder
        self._position = position

    def advance(self) -> bool:
        """Does one chunk; whether there are more. Never raises."""
        if self.error is not None:
            return False
        chunks = self.plan.chunks[0] if self.plan.segments else ()
        if self._position < len(chunks):
            chunk = chunks[self._position]
            try:
                self._context.run(run_chunk, chunk, self.frame, self._recorder)
            except BaseException as error:
                explain_failure(self.plan, 0, error)
                self.stop(error)
                del self  # A frame that the error keeps may lead back to this one, and the run keeps the error.
                return False
            self._position += 1
        if self._position < len(chunks):
            return True
        self._on_end(self)
        return False

    def stop(self, error: BaseException) -> None:
        """Ends the run with `error`: nothing of it is running between two chunks."""
        if self.error is None:
            self.error = error
            self.frame.clear()
            self._on_end(self)
