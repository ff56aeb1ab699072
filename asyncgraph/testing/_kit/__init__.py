"""The conformance kit: a class of tests for each group of promises, which `BackendConformance` puts together.

`base` is what they share. `cases` says which calls are tried, `tolerances` when two values are the same, `layouts` how
operands may lie in memory; `watching` is the backend between a session and the one under test.
"""

from __future__ import annotations

from typing import Final

import pytest

GROUPS: Final = ("values", "transfers", "placement", "lifetime", "asynchronous", "faults")
"""The groups of tests, each a module: each test has the marker `conformance(group=...)`."""

# So that a failing assertion of the kit shows values, as one in a file of tests does. Whatever of the kit is imported
# first, this is before it.
pytest.register_assert_rewrite(*[f"{__name__}.{module}" for module in ("base", "watching", *GROUPS)])
