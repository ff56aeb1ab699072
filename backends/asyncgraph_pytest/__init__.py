"""What pytest is told of asyncgraph, wherever both are installed: the marker of the conformance kit's tests.

It is a package of its own, and imports nothing of asyncgraph's: pytest loads it each time it starts, before coverage is
measured, and in programs that have nothing to do with asyncgraph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["pytest_configure"]


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known, so that `--strict-markers` lets it pass."""
    config.addinivalue_line(
        "markers",
        "conformance(group): a test of asyncgraph.testing.BackendConformance; "
        "its group is values, transfers, placement, lifetime, asynchronous or faults",
    )
