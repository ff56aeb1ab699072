"""A segment of kernels as the work of a submission (`abc.Backend.submit`)."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Final, final

from .._graph.node import Node
from .._plan.chunk import Frame
from .._plan.plan import Plan
from .inline import explain_failure
from .notes import add_node_note, add_segment_note, has_note, trim_traceback
from .recorder import Recorder, run_chunk


@final
class SubmittedSegment:
    """What a device is given to do: called by the backend, and again if it was short of memory.

    Fields:
        node: what failed, if something did: of an error that came from the device later, the last that it was given.
    """

    __slots__ = ("_context", "_frame", "_is_over", "_plan", "_recorder", "_segment", "node")

    def __init__(
        self,
        plan: Plan,
        segment: int,
        frame: Frame,
        context: Context,
        recorder: Recorder | None,
        is_over: Callable[[], bool],
    ) -> None:
        self._plan: Final = plan
        self._segment: Final = segment
        self._frame: Final = frame
        self._context: Final = context
        self._recorder: Final = recorder
        self._is_over: Final = is_over
        self.node: Node | None = None

    def __call__(self) -> None:
        """Starts the kernels, those of a chunk at a time. A run that is over starts no more.

        Raises:
            BaseException: what a kernel raised, with a note that names the node.
        """
        self.node = None
        try:
            for chunk in self._plan.chunks[self._segment]:
                if self._is_over():
                    return
                self._context.run(run_chunk, chunk, self._frame, self._recorder)
        except BaseException as error:
            self.node = explain_failure(self._plan, self._segment, error)
            self.drop()
            raise

    def drop(self) -> None:
        """Forgets what it has computed: nobody will read it."""
        for one in self._plan.segments[self._segment].instructions:
            self._frame[one.out] = None

    def explain(self, error: BaseException) -> Node:
        """Tells an error of the submission what it belongs to; gives the node to be blamed."""
        segment = self._plan.segments[self._segment]
        if self.node is None:
            self.node = segment.instructions[-1].node
            assert segment.device is not None
            add_segment_note(error, segment, segment.device)
            self.drop()
        elif not has_note(error):  # The backend says in its own words what a kernel raised.
            add_node_note(error, self.node, segment.device)
        trim_traceback(error)
        return self.node
