"""Random graphs on the stand-in for two GPUs: NumPy's values, no race, nothing left."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from .random_graphs import play

COUNT = int(os.environ.get("ASYNCGRAPH_RANDOM_GRAPHS", "100"))
AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, COUNT, AT_ONCE))
def test_random_graphs_are_right_and_leave_nothing(first: int) -> None:
    ended: Counter[str] = Counter()
    for seed in range(first, first + AT_ONCE):
        ended += play(seed)
    assert ended["values"] > AT_ONCE / 2
    assert ended["CancelledError"] > 0
