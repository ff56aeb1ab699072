"""Hooks: what watches the runs of a session, and may add to them.

A hook is an instance of a subclass of `Hook`, whose methods are called around runs. It is given to a session,
`Session(graph, hooks=[...])`, or to one run, `RunOptions(hooks=(...,))`. What all hooks of a run and its caller ask for
is one run, in which each node is computed once. If two of them feed one node, or want an option to be different
things, the run is an error that names both; the shortest deadline holds, and one who wants a trace is enough.

Here are `Hook`, what it is shown of a run, and hooks for what is needed most. A `MonitoredSession` goes with them.
"""

from __future__ import annotations

from ._hooks.checkpoints import CheckpointSaverHook as CheckpointSaverHook
from ._hooks.ends import FeedHook as FeedHook
from ._hooks.ends import FinalOpsHook as FinalOpsHook
from ._hooks.progress import ProgressHook as ProgressHook
from ._hooks.records import SummaryHook as SummaryHook
from ._hooks.records import TraceHook as TraceHook
from ._hooks.steps import StepCounterHook as StepCounterHook
from ._hooks.steps import StopAtStepHook as StopAtStepHook
from ._hooks.tensors import LoggingTensorHook as LoggingTensorHook
from ._hooks.tensors import NanTensorHook as NanTensorHook
from ._session.hook import Hook as Hook
from ._session.hook import RunContext as RunContext

__all__ = [
    "CheckpointSaverHook",
    "FeedHook",
    "FinalOpsHook",
    "Hook",
    "LoggingTensorHook",
    "NanTensorHook",
    "ProgressHook",
    "RunContext",
    "StepCounterHook",
    "StopAtStepHook",
    "SummaryHook",
    "TraceHook",
]
