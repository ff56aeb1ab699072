"""The errors that are asyncgraph's own.

AsyncGraphError
├── GraphError                    a graph could not be built
│   ├── SpecError                 shapes or values do not fit (also a ValueError)
│   ├── SpecTypeError             dtypes or kinds of argument do not fit (also a TypeError)
│   ├── SpecOverflowError         a Python number does not fit the dtype (also an OverflowError)
│   ├── GraphFinalizedError       the graph takes no more nodes (also a RuntimeError)
│   ├── NodeNotFoundError         no node has that name (also a KeyError)
│   ├── NodeValueError            a node was used as if it were a value (also a TypeError)
│   ├── GraphPicklingError        a node cannot be pickled (also a TypeError)
│   ├── GradientError             no gradient goes through a node (also a LookupError)
│   └── LoadError                 a file cannot be loaded, then or when a run needs it (also an OSError)
├── RunArgsError                  a run asks for something its graph cannot give (also a ValueError)
│   ├── FetchError                what was asked for is no node of the graph (also a TypeError)
│   ├── MissingFeedError          a placeholder is needed and was not fed
│   ├── HookConflictError         hooks, or a hook and the caller, exclude each other (also a RuntimeError)
│   └── FeedError                 a fed value does not fit its node
│       ├── FeedTypeError         ... for its type (also a TypeError)
│       └── FeedOverflowError     ... for its range (also an OverflowError)
├── SessionError                  a session cannot serve the call (also a RuntimeError)
│   ├── SessionClosedError        it is closed
│   ├── SessionStoppedError       it was asked to stop
│   ├── SessionOverloadedError    more runs are in flight than it takes
│   └── SessionLoopError          it belongs to another event loop, thread or process
├── CheckpointError               state cannot be saved or restored; it has not changed
│   ├── CheckpointFileError       the file cannot be written or read, or is corrupt (also an OSError)
│   ├── CheckpointTypeError       a checkpoint cannot hold a variable's dtype (also a TypeError)
│   └── CheckpointMismatchError   a checkpoint does not fit the variables (also a ValueError)
├── StateConflictError            a nested run would assign what a run that waits for it holds (also a RuntimeError)
├── RunTimeoutError               a run's deadline passed (also a TimeoutError)
├── NodeTimeoutError              one call of a user op took too long (also a TimeoutError)
├── NodeResultError               what a user op returned does not fit its spec (also a TypeError)
├── NodeCancelledError            a user op ended with a CancelledError of its own
├── HookCancelledError            a hook ended with a CancelledError of its own
├── NanLossError                  a loss is not a number any more (also an ArithmeticError)
├── BackendNotFoundError          no backend of that name is installed, or it does not load (also a LookupError)
├── DeviceNotFoundError           no backend has that device (also a LookupError)
├── DeviceLostError               a device can never be used again in this process (also a RuntimeError)
├── KernelNotFoundError           a backend cannot compute a node (also a NotImplementedError)
└── SimulationError               a simulated program can go no further (also an AssertionError)

Where one of Python's own says it all it is that one, such as a `ValueError` for a setting of `SessionConfig`
that means nothing, or a `TypeError` for pickling a session.

What a kernel or a user op raises keeps its own type: catch `ValueError` for a `ValueError`. The
node, its input specs, its device and the line that built it are in a note of the exception
(PEP 678). Cancellation is not in the tree: `asyncio.CancelledError` always passes unchanged.
"""

from __future__ import annotations


class AsyncGraphError(Exception):
    """The root of the errors that are asyncgraph's own."""


class GraphError(AsyncGraphError):
    """A graph could not be built. Nothing was added to it."""


class SpecError(GraphError, ValueError):
    """An op was called with shapes or values that can never fit. The message holds the specs."""


class SpecTypeError(GraphError, TypeError):
    """An op was called with dtypes, or kinds of argument, that it does not take."""


class SpecOverflowError(GraphError, OverflowError):
    """A Python number is out of range for the dtype it meets (NEP 50)."""


class GraphFinalizedError(GraphError, RuntimeError):
    """The graph is finalized: it takes no more nodes."""


