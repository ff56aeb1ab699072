"""What helps to test programs and backends.

`Simulation` runs a program in an order that is drawn from a seed, on threads and a clock of its own.
`BackendConformance` is what `asyncgraph.abc` asks of a backend, as a class of tests for pytest. It is loaded when it
is asked for, as pytest is: nothing else here needs pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .simulation import Simulation as Simulation

if TYPE_CHECKING:
    from .conformance import BackendConformance as BackendConformance

__all__ = ["BackendConformance", "Simulation"]


def __getattr__(name: str) -> object:
    if name != "BackendConformance":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .conformance import BackendConformance

    return BackendConformance
