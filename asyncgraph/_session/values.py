"""What a run gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, final

from .._exec.recorder import Recorder
from .._plan.plan import Plan
from ..tracing import Trace
from .args import RunOptions

T = TypeVar("T")
_R = TypeVar("_R")


@final
@dataclass(frozen=True, slots=True)
class RunMetadata:
    """What is known of how a run went.

    Fields:
        wall_s: seconds from the call to the results.
        node_count: how many nodes were computed.
        failures: what failed while a run ended that had failed already. So always empty in `RunValues`;
            of a run that failed, `RunFuture.metadata` has them.
    """

    wall_s: float
    node_count: int
    failures: tuple[BaseException, ...] = ()
    _recorder: Recorder | None = field(default=None, repr=False)

    @property
    def trace(self) -> Trace | None:
        """What ran when, and where; `None` without `RunOptions(trace=True)`."""
        return None if self._recorder is None else Trace(tuple(self._recorder.spans), self._recorder.start_s)

    @property
    def node_seconds(self) -> Mapping[str, float]:
        """Seconds each node took, by name, its transfers included; empty without `RunOptions(trace=True)`."""
        seconds: dict[str, float] = {}
        for span in () if self._recorder is None else self._recorder.spans:
            seconds[span.node.name] = seconds.get(span.node.name, 0.0) + span.end_s - span.start_s
        return seconds


@final
class RunValues(Generic[T]):
    """What a run gives back. Immutable.

    Fields:
        results: the values of the fetches, in their structure and its types of container. Each is a NumPy
            array, also of rank 0. Arrays are the caller's own and writable, and no two share memory;
            except those that share memory with a feed or a constant, which are read-only. A view that
            is much smaller than what it shows, or repeats elements, is copied. What user ops returned,
            and what was fed for any Python object, is as it was given.
        options: those of the run.
        metadata: how it went.
    """

    __slots__ = ("_how", "options", "results")
    results: T
    options: RunOptions
    _how: tuple[Plan, float, Recorder | None]

    def __init__(self, results: T, options: RunOptions, plan: Plan, wall_s: float, recorder: Recorder | None) -> None:
        _set_results(self, results)
        _set_options(self, options)
        _set_how(self, (plan, wall_s, recorder))

    @property
    def metadata(self) -> RunMetadata:
        """How the run went."""
        plan, wall_s, recorder = self._how
        return RunMetadata(wall_s, len(plan.program.nodes), (), recorder)

    def part(self, results: _R, options: RunOptions) -> RunValues[_R]:
        """Those of the same run for one of several who asked for it together: these results, under these options."""
        return RunValues(results, options, *self._how)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"RunValues is immutable: {name!r} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"RunValues is immutable: {name!r} cannot be deleted")

    def __repr__(self) -> str:
        return f"RunValues({self.results!r})"


# As in `args`: each value of each run passes here.
_slots: Final[Mapping[str, Any]] = vars(RunValues)
_set_results: Final[Any] = _slots["results"].__set__
_set_options: Final[Any] = _slots["options"].__set__
_set_how: Final[Any] = _slots["_how"].__set__