class NodeNotFoundError(GraphError, KeyError):
    """No node of the graph has that name."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would put a message on one escaped line.
        return str(self.args[0]) if self.args else ""


class NodeValueError(GraphError, TypeError):
    """A node was used as if it were its value: it has none before a run."""


class GraphPicklingError(GraphError, TypeError):
    """A node holds something that cannot be pickled, such as a lambda. The message names the node."""


class GradientError(GraphError, LookupError):
    """No gradient goes through a node that it comes to. The message names the node, and what is missing."""


class LoadError(GraphError, OSError):
    """A file that a graph loads is not there, is corrupt, or has changed since the graph was built."""


class RunArgsError(AsyncGraphError, ValueError):
    """A run asks for something that its graph cannot give. Nothing has run."""


class FetchError(RunArgsError, TypeError):
    """A fetch, or the key of a feed, is not a node of the session's graph."""


class MissingFeedError(RunArgsError):
    """A placeholder that the fetches need was not fed. Nothing has run."""


class HookConflictError(RunArgsError, RuntimeError):
    """Hooks, or a hook and the caller, ask one run for what excludes each other. Nothing has run."""


class FeedError(RunArgsError):
    """A fed value does not fit the node it was fed for. Nothing has run."""


class FeedTypeError(FeedError, TypeError):
    """A fed value has a type that is never converted, such as text for a number."""


class FeedOverflowError(FeedError, OverflowError):
    """A fed integer is out of range for the node's dtype."""


class SessionError(AsyncGraphError, RuntimeError):
    """A session cannot serve the call as things are."""


class SessionClosedError(SessionError):
    """The session is closed, or was closed before the run could end."""


class SessionStoppedError(SessionError):
    """The session was asked to stop: it takes no more runs."""


class SessionOverloadedError(SessionError):
    """More runs are in flight than the session's limits allow. Try again later, or elsewhere."""


class SessionLoopError(SessionError):
    """The session belongs to another event loop, to a parent process, or to no loop that it can use."""


class CheckpointError(AsyncGraphError):
    """The state of a session cannot be saved, or restored. The state has not changed."""


class CheckpointFileError(CheckpointError, OSError):
    """The file of a checkpoint cannot be written, is not there, or is corrupt."""


class CheckpointTypeError(CheckpointError, TypeError):
    """A variable's dtype is none that a checkpoint can hold. Nothing was written."""


class CheckpointMismatchError(CheckpointError, ValueError):
    """A checkpoint and the variables of a graph differ. The message has every difference."""


class StateConflictError(AsyncGraphError, RuntimeError):
    """A nested run would assign a variable for which a run that waits for it stands in its way. It has not begun."""


class RunTimeoutError(AsyncGraphError, TimeoutError):
    """The run's deadline passed. Nothing of the run is left."""


class NodeTimeoutError(AsyncGraphError, TimeoutError):
    """One call of a user op took longer than its `timeout_s`."""


class NodeResultError(AsyncGraphError, TypeError):
    """What a user op returned does not fit the `spec` it was given."""


class NodeCancelledError(AsyncGraphError):
    """A user op raised CancelledError although its run was not cancelled; that error is the cause."""


class HookCancelledError(AsyncGraphError):
    """A hook raised CancelledError although nobody cancelled it or its run; that error is the cause."""


class NanLossError(AsyncGraphError, ArithmeticError):
    """A loss that is watched is not a number any more."""


class BackendNotFoundError(AsyncGraphError, LookupError):
    """No backend of that name is installed, or the one installed does not load."""


class DeviceNotFoundError(AsyncGraphError, LookupError):
    """No installed backend has that device, and the session places no node elsewhere."""


class DeviceLostError(AsyncGraphError, RuntimeError):
    """A device can never be used again in this process. Its cause is what went wrong first. Other devices go on."""


class KernelNotFoundError(AsyncGraphError, NotImplementedError):
    """The backend that a node is placed on cannot compute it. Nothing has run."""


class SimulationError(AsyncGraphError, AssertionError):
    """In a simulation nothing can go on, or it goes on for ever. The message has the seed."""
