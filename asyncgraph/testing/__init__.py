"""What helps to test programs and backends.

`BackendConformance` is what `asyncgraph.abc` asks of a backend, as a class of tests for pytest. It is loaded when it
is asked for, as pytest is: nothing else here needs pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conformance import BackendConformance as BackendConformance

__all__ = ["BackendConformance"]


def __getattr__(name: str) -> object:
    if name != "BackendConformance":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    # So that a failing assertion of the kit shows values, as one in a file of tests does.
    pytest.register_assert_rewrite(f"{__name__}.conformance")
    from .conformance import BackendConformance

    return BackendConformance
