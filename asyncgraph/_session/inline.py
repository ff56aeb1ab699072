"""The hot path: a run that is cheap enough to be done where it was called.

No lock, no await, no task, no future. What is left costs about ten times one `np.square` of five numbers.
"""

from __future__ import annotations

from time import perf_counter
from typing import TypeVar

from .._exec.inline import explain_failure
from .._exec.results import deliver
from .._exec.turn import Turn
from .._graph.node import Node
from .args import RunArgs
from .engine import Request
from .fetches import rebuild
from .values import RunValues

T = TypeVar("T")


def run_inline(request: Request, args: RunArgs[T], turn: Turn, began: float) -> RunValues[T] | None:
    """The values of a run of one chunk of kernels; `None`, and nothing done, if its feeds are too large for that.

    What it takes is charged to the turn, also when it fails: a caller that tries again and again must
    still let the loop go on.

    Raises:
        FeedError: a value does not fit. Nothing has run.
        BaseException: what a kernel raised, with a note that names the node.
    """
    plan = request.plan
    try:
        feeds, largest = request.bind(args.feeds, False)
        if largest > request.most_elements:
            return None
        frame = plan.frame(feeds)
        plan.count_run()
        try:
            for chunk in plan.inline_chunks:
                chunk.run(frame)
            values = [deliver(one, frame, True) for one in plan.fetches]
        except BaseException as error:
            explain_failure(plan, 0, error)
            # A kept exception keeps this frame: it shall keep no arrays.
            frame.clear()
            feeds.clear()
            del args
            raise
        order = request.fetch_order
        if args.fetches.__class__ is Node:
            results = values[order[0]]
        else:
            results = rebuild(args.fetches, iter([values[index] for index in order]))
        return RunValues(results, args.options, plan, perf_counter() - began, None)
    finally:
        turn.charge(perf_counter() - began)
