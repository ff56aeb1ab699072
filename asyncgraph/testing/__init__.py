"""What helps to test programs and backends.

`Simulation` runs a program in an order that is drawn from a seed, on threads and a clock of its own.
`check_gradients` compares gradients with central differences, as for a user op whose gradient was registered.
`BackendConformance` is what `asyncgraph.abc` asks of a backend, as a class of tests for pytest. It is loaded when it
is asked for, as pytest is: nothing else here needs pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .gradients import check_gradients as check_gradients
from .simulation import Simulation as Simulation

if TYPE_CHECKING:
    from .conformance import BackendConformance as BackendConformance

__all__ = ["BackendConformance", "Simulation", "check_gradients"]


def __getattr__(name: str) -> object:
    if name != "BackendConformance":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .conformance import BackendConformance

    return BackendConformance
