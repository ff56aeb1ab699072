"""TensorFlow 1's `Session`, rebuilt for asyncio.

Describe a computation once, as a graph of nodes; then any number of coroutines say
`await session.run(RunArgs(fetches, feeds))` at the same time. Only what the fetches need is run, the
event loop stays free, and each caller gets its `RunValues`.
"""

from __future__ import annotations

from . import abc as abc
from . import checkpoints as checkpoints
from . import errors as errors
from . import hooks as hooks
from . import layers as layers
from . import metrics as metrics
from . import nn as nn
from . import ops as ops
from . import optimizers as optimizers
from . import schedules as schedules
from . import tracing as tracing
from ._exec.calls import check_cancelled as check_cancelled
from ._exec.launch import launch as launch
from ._graph.building import constant as constant
from ._graph.building import current_graph as current_graph
from ._graph.building import global_step as global_step
from ._graph.building import group as group
from ._graph.building import item as item
from ._graph.building import placeholder as placeholder
from ._graph.building import variable as variable
from ._graph.graph import Graph as Graph
from ._graph.node import Node as Node
from ._graph.op import Retry as Retry
from ._graph.scopes import control_dependencies as control_dependencies
from ._graph.scopes import device as device
from ._graph.scopes import name_scope as name_scope
from ._graph.spec import ArraySpec as ArraySpec
from ._graph.variable import Variable as Variable
from ._registry import use_backend as use_backend
from ._session.args import RunArgs as RunArgs
from ._session.args import RunOptions as RunOptions
from ._session.blocking import BlockingSession as BlockingSession
from ._session.config import SessionConfig as SessionConfig
from ._session.delivery import RunFuture as RunFuture
from ._session.hook import Hook as Hook
from ._session.hook import RunContext as RunContext
from ._session.monitored import MonitoredSession as MonitoredSession
from ._session.session import Session as Session
from ._session.statistics import SessionStatistics as SessionStatistics
from ._session.values import RunMetadata as RunMetadata
from ._session.values import RunValues as RunValues
from .control_flow import cond as cond
from .control_flow import while_loop as while_loop
from .gradients import gradients as gradients
from .gradients import register_gradient as register_gradient
from .gradients import stop_gradient as stop_gradient
from .loading import load as load
from .ops.custom import op as op
from .sequential import Sequential as Sequential

__all__ = [
    "ArraySpec",
    "BlockingSession",
    "Graph",
    "Hook",
    "MonitoredSession",
    "Node",
    "Retry",
    "RunArgs",
    "RunContext",
    "RunFuture",
    "RunMetadata",
    "RunOptions",
    "RunValues",
    "Sequential",
    "Session",
    "SessionConfig",
    "SessionStatistics",
    "Variable",
    "abc",
    "check_cancelled",
    "checkpoints",
    "cond",
    "constant",
    "control_dependencies",
    "current_graph",
    "device",
    "errors",
    "global_step",
    "gradients",
    "group",
    "hooks",
    "item",
    "launch",
    "layers",
    "load",
    "metrics",
    "name_scope",
    "nn",
    "op",
    "ops",
    "optimizers",
    "placeholder",
    "register_gradient",
    "schedules",
    "stop_gradient",
    "tracing",
    "use_backend",
    "variable",
    "while_loop",
]
